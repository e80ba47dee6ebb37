"""Which attention heads point from a word to the word that it belongs to, in sentences whose relations are known.

Shapes: L layers, H heads, N tokens, W words, S sentences.
"""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lib.analysis.computations.subject import Subject
from lib.core.errors import ConfigError
from lib.evaluation.statistics import Estimate, holm
from studies.published.analysis.computations.sentences import Sentence, generate, text_of
from studies.published.analysis.relations import NAMES

CONFIDENCE = 0.95
OFFSETS = tuple(offset for offset in range(-10, 11) if offset)
DIRECTIONS = ("attends", "is attended")
"""Which word a head relates to a word: that to which it attends most, or that which attends most to it."""
KNOWN = 0.5
"""Share of the words that a tokeniser must know."""


class Scores(NamedTuple):
    """How often candidates are right about one relation in the sentences of one half."""

    right: np.ndarray
    """Right pairs of each candidate, by sentence [candidates, S]; sentences without the relation are left out."""
    pairs: np.ndarray
    """All pairs, by sentence [S]."""

    def accuracy(self) -> np.ndarray:
        """Return the share of right pairs of each candidate."""
        return self.right.sum(axis=1) / self.pairs.sum()

    def estimate(self, candidate: int) -> Estimate:
        """Return the share of right pairs of a candidate, to be had with its interval over sentences."""
        right, pairs = self.right[candidate], self.pairs
        left_out = (right.sum() - right) / (pairs.sum() - pairs)
        return Estimate(self.accuracy()[[candidate]], left_out[:, None])

    def difference(self, candidate: int, other: "Scores", its: int) -> Estimate:
        """Return how much more often a candidate is right than another one on the same sentences."""
        own, theirs = self.estimate(candidate), other.estimate(its)
        return Estimate(own.values - theirs.values, own.left_out - theirs.left_out)


