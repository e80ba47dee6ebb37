"""How a model reads documents and answers, which a run leaves in its model folder, for `predict`: `reader.json`.

Next to it are the predictions for validation, without texts, which later decisions are chosen by.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pydantic import Field

from lib.backbones.settings import AnyBackbone, Precision
from lib.core.errors import ProjectError, RunError
from lib.core.extensions import in_use, shipped, use
from lib.core.files import read_mapping, write_json
from lib.core.program import read_settings
from lib.core.settings import BaseSettings, PositiveInt, Seed
from lib.preparing.settings.document_form import Texts
from lib.study.execution import Training
from lib.study.run import RunSettings
from lib.tasks.settings import AnyTask

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

READER = "reader.json"
VALIDATION = "validation.safetensors"
SUMMARY = "summary.json"
"""File that a preparation writes next to its documents."""
START = "start"
"""Folder inside that of a model which was only evaluated: the weights of another run, or published ones."""
NUMERICAL = {"micro_batch_tokens", "kernels", "deterministic"}
"""Settings of the execution that can change last digits, other than the compiler, which takes minutes to begin."""


class Validation(NamedTuple):
    """Predictions for the validation documents of a run."""

    probabilities: "np.ndarray"
    """Probability of each class [n, C]."""
    labels: "np.ndarray"
    """Class of each document [n], or whether it has each class [n, C]."""


class Columns(BaseSettings):
    """Where documents have their texts, as the preparation of the dataset says."""

    text: str = "text"
    text_pair: str | None = None
    remove: str | None = None
    """Pattern of text that is removed."""


class ReaderSettings(BaseSettings):
    """How a model reads documents and answers."""

    extensions: list[str] = Field(default_factory=list)
    """Extensions that its parts are of."""
    model: str
    """Row of the tables."""
    seed: Seed
    """Seed of its run."""
    precision: Precision = "fp32"
    """Arithmetic of the forward pass."""
    task: AnyTask
    """Task that it answers."""
    labels: list[str] | None = None
    """Names of the classes, in the order of their numbers."""
    backbone: AnyBackbone
    """The backbone of its run."""
    max_tokens: PositiveInt | None = None
    """Tokens that documents are cut to; null = as many as it has positions for."""
    texts: Texts = "single"
    """Form of its documents: single texts, or pairs, read together or separately."""
    window_stride: float | None = None
    """How far behind the one before a window begins, of a model that reads windows."""
    columns: Columns = Field(default_factory=Columns)
    """Where the documents of its dataset have their texts."""
    execution: Training = Field(default_factory=Training)
    """How its predictions were computed."""
    state: dict[str, float] = Field(default_factory=dict)
    """Numbers that its task has chosen on validation."""

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Take shipped extensions into use: of others, a stranger's file could name any code."""
        if isinstance(values, dict) and isinstance(named := values.get("extensions"), list):
            use(name for name in shipped() if name in named)
        return values

    @classmethod
    def of(cls, run: RunSettings, state: Mapping[str, float], **fields: Any) -> Self:
        """Return how the model of a run reads, once its task has chosen its numbers."""
        shared = run.model_dump(mode="json", include=cls.model_fields.keys() - {"execution", "extensions"})
        execution = run.execution.model_dump(mode="json", include=NUMERICAL)
        further = {"extensions": in_use(), "execution": execution, "state": dict(state), "columns": _columns(run)}
        return cls.model_validate(shared | further | fields)

    @property
    def reads_tokens(self) -> bool:
        """Whether it reads tokens, and not texts."""
        return "states" in self.backbone.abilities or "generated_text" in self.backbone.abilities

    @property
    def classifies(self) -> bool:
        """Whether it gives a document one of several classes, or a set of them."""
        return self.task.labelled and self.task.label_form in ("class", "set")

    def write(self, folder: Path, predictions: "pd.DataFrame | None" = None) -> None:
        """Write them to the folder of a model, with its predictions for validation if it classifies documents."""
        folder.mkdir(exist_ok=True)
        write_json(folder / READER, self.model_dump(mode="json"))
        if predictions is None or not self.classifies:
            return
        import numpy as np
        from safetensors.numpy import save_file

        held_out = predictions[predictions["split"] == "validation"]
        numbers = {"probabilities": np.stack(held_out["probabilities"])}
        if self.task.label_form == "set":
            classes = np.arange(len(self.labels or ()))
            numbers["labels"] = np.stack([np.isin(classes, row) for row in held_out["label"]])
        else:
            numbers["labels"] = held_out["label"].to_numpy(np.int64)
        save_file(numbers, folder / VALIDATION)


def _columns(run: RunSettings) -> dict[str, Any]:
    place = Path(next(iter(run.data.values())))
    for summary in (place.with_name(SUMMARY), place.parents[min(2, len(place.parents) - 1)] / "prepared" / SUMMARY):
        if summary.is_file():
            return {name: value for name, value in read_mapping(summary).items() if name in Columns.model_fields}
    return {}


def read_reader(folder: Path) -> ReaderSettings:
    """Return how the model in a folder reads.

    Raises:
        RunError: its run did not say, or the file is damaged.
    """
    if not (folder / READER).is_file():
        raise RunError(f"{folder}: has no {READER}, so that no run left it to predict. Name the `model` of a run.")
    try:
        return read_settings(ReaderSettings, read_mapping(folder / READER))
    except ProjectError as error:
        raise RunError(f"{folder / READER}: {error} Run the stage again.") from error


def read_validation(folder: Path) -> Validation:
    """Return the predictions for validation that decisions of the model in a folder are chosen by.

    Raises:
        RunError: there are none, or they are damaged.
    """
    from lib.backbones.fitted import read_numbers

    if not (folder / VALIDATION).is_file():
        raise RunError(f"{folder}: has no {VALIDATION}, so nothing can be chosen. Name a classifier of documents.")
    numbers = read_numbers(folder / VALIDATION, ("labels", "probabilities"))
    return Validation(numbers["probabilities"], numbers["labels"])
