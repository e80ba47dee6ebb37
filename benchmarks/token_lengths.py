"""How long real documents are, in tokens, where none are at hand."""

from collections.abc import Mapping, Sequence

import numpy as np

QUANTILES: Mapping[str, Sequence[int]] = {
    "wikipedia": (
        181, 239, 261, 282, 307, 335, 364, 390, 418, 459, 510,
        551, 604, 666, 743, 854, 989, 1221, 1576, 2322, 19_391,
    ),
    "imdb": (
        14, 81, 121, 141, 152, 162, 171, 181, 194, 207, 221,
        238, 260, 288, 315, 351, 400, 460, 556, 724, 2813,
    ),
    "hyperpartisan": (
        1434, 1530, 1565, 1595, 1639, 1683, 1714, 1813, 1882, 1925, 1976,
        2088, 2181, 2250, 2322, 2431, 2459, 2853, 3243, 4737, 6864,
    ),
    "arxiv": (
        371, 1405, 2035, 2480, 2898, 3316, 3653, 4219, 4498, 4983, 5364,
        5780, 6319, 6820, 7386, 7850, 8781, 10_206, 11_836, 14_116, 27_065,
    ),
}  # fmt: skip
"""Tokens of documents before they are cut: the quantiles 0, 0.05, ..., 1.

With BERT's vocabulary, of samples of real texts: IMDb's reviews; 3,000 articles of Wikipedia with at least 1,000
characters; 65 articles of Hyperpartisan (by article) with at least 7,000 characters; 605 papers of arXiv.
"""


def typical_lengths(name: str, documents: int, limit: int) -> np.ndarray:
    """Return the tokens of documents like those of a corpus, cut to a limit [documents].

    Args:
        name: of the corpus; documents of those that are not in `QUANTILES` all have `limit` tokens.
        documents: how many.
        limit: most tokens of a document.
    """
    quantiles = QUANTILES.get(name, (limit,))
    lengths = np.interp((np.arange(documents) + 0.5) / documents, np.linspace(0, 1, len(quantiles)), quantiles)
    return np.minimum(lengths.round().astype(int), limit)
