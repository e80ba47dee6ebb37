"""The values that the reproduced study printed, to stand beside ours."""

import functools
from pathlib import Path

import pandas as pd

HARDWARE = "A100"
"""Word in the name of the hardware that the study ran on, one NVIDIA A100 (40 GB)."""
MACHINE = {
    "peak_memory_gib",
    "minutes_per_epoch",
    "minutes",
    "memory_delta_percent",
    "time_delta_percent",
    "on_front",
}
"""Quantities that depend on the hardware."""
NOTE = (
    "Published: one NVIDIA A100 (40 GB), one seed; other hardware gives other times and memory. Its minutes are the "
    "wall time of the whole run by epochs, evaluations included; ours leave them out. It pretrained in dataset order, "
    "the short part before the long one in every epoch; here the order is drawn anew each epoch and grouped by length, "
    "so losses are comparable, not equal. In its code positions are no rotation, LSH sees padding, and FAVOR+ loses "
    "features of great norm; docs/fidelity.md has the sizes."
)
IMPORTED = (
    "Both columns come from runs of the study's own code: one is made from its records, the other printed. They may "
    "differ where it printed from another epoch, split or rounding: docs/fidelity.md says where."
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


def note(runs: pd.DataFrame) -> str:
    """Return what has to be known where `runs` and published values stand side by side."""
    return IMPORTED if runs["imported"].notna().all() else NOTE
