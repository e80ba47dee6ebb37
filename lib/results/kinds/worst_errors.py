"""The errors that the best model is surest of, with their texts."""

from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from lib.core.errors import DataError
from lib.results.predictions import CLASSES, by_validation, class_names, class_probabilities, decided, load_predictions
from lib.results.scope import Scope
from lib.results.settings import TableSettings
from lib.results.table import Column, Table

DOCUMENTS = 10
"""Errors that are shown, at most."""
NONE = "(none)"
"""What is in place of no class."""
CHARACTERS = 300
"""Length that texts are cut to."""


class WorstErrorsTable(TableSettings):
    """One table per dataset: the test documents that the best model got wrong with the highest probability."""

    divided: ClassVar[Literal["if_several"]] = "if_several"
    needs_predictions: ClassVar[bool] = True
    needs_probabilities: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    takes_sets: ClassVar[bool] = True
    needs_documents: ClassVar[bool] = True

    kind: Literal["worst_errors"]
    stage: str
    """Stage whose predictions it shows."""

    def make(self, scope: Scope) -> Table:
        """Return the errors of the model with the highest F1 on validation: classes, probability, text.

        The probability is that of the predicted class; of sets, that of the wrong decision on a class that the model is
        surest of. They are of the first seed. Where there are other models, it says how many of them are wrong, too.

        Raises:
            DataError: a run is missing or has no probabilities of classes, or the documents are others than predicted.
        """
        grid = scope.grid(self.stage).sort_values("seed", kind="stable")
        model, *others = by_validation(grid)
        folders = grid.drop_duplicates("row").set_index("row")["folder"]
        errors = _errors(folders[model])
        frame = errors.sort_values("probability", ascending=False, kind="stable").head(DOCUMENTS)
        names = {**dict(enumerate(class_names(folders[model]))), -1: NONE}
        frame[CLASSES] = frame[CLASSES].map(lambda each: ", ".join(names[at] for at in np.ravel(each)) or NONE)
        if others:
            also = sum(frame["id"].isin(_errors(folders[row])["id"]).astype(int) for row in others)
            frame["other_models_wrong"] = also.map(f"{{}} of {len(others)}".format)
        documents = pd.read_parquet(scope.files[-1]).set_index("id")
        if not frame["id"].isin(documents.index).all():
            raise DataError(f"{scope.files[-1]}: lacks documents that were predicted. Make both from the same data.")
        texts = documents["text"] + (" / " + documents["text_pair"] if "text_pair" in documents else "")
        texts = texts.loc[frame["id"]].str.split().str.join(" ").replace("", "(empty)")
        frame["text"] = texts.mask(texts.str.len() > CHARACTERS, texts.str[:CHARACTERS] + "…").to_numpy()
        note = f"Errors: {len(errors):,}, of {model} with seed {grid['seed'].min()}, the best one by F1 on validation."
        return Table(frame[[*frame.columns[1:], "id"]], {"probability": Column("probability [%]", 1)}, note)


def _errors(folder: str) -> pd.DataFrame:
    """Return the test documents that a run got wrong: id, both classes, probability of the error in percent."""
    documents, (labels, probabilities) = load_predictions(folder, ["id", *CLASSES]), class_probabilities(folder)
    given = decided(documents["prediction"], len(labels) // len(documents))
    sure = np.where(given < 0, np.nan, 100 * probabilities[np.arange(len(given)), given])  # some have no class
    wrong = (labels != given).reshape(len(documents), -1)
    documents["probability"] = np.where(wrong, sure.reshape(wrong.shape), 0).max(axis=1)
    return documents[wrong.any(axis=1)]