@torch.no_grad()
def analyse(subject: Subject, *, sentences: int) -> pd.DataFrame:
    """Return how often each head points from a word to its related one, before and after training.

    A head relates a word to the other word to which it attends most (`attends`), or which attends most to it (`is
    attended`); [CLS] and [SEP] do not count. Attention to a word is the sum over its tokens, attention of a word the
    mean. The best fixed offset is what a head must surpass. Head with direction and offset are chosen on one half of
    the sentences and scored on the other, so that the choice among many heads does not flatter them. Nouns, verbs,
    names and adjectives before nouns are others in each half.

    Args:
        subject: a run whose backbone gives attention maps.
        sentences: how many are generated, in both halves together.

    Returns:
        `when` (before, after), `relation`, `by` (`head`, `offset`), `direction`, `layer`, `head` (counted from 0),
        `offset` (words), `pairs` (scored), `choosing` and `accuracy` (shares of right pairs in either half), `low` and
        `high` (of the latter, 95 % over sentences), and whether it is `chosen`. Rows of chosen heads also have the
        `difference` to the chosen offset with `difference_low` and `difference_high`, and its `p` after Holm's
        correction over the relations.

    Raises:
        ConfigError: the model gives no attention weights, or its tokeniser does not know the words.

    Source:
        Clark et al. 2019 (https://aclanthology.org/W19-4828), section 4.1 for words, 4.2 and 4.3 for heads. They choose
        and score on the same sentences.
    """
    frames = []
    for when, model in subject.models():
        halves = [
            scores_of(model, subject.tokenizer, generate(sentences // 2, half, subject.seed)) for half in range(2)
        ]
        frames.append(pd.DataFrame(_rows(*halves)).assign(when=when))
    frame = pd.concat(frames, ignore_index=True)
    return frame[["when", *frame.columns.drop("when")]]


def scores_of(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence]
) -> tuple[dict[str, Scores], list[tuple[int, int]]]:
    """Return by relation what all heads and offsets score, and the heads, each as (layer, head), counted from 0.

    Candidates are directions and heads, in this order; after them offsets. Each sentence is read by itself, so there
    is no padding.

    Raises:
        ConfigError: see `analyse`.
    """
    right: dict[str, list[np.ndarray]] = defaultdict(list)
    pairs: dict[str, list[int]] = defaultdict(list)
    known = total = 0
    for sentence in sentences:
        text, spans = text_of(sentence)
        encoded = tokenizer(text, return_offsets_mapping=True)
        ids, places = encoded["input_ids"], encoded["offset_mapping"]
        words = words_of(places, spans)
        known += sum(all(ids[place] != tokenizer.unk_token_id for place in word) for word in words)
        total += len(sentence.words)
        if not all(map(len, words)):
            raise ConfigError(
                f"{tokenizer.name_or_path or 'the tokeniser'}: makes no token of a word in {text!r}. Expected one that "
                "reads English; leave out this model."
            )
        maps = model.base_model(input_ids=torch.tensor([ids]), output_attentions=True).attentions
        layers = [layer for layer, each in enumerate(maps or ()) if each is not None]
        if not layers:
            raise ConfigError(
                f"{type(model).__name__}: gives no attention weights. Choose a mechanism that does, or load a "
                "published model with attn_implementation='eager'."
            )
        attention = word_attention(torch.cat([maps[layer] for layer in layers]).double().numpy(), words)  # [L, H, W, W]
        strongest = np.stack([related(attention), related(attention.swapaxes(-1, -2))])  # [2, L, H, W]
        for kind in NAMES:
            found = [(dependent, head) for name, dependent, head in sentence.relations if name == kind]
            if found:
                dependents, related_to = np.array(found).T
                by_head = (strongest[..., dependents] == related_to).sum(axis=-1).ravel()
                by_offset = (dependents + np.array(OFFSETS)[:, None] == related_to).sum(axis=-1)
                right[kind].append(np.concatenate([by_head, by_offset]))
                pairs[kind].append(len(found))
    if known < KNOWN * total:
        raise ConfigError(
            f"{tokenizer.name_or_path or 'the tokeniser'}: knows {known} of {total} words of the sentences. Expected "
            "one that reads English; leave out this model."
        )
    heads = list(itertools.product(layers, range(attention.shape[1])))
    return {kind: Scores(np.stack(right[kind], axis=1), np.array(pairs[kind])) for kind in NAMES}, heads


def words_of(tokens: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return which tokens each word has, both as (start, end) in characters; tokens of no character are in none."""
    return [
        [place for place, (start, end) in enumerate(tokens) if start < stop and end > first and end > start]
        for first, stop in words
    ]


def word_attention(maps: np.ndarray, words: Sequence[Sequence[int]]) -> np.ndarray:
    """Return attention between words [..., W, W] from that between tokens [..., N, N].

    Args:
        maps: attention weights.
        words: the places of the tokens of each word; what is in no word, as [CLS], is left out.

    Returns:
        To a word, the sum over its tokens; of a word, the mean.

    Source:
        Clark et al. 2019, section 4.1.
    """
    belongs = np.zeros((len(words), maps.shape[-1]))
    for row, places in zip(belongs, words, strict=True):
        row[list(places)] = 1
    return belongs / belongs.sum(axis=1, keepdims=True) @ maps @ belongs.T


def related(attention: np.ndarray) -> np.ndarray:
    """Return to which other word each attends most [..., W], from attention between words [..., W, W]."""
    others = attention.copy()
    here = np.arange(attention.shape[-1])
    others[..., here, here] = -np.inf
    return others.argmax(axis=-1)


def _rows(
    choosing: tuple[dict[str, Scores], list[tuple[int, int]]], scoring: tuple[dict[str, Scores], list[tuple[int, int]]]
) -> list[dict[str, Any]]:
    """Return the rows of one state of the training; see `analyse`."""
    (chosen_on, each), (scored_on, _) = choosing, scoring
    by_direction = list(itertools.product(DIRECTIONS, each))
    heads = len(by_direction)
    rows: list[dict[str, Any]] = []
    best_rows = []
    for kind in NAMES:
        before, after = chosen_on[kind].accuracy(), scored_on[kind]
        best, offset = int(before[:heads].argmax()), heads + int(before[heads:].argmax())
        for candidate, accuracy in enumerate(after.accuracy()):
            low, high = after.estimate(candidate).score_interval(CONFIDENCE)
            row = {
                "relation": kind, "by": "head" if candidate < heads else "offset", "direction": None, "layer": None,
                "head": None, "offset": None, "pairs": int(after.pairs.sum()), "choosing": before[candidate],
                "accuracy": accuracy, "low": low, "high": high, "chosen": candidate in (best, offset),
            }  # fmt: skip
            if candidate < heads:
                direction, (layer, head) = by_direction[candidate]
                row |= {"direction": direction, "layer": layer, "head": head}
            else:
                row["offset"] = OFFSETS[candidate - heads]
            if candidate == best:
                apart = after.difference(best, after, offset)
                ends = apart.difference_interval(CONFIDENCE)
                row |= {"difference": apart.mean, "difference_low": ends[0], "difference_high": ends[1]}
                row["p"] = apart.p_value()
                best_rows.append(row)
            rows.append(row)
    for row, p in zip(best_rows, holm([row["p"] for row in best_rows]), strict=True):
        row["p"] = float(p)
    return rows
