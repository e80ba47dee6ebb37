"""Which differences in F1 test documents show: a row per dataset, model, and model that it is set beside."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.core.sections import check
from lib.evaluation.statistics import Paired, PairedSpans, holm, mcnemar_test, smallest_difference
from lib.results.parameters import TableParameters
from lib.results.predictions import interval_notes, paired_predictions
from lib.results.scope import Scope
from lib.results.table import Column, Table

POWER = 0.8
"""Chance of showing a difference, by which the note says what the test sets can show."""


class Parameters(TableParameters):
    """Pairs of models, or each beside reference and baseline: difference in F1 on test, interval, tests, result."""

    needs_predictions: ClassVar[bool] = True
    beside: ClassVar[tuple[Literal["reference", "baseline"], ...]] = ("reference", "baseline")

    kind: Literal["significance"]
    stage: str = Field(description="Stage whose predictions are compared.")
    pairs: list[tuple[str, str]] | None = Field(
        None,
        min_length=1,
        description="The comparisons, each a model and what it is set beside, in place of reference and baseline; "
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
        return values | {"models": list(dict.fromkeys(name for pair in pairs for name in pair))}

    @check
    def _pairs_are_of_models(self) -> Iterator[str]:
        for model, other in self.pairs or ():
            if model == other:
                yield f"pairs: {model} stands beside itself. Name another model"
        if missing := {name for pair in self.pairs or () for name in pair} - {*(self.models or ())}:
            yield f"models: lacks {', '.join(sorted(missing))} of the pairs. Leave `models` out"


def make(settings: Parameters, scope: Scope) -> Table:
    """Return for each dataset, model, and what it is set beside: F1 difference in points, interval, tests, result.

    Interval and p are of seeds and documents together (`lib.evaluation.statistics.Estimate`), p corrected by Holm's
    method over all rows. A model is `better` or `worse` if the corrected p is at most the level. With one seed this
    holds for the trained models as they are, and the result says so. McNemar's exact test of which documents the given
    models get right stands beside it and decides nothing; spans, which are rarely right as a whole, have none.
    Reference and baseline are compared once. The note says how small a difference each test set can show.

    Raises:
        DataError: a run is missing, has no predictions or other test documents; or there is nothing to compare.
    """
    pairs = settings.pairs or _pairs(scope, settings.stage)
    grid = scope.grid(settings.stage, models=list(dict.fromkeys(model for pair in pairs for model in pair)))
    comparisons, powers, of_spans = [], [], False
    for dataset in scope.stages[settings.stage]:
        paired = paired_predictions(grid[grid["dataset"] == dataset])
        there = [pair for pair in pairs if set(pair) <= set(paired.models)]
        of_spans |= isinstance(paired, PairedSpans)
        comparisons.append(_compared(paired, there, dataset, settings))
        powers.append(_power(dataset, comparisons[-1], settings))
    frame = pd.concat(comparisons, ignore_index=True)
    frame["holm_p"] = holm(frame["p"])
    frame["result"] = _results(frame, 1 - settings.confidence)
    columns = {
        "f1_difference": Column("F1 difference [points]", 2),
        "low": Column(f"{100 * settings.confidence:g} % interval from", 2),
        "high": Column("to", 2),
        "p": Column("p", 4),
        "holm_p": Column("Holm p", 4),
        "mcnemar_p": Column("McNemar p of the given models", 4),
    }
    absent = [name for name in ("f1_difference_sd", "mcnemar_p") if frame[name].isna().all()]
    shown = ["dataset", "model", "against", "f1_difference", "f1_difference_sd", *list(columns)[1:], "result"]
    shown = [name for name in shown if name not in absent]
    notes = interval_notes(grid, settings.confidence)
    return Table(frame[shown], columns, " ".join([*_note(settings, frame, of_spans), *notes, *_shows(powers)]))


def _pairs(scope: Scope, stage: str) -> list[tuple[str, str]]:
    """Return each model with what it is set beside."""
    passing = scope.owners[stage]
    pairs = [
        (model, other)
        for model in scope.models
        for other in (scope.reference, scope.baseline)
        if other and other in passing and other != model and not (model == scope.baseline and other in scope.models)
    ]
    if not pairs:
        raise DataError(
            f"{stage}: there is no model to compare with {scope.reference} or {scope.baseline}, "
            f"of {', '.join(scope.models)}. Name more in `models`."
        )
    return pairs


def _compared(paired: Paired, pairs: Sequence[tuple[str, str]], dataset: str, settings: Parameters) -> pd.DataFrame:
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
            }
        )
    return pd.DataFrame(rows)


def _results(frame: pd.DataFrame, level: float) -> pd.Series:
    """Return in words what the corrected test says, and of what."""
    words = pd.Series(np.where(frame["f1_difference"] > 0, "better", "worse"), frame.index)
    words = words.where(frame["seeds"] > 1, words + " (one seed)")
    return words.where(frame["holm_p"] <= level, "no difference shown")


def _power(dataset: str, compared: pd.DataFrame, settings: Parameters) -> str:
    """Return in words how small a difference the test documents and seeds of a dataset can show."""
    shown, first = [], compared.iloc[0]
    for other, rows in compared.groupby("against", sort=False):
        smallest = smallest_difference(
            rows["of_seeds"].median(),
            rows["of_documents"].median(),
            first["seeds"],
            first["documents"],
            1 - settings.confidence,
            POWER,
        )
        if smallest is not None:
            size = f"{100 * smallest:.1f} points"
        else:
            equal = not rows[["of_seeds", "of_documents"]].any(axis=None)
            size = "unknown, since predictions are equal," if equal else "none, however large,"
        shown.append(f"{size} against {other}")
    seeds = "one seed" if first["seeds"] == 1 else f"{first['seeds']} seeds"
    return f"{dataset}, {first['documents']:,} documents, {seeds}: {', '.join(shown)}"


def _note(settings: Parameters, frame: pd.DataFrame, of_spans: bool) -> Iterator[str]:
    """Yield what the numbers are."""
    score = "F1 of the characters in spans" if of_spans else "macro-F1"
    yield f"F1 difference: {score} on test minus that of the model"
    yield "under `against`. p: of no difference, by the same variance as the interval."
    yield f"Holm p: corrected for the {len(frame)} comparisons of this table. 0.0000: less than 0.00005."
    yield f"Better or worse: Holm p is at most {1 - settings.confidence:.4g}."
    if frame["mcnemar_p"].notna().any():
        yield "McNemar p: exact test of which documents the given models get right; it knows nothing of other seeds,"
        yield "and decides nothing here."


def _shows(powers: Sequence[str]) -> Iterator[str]:
    yield f"Smallest true difference that one test without correction shows with a chance of {100 * POWER:.0f} %, by"
    yield f"the median variance of the comparisons: {'; '.join(powers)}."
