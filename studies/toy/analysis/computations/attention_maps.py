"""Attention weights of every layer and head for one document, before and after training."""

import pandas as pd
import torch

from lib.analysis.computations.subject import Subject
from lib.core.errors import ConfigError

LONGEST = 128
"""Tokens of a document whose maps are written: a row per pair, head and layer."""


@torch.no_grad()
def analyse(subject: Subject, *, document: int) -> pd.DataFrame:
    """Return one row per pair of tokens, head, layer and state of the training.

    Args:
        subject: a run whose backbone gives attention maps.
        document: place in the split, counted from 0.

    Returns:
        `when` (before, after), `layer`, `head`, `query` and `key` (positions, all counted from 0), their tokens
        `query_token` and `key_token`, and `weight`, which sums to 1 over the keys of a query.

    Raises:
        ConfigError: there is no such document, or it is too long to be shown.
    """
    count = len(subject.tokens)
    if document >= count:
        raise ConfigError(f"document = {document}: there are {count} documents, counted from 0. Choose a lower number.")
    ids = subject.tokens[document]["input_ids"]
    if len(ids) > LONGEST:
        raise ConfigError(
            f"document = {document}: has {len(ids)} tokens, more than the {LONGEST} of which maps are shown. Choose a "
            f"shorter one; the first is {_short_one(subject)}."
        )
    names = dict(enumerate(subject.tokenizer.convert_ids_to_tokens(ids)))
    frames = []
    for when, model in subject.models():
        maps = model.base_model(input_ids=torch.tensor([ids]), output_attentions=True).attentions
        for layer, weights in enumerate(maps):
            if weights is not None:
                index = pd.MultiIndex.from_product(map(range, weights.shape[1:]), names=["head", "query", "key"])
                values = {"when": when, "layer": layer, "weight": weights.float().numpy().ravel()}
                frames.append(pd.DataFrame(values, index).reset_index())
    frame = pd.concat(frames, ignore_index=True)
    tokens = {f"{place}_token": frame[place].map(names) for place in ("query", "key")}
    return frame.assign(**tokens)[["when", "layer", "head", "query", "key", "query_token", "key_token", "weight"]]


def _short_one(subject: Subject) -> str:
    lengths = subject.tokens["length"][:]
    return next(
        (f"document {place}" for place, length in enumerate(lengths) if length <= LONGEST), "none of this split"
    )
