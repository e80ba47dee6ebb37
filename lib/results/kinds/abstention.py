"""How many documents models decide, and how many of these wrongly, if they leave uncertain ones to a person."""

import contextlib
import math
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.results.predictions import class_probabilities, independence_notes, without_copies
from lib.results.scope import Scope
from lib.results.settings import TableSettings
from lib.results.table import Column, Table

SHARES = ["confidence", *(f"{name}{end}" for name in ("decided", "wrong") for end in ("", "_low", "_high"))]
COLUMNS = {name: Column(f"{name.replace('_', ' ')} [%]", 2) for name in ("certainty", *SHARES)}
COLUMNS["left"] = Column("left to a person", 0)


class AbstentionTable(TableSettings):
    """Rows per dataset and model: documents decided, those of them that are wrong, and those left to a person."""

    needs_predictions: ClassVar[bool] = True
    needs_probabilities: ClassVar[bool] = True
    has_intervals: ClassVar[bool] = True

    kind: Literal["abstention"]
    stage: str
    """Stage whose predictions are shown."""
    wrong: float = Field(0.05, gt=0, lt=1)
    """Greatest share of wrong ones among the documents that are decided."""
    certainty: float | None = Field(0.9, gt=0.5, lt=1)
    """Chance that other documents keep `wrong`, in a second row per model: its least confidence is chosen by an upper
    bound of the share on validation. null = only rows that are chosen by the share itself."""

    def make(self, scope: Scope) -> Table:
        """Return for each dataset and model the least confidence of validation, and its decisions on test.

        It is chosen by the share of wrong ones on validation, and in a second row with a certainty
        (`lib.evaluation.decisions.least_confidence`). If validation has no such confidence, no document is decided.
        With several seeds these are means; half-widths of intervals are those over documents, the mean over seeds, and
        those over seeds, their squares added (`lib.evaluation.statistics.Estimate`).

        Raises:
            DataError: a run is missing or has no probabilities.
        """
        grid = without_copies(scope.grid(self.stage))
        folders = grid.groupby(["dataset", "row"])["folder"].agg(list)
        places = [(name, row) for name in scope.stages[self.stage] for row in scope.models if (name, row) in folders]
        rows = [
            {"dataset": dataset, "model": model, "certainty": 100 * (certainty or math.nan)}
            | _over_seeds(pd.DataFrame([_outcome(folder, self.wrong, certainty) for folder in folders[dataset, model]]))
            for dataset, model in places
            for certainty in dict.fromkeys([None, self.certainty])
        ]
        note = (
            f"At most {100 * self.wrong:g} % of the decided documents should be wrong. Without a certainty, the share "
            "is as small on validation, and on other documents about half of the time. Intervals: 95 %, exact over "
            "test documents, and over seeds by Student's t."
        )
        return Table(pd.DataFrame(rows), COLUMNS, " ".join([note, *independence_notes(grid)]))


def _outcome(folder: str, wrong: float, certainty: float | None) -> dict[str, float]:
    """Return the least confidence of a run, and its decisions on test: shares with intervals, in percent."""
    from lib.evaluation import decisions  # scikit-learn starts slowly

    (labels, validation), (test_labels, test) = (class_probabilities(folder, each) for each in ("validation", "test"))
    right, least = validation.argmax(axis=1) == labels, math.inf
    with contextlib.suppress(DataError):
        least = decisions.least_confidence(right, validation.max(axis=1), wrong, certainty)
    found = decisions.decided(test.argmax(axis=1) == test_labels, test.max(axis=1), least)
    percent = 100 * np.array([least if least < math.inf else math.nan, *found.shares[0], *found.shares[1]])
    return dict(zip(SHARES, percent, strict=True)) | {"left": found.documents - found.decided}


def _over_seeds(outcomes: pd.DataFrame) -> dict[str, float]:
    """Return the means of the outcomes [S, ...], and intervals over documents and seeds."""
    from scipy.special import stdtrit

    means, seeds = outcomes.mean(), outcomes.count()
    of_seeds = (stdtrit(seeds - 1, 0.975) * outcomes.std() / np.sqrt(seeds)).fillna(0)
    for name in ("decided", "wrong"):
        for end, sign in ((f"{name}_low", -1), (f"{name}_high", 1)):
            reach = np.hypot(means[end] - means[name], of_seeds[name])
            means[end] = np.clip(means[name] + sign * reach, 0, 100)
    return means.to_dict()
