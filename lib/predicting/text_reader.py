"""Models that read texts without tokens, such as TF-IDF with logistic regression. Needs no torch."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError
from lib.evaluation.passages import Passage
from lib.predicting.contract import Reader, silent
from lib.reading.readers import Record
from lib.study.reader import ReaderSettings


class TextReader(Reader):
    """A fitted model that reads whole texts; arguments and errors are those of `open_reader`."""

    def __init__(self, folder: Path, settings: ReaderSettings, *, max_tokens: int | None = None) -> None:
        super().__init__(folder, settings)
        if max_tokens is not None:
            raise ConfigError(f"max_tokens = {max_tokens}, but {folder} reads whole texts. Leave it out.")
        kind = BACKBONES.load(settings.backbone.kind, "backbone").Backbone
        self.backbone = kind(settings.backbone, seed=settings.seed)
        self.backbone.sets = settings.task.label_form == "set"
        self.backbone.load(folder)

    def predictions(self, records: Sequence[Record], read: Callable[[int], object] = silent) -> pd.DataFrame:
        """See `Reader.predictions`."""
        columns = {"id": [each.id for each in records], "text": [each.text for each in records], "label": None}
        if self.settings.texts != "single":
            columns["text_pair"] = [each.text_pair or "" for each in records]
        found = self.task.read(self.backbone, pd.DataFrame(columns))
        read(len(records))
        return found

    def passages_of(self, text: str, label: int, count: int) -> list[Passage]:
        """See `Reader.passages_of`; those of a linear model are the terms that it weighs."""
        if getattr(self.backbone, "has_passages", False):
            return self.backbone.passages(text, label, count)
        return super().passages_of(text, label, count)
