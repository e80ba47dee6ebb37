"""Which differences in F1 test documents show: a row per dataset and pair of models."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import pandas as pd

from lib.evaluation.statistics import smallest_difference
from lib.results.comparisons import ComparisonSettings, compared, distinct
from lib.results.predictions import interval_notes
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table

POWER = 0.8
"""Chance of showing a difference, by which the note says what the test sets can show."""


class Settings(ComparisonSettings, TableSettings):
    """Pairs of models, or each model with reference and baseline: difference in F1 on test, interval, tests, result."""

    about: ClassVar[Topic] = "differences"

    kind: Literal["significance"]


def make(settings: Settings, scope: Scope) -> Table:
    """Return for each dataset and pair of models: F1 difference in points, interval, tests, result.

    Interval and p are of seeds and documents together (`lib.evaluation.statistics.Estimate`), p corrected by Holm's
    method over all rows. A model is `better` or `worse` if the corrected p is at most the level. With one seed this
    holds for the trained models as they are, and the result says so. McNemar's exact test of which documents the given
    models get right is shown, too, and decides nothing; spans, which are rarely right as a whole, have none.
    Reference and baseline are compared once. The note says how small a difference each test set can show.

    Raises:
        DataError: see `compared`.
    """
    frame, grid = compared(settings, scope)
    powers = [_power(dataset, rows, settings) for dataset, rows in distinct(frame).groupby("dataset", sort=False)]
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
    return Table(frame[shown], columns, " ".join([*_note(settings, frame), *notes, *_shows(powers)]))


def _power(dataset: str, compared: pd.DataFrame, settings: Settings) -> str:
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


def _note(settings: Settings, frame: pd.DataFrame) -> Iterator[str]:
    """Yield what the numbers are."""
    score = "F1 of the characters in spans" if frame["of_spans"].any() else "macro-F1"
    yield f"F1 difference: {score} on test minus that of the model"
    yield "under `against`. p: of no difference, by the same variance as the interval."
    yield f"Holm p: corrected for the {len(distinct(frame))} comparisons of this table. 0.0000: less than 0.00005."
    yield f"Better or worse: Holm p is at most {1 - settings.confidence:.4g}."
    if frame["mcnemar_p"].notna().any():
        yield "McNemar p: exact test of which documents the given models get right; it knows nothing of other seeds,"
        yield "and decides nothing here."


def _shows(powers: Sequence[str]) -> Iterator[str]:
    yield f"Smallest true difference that one test without correction shows with a chance of {100 * POWER:.0f} %, by"
    yield f"the median variance of the comparisons: {'; '.join(powers)}."
