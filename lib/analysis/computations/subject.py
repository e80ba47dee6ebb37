"""The model that is analysed, as it was drawn and as it was trained, and the documents that it reads."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lib.backbones.contract import TextClassifier
from lib.core.errors import DataError

BEFORE, AFTER = "before", "after"
"""First weights, and those that the run left."""


class Subject(NamedTuple):
    """The model of a finished run, and the documents that it reads; a classifier of texts reads their words."""

    name: str
    """Row of the tables."""
    dataset: str
    seed: int
    tokenizer: PreTrainedTokenizerBase
    tokens: Dataset
    """`id`, `input_ids`, `length` and, if labelled, `label`."""
    drawn: PreTrainedModel | None = None
    """The model with newly drawn weights, before any others are loaded; None = a classifier of texts."""
    load_trained: Callable[[PreTrainedModel], object] | None = None
    """Puts the weights that the run left into a model."""
    classifier: TextClassifier | None = None
    """Classifier of texts, as its run fitted it."""
    open_reader: Callable[[], Any] | None = None
    """Opens the run's model as `scripts/tools/predict.py` does: a `lib.predicting.contract.Reader`."""
    texts: Sequence[str] = ()
    """The documents as they are written, if the kind of analysis needs them."""

    def models(self) -> Iterator[tuple[str, PreTrainedModel]]:
        """Yield `BEFORE` with a model as it was drawn, then `AFTER` with the same object as it was trained."""
        assert self.drawn is not None  # as where documents are tokens
        assert self.load_trained is not None
        model = copy.deepcopy(self.drawn).eval()
        yield BEFORE, model
        self.load_trained(model)
        yield AFTER, model

    def trained(self) -> PreTrainedModel:
        """Return the model as it was trained."""
        *_, (_, model) = self.models()
        return model

    def documents(self, count: int, length: int) -> list[list[int]]:
        """Return the token ids of the first documents that have two tokens or more, at most `count`.

        What is longer than `length` is cut as the tokeniser cuts: a [SEP] at the end stays there.

        Raises:
            DataError: no document has two tokens.
        """
        places = [place for place, found in enumerate(self.tokens["length"][:]) if found > 1][:count]
        if not places:
            raise DataError(f"{self.dataset}: no document has two tokens to attend to each other. Check the dataset.")
        texts = self.tokens.select(places)["input_ids"][:]
        end = self.tokenizer.sep_token_id
        kept = length - 1
        return [ids if len(ids) <= length else [*ids[:kept], end if ids[-1] == end else ids[kept]] for ids in texts]
