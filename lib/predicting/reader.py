"""A model that reads documents and answers as its run did, whatever it is: one interface for all of them."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.core.errors import RunError
from lib.core.files import csv_cell
from lib.core.record import RUN, differing_files, read_record
from lib.reading.readers import Record
from lib.study.reader import ReaderSettings, read_reader
from lib.tasks.settings import TASKS

PREFIX = "probability_"
"""Prefix of the columns of all classes if a class has the name of another column."""
OWN = ("id", "label", "decided", "passages")
"""Columns of a prediction that are not of classes."""


def silent(number: int) -> None:
    """Tell nobody how many documents were read."""


class Reader(ABC):
    """A model that answers; see `open_reader`.

    Args:
        folder: folder of the model.
        settings: how it reads.
    """

    limit: int | None = None
    """Tokens that a document, or each text of a pair that is read separately, is cut to; None = it reads all."""

    def __init__(self, folder: Path, settings: ReaderSettings) -> None:
        self.folder, self.settings = folder, settings
        self.task = TASKS.load(settings.task.kind, "task").Task(
            settings.task, labels=settings.labels, seed=settings.seed
        )
        self.task.restore(settings.state)
        self.labels = self.task.labels

    @abstractmethod
    def predictions(self, records: Sequence[Record], read: Callable[[int], object] = silent) -> pd.DataFrame:
        """Return what the task predicts for documents, a row each, in order, as the predictions of a run have them.

        Args:
            records: the documents.
            read: told the number of documents of each batch.

        Raises:
            RunError: a score is NaN or inf.
        """

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Return the probability of each class of single texts [n, C]."""
        records = [Record("", str(place), text, None) for place, text in enumerate(texts)]
        return np.stack(self.predictions(records)["probabilities"])

    def check_form(self, *, paired: bool) -> None:
        """Refuse documents of another form than those that it learnt from.

        Raises:
            RunError: they are pairs and should be single texts, or the other way round.
        """
        if paired and self.settings.texts == "single":
            raise RunError(f"{self.folder}: was trained on single texts. Name no second column.")
        if not paired and self.settings.texts != "single":
            raise RunError(f"{self.folder}: was trained on pairs of texts. Name the second column (--pair-column).")

    @cached_property
    def names(self) -> list[str]:
        """Column of each class, in the order of their numbers."""
        prefix = PREFIX if set(OWN) & set(self.labels) else ""
        return [csv_cell(f"{prefix}{label}") for label in self.labels]

    @property
    def columns(self) -> list[str]:
        """Columns of `table`."""
        if self.settings.task.numbers:
            return ["id", "prediction"]
        if self.settings.task.label_per != "document":
            return ["id", "labels" if self.settings.task.label_per == "word" else "spans"]
        return ["id", "label", *sorted(self.names)]

    def answers(self, records: Sequence[Record], read: Callable[[int], object] = silent) -> pd.DataFrame:
        """Return predictions as others read them: `columns`, with the names of classes in place of their numbers.

        Arguments and errors are those of `predictions`.
        """
        if not records:
            return pd.DataFrame(columns=self.columns)
        found, task = self.predictions(records, read), self.settings.task
        answers: dict[str, Any] = {"id": found["id"].to_numpy()}
        if task.numbers:
            answers["prediction"] = found["prediction"].to_numpy()
        elif task.label_per == "word":
            answers["labels"] = [json.dumps([self.labels[each] for each in row]) for row in found["prediction"]]
        elif task.label_per == "span":
            answers["spans"] = [json.dumps([[*map(int, span)] for span in row]) for row in found["prediction"]]
        else:
            probabilities = np.stack(found["probabilities"])
            named = [*map(csv_cell, self.labels), ""]  # -1 is no class
            answers["label"] = [named[number] for number in found["prediction"]]
            answers |= {name: probabilities[:, place] for place, name in enumerate(self.names)}
        return pd.DataFrame({name: answers[name] for name in self.columns})


def open_reader(
    folder: str | Path, *, max_tokens: int | None = None, batch_size: int | None = None, device: str | None = None
) -> Reader:
    """Return the model that a run left in a folder; one that reads texts needs no torch.

    Args:
        folder: `model` of a run, or the folder of a run, or a shared one.
        max_tokens: tokens that a document is cut to; None = as in the run.
        batch_size: documents of the full length at once; None = as many tokens as in the run.
        device: `cpu`, `cuda`, ...; None = a GPU if there is one.

    Raises:
        ProjectError: there is none, it is damaged, or another one than its run left, or the arguments do not suit it.
    """
    folder = Path(folder)
    folder = folder / "model" if (folder / RUN).is_file() else folder
    if (run := run_of(folder)) and (
        problems := differing_files(run, read_record(run), f"{folder.resolve().relative_to(run)}/")
    ):
        raise RunError(f"{run}: {', '.join(problems)}. Change a copy of the model, elsewhere.")
    settings = read_reader(folder)
    if settings.reads_tokens:
        from lib.predicting.token_reader import TokenReader

        return TokenReader(folder, settings, max_tokens=max_tokens, batch_size=batch_size, device=device)
    from lib.predicting.text_reader import TextReader

    return TextReader(folder, settings, max_tokens=max_tokens)


def run_of(model: Path) -> Path | None:
    """Return the folder of the run that left a model, which is in `model` or `model/best` there; None = unknown."""
    return next((folder for folder in model.resolve().parents[:2] if (folder / RUN).is_file()), None)
