"""The models that are looked at: those of finished runs, as they were drawn and as they were trained."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.core.program import read_settings
from lib.core.record import CONFIG, MODEL
from lib.data.tokens import load_tokens
from lib.study.run import RunSettings
from lib.training.assembly import Parts, assemble

BEFORE, AFTER = "before", "after"
"""First weights, and those that the run left."""


class Subject(NamedTuple):
    """A finished run with a training loop, and the documents that its model reads."""

    folder: Path
    run: RunSettings
    parts: Parts
    tokens: Dataset
    """`id`, `input_ids`, `length` and, if labelled, `label`."""

    @classmethod
    def load(cls, folder: str | Path, tokenizer: str | Path, tokens: str | Path) -> "Subject":
        """Return the subject of a run.

        Args:
            folder: of the run.
            tokenizer: folder of its tokeniser.
            tokens: folder of a tokenised split.

        Raises:
            ProjectError: one of them is missing or damaged.
        """
        run = read_settings(RunSettings, read_mapping(Path(folder) / CONFIG) | {"tokenizer": str(tokenizer)})
        return cls(Path(folder), run, assemble(run), load_tokens(tokens))

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The run's tokeniser."""
        return self.parts.tokenizer

    def models(self) -> Iterator[tuple[str, PreTrainedModel]]:
        """Yield `BEFORE` with a model as it was drawn, then `AFTER` with the same object as it was trained."""
        model = copy.deepcopy(self.parts.model).eval()
        yield BEFORE, model
        self.parts.backbone.load_weights(model, self.folder / MODEL)
        yield AFTER, model

    def documents(self, count: int, length: int) -> list[list[int]]:
        """Return the token ids of the first documents that have two tokens or more, at most `count`.

        What is longer than `length` is cut as the tokeniser cuts: a [SEP] at the end stays there.

        Raises:
            DataError: no document has two tokens.
        """
        places = [place for place, found in enumerate(self.tokens["length"][:]) if found > 1][:count]
        if not places:
            raise DataError(
                f"{self.run.dataset}: no document has two tokens, which could attend to each other. Check the dataset."
            )
        texts = self.tokens.select(places)["input_ids"][:]
        end = self.tokenizer.sep_token_id
        return [
            ids if len(ids) <= length else [*ids[: length - 1], ids[-1] if ids[-1] == end else ids[length - 1]]
            for ids in texts
        ]

    def trained(self) -> PreTrainedModel:
        """Return the model as it was trained."""
        *_, (_, model) = self.models()
        return model
