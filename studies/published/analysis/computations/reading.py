"""Documents as words that can be removed, and the two kinds of models that read the rest.

Shapes: W words, N tokens, P versions of a document, C classes, D width of an embedding.
"""

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.special import logsumexp
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lib.analysis.computations.subject import Subject
from lib.backbones.contract import TextClassifier
from lib.core.errors import ConfigError, DataError
from lib.core.randomness import derive_seed
from lib.reading.words import ends_sentence
from lib.tokens.batches import pad_ids
from lib.tokens.masking import word_edges

BATCH_TOKENS = 8192
"""Tokens that a model reads at once."""
LEAST = 1e-300
"""Probability used in place of 0, which has no logarithm."""


class Document(NamedTuple):
    """A document that a model reads, and its words."""

    name: str
    label: int
    ids: np.ndarray
    """Token ids [N]."""
    word: np.ndarray
    """To which word each token belongs [N]; -1 = to none, as [CLS] and [SEP]."""
    words: list[str]
    """The words as text [W]."""
    ranked: np.ndarray
    """The places of the words with a letter or a digit, which are ranked and taken away; punctuation is not."""
    sentence: np.ndarray
    """To which sentence each word belongs [W]."""


def read_documents(subject: Subject, count: int, length: int) -> list[Document]:
    """Return documents of a subject that have a word, at most `count`, drawn without replacement.

    They are drawn since a split may be sorted by class. The draw depends on the seed and the length of the split alone,
    so that all models read the same documents. What is longer than `length` tokens is cut as the tokeniser cuts: a
    [SEP] at the end stays there. A word is what the tokeniser takes for one: WordPiece separates punctuation, others
    the text between white space.

    Raises:
        DataError: fewer than two documents have a word, or they have no label each.
    """
    if "label" not in subject.tokens.column_names:
        raise DataError(f"{subject.dataset}: its documents have no label each. Choose another dataset.")
    tokenizer = subject.tokenizer
    vocabulary = tokenizer.get_vocab()
    is_special = np.zeros(max(vocabulary.values()) + 1, dtype=bool)
    is_special[[number for number in tokenizer.all_special_ids if number < is_special.size]] = True
    edges = word_edges(tokenizer, is_special)
    is_special[[number for number in [tokenizer.unk_token_id] if number is not None]] = False
    found: list[Document] = []
    generator = np.random.default_rng(derive_seed("reliance", subject.dataset, subject.seed))
    order = generator.permutation(len(subject.tokens))
    for row in subject.tokens.select_columns(["id", "input_ids", "label"]).select(order):
        if len(found) == count:
            break
        ids = np.array(row["input_ids"])
        if len(ids) > length:
            ids = np.append(ids[: length - 1], ids[-1 if ids[-1] == tokenizer.sep_token_id else length - 1])
        document = _document(str(row["id"]), int(row["label"]), ids, is_special, edges.begins, edges.ends, tokenizer)
        if len(document.ranked):
            found.append(document)
    if len(found) < 2:
        raise DataError(
            f"{subject.dataset}: {len(found)} documents have a word; expected two at least. Check the dataset."
        )
    return found


def _document(
    name: str,
    label: int,
    ids: np.ndarray,
    is_special: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
    tokenizer: PreTrainedTokenizerBase,
) -> Document:
    ordinary = ~is_special[ids]
    after = np.append(True, ends[ids[:-1]] | ~ordinary[:-1])  # the previous token ends a word
    word = np.where(ordinary, np.cumsum(ordinary & (begins[ids] | after)) - 1, -1)
    tokens = tokenizer.convert_ids_to_tokens(ids.tolist())
    words = [
        tokenizer.convert_tokens_to_string([tokens[place] for place in np.flatnonzero(word == number)]).strip()
        for number in range(word.max() + 1)
    ]
    ended = list(map(ends_sentence, words))
    sentence = np.cumsum([False, *ended[:-1]]) if words else np.zeros(0, dtype=int)
    ranked = np.array([any(map(str.isalnum, text)) for text in words], dtype=bool).nonzero()[0]
    return Document(name, label, ids, word, words, ranked, sentence)


class Reader(ABC):
    """A model that classifies documents with some words removed."""

    @abstractmethod
    def log_probabilities(self, document: Document, gone: np.ndarray) -> np.ndarray:
        """Return the model's probabilities for versions of a document.

        Args:
            document: to read.
            gone: which words each version lacks [P, W].

        Returns:
            Logarithms of the probabilities [P, C].
        """


