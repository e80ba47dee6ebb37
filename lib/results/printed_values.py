"""The values that reproduced studies printed, to compare with ours: two files of `printed/` for each study."""

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd

from lib.core.files import read_mapping

MACHINE = {"peak_memory_gib", "minutes_per_epoch", "minutes"}
"""Quantities that depend on the hardware."""
IMPORTED = (
    "Both values come from runs of the study's own code: ours is made from its records, the other was printed. "
    "docs/fidelity.md says where they differ."
)


class Notes(NamedTuple):
    """Notes under tables that show printed values and ours."""

    printed: str
    """Sentence that is always shown."""
    concerned: Mapping[Literal["machine", "loss", "training", "untrained"], str]
    """Where quantities that depend on the hardware are shown, losses, anything of a training, or runs that it printed
    and that do not train."""
    hardware: str | None = None
    """Word in the name of the hardware that it ran on; None = it printed nothing that depends on that."""


def notes_of(study: str) -> Notes:
    """Return the notes of a study, by its name in `report.published`."""
    return Notes(**read_mapping(Path(__file__).with_name("printed") / f"{study}.yaml"))


@functools.cache
def published(study: str) -> pd.DataFrame:
    """Return every number that the tables of a study hold, one row each.

    Numbers that a table repeats from another one are left out.

    Args:
        study: name of a file of `printed/`.

    Returns:
        `table` and `page` where it stands; `stage` (`tapt+finetune`: both together) and `model`, null for tokens of a
        corpus; `dataset`; `item`, a class, the variant of a search or a split, null for a run as a whole; `quantity`,
        in the unit that its name ends in; `printed`, the number as it was printed, and its `value`.

    Source: the grid's study, tables 4.1 and 4.5 to 4.15 and appendices B and C; what it calls GB are GiB. Its table C.1
    says that it shows scores on test, but these are on validation (docs/fidelity.md), and so they are called. The
    decoders' study, table 4.1. The seminar paper on hate speech, tables 1 and 2, rounded as it rounds.
    """
    file = Path(__file__).with_name("printed") / f"{study}.csv"
    facts = pd.read_csv(file, dtype={"table": str, "page": "Int64", "value": str})
    return facts.rename(columns={"value": "printed"}).assign(value=facts["value"].astype(float))


def published_runs(study: str) -> pd.DataFrame:
    """Return the printed values of a study's runs: a row per stage, model and dataset, a column per quantity.

    Where it printed two values of one quantity, the first counts: that of the table of all models.
    """
    of_runs = published(study)[published(study)["item"].isna()]
    return of_runs.pivot_table(index=["stage", "model", "dataset"], columns="quantity", values="value", aggfunc="first")


def published_classes(study: str, stage: str, dataset: str, model: str) -> pd.DataFrame:
    """Return the printed values of each class of a run, by class, a column per quantity; empty if there are none.

    Further rows are `macro average` and `accuracy`, which is precision, recall and F1 over all documents.
    """
    facts = published(study).query("stage == @stage and dataset == @dataset and model == @model")
    classes = facts.dropna(subset="item").pivot(index="item", columns="quantity", values="value")
    if not classes.empty:
        classes.loc["accuracy"] = facts.loc[facts["quantity"] == "accuracy_percent", "value"].item()
    return classes


def note(study: str, runs: pd.DataFrame, quantities: Iterable[str]) -> str:
    """Return the footnote of a table with values of `runs` and published ones.

    Args:
        study: that printed them.
        runs: as `lib.results.records.load_runs` gives them.
        quantities: those shown, by their names in the published values.
    """
    if runs["imported"].notna().all():
        return IMPORTED
    shown, notes = set(quantities), notes_of(study)
    shows = {
        "machine": bool(shown & MACHINE),
        "loss": "loss" in shown,
        "training": (runs["epochs"] > 0).any(),
        "untrained": (runs.loc[runs["model"].isin(published(study)["model"]), "epochs"] == 0).any(),
    }
    return " ".join([notes.printed, *(sentence for concern, sentence in notes.concerned.items() if shows[concern])])
