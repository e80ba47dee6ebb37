"""Every number of a run that the reproduced study printed and that the runs at hand give, too."""

import re
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.results.printed_values import MACHINE, note, notes_of, published
from lib.results.quantities import CHARACTERS, MACRO, QUANTITIES
from lib.results.scope import Scope
from lib.results.settings import TableSettings
from lib.results.table import Column, Table

PLACE = ["stage", "dataset", "model", "item", "quantity"]
"""What says which number it is."""
PRINTED = {
    **{
        each.source: (each.name, each.factor)
        for name in ("memory", "minutes", "total_minutes", "loss", "accuracy")
        for each in [QUANTITIES[name]]
    },
    f"test_{MACRO}": ("f1_macro_percent", 100),
    f"test_{CHARACTERS}": ("f1_characters_percent", 100),
    f"eval_{MACRO}": ("validation_f1_macro_percent", 100),
}
"""Names and factors of scores among the study's printed values, by the column of the run records."""
OF_CLASSES = re.compile("test_(precision|recall|f1)_(?:class_(?!macro average$)|(?=macro$))(.+)")
"""Scores of classes and their means over classes; the studies have no class called `macro average`."""


class PublishedTable(TableSettings):
    """One row per printed number: its place, our number, difference and ratio."""

    compares_with: ClassVar[tuple[Literal["baseline"]]] = ("baseline",)
    takes_variants: ClassVar[Literal["none", "any", "needed"]] = "any"
    needs_published: ClassVar[bool] = True

    kind: Literal["published"]
    stages: list[str] = Field(min_length=1)
    """Stages whose runs are compared, named as in the full grid."""

    def stages_added(self) -> list[str]:
        """See the base."""
        return self.stages

    def make(self, scope: Scope) -> Table:
        """Return a row for every printed number of the study that the runs give as well.

        Ours are means over the seeds. `agrees` says whether ours is the printed number when it is rounded as that.
        Where it depends on the machine and ours is not of the study's kind, there is neither that nor a difference or
        ratio.
        """
        study = scope.published
        assert study is not None  # the report was checked
        known = published(study).merge(_ours(scope), on=PLACE, suffixes=("_printed", ""))
        alike = ~known["quantity"].isin(MACHINE)
        if (hardware := notes_of(study).hardware) is not None:
            alike |= known["hardware"].str.contains(hardware, na=False)
        decimals = known["printed"].str.partition(".")[2].str.len()
        rounded = [f"{value:.{places}f}" for value, places in zip(known["value"], decimals, strict=True)]
        agrees = pd.Series(rounded, dtype=object).where(lambda each: each != known["printed"], "yes")
        agrees = agrees.where(agrees == "yes", "no").where(alike, "-")
        frame = pd.DataFrame(
            {
                "table": known["table"],
                "page": known["page"].astype(object).where(known["page"].notna(), "-"),
                "stage": known["stage"],
                "dataset": known["dataset"],
                "model": known["model"],
                "item": known["item"].fillna(""),
                "quantity": known["quantity"],
                "published": known["printed"],
                "ours": known["value"],
                "difference": (known["value"] - known["value_printed"]).where(alike),
                "ratio": (known["value"] / known["value_printed"]).where(alike & (known["value_printed"] != 0)),
                "agrees": agrees,
                "hardware": known["hardware"].fillna("unknown"),
            }
        )
        columns = {"ours": Column("ours", 3), "difference": Column("difference", 3), "ratio": Column("ratio", 4)}
        compared = agrees != "-"
        said = [f"{(agrees == 'yes').sum()} of {compared.sum()} numbers agree to the last printed digit."]
        if not compared.all():
            said.append(
                f"The {(~compared).sum()} without an answer depend on the machine, and ours is not of the study's "
                "kind, so they reproduce nothing."
            )
        return Table(frame, columns, " ".join([*said, note(study, scope.runs, known["quantity"])]))


def _ours(scope: Scope) -> pd.DataFrame:
    """Return the means over seeds, called as the study's: the columns of `PLACE`, `value` and `hardware`."""
    cells = [
        (stage, row, dataset, owner)
        for stage, rows in scope.owners.items()
        for row in rows
        for dataset, owner in scope.made_for(stage, row).items()
    ]
    grid = pd.DataFrame(cells, columns=["stage", "row", "dataset", "model"])
    grid = grid.merge(scope.runs, on=["stage", "dataset", "model"]).drop(columns="model")
    grid = grid.rename(columns={"row": "model"}).fillna({"hardware": "unknown"})
    runs = grid.groupby(["stage", "dataset", "model", grid["variant"].replace("", None).rename("item")], dropna=False)
    hardware = runs["hardware"].agg(lambda names: "; ".join(sorted(set(names))))
    printed: list[tuple[str, str | None, str, float]] = [
        (column, None, *PRINTED[column]) for column in grid if column in PRINTED
    ]
    for column in grid:
        if of_class := OF_CLASSES.fullmatch(column):
            score, name = of_class.groups()
            printed.append((column, "macro average" if name == "macro" else name, f"{score}_percent", 100))
    found = []
    for column, item, quantity, factor in printed:
        facts = pd.DataFrame({"value": factor * runs[column].mean(), "hardware": hardware}).reset_index()
        found.append(facts.assign(quantity=quantity, item=item or facts["item"]))
    return pd.concat(found, ignore_index=True).dropna(subset="value").astype({"value": float})
