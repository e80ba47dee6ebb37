"""The values that the reproduced study printed, to stand beside ours."""

import functools
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

HARDWARE = "A100"
"""Word in the name of the hardware that the study ran on, one NVIDIA A100 (40 GB)."""
MACHINE = {"peak_memory_gib", "minutes_per_epoch", "minutes", "memory_delta_percent", "time_delta_percent", "on_front"}
"""Quantities that depend on the hardware."""
PRINTED = "Published: what the study printed, from one seed."
OTHER_MACHINE = (
    "It ran on one NVIDIA A100 (40 GB); other hardware gives other times and memory. Its minutes are the wall time of "
    "the whole run, evaluations included; ours leave them out."
)
OTHER_ORDER = (
    "It pretrained in dataset order, the short part before the long one in every epoch; here the order is drawn anew "
    "each epoch and grouped by length, so losses are comparable, not equal."
)
OTHER_CODE = (
    "In its code positions are no rotation, LSH sees padding, and FAVOR+ loses features of great norm; "
    "docs/fidelity.md has the sizes."
)
IMPORTED = (
    "Both values come from runs of the study's own code: ours is made from its records, the other was printed. "
    "docs/fidelity.md says where they differ."
)


@functools.cache
def published() -> pd.DataFrame:
    """Return every number that the study's tables 4.5 to 4.15 and its appendices B and C hold, one row each.

    Numbers that a table repeats from another one are left out.

    Returns:
        `table` and `page` where it stands; `stage` (`tapt+finetune`: both together), `dataset`, `model`; `item`, a
        class or the variant of a search, null for a run as a whole; `quantity`, in the unit that its name ends in;
        `printed`, the number as it was printed, and its `value`.

    Source: the study's tables; what it calls GB are GiB. Table C.1 says that it shows scores on test, but these are on
    validation (docs/fidelity.md), and so they are called.
    """
    facts = pd.read_csv(Path(__file__).with_name("published.csv"), dtype={"page": "Int64", "value": str})
    return facts.rename(columns={"value": "printed"}).assign(value=facts["value"].astype(float))


def published_runs() -> pd.DataFrame:
    """Return what the study printed of its runs: a row per stage, model and dataset, a column per quantity.

    Where it printed two values of one quantity, the first counts: that of the table of all models.
    """
    of_runs = published()[published()["item"].isna()]
    return of_runs.pivot_table(index=["stage", "model", "dataset"], columns="quantity", values="value", aggfunc="first")


def published_classes(stage: str, dataset: str, model: str) -> pd.DataFrame:
    """Return what the study printed of each class of a run, by class, a column per quantity; empty if nothing.

    Beside classes there are `macro average` and `accuracy`, which is precision, recall and F1 over all documents.
    """
    facts = published().query("stage == @stage and dataset == @dataset and model == @model")
    classes = facts.dropna(subset="item").pivot(index="item", columns="quantity", values="value")
    accuracy = facts.loc[facts["quantity"] == "accuracy_percent", "value"]
    if not classes.empty:
        classes.loc["accuracy"] = accuracy.item()
    return classes


def note(runs: pd.DataFrame, quantities: Iterable[str]) -> str:
    """Return what has to be known where values of `runs` and published ones stand side by side.

    Args:
        runs: as `lib.results.records.load_runs` gives them.
        quantities: what is shown of them, called as in the published values.
    """
    if runs["imported"].notna().all():
        return IMPORTED
    shown = set(quantities)
    said = {OTHER_MACHINE: shown & MACHINE, OTHER_ORDER: "loss" in shown, OTHER_CODE: (runs["epochs"] > 0).any()}
    return " ".join([PRINTED, *(sentence for sentence, holds in said.items() if holds)])
