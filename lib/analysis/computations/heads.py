"""Statistics of attention heads over many documents: entropy, distance, attended tokens and positional heads.

Shapes: H heads, N tokens, R rows (queries of all documents).
"""

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
import torch

from lib.analysis.computations.subject import Subject
from lib.analysis.heads import GLOBAL_ENTROPY, LOCAL_DISTANCE, POSITIONAL_AGREEMENT

MEANS = (
    "entropy", "entropy_share", "distance", "previous", "next", "first", "itself", "special", "near", "far",
    "uniform_special", "uniform_near",
)  # fmt: skip
"""Values of `rows_of` whose means are among the figures of a head."""
PLACES = ("offset", "start", "end", "mirror")
"""Places by which a query may find its strongest key, whatever the tokens are: for query i and key j of n tokens
`offset` is j - i, `start` j, `end` j - (n - 1) and `mirror` i + j - (n - 1)."""


@torch.no_grad()
def analyse(subject: Subject, *, documents: int, length: int, window: int) -> pd.DataFrame:
    """Return one row per layer and head of the trained model.

    Args:
        subject: a run whose backbone gives attention maps.
        documents: how many documents are read, see `Subject.documents`.
        length: tokens that documents are cut to; maps are quadratic in it.
        window: tokens to either side that count as near.

    Returns:
        `layer`, `head` (counted from 0), `documents` (read), `window`, and the columns of `head_figures`.

    Raises:
        DataError: no document has two tokens.
    """
    model = subject.trained()
    rows: dict[int, list[dict[str, np.ndarray]]] = defaultdict(list)
    texts = subject.documents(documents, length)
    marks = [subject.tokenizer.cls_token_id, subject.tokenizer.sep_token_id]
    for ids in texts:
        outputs = model.base_model(input_ids=torch.tensor([ids]), output_attentions=True)
        for layer, weights in enumerate(outputs.attentions):
            if weights is not None:
                rows[layer].append(rows_of(weights[0].double().numpy(), np.isin(ids, marks), window))
    found = []
    for layer, parts in rows.items():
        whole = {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
        for head in range(len(whole["entropy"])):
            figures = head_figures({name: values[head] for name, values in whole.items()})
            found.append({"layer": layer, "head": head, "documents": len(texts), "window": window, **figures})
    return pd.DataFrame(found)


def rows_of(maps: np.ndarray, special: np.ndarray, window: int) -> dict[str, np.ndarray]:
    """Return what `head_figures` needs of each row of a document's maps.

    Args:
        maps: attention weights [H, N, N], N at least 2; all tokens are real.
        special: which tokens are [CLS] or [SEP], [N].
        window: tokens to either side that count as near.

    Returns:
        Arrays [H, N]: `entropy` (nats), `entropy_share` (of ln N), `distance` (tokens), `uniform_distance` (that of
        equal weights), the weight on the `previous`, `next` and `first` token and on `itself` (nan where there is no
        such token), on `special` tokens, and of the others on those that are `near` and those that are `far`,
        `uniform_special` and `uniform_near` (those of equal weights), and the place of the strongest key by each of
        `PLACES`.
    """
    heads, tokens, _ = maps.shape
    query, key = np.arange(tokens)[:, None], np.arange(tokens)[None, :]
    distance = np.abs(query - key)
    logarithms = np.log(maps, out=np.zeros_like(maps), where=maps > 0)
    entropy = -(maps * logarithms).sum(axis=2)
    adjacent = np.full((2, heads, tokens), np.nan)
    adjacent[0, :, 1:] = np.diagonal(maps, -1, axis1=1, axis2=2)
    adjacent[1, :, :-1] = np.diagonal(maps, 1, axis1=1, axis2=2)
    near = (distance <= window) & ~special
    strongest, here, last = maps.argmax(axis=2), np.arange(tokens), tokens - 1
    return {
        "entropy": entropy,
        "entropy_share": entropy / np.log(tokens),
        "distance": (maps * distance).sum(axis=2),
        "uniform_distance": np.tile(distance.mean(axis=1), (heads, 1)),
        "previous": adjacent[0],
        "next": adjacent[1],
        "first": maps[:, :, 0],
        "itself": np.diagonal(maps, axis1=1, axis2=2),
        "special": (maps * special).sum(axis=2),
        "near": (maps * near).sum(axis=2),
        "far": (maps * ~(near | special)).sum(axis=2),
        "uniform_special": np.full((heads, tokens), special.mean()),
        "uniform_near": np.tile(near.mean(axis=1), (heads, 1)),
        "offset": strongest - here,
        "start": strongest,
        "end": strongest - last,
        "mirror": strongest + here - last,
    }


def head_figures(rows: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the figures of a head and its type.

    A head is `global` if its rows have more than `GLOBAL_ENTROPY` of the greatest possible entropy: then its strongest
    key says nothing. Else it is `positional` if at least `POSITIONAL_AGREEMENT` of the rows have their strongest key
    at the same place (see `PLACES`), `local` if it looks less than `LOCAL_DISTANCE` as far as equal weights would, or
    `mixed`.

    Args:
        rows: arrays [R] of one head, by the names of `rows_of`.

    Returns:
        `type`; `place` and `agreement`, the place that most rows share and their share; means over the rows of
        `MEANS`; and `distance_share`, the distance as a share of that of equal weights.

    Source:
        Voita et al. 2019 (https://arxiv.org/abs/1905.09418), section 5.1, who call a head positional if 90 % of its
        strongest keys are at one offset.
    """
    shared = [(*_most_frequent(rows[place]), place) for place in PLACES]
    agreement, number, place = max(shared, key=lambda each: each[0])  # of equal ones the first
    distance_share = rows["distance"].sum() / rows["uniform_distance"].sum()
    means = {name: float(np.nanmean(rows[name])) for name in MEANS}
    if means["entropy_share"] > GLOBAL_ENTROPY:
        kind = "global"
    elif agreement >= POSITIONAL_AGREEMENT:
        kind = "positional"
    else:
        kind = "local" if distance_share < LOCAL_DISTANCE else "mixed"
    shared_place = f"{place} {number:+d}" if number else f"{place} 0"
    found = {"type": kind, "place": shared_place, "agreement": agreement}
    return found | means | {"distance_share": float(distance_share)}


def _most_frequent(numbers: np.ndarray) -> tuple[float, int]:
    """Return the share and the value of the most frequent of some whole numbers."""
    values, counts = np.unique(numbers, return_counts=True)
    most = int(counts.argmax())
    return float(counts[most] / len(numbers)), int(values[most])
