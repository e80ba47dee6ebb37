"""A model that reads documents and answers as its run did, whatever it is: one interface for all of them."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import regex

from lib.core.errors import RunError
from lib.core.files import csv_cell
from lib.evaluation.passages import Passage, by_removal
from lib.predicting.decisions import Decisions
from lib.reading.readers import Record
from lib.study.reader import ReaderSettings
from lib.tasks.settings import TASKS

PREFIX = "probability_"
"""Prefix of the columns of all classes if a class has the name of another column."""
OWN = ("id", "label", "labels", "decided", "passages")
"""Columns of a prediction that are not of classes."""


def silent(number: int) -> None:
    """Tell nobody how many documents were read."""


class Reader(ABC):
    """A model that answers; see `open_reader`.

    Args:
        folder: folder of the model.
        settings: how it reads.
    """

    decisions = Decisions()
    """How a classifier decides."""
    passages = 0
    """Passages that `answers` gives for each document, at most."""
    limit: int | None = None
    """Tokens that a document, or each text of a pair that is read separately, is cut to; None = it reads all."""

    def __init__(self, folder: Path, settings: ReaderSettings) -> None:
        self.folder, self.settings = folder, settings
        kind = TASKS.load(settings.task.kind, "task").Task
        self.task = kind(settings.task, labels=settings.labels, seed=settings.seed)
        self.task.restore(settings.state)
        self.labels = self.task.labels

    @abstractmethod
    def predictions(self, records: Sequence[Record], read: Callable[[int], object] = silent) -> pd.DataFrame:
        """Return the predictions of the task for documents, a row each, in order, with the columns of those of a run.

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
        """Columns of `answers`, in order."""
        if not self.settings.classifies:
            return ["id", {"number": "prediction", "word": "labels", "span": "spans"}[self.settings.task.label_form]]
        given = "labels" if self.settings.task.label_form == "set" else "label"
        decided, passages = self.decisions.confidence is not None, bool(self.passages)
        return ["id", given, *["decided"] * decided, *sorted(self.names), *["passages"] * passages]

    def answers(self, records: Sequence[Record], read: Callable[[int], object] = silent) -> pd.DataFrame:
        """Return predictions as others read them: `columns`, with the names of classes in place of their numbers.

        Text that the preparation of its documents removes is not read. Arguments and errors are those of
        `predictions`.
        """
        if not records:
            return pd.DataFrame(columns=self.columns)
        cleaned = [self._cleaned(record) for record in records]
        found, form = self.predictions(cleaned, read), self.settings.task.label_form
        answers: dict[str, Any] = {"id": found["id"].to_numpy()}
        classes = found["prediction"].to_numpy()
        if self.settings.classifies:
            probabilities = self.decisions.probabilities(np.stack(found["probabilities"]))
            answers |= {name: probabilities[:, place] for place, name in enumerate(self.names)}
        if form == "number":
            answers["prediction"] = classes
        elif form == "span":
            answers["spans"] = [json.dumps([[*map(int, span)] for span in row]) for row in classes]
        elif form in ("word", "set"):
            rows = self.decisions.sets(classes, probabilities) if form == "set" else classes
            answers["labels"] = [json.dumps([self.labels[each] for each in row]) for row in rows]
        else:
            if self.decisions.thresholds or self.decisions.confidence is not None:
                classes, confidence = self.decisions.classes(probabilities)
                answers["decided"] = confidence >= (self.decisions.confidence or 0)
            named = [*map(csv_cell, self.labels), ""]  # -1 is no class
            answers["label"] = [named[number] for number in classes]
            if self.passages:
                answers["passages"] = [*map(self._passages, records, cleaned, classes)]
        return pd.DataFrame({name: answers[name] for name in self.columns})

    def passages_of(self, text: str, label: int, count: int) -> list[Passage]:
        """Return the passages of a text that speak most for its class, the strongest first."""
        return by_removal(text, self.probabilities, count)

    def _cleaned(self, record: Record) -> Record:
        """Return a document without the text that the preparation of its dataset removes."""
        if (pattern := self.settings.columns.remove) is None:
            return record
        second = record.text_pair and regex.sub(pattern, "", record.text_pair)
        return record._replace(text=regex.sub(pattern, "", record.text), text_pair=second)

    def _passages(self, record: Record, cleaned: Record, label: int) -> str:
        """Return the passages of a document as JSON, with their places in the text as it was given."""
        kept = np.ones(len(record.text), bool)
        for match in regex.finditer(self.settings.columns.remove or "(?!)", record.text):
            kept[slice(*match.span())] = False
        places = np.flatnonzero(kept)
        shown = []
        for spans, weight in self.passages_of(cleaned.text, label, self.passages):
            given = [(int(places[start]), int(places[end - 1]) + 1) for start, end in spans]
            shown.append({"text": record.text[slice(*given[0])], "weight": weight, "spans": given})
        return json.dumps(shown, ensure_ascii=False)
