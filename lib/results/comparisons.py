"""Comparisons of models on test documents: differences in F1 with intervals, and tests with Holm's correction."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import check
from lib.evaluation.statistics import Paired, PairedSpans, holm, mcnemar_test
from lib.results.predictions import paired_predictions
from lib.results.scope import Scope
from lib.results.settings import ResultSettings

RUNS = ["dataset", "runs"]
"""Columns with the two runs of a comparison, the same for both directions."""


class ComparisonSettings(ResultSettings):
    """Base of the settings of what compares pairs of models, or each with reference and baseline."""

    needs_predictions: ClassVar[bool] = True
    compares_with: ClassVar[tuple[Literal["reference", "baseline"], ...]] = ("reference", "baseline")

    stage: str = Field(description="Stage whose predictions are compared.")
    pairs: list[Annotated[tuple[str, str], Field(strict=False)]] | None = Field(
        None,
        min_length=1,
        description="The comparisons, each a model and the one to compare it with, instead of reference and baseline; "
        "`models` follows from them. Choose them before you see the scores: each one more makes the correction "
        "stricter.",
    )
    confidence: float = Field(
        0.95, gt=0.5, lt=1, description="Confidence of the intervals; tests have the level 1 - confidence."
    )

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Show the models of the pairs."""
        pairs = values.get("pairs") if isinstance(values, dict) else None
        if not isinstance(pairs, list) or values.get("models") is not None:
            return values
        names = (name for pair in pairs if isinstance(pair, list | tuple) for name in pair if isinstance(name, str))
        return values | {"models": list(dict.fromkeys(names))}

    def compared(self) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
        """See the base."""
        yield from (("pairs", [model], [other]) for model, other in self.pairs or ())

    @check
    def _pairs_are_of_models(self) -> Iterator[str]:
        for model, other in self.pairs or ():
            if model == other:
                yield f"pairs: {model} is compared with itself. Name another model"
        if missing := {name for pair in self.pairs or () for name in pair} - {*(self.models or ())}:
            yield f"models: lacks {', '.join(sorted(missing))} of the pairs. Leave `models` out"


def compared(settings: ComparisonSettings, scope: Scope) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the comparisons on all datasets, with p corrected over all of them; and the runs compared.

    A pair of rows with the same runs on a dataset is left out there. Two pairs with the same runs are one comparison,
    which the correction counts once; see `distinct`.

    Raises:
        DataError: a run is missing, has no predictions or other test documents; or there is nothing to compare.
    """
    pairs = _pairs(settings, scope)
    grid = scope.grid(settings.stage, models=list(dict.fromkeys(model for pair in pairs for model in pair)))
    comparisons = []
    for dataset in scope.stages[settings.stage]:
        owners = {row: scope.owner(settings.stage, row, dataset) for row in dict.fromkeys(grid["row"])}
        there = [(one, other) for one, other in pairs if owners[one] and owners[other] and owners[one] != owners[other]]
        if there:
            frame = _compared(paired_predictions(grid[grid["dataset"] == dataset]), there, dataset, settings)
            runs = [" ".join(sorted([str(owners[one]), str(owners[other])])) for one, other in there]
            comparisons.append(frame.assign(runs=runs))
    if not comparisons:
        raise DataError(f"{settings.stage}: there are no two models with different runs to compare. {_remedy(scope)}")
    frame = pd.concat(comparisons, ignore_index=True)
    of_runs = frame.set_index(RUNS).index
    frame["holm_p"] = pd.Series(holm(distinct(frame)["p"]), distinct(frame).set_index(RUNS).index)[of_runs].to_numpy()
    frame["result"] = _results(frame, 1 - settings.confidence)
    return frame, grid


def distinct(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons of different runs: of several rows with the same two runs, the first one."""
    return comparisons.drop_duplicates(RUNS)


def _pairs(settings: ComparisonSettings, scope: Scope) -> list[tuple[str, str]]:
    """Return the pairs of rows that are compared, each once: those named, or each row with reference and baseline."""
    if settings.pairs:
        return list(dict.fromkeys((scope.row(model), scope.row(other)) for model, other in settings.pairs))
    passing = scope.owners[settings.stage]
    return [
        (model, other)
        for model in scope.models
        for other in dict.fromkeys([scope.reference, scope.baseline])
        if other and other in passing and other != model and not (model == scope.baseline and other in scope.models)
    ]


def _remedy(scope: Scope) -> str:
    others = " or ".join(filter(None, [scope.reference, scope.baseline]))
    return f"Name more in `models` than {', '.join(scope.models)}{f', to compare with {others}' if others else ''}."


def _compared(
    paired: Paired, pairs: Sequence[tuple[str, str]], dataset: str, settings: ComparisonSettings
) -> pd.DataFrame:
    """Return one row per pair: difference, interval, tests, and the two parts of its variance."""
    right = None if isinstance(paired, PairedSpans) else paired.right()
    rows = []
    for model, other in pairs:
        ours, theirs = paired.models.index(model), paired.models.index(other)
        difference = paired.difference(ours, theirs)
        low, high = difference.difference_interval(settings.confidence)
        rows.append(
            {
                "dataset": dataset,
                "model": model,
                "against": other,
                "f1_difference": 100 * difference.mean,
                "f1_difference_sd": 100 * pd.Series(difference.values).std(),
                "low": 100 * low,
                "high": 100 * high,
                "p": difference.p_value(),
                "mcnemar_p": float("nan") if right is None else mcnemar_test(right[:, ours], right[:, theirs]),
                "of_seeds": difference.of_seeds,
                "of_documents": difference.of_documents,
                "seeds": difference.seeds,
                "documents": difference.documents,
                "of_spans": isinstance(paired, PairedSpans),
            }
        )
    return pd.DataFrame(rows)


def _results(frame: pd.DataFrame, level: float) -> pd.Series:
    """Return in words what the corrected test says, and of what."""
    words = pd.Series(np.where(frame["f1_difference"] > 0, "better", "worse"), frame.index)
    words = words.where(frame["seeds"] > 1, words + " (one seed)")
    return words.where(frame["holm_p"] <= level, "no difference shown")
