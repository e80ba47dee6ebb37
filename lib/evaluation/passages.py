"""The passages of a text that decide its class, and how far they do.

n texts, C classes, W words of a text. Words are those of Unicode: single signs in scripts without spaces between words.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import regex

from lib.core.randomness import derive_seed

Probabilities = Callable[[Sequence[str]], np.ndarray]
"""Returns the probabilities of the classes of texts [n, C]."""

MOST_SEGMENTS = 32
"""Segments that a text is cut into, at most."""
LONGEST_SENTENCE = 50
"""Words above which a sentence is cut into equal parts."""
DECIMALS = 6
"""Decimals of weights; more would be rounding errors of models in single precision."""
MEASURES = ("comprehensiveness", "sufficiency")
_WORD = regex.compile(r"(?sw)(?:(?<!\S)[^\w\s]+)?[\w\p{So}].*?\b")
"""A word, with the punctuation before it."""
_SENTENCE_END = regex.compile(r"[\p{SB=AT}\p{SB=ST}]+\p{SB=CL}*\s|\p{SB=ST}\p{SB=CL}*|\n")
"""Classes are those of Unicode Standard Annex 29, section 5. Abbreviations end sentences, too."""


class Passage(NamedTuple):
    """A passage that speaks for the class of a text, with all places where it is."""

    spans: list[tuple[int, int]]
    """Begin and end of each place, in characters of the text."""
    weight: float
    """How much it speaks for the class, in the unit of the function that found it."""


def by_removal(text: str, probabilities: Probabilities, count: int) -> list[Passage]:
    """Return the segments of a text without which its class loses the most probability, the strongest first.

    Segments adjoin. They are sentences; long ones are cut into equal parts, and a text of one sentence is cut into
    words. If there are more than `MOST_SEGMENTS`, neighbours are joined to that many equal groups.

    Args:
        text: as it is written.
        probabilities: of any classifier; called once. Segments that it does not read, such as the end of a text that
            it cuts, are no passages.
        count: number of passages, at most.

    Returns:
        Passages of one place each. The weight is the probability of the predicted class less that without the passage,
        and above 0. A text of fewer than two words has no passages.
    """
    if len(_words(text)) < 2:
        return []
    segments = _segments(text)
    scores = np.asarray(probabilities([text, *(text[:start] + text[end:] for start, end in segments)]))
    losses = (scores[0].max() - scores[1:, scores[0].argmax()]).round(DECIMALS)
    strongest = np.argsort(-losses, kind="stable")[:count]
    return [Passage([segments[place]], float(losses[place])) for place in strongest if losses[place] > 0]


def faithfulness(
    texts: Sequence[str], passages: Sequence[Sequence[Passage]], probabilities: Probabilities, draws: int, seed: int = 0
) -> pd.DataFrame:
    """Return how the probability of the predicted class falls without the passages of texts, and with these alone.

    Passages consist of complete words here: a word that a passage has a part of belongs to it. Random passages have
    the same number of words, in runs of the same lengths, which are put between the other words at random: each order
    has the same chance. So they differ from the passages in where they are, not in how much of the text is removed or
    in how long the pieces are. They need not begin where a sentence does.

    Args:
        texts: at least one.
        passages: of each text.
        probabilities: of the classifier; called once for each text.
        draws: random passages of each text; their results are averaged.
        seed: of the draws.

    Returns:
        One row per text: `comprehensiveness`, `sufficiency`, `random_comprehensiveness`, `random_sufficiency`, and
        `words`, the share of its words in passages. Passages are faithful if the first is high and the second low.

    Source:
        DeYoung et al. 2020, ERASER (https://aclanthology.org/2020.acl-main.408), section 4.2, equations 1 and 2.
    """
    rows = []
    for number, (text, found) in enumerate(zip(texts, passages, strict=True)):
        generator = np.random.default_rng(derive_seed("random passages", seed, number))
        words, spans = _words(text), [span for passage in found for span in passage.spans]
        own = np.array([any(text[max(start, s) : min(end, e)].strip() for s, e in spans) for start, end in words])
        chosen = [own, *(_elsewhere(own, generator) for _ in range(draws))]
        parts = [text[start:end] for start, end in words]
        versions = ["".join(itertools.compress(parts, kept)) for those in chosen for kept in (~those, those)]
        whole, *changed = np.asarray(probabilities([text, *versions]))
        falls = whole.max() - np.array(changed)[:, whole.argmax()].reshape(-1, 2)
        rows.append([*falls[0], *falls[1:].mean(axis=0), own.mean()])
    return pd.DataFrame(rows, columns=[*MEASURES, *(f"random_{name}" for name in MEASURES), "words"])


def _words(text: str) -> list[tuple[int, int]]:
    """Return the begin and end of each word with the signs after it [W]; together they are the text."""
    starts = [0, *[match.start() for match in _WORD.finditer(text)][1:]]
    return list(itertools.pairwise([*starts, len(text)]))


def _segments(text: str) -> list[tuple[int, int]]:
    """Return the begin and end of each segment, see `by_removal`."""
    starts = [start for start, _ in _words(text)]
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    sentences = np.split(starts, np.flatnonzero(np.diff(np.searchsorted(ends, starts, side="right"))) + 1)
    longest = LONGEST_SENTENCE if len(sentences) > 1 else 1
    firsts = [part[0] for words in sentences for part in np.array_split(words, 1 + (len(words) - 1) // longest)]
    groups = np.array_split(firsts, min(MOST_SEGMENTS, len(firsts)))
    return list(itertools.pairwise([*(int(group[0]) for group in groups), len(text)]))


def _elsewhere(words: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return as many runs of words, of the same lengths, at random places [W]."""
    begins, ends = np.flatnonzero(np.diff(words, prepend=False, append=False)).reshape(-1, 2).T
    lengths = np.concatenate([ends - begins, np.zeros((~words).sum(), dtype=int)])  # 0: a word of no run
    lengths = generator.permutation(lengths)
    return np.repeat(lengths > 0, np.maximum(lengths, 1))
