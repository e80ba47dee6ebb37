"""A word's contextual states compared with its static embedding: whether they separate the classes of the documents."""

import itertools
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import silhouette_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from transformers import PreTrainedTokenizerBase

from lib.analysis.computations.subject import Subject
from lib.core.errors import ConfigError, DataError
from lib.core.randomness import derive_seed
from lib.reading.words import words_of

FOLDS = 5


@torch.no_grad()
def analyse(subject: Subject, *, documents: int, word: str, labels: Sequence[str]) -> pd.DataFrame:
    """Return one row per document that holds the word and per representation of it, by the trained model.

    `contextual` is the state of the last layer at the word's first place in the document; `static` is the embedding of
    its token there, whatever the document is about. A word has one token, or two if a tokeniser tells whether a space
    stands before it, as byte-level BPE does.

    Args:
        subject: a run on documents with one label each.
        documents: how many documents are read: the first of the split that hold the word.
        word: one token of the vocabulary, at the beginning of a text or behind a space.
        labels: names of the classes.

    Returns:
        `representation`, `word`, `document` (its `id`), `label`, `x` and `y` (the first two principal components; all
        static ones lie in the origin if they are of one token), and of all documents together `silhouette` and
        `accuracy` (see `separation`).

    Raises:
        ConfigError: the word is not one token.
        DataError: documents have no label each, or those with the word are too few of a class, or of one class only.
    """
    if "label" not in subject.tokens.column_names:
        raise DataError(
            f"{subject.dataset}: its documents have no labels, which the comparison of states needs. Choose "
            "another dataset."
        )
    tokenizer, model = subject.tokenizer, subject.trained()
    spelled = [tokenizer.encode(text, add_special_tokens=False) for text in (word, f" {word}")]
    tokens = {pieces[0] for pieces in spelled if len(pieces) == 1} - {tokenizer.unk_token_id}
    if not tokens:
        shown = " and, behind a space, ".join(str(tokenizer.convert_ids_to_tokens(pieces)) for pieces in spelled)
        raise ConfigError(f"word = {word!r}: is {shown} to the tokeniser, expected one token. Choose another word.")
    found = list(_holding(subject, tokens, documents))
    senses = np.array([label for *_, label in found], dtype=int)
    counts = {labels[label]: int((senses == label).sum()) for label in sorted(set(senses))}
    if len(counts) < 2 or min(counts.values()) < FOLDS:
        raise DataError(
            f"word = {word!r}: documents of {subject.dataset} with it by class: {counts}. Expected at least "
            f"{FOLDS} of two classes or more. Choose another word, or read more documents."
        )
    states = [model.base_model(input_ids=torch.tensor([ids])).last_hidden_state[0, place] for _, ids, place, _ in found]
    contextual = torch.stack(states).double().numpy()
    static = model.get_input_embeddings().weight[[ids[place] for _, ids, place, _ in found]].double().numpy()
    frames = []
    for name, vectors in (("static", static), ("contextual", contextual)):
        differ = (vectors != vectors[0]).any()
        places = PCA(2).fit_transform(vectors) if differ else np.zeros((len(found), 2))
        silhouette, accuracy = separation(vectors, senses, subject.seed)
        columns = {
            "representation": name,
            "word": word,
            "document": [document for document, *_ in found],
            "label": [labels[sense] for sense in senses],
            "x": places[:, 0],
            "y": places[:, 1],
            "silhouette": silhouette,
            "accuracy": accuracy,
        }
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def separation(vectors: np.ndarray, labels: np.ndarray, seed: int) -> tuple[float, float]:
    """Return how well vectors separate labels.

    Args:
        vectors: [n, D].
        labels: [n], at least `FOLDS` of each class.
        seed: of the folds.

    Returns:
        The mean silhouette by label, -1 to 1 (0 if all vectors are the same), and the accuracy of a logistic
        regression on standardised vectors, as a mean over `FOLDS` cross-validation folds.

    Source:
        Rousseeuw 1987 (https://doi.org/10.1016/0377-0427(87)90125-7), the silhouette.
    """
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=derive_seed("folds", seed) % 2**32)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    accuracy = cross_val_score(classifier, vectors, labels, cv=folds).mean()
    return float(silhouette_score(vectors, labels)), float(accuracy)


def _holding(subject: Subject, tokens: Collection[int], count: int) -> Iterator[tuple[str, list[int], int, int]]:
    """Yield id, token ids, place of the word and label of the first documents that hold a word of one of `tokens`."""
    columns = (subject.tokens[name][:] for name in ("id", "input_ids", "label"))
    holding = (
        (document, ids, place, label)
        for document, ids, label in zip(*columns, strict=True)
        if (place := _first(subject.tokenizer, ids, tokens)) is not None
    )
    yield from itertools.islice(holding, count)


def _first(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], tokens: Collection[int]) -> int | None:
    """Return the first place of one of `tokens` where it is a whole word, and not a part of one; None = there is none.

    A token without a space before it may continue a word (`river` and `bank`), and any may be continued.
    """

    def text(*pieces: int) -> str:
        return tokenizer.decode(pieces, clean_up_tokenization_spaces=False)

    for place, token in enumerate(ids):
        if token not in tokens:
            continue
        own = text(token)
        before, after = (text(*ids[place - 1 : place + 1]) if place else own), text(*ids[place : place + 2])
        word = own.strip()
        if not (
            _are_one_word(before.removesuffix(own.lstrip())[-1:], word[:1])
            or _are_one_word(word[-1:], after.removeprefix(own)[:1])
        ):
            return place
    return None


def _are_one_word(left: str, right: str) -> bool:
    """Whether two adjoining characters belong to one word."""
    return left.isalnum() and right.isalnum() and len(words_of(left + right)) == 1
