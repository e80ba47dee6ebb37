"""LSH attention, dense and in float64: the reference for tests of `mechanism.py` and `kernels.py`. No run uses it.

It forms an N x N mask for each sequence, head and hash round.
"""

import torch
from torch import Tensor

from lib.attention.lsh.mechanism import Mechanism
from lib.attention.reference import text_by_text

EXAMPLES = {
    "lsh-h1-c4": {"kind": "lsh", "num_hashes": 1, "chunk_size": 4},
    "lsh-h3-c3-masked": {"kind": "lsh", "num_hashes": 3, "chunk_size": 3, "mask_within_chunks": True},
    "lsh-h2-c8-masked": {"kind": "lsh", "num_hashes": 2, "chunk_size": 8, "mask_within_chunks": True},
    "lsh-h2-c64": {"kind": "lsh", "num_hashes": 2, "chunk_size": 64},
    "lsh-union-h3-c3": {"kind": "lsh", "num_hashes": 3, "chunk_size": 3, "join": "union"},
    "lsh-union-masked": {"kind": "lsh", "num_hashes": 2, "chunk_size": 4, "mask_within_chunks": True, "join": "union"},
}


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return LSH attention with the mechanism's hash codes; `key` is `query`, see `text_by_text`.

    Source:
        The study reproduced, equations 3.12 to 3.23; 3.18 and 3.19 for `join: union`, which are Reformer's (Kitaev et
        al. 2020, appendix A).
    """
    settings, outputs = mechanism.settings, []
    (codes,) = mechanism.hash(query[None], torch.ones(1, query.shape[1], dtype=torch.bool))
    for of_head, of_scores, of_values in zip(codes.tolist(), scores, value, strict=True):
        rounds = [seen(of_round, settings.chunk_size, settings.mask_within_chunks) for of_round in of_head]
        if settings.join == "union":
            rounds = [[set().union(*of_token) for of_token in zip(*rounds, strict=True)]]
        of_rounds = [softmax_over(sets, of_scores, of_values) for sets in rounds]
        outputs.append(torch.stack(of_rounds).sum(0) / len(rounds))
    return torch.stack(outputs)


def seen(codes: list[int], chunk_size: int, same_bucket: bool) -> list[set[int]]:
    """Return the other tokens that each token sees in one hash round of one head of one sequence without padding.

    Args:
        codes: bucket of each token.
        chunk_size: tokens in a chunk.
        same_bucket: whether a token sees only tokens of its own bucket.
    """
    tokens = range(len(codes))
    rank = {token: place for place, token in enumerate(sorted(tokens, key=lambda token: (codes[token], token)))}
    chunks = [rank[token] // chunk_size for token in tokens]

    def sees(i: int, j: int) -> bool:
        return i != j and abs(chunks[i] - chunks[j]) <= 1 and (codes[i] == codes[j] or not same_bucket)

    return [{j for j in tokens if sees(i, j)} for i in tokens]


def softmax_over(sets: list[set[int]], scores: Tensor, value: Tensor) -> Tensor:
    """Return attention of each token to its set of others, or to itself if the set is empty.

    Args:
        sets: of each token [n].
        scores: scores of all pairs of tokens [n, n].
        value: [n, d].

    Returns:
        [n, d].
    """
    output = []
    for i, others in enumerate(sets):
        keys = sorted(others) or [i]
        output.append(torch.softmax(scores[i, keys], dim=-1) @ value[keys])
    return torch.stack(output) if output else value
