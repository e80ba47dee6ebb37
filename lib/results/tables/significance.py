"""Which differences in F1 test documents show: a row per dataset, model, and model that it is set beside."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.evaluation.statistics import (
    Paired,
    PairedSpans,
    bootstrap_test,
    holm,
    interval,
    mcnemar_test,
    smallest_difference,
)
from lib.results.parameters import TableParameters
from lib.results.predictions import paired_predictions
from lib.results.scope import Scope
from lib.results.table import Column, Table

POWER = 0.8
"""Chance of showing a difference, by which the note says what the test sets can show."""


class Parameters(TableParameters):
    """Each model beside reference and baseline: difference in F1 on test, its interval, tests, and the result."""

    needs_predictions: ClassVar[bool] = True
    beside: ClassVar[tuple[Literal["reference", "baseline"], ...]] = ("reference", "baseline")

    kind: Literal["significance"]
    stage: str = Field(description="Stage whose predictions are compared.")
    confidence: float = Field(
        0.95, gt=0.5, lt=1, description="Confidence of the intervals; tests have the level 1 - confidence."
    )
    resamples: int = Field(10_000, ge=1000, description="Resamples of the bootstrap.")


def make(settings: Parameters, scope: Scope) -> Table:
    """Return for each dataset, model, and reference or baseline: F1 difference in points, interval, tests, result.

    The interval is that of a paired bootstrap over documents and, with more than one seed, over seeds. McNemar's exact
    test is of which documents are right; of spans, which are rarely right as a whole, the test is that of the
    bootstrap. Holm's correction is over all rows. A model is `better` or `worse` if the interval excludes 0 and the
    corrected test rejects, both to the same side. Reference and baseline are compared once. The note says how small a
    difference each test set can show, by McNemar's test.

    Raises:
        DataError: a run is missing, has no predictions or other test documents; or there is nothing to compare.
    """
    pairs = _pairs(scope, settings.stage)
    grid = scope.grid(settings.stage, models=list(dict.fromkeys(model for pair in pairs for model in pair)))
    comparisons, powers, of_spans = [], [], False
    for dataset in scope.stages[settings.stage]:
        paired = paired_predictions(grid[grid["dataset"] == dataset])
        there = [pair for pair in pairs if set(pair) <= set(paired.models)]
        compared = _compared(paired, there, dataset, settings)
        comparisons.append(compared)
        if isinstance(paired, PairedSpans):
            of_spans = True
        else:
            powers.append(_power(dataset, paired.right().shape[-1], compared, settings))
    test, test_label = ("bootstrap_p", "bootstrap p") if of_spans else ("mcnemar_p", "McNemar p")
    frame = pd.concat(comparisons, ignore_index=True).rename(columns={"p": test})
    frame["holm_p"] = holm(frame[test])
    frame["result"] = _results(frame, 1 - settings.confidence)
    columns = {
        "f1_difference": Column("F1 difference [points]", 2),
        "low": Column(f"{100 * settings.confidence:g} % interval from", 2),
        "high": Column("to", 2),
        test: Column(test_label, 4),
        "holm_p": Column("Holm p", 4),
    }
    deviation = ["f1_difference_sd"] if frame["f1_difference_sd"].notna().any() else []
    shown = ["dataset", "model", "against", "f1_difference", *deviation, "low", "high", test, "holm_p", "result"]
    return Table(frame[shown], columns, _note(settings, len(frame), powers))


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
    """Return one row per pair: difference, interval, test, and the share of documents that only one of them gets right.

    `tested` is the difference that the test is of.
    """
    f1, right = 100 * paired.f1(), paired.right()
    resampled = 100 * paired.resampled_f1(dataset, resamples=settings.resamples)
    rows = []
    for model, other in pairs:
        ours, theirs = paired.models.index(model), paired.models.index(other)
        differences = pd.Series(f1[:, ours] - f1[:, theirs])
        of_resamples = resampled[:, ours] - resampled[:, theirs]
        low, high = interval(of_resamples, settings.confidence)
        if isinstance(paired, PairedSpans):
            test = {"p": bootstrap_test(of_resamples), "tested": differences.mean()}
        else:
            test = {
                "p": mcnemar_test(right[:, ours], right[:, theirs]),
                "tested": right[:, ours].mean() - right[:, theirs].mean(),
                "disagreement": (right[:, ours] != right[:, theirs]).mean(),
            }
        rows.append(
            {
                "dataset": dataset,
                "model": model,
                "against": other,
                "f1_difference": differences.mean(),
                "f1_difference_sd": differences.std(),
                "low": low,
                "high": high,
                **test,
            }
        )
    return pd.DataFrame(rows)


def _results(frame: pd.DataFrame, level: float) -> np.ndarray:
    """Return in words what interval and corrected test say together."""
    tested = np.where(frame["holm_p"] <= level, np.sign(frame["tested"]), 0)
    better, worse = (frame["low"] > 0) & (tested > 0), (frame["high"] < 0) & (tested < 0)
    return np.select([better, worse], ["better", "worse"], default="no difference shown")


def _power(dataset: str, documents: int, compared: pd.DataFrame, settings: Parameters) -> str:
    """Return in words how small a difference the test documents of a dataset can show."""
    shown = []
    for other, disagreement in compared.groupby("against", sort=False)["disagreement"].median().items():
        smallest = smallest_difference(documents, disagreement, 1 - settings.confidence, POWER)
        found = "none" if smallest is None else f"{100 * smallest:.1f} points"
        shown.append(f"{found} against {other} ({100 * disagreement:.1f} %)")
    return f"{dataset}, {documents:,} documents: {', '.join(shown)}"


def _note(settings: Parameters, comparisons: int, powers: Sequence[str]) -> str:
    """Return what the numbers are; without `powers`, of spans."""
    score = "macro-F1" if powers else "F1 of the characters in spans"
    test = (
        "McNemar p: exact test of which documents are right"
        if powers
        else "Bootstrap p: twice the share of the resamples on the other side of 0"
    )
    power = (
        f" Smallest difference in accuracy that a single McNemar test shows with a chance of {100 * POWER:.0f} %, "
        f"given the share of documents that one model alone of two gets right (median): {'; '.join(powers)}."
    )
    return (
        f"F1 difference: {score} on test minus that of the model under `against`. Interval: "
        f"{100 * settings.confidence:g} % of {settings.resamples:,} paired bootstrap resamples of documents, and of "
        f"seeds where there are several. {test}. Holm p: corrected for the {comparisons} comparisons of this table. "
        "0.0000: less than 0.00005. Better or worse: the interval excludes 0 and Holm p is at most "
        f"{1 - settings.confidence:.4g}, both to the same side.{power if powers else ''}"
    )
