"""The errors that the best model is surest of, with their texts."""

from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from lib.core.errors import DataError
from lib.results.predictions import by_validation, class_names, class_probabilities, load_predictions
from lib.results.scope import Scope
from lib.results.settings import TableSettings
from lib.results.table import Column, Table

CLASSES = ["label", "prediction"]
DOCUMENTS = 10
"""Errors that are shown, at most."""
CHARACTERS = 300
"""Length that texts are cut to."""


class WorstErrorsTable(TableSettings):
    """One table per dataset: the test documents that the best model got wrong with the highest probability."""

    divided: ClassVar[Literal["if_several"]] = "if_several"
    needs_predictions: ClassVar[bool] = True
    needs_probabilities: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_documents: ClassVar[bool] = True

    kind: Literal["worst_errors"]
    stage: str
    """Stage whose predictions it shows."""

    def make(self, scope: Scope) -> Table:
        """Return the errors of the model with the highest F1 on validation: classes, probability, text.

        They are of the first seed. Where there are other models, it says how many of them are wrong, too.

        Raises:
            DataError: a run is missing or has no probabilities of classes, or the documents are others than predicted.
        """
        grid = scope.grid(self.stage).sort_values("seed", kind="stable")
        model, *others = by_validation(grid)
        folders = grid.drop_duplicates("row").set_index("row")["folder"]
        errors = _errors(folders[model])
        frame = errors.sort_values("probability", ascending=False, kind="stable").head(DOCUMENTS)
        frame[CLASSES] = frame[CLASSES].map(dict(enumerate(class_names(folders[model]))).get)
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
    """Return the test documents that a run got wrong: id, both classes, probability of the predicted one in percent."""
    documents = load_predictions(folder, ["id", *CLASSES]).astype(dict.fromkeys(CLASSES, int))
    probabilities = class_probabilities(folder)[1][np.arange(len(documents)), documents["prediction"]]
    documents["probability"] = np.where(documents["prediction"] < 0, np.nan, 100 * probabilities)  # some have no class
    return documents[documents["label"] != documents["prediction"]]
