"""How near FAVOR+ and LSH come to exact attention on the queries and keys of models, as drawn and as trained.

Shapes: H heads, N tokens, d head width, R hash rounds.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.analysis.computations.subject import Subject
from lib.attention.approximation_error import chunk_numbers, relative_error, window_mass
from lib.attention.contract import Attention, build
from lib.attention.settings import MECHANISMS
from lib.core.randomness import derive_seed

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Setting(NamedTuple):
    """A measured quantity, with the number of features, or of hash rounds and tokens per chunk."""

    quantity: str
    features: int | None = None
    hashes: int | None = None
    chunk_size: int | None = None


@torch.no_grad()
def analyse(
    subject: Subject,
    *,
    documents: int,
    length: int,
    features: Sequence[int],
    hashes: Sequence[int],
    chunk_sizes: Sequence[int],
) -> pd.DataFrame:
    """Return one row per layer, head, number measured and state of the training.

    Args:
        subject: a run whose model attends through mechanisms.
        documents: how many documents are read, see `Subject.documents`.
        length: tokens that documents are cut to; exact attention is quadratic in it.
        features: numbers of features that FAVOR+ is tried with.
        hashes: numbers of rounds that LSH is tried with.
        chunk_sizes: tokens in a chunk that LSH is tried with.

    Returns:
        `when` (before, after), `documents` (read), and the columns of `approximations`.

    Raises:
        DataError: no document has two tokens.
    """
    texts = subject.documents(documents, length)
    frames = []
    for when, model in subject.models():
        frame = approximations(model, texts, features, list(itertools.product(hashes, chunk_sizes)))
        frames.append(frame.assign(when=when, documents=len(texts)))
    found = pd.concat(frames, ignore_index=True)
    return found[["when", "layer", "head", "documents", *found.columns.drop(["when", "layer", "head", "documents"])]]


def approximations(
    model: PreTrainedModel, texts: Sequence[Sequence[int]], features: Sequence[int], windows: Sequence[tuple[int, int]]
) -> pd.DataFrame:
    """Return what `measured` finds in every layer and head of a model, as means over documents, and norms.

    Args:
        model: in evaluation mode; attends through mechanisms.
        texts: token ids of documents, at least two each.
        features: numbers of features of FAVOR+.
        windows: rounds and tokens in a chunk of LSH.

    Returns:
        `layer` and `head` (counted from 0; no head = all of the layer together), the fields of `Setting`, `quantile`
        (of norms alone), `value`, and `chance` (see `measured`; norms have none). `query_norm` and `key_norm` are norms
        before the scaling by d^(-1/4) that feature maps begin with, over the tokens of all documents.
    """
    norms: dict[tuple[int, str], list[np.ndarray]] = defaultdict(list)
    values: dict[tuple[int, Setting], list[np.ndarray]] = defaultdict(list)
    for number, ids in enumerate(texts):
        for layer, mechanism, query, key, value in attended(model, ids):
            # Fresh draws: a model may have adapted to its own.
            seed = derive_seed("approximation", mechanism.seed, number)
            norms[layer, "query_norm"].append(query.norm(dim=-1).numpy())
            norms[layer, "key_norm"].append(key.norm(dim=-1).numpy())
            for setting, found in measured(mechanism, query, key, value, features, windows, seed).items():
                values[layer, setting].append(found.numpy())
    rows: list[dict[str, Any]] = []
    for (layer, quantity), parts in norms.items():
        whole = np.concatenate(parts, axis=1)  # [H, tokens of all documents]
        for head, those in [(None, whole), *enumerate(whole)]:
            place = {"layer": layer, "head": head, **Setting(quantity)._asdict()}
            found = np.quantile(those, QUANTILES)
            rows += [place | {"quantile": q, "value": norm} for q, norm in zip(QUANTILES, found, strict=True)]
    for (layer, setting), documents in values.items():
        for head, (mean, chance) in enumerate(np.mean(documents, axis=0)):
            rows.append({"layer": layer, "head": head, **setting._asdict(), "value": mean, "chance": chance})
    return pd.DataFrame(rows).sort_values("layer", kind="stable", ignore_index=True)


def attended(model: PreTrainedModel, ids: Sequence[int]) -> Iterator[tuple[int, Attention, Tensor, Tensor, Tensor]]:
    """Yield every layer with a mechanism, and the queries, keys and values that a document gives it.

    Args:
        model: in evaluation mode.
        ids: tokens of the document.

    Yields:
        The number of the layer, its mechanism and three tensors [H, N, d] in float64; the key is the very tensor of the
        query where the mechanism shares the two.
    """
    met: list[tuple[Attention, tuple[Tensor, ...]]] = []
    mechanisms = [module for module in model.modules() if isinstance(module, Attention)]
    hooks = [each.register_forward_pre_hook(lambda *call: met.append(call)) for each in mechanisms]
    try:
        model.base_model(input_ids=torch.tensor([ids]))
    finally:
        for hook in hooks:
            hook.remove()
    shared = len(met) > len(mechanisms)  # layers share their weights, and one mechanism computes in several
    for number, (mechanism, (query, key, value, *_)) in enumerate(met):
        wide = query[0].double()
        layer = number if shared else mechanism.layer
        yield layer, mechanism, wide, wide if key is query else key[0].double(), value[0].double()


def measured(
    mechanism: Attention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    features: Sequence[int],
    windows: Sequence[tuple[int, int]],
    seed: int,
) -> dict[Setting, Tensor]:
    """Return the error of FAVOR+ and the recall of LSH in place of a layer's mechanism, and its own error.

    FAVOR+ has the cosh estimator. Where queries serve as keys, LSH and `own_error` leave out what a token attends to in
    itself, as LSH does; elsewhere, LSH sorts queries and keys each among themselves, and a query sees the keys of the
    chunk of its number and of both neighbours.

    Args:
        mechanism: of one layer of a model.
        query: [H, N, d] in float64; likewise `key` and `value`.
        key: as `query`; the very tensor `query` where the mechanism shares the two.
        value: as `query`.
        features: numbers of features of FAVOR+.
        windows: rounds and tokens in a chunk of LSH.
        seed: of the draws of FAVOR+ and LSH.

    Returns:
        By setting a number and what chance would give, [H, 2]. `favor_error`: relative error of the output of FAVOR+
        (Frobenius norms), and that of the plain mean of all values. `lsh_recall`: share of the exact attention weights
        within the windows of LSH, and the share expected with tokens in random order. `own_error`: as
        `favor_error`, of the mechanism itself, with its own draws.

    Source:
        Choromanski et al. 2021 (https://arxiv.org/abs/2009.14794), lemma 1. Kitaev et al. 2020
        (https://arxiv.org/abs/2001.04451), section 2. Daras et al. 2020 (https://arxiv.org/abs/2010.05315), section 3:
        queries and keys sorted each among themselves.
    """
    shared, tokens = key is query, query.shape[1]
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # [H, N, N]
    if (slopes := mechanism.slopes(query.device)) is not None:
        positions = torch.arange(tokens)
        scores -= slopes[:, None, None] * (positions[:, None] - positions).abs()
    exact, mean = scores.softmax(-1) @ value, value.mean(-2, keepdim=True)
    seen = (scores.masked_fill(torch.eye(tokens, dtype=torch.bool), -math.inf) if shared else scores).softmax(-1)
    found = {}
    for number in features:
        favor = _in_place_of(mechanism, seed, kind="favor", nb_features=number)
        error = relative_error(favor(query[None], key[None], value[None])[0], exact)
        found[Setting("favor_error", features=number)] = torch.stack([error, relative_error(mean, exact)], dim=-1)
    for rounds, size in windows:
        lsh = _in_place_of(mechanism, seed, kind="lsh", num_hashes=rounds, chunk_size=size)
        real = torch.ones(1, tokens, dtype=torch.bool)
        of_queries, of_keys = (chunk_numbers(lsh.hash(rows[None], real)[0], size) for rows in (query, key))
        recall = window_mass(seen, of_queries, of_keys, [rounds])[:, 0] / tokens
        chance = torch.full_like(recall, chance_recall(tokens, rounds, size, shared=shared))
        found[Setting("lsh_recall", hashes=rounds, chunk_size=size)] = torch.stack([recall, chance], dim=-1)
    batch = query[None]
    output = mechanism(batch, batch if shared else key[None], value[None])[0]
    errors = [relative_error(rows, seen @ value) for rows in (output, mean)]
    numbers = [getattr(mechanism.settings, name, None) for name in ("nb_features", "num_hashes", "chunk_size")]
    found[Setting("own_error", *numbers)] = torch.stack(errors, dim=-1)
    return found


def chance_recall(tokens: int, rounds: int, chunk_size: int, *, shared: bool) -> float:
    """Return which share of its keys a query sees in at least one round, on average, with tokens in random order.

    Args:
        tokens: N.
        rounds: R.
        chunk_size: tokens in a chunk.
        shared: whether queries serve as keys, in one order with them, and no token is its own key.
    """
    chunks = torch.arange(tokens) // chunk_size
    pairs = ((chunks[:, None] - chunks).abs() <= 1).sum().item()
    once = (pairs - tokens) / (tokens**2 - tokens) if shared else pairs / tokens**2
    return 1 - (1 - once) ** rounds


def _in_place_of(mechanism: Attention, seed: int, **parameters: Any) -> Any:
    """Return the mechanism that a model with these parameters and this seed would have in the place of `mechanism`."""
    parsed, heads, width = MECHANISMS.parse(parameters), mechanism.num_heads, mechanism.head_size
    return build(parsed, num_heads=heads, head_size=width, layer=mechanism.layer, seed=seed).eval()
