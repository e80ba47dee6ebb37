"""What runs that tune tried: their trials, with the space that these were drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.core.record import CONFIG, TRIALS
from lib.core.search_space import Dimension
from lib.results.quantities import F1_NAMES, QUANTITIES, Quantity, quantity
from lib.results.scope import Scope

SPACE = TypeAdapter(dict[str, Dimension])


@dataclass(frozen=True)
class Trials:
    """The trials of one run."""

    dataset: str
    row: str
    frame: pd.DataFrame
    """One row per trial: `number`; its settings by dotted name, numbers or, where values were listed, text; `score`, as
    tables show it, missing of one that diverged; `state` (`complete`, `pruned` or `diverged`); `epochs`; `seconds`;
    `best`, whether it is the best; and `best_so_far`, the best score of complete ones up to it."""
    space: Mapping[str, Dimension]
    """What the settings were drawn from, by dotted name."""
    score: Quantity


def load_trials(scope: Scope, stage: str) -> list[Trials]:
    """Return the trials of every run of a stage, in the order of datasets and rows.

    Raises:
        DataError: a run is missing, duplicated, or lacks its best trial; a table of trials, or what it was drawn from,
            is missing or damaged.
    """
    runs = scope.grid(stage, ["best_trial"]).set_index(["dataset", "row"])
    return [
        _load(dataset, row, Path(runs.loc[(dataset, row), "folder"]), int(runs.loc[(dataset, row), "best_trial"]))
        for dataset in scope.stages[stage]
        for row in scope.models
        if dataset in scope.made_for(stage, row)
    ]


def _load(dataset: str, row: str, folder: Path, best: int) -> Trials:
    try:
        tuning = read_mapping(folder / CONFIG).get("tuning") or {}
        space = SPACE.validate_python(tuning.get("space"))
    except ValidationError as error:
        raise DataError(
            f"{folder / CONFIG}: has no tuning ({error}). Delete the run's folder and run it again."
        ) from error
    try:
        found = pd.read_csv(folder / TRIALS, dtype=str, keep_default_na=False)  # a listed value may be called null
        (name,) = (column for column in found if column.startswith("eval_"))
        drawn = [place for place, dimension in space.items() if dimension.values is None]
        numbers = ["number", *drawn, name, "epochs", "seconds"]
        found = found[["number", *space, name, "state", "epochs", "seconds"]]
        found[numbers] = found[numbers].apply(pd.to_numeric)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{folder / TRIALS}: not a table of trials ({error}). Delete the run's folder and run it again."
        ) from error
    score = _score(name)
    frame = found.rename(columns={name: "score"})
    frame["score"] *= score.factor
    frame["best"] = frame["number"] == best
    complete = frame["score"].where(frame["state"] == "complete")
    # The best is the highest or the lowest of all, as the task has it; if it is both, so are all others.
    rises = complete[frame["best"]].eq(complete.max()).all()
    frame["best_so_far"] = (complete.cummax() if rises else complete.cummin()).ffill()
    return Trials(dataset, row, frame, space, score)


def _score(column: str) -> Quantity:
    """Return the quantity that a metric on validation is in tables: `eval_f1` is F1 of characters in percent."""
    metric = column.removeprefix("eval_")
    if metric in F1_NAMES:
        return QUANTITIES["validation_f1"].of(metric)
    return next((each for each in QUANTITIES.values() if each.source == column), quantity(column))
