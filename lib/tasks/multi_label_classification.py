"""Classification of documents that have several classes each, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from lib.backbones.settings import Ability
from lib.core.errors import RunError
from lib.core.labels import LabelForm
from lib.preparing.settings.document_form import Texts
from lib.tasks.document_classification import ClassifierSettings, DocumentClassification

if TYPE_CHECKING:
    import pandas as pd


class Settings(ClassifierSettings):
    """Several classes per document, or none: each is decided by itself, by a sigmoid and the binary cross-entropy."""

    evaluates_on: ClassVar[Ability | None] = "class_probabilities"
    weighs_classes: ClassVar[bool] = True
    label_form: ClassVar[LabelForm] = "set"
    texts: ClassVar[tuple[Texts, ...]] = ("single", "together")

    kind: Literal["multi_label_classification"]
    threshold: Literal["one", "per_class"] | Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Least probability of a class that is given: a number; or the best one on validation, `one` by F1 of all decisions
    together, `per_class` by F1 of each class. Test uses the thresholds of validation."""
    average: Literal["micro", "macro"] = "micro"
    """The F1 that selects the best epoch and that tables show: of all decisions together, or the mean over classes."""

    @property
    def score(self) -> str:
        """See the base."""
        return f"f1_{self.average}"


class Task(DocumentClassification):
    """Predict the classes of a document. The best epoch has the highest F1 on validation."""

    parameters: Settings

    def __init__(self, parameters: Settings, *, labels: Sequence[str] | None, seed: int) -> None:
        super().__init__(parameters, labels=labels, seed=seed)
        self.best = parameters.score  # type: ignore[misc]  # of this task it depends on the settings
        number = parameters.threshold
        self.thresholds = None if isinstance(number, str) else np.full(len(self.labels), number)

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`."""
        from lib.backbones.heads.sequence_classification import SequenceClassification

        return SequenceClassification.auto_model

    def class_names(self) -> dict[str, Any]:
        """See the base; the type of problem as transformers names it."""
        return super().class_names() | {"problem_type": self.parameters.kind}

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """See the base: each class has a probability of its own."""
        from scipy.special import expit

        return expit(scores)

    def scores(self, split: str, labels: Sequence[Any] | np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
        """See the base; on validation, this chooses the thresholds.

        Args:
            split: name of the split.
            labels: whether documents have each class [n, C], or the classes of each [n].
            probabilities: of the classes [n, C].
        """
        from lib.evaluation.label_sets import chosen_thresholds, indicators, label_set_metrics

        true = labels if np.ndim(labels) == 2 else indicators(labels, len(self.labels)).toarray()
        stored, true = probabilities.astype(np.float32), np.asarray(true, dtype=bool)
        if split == "validation" and (how := self.parameters.threshold) in ("one", "per_class"):
            self.thresholds = chosen_thresholds(true, stored, per_class=how == "per_class")
        return label_set_metrics(true, stored, self._decided(stored), self.labels)

    def state(self) -> dict[str, float]:
        """See `lib.tasks.contract.Task.state`: the threshold of each class."""
        return dict(zip(self._names, self._chosen.tolist(), strict=True))

    def restore(self, state: Mapping[str, float]) -> None:
        """See `lib.tasks.contract.Task.restore`."""
        if missing := [name for name in self._names if name not in state]:
            raise RunError(f"{missing[0]} is missing, which validation chose. Name the model of the whole run.")
        self.thresholds = np.array([state[name] for name in self._names])

    @property
    def _names(self) -> list[str]:
        return [f"threshold_{number}" for number in range(len(self.labels))]

    @property
    def _chosen(self) -> np.ndarray:
        """Least probability of each class that is given [C]."""
        if self.thresholds is None:
            raise RunError("task.threshold: is chosen on validation, which was not read. Set it to a number.")
        return self.thresholds

    def _decided(self, probabilities: np.ndarray) -> np.ndarray:
        """Return whether documents are given each class [n, C], by probabilities as predictions store them."""
        return probabilities >= self._chosen

    def frame(
        self, ids: Sequence[str], labels: Sequence[Any], probabilities: np.ndarray, groups: Mapping[str, Sequence[Any]]
    ) -> pd.DataFrame:
        """See the base; `label` and `prediction` are the classes in order, `probabilities` one number per class."""
        import pandas as pd

        from lib.evaluation.label_sets import sets_of

        stored = probabilities.astype(np.float32)
        columns = {
            "id": list(ids),
            "label": list(labels),
            "prediction": sets_of(self._decided(stored)),
            "probabilities": list(stored),
        }
        return pd.DataFrame(columns | {name: list(values) for name, values in groups.items()})
