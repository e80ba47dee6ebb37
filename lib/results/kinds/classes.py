"""Precision, recall and F1 of each class, of one model, or F1 of each class by model: a table of each dataset."""

from typing import ClassVar, Literal

import pandas as pd

from lib.results.predictions import class_names, has_sets, load_items, load_predictions, printed_classes, without_copies
from lib.results.printed_values import note, published_classes
from lib.results.scope import Scope
from lib.results.settings import PoolingSettings, TableSettings
from lib.results.table import Column, Table

SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}
SUMMARY, OF_SETS = ("accuracy", "macro average"), ("micro average", "macro average")
"""Rows below those of the classes, in order; for sets of classes, which are rarely right as a whole."""


class ClassesTable(PoolingSettings, TableSettings):
    """One table per dataset: a row per class of test; precision, recall and F1 of one model, or F1 of several."""

    divided: ClassVar[Literal["always"]] = "always"
    needs_predictions: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    takes_sets: ClassVar[bool] = True

    kind: Literal["classes"]
    stage: str
    """Stage whose runs it shows."""

    def make(self, scope: Scope) -> Table:
        """Return precision, recall and F1 on test in percent: one row per class, then accuracy and macro average.

        Of sets of classes, it has the micro average in place of the accuracy. Of several models it is F1 alone, a
        column each. With more than one seed these are means. Values that the study published of the one model have
        columns of their own, if the report asks for them. A class called as one of the last two rows is `class
        accuracy`, `class micro average` or `class macro average`.
        """
        grid = without_copies(scope.grid(self.stage))
        first = grid["folder"].iloc[0]
        last = OF_SETS if has_sets(first) else SUMMARY
        labels = [*printed_classes(class_names(first), last), *last]
        # By the number of a row, since a class may have any name.
        scores = {
            row: pd.concat(map(_class_scores, runs)).groupby(level=0).mean().assign(label=labels)
            for row, runs in grid.groupby("row", sort=False)["folder"]
        }
        if len(scores) > 1:
            columns = {f"{row}_f1": Column(f"{row} F1 [%]", 2) for row in scores}
            of_models = pd.DataFrame({f"{row}_f1": 100 * each["f1"] for row, each in scores.items()})
            any_model = next(iter(scores.values()))
            frame = pd.concat([any_model["label"], of_models, any_model["support"]], axis="columns")
            return Table(frame, {**columns, "support": Column("support", 0)})
        ((model, frame),), (dataset,) = scores.items(), scope.stages[self.stage]
        columns = {name: Column(f"{label} [%]", 2) for name, label in SCORES.items()}
        frame[list(columns)] *= 100
        footnote = None
        if scope.published and not (printed := published_classes(scope.published, self.stage, dataset, model)).empty:
            footnote = note(scope.published, grid, SCORES)
            for name in SCORES:
                # The study's classes have other names than its two last rows.
                frame[f"{name}_published"] = frame["label"].map(printed[f"{name}_percent"])
                columns[f"{name}_published"] = Column(f"{columns[name].label}, published", 2)
        shown = [column for name in SCORES for column in (name, f"{name}_published") if column in columns]
        return Table(frame[["label", *shown, "support"]], {**columns, "support": Column("support", 0)}, footnote)


def _class_scores(folder: str) -> pd.DataFrame:
    """Return the scores of a run as fractions: a row per class in the order of their numbers, then the summary."""
    from sklearn.metrics import precision_recall_fscore_support  # it starts slowly

    from lib.evaluation.label_sets import indicators
    from lib.evaluation.metrics import class_report

    names, sets = class_names(folder), has_sets(folder)
    items = load_predictions(folder, ["label", "prediction"]) if sets else load_items(folder)
    true, given = (indicators(items[each], len(names)) if sets else items[each] for each in ("label", "prediction"))
    classes = pd.DataFrame(class_report(true, given, names))[[*SCORES, "support"]]
    # Over all documents, precision, recall and F1 of a single-label classification are all the accuracy.
    micro = precision_recall_fscore_support(true, given, average="micro", zero_division=0) if sets else ()
    together = micro[:3] or [(true == given).mean()] * 3
    support, macro = classes["support"].sum(), classes[list(SCORES)].mean()
    summary = pd.DataFrame([dict(zip(SCORES, together, strict=True)), macro.to_dict()]).assign(support=support)
    return pd.concat([classes, summary], ignore_index=True)