class ModelReader(Reader):
    """Reads tokens: those of words that are gone become the mask token, or leave the document.

    Args:
        model: in evaluation mode, with a head that classifies documents.
        tokenizer: of the model.
        occlude: `mask` or `remove`.

    Raises:
        ConfigError: the tokeniser has no mask token.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, occlude: str) -> None:
        if occlude == "mask" and tokenizer.mask_token_id is None:
            raise ConfigError(
                f"occlude = 'mask': {tokenizer.name_or_path or 'the tokeniser'} has no mask token. Set occlude: remove."
            )
        self.model, self.occlude = model, occlude
        self.mask, self.padding = tokenizer.mask_token_id, tokenizer.pad_token_id or 0

    @torch.no_grad()
    def log_probabilities(self, document: Document, gone: np.ndarray) -> np.ndarray:
        """See `Reader.log_probabilities`."""
        absent = (document.word >= 0) & gone[:, document.word.clip(0)]  # [P, N]
        if self.occlude == "mask":
            rows: list[np.ndarray] = list(np.where(absent, self.mask, document.ids))
        else:
            # One token stays where the tokeniser encloses by none, since a model reads at least one.
            rows = [row if (row := document.ids[~each]).size else document.ids[:1] for each in absent]
        size = max(1, BATCH_TOKENS // len(document.ids))
        found = []
        for first in range(0, len(rows), size):
            batch = rows[first : first + size]
            ids, mask = pad_ids(batch, max(map(len, batch)), self.padding)
            logits = self.model(input_ids=ids, attention_mask=mask).logits
            found.append(logits.double().log_softmax(-1).numpy())
        return np.concatenate(found)

    def gradient(self, document: Document, target: int) -> np.ndarray:
        """Return gradient times input of each word [W].

        That is the derivative of the log-odds of class `target` with respect to a token's word embedding, times that
        embedding, summed over the tokens of a word.

        Source:
            Shrikumar et al. 2016 (https://arxiv.org/abs/1605.01713), section 2.
        """
        ids = torch.from_numpy(document.ids)[None]
        embeddings = self.model.get_input_embeddings()(ids).detach().requires_grad_()
        logits = self.model(attention_mask=torch.ones_like(ids), inputs_embeds=embeddings).logits[0]
        others = torch.cat([logits[:target], logits[target + 1 :]]).logsumexp(0)
        (gradient,) = torch.autograd.grad(logits[target] - others, embeddings)
        by_token = (gradient * embeddings).detach().sum(-1)[0].double().numpy()
        real = document.word >= 0
        return np.bincount(document.word[real], by_token[real], minlength=len(document.words))


class TextReader(Reader):
    """Reads the words of a document as a text. A removed word leaves a gap that n-grams do not cross.

    Args:
        classifier: of kind `tfidf`, fitted.
        classes: number of classes.
        occlude: `mask`, or `remove`, which leaves no gap.
    """

    def __init__(self, classifier: TextClassifier, classes: int, occlude: str) -> None:
        self.classifier, self.classes = classifier, classes
        self.vectors, self.regression = classifier.classifier  # type: ignore[attr-defined]  # of its kind
        self.by_characters = self.vectors.analyzer == "char"
        phrases = self.vectors.vocabulary_
        known = {part for phrase in phrases for part in (phrase if self.by_characters else phrase.split())}
        unused = map(chr, range(0xE000, 0xF900)) if self.by_characters else ("q" + "x" * n for n in itertools.count(1))
        gap = next(each for each in unused if each not in known)
        self.gap = gap if occlude == "mask" else ""

    def log_probabilities(self, document: Document, gone: np.ndarray) -> np.ndarray:
        """See `Reader.log_probabilities`."""
        texts = [
            " ".join(self.gap if absent else word for word, absent in zip(document.words, row, strict=True))
            for row in gone
        ]
        return np.log(self.classifier.class_probabilities(pd.Series(texts), self.classes).clip(LEAST))

    def contributions(self, document: Document, target: int) -> np.ndarray:
        """Return what each word adds to the decision for class `target` against the mean of the others [W].

        The weight of an n-gram times its TF-IDF value is divided equally between the n-gram's places, and between the
        words of a place. The sum over all words and the intercept is the decision itself.
        """
        settings, last = self.vectors, len(document.words) - 1
        split, prepare = settings.build_tokenizer(), settings.build_preprocessor()
        glue = "" if self.by_characters else " "
        parts = [
            (token, place)
            for place, word in enumerate(document.words)
            for token in (prepare(f"{word} " if place < last else word) if self.by_characters else split(prepare(word)))
        ]
        places: list[tuple[int, list[int]]] = []  # of every known n-gram: its feature, and its words
        for length in range(settings.ngram_range[0], settings.ngram_range[1] + 1):
            for run in zip(*(parts[shift:] for shift in range(length)), strict=False):
                feature = settings.vocabulary_.get(glue.join(token for token, _ in run))
                if feature is not None:
                    places.append((feature, [place for _, place in run]))
        counts = Counter(feature for feature, _ in places)
        values = settings.transform([" ".join(document.words)]).toarray()[0]
        weights = self._weights(target)
        found = np.zeros(len(document.words))
        for feature, words in places:
            for place in words:
                found[place] += weights[feature] * values[feature] / counts[feature] / len(words)
        return found

    def _weights(self, target: int) -> np.ndarray:
        """Return the weights of the features for a class against the mean of the others; 0 if it was never seen."""
        coefficients = self.regression.coef_
        if len(coefficients) == 1:
            coefficients = np.concatenate([-coefficients, coefficients])
        known = list(self.regression.classes_)
        if target not in known:
            return np.zeros(coefficients.shape[1])
        own = known.index(target)
        if len(self.regression.coef_) == 1:
            return coefficients[own]
        return coefficients[own] - np.delete(coefficients, own, axis=0).mean(axis=0)


def log_odds(log_probabilities: np.ndarray, target: int) -> np.ndarray:
    """Return the log-odds of a class [P], from logarithms of probabilities [P, C]."""
    return log_probabilities[:, target] - logsumexp(np.delete(log_probabilities, target, axis=1), axis=1)


def one_by_one(groups: Sequence[np.ndarray], words: int) -> np.ndarray:
    """Return versions of a document, each without the words of one group [P, W]."""
    gone = np.zeros((len(groups), words), dtype=bool)
    for row, group in zip(gone, groups, strict=True):
        row[group] = True
    return gone


def sentences(document: Document) -> Iterator[np.ndarray]:
    """Yield the places of the words of each sentence."""
    for number in range(document.sentence[-1] + 1):
        yield np.flatnonzero(document.sentence == number)
