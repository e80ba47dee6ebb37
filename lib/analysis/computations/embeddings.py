"""A word's contextual states compared with its static embedding: whether they separate the classes of the documents."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import silhouette_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib.analysis.computations.subject import Subject
from lib.core.errors import ConfigError, DataError
from lib.core.randomness import derive_seed

FOLDS = 5


@torch.no_grad()
def analyse(subject: Subject, *, documents: int, word: str, labels: Sequence[str]) -> pd.DataFrame:
    """Return one row per document that holds the word and per representation of it, by the trained model.

    `contextual` is the state of the last layer at the word's first place in the document; `static` is its word
    embedding, the same in every document, whatever the document is about.

    Args:
        subject: a run on documents with one label each.
        documents: how many documents are read: the first of the split that hold the word.
        word: one token of the vocabulary.
        labels: names of the classes.

    Returns:
        `representation`, `word`, `document` (its `id`), `label`, `x` and `y` (the first two principal components; all
        static ones lie in the origin), and of all documents together `silhouette` and `accuracy` (see `separation`).

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
    pieces = tokenizer.encode(word, add_special_tokens=False)
    if len(pieces) != 1 or pieces[0] == tokenizer.unk_token_id:
        shown = tokenizer.convert_ids_to_tokens(pieces)
        raise ConfigError(f"word = {word!r}: is {shown} to the tokeniser, expected one token. Choose another word.")
    found = list(_holding(subject, pieces[0], documents))
    senses = np.array([label for _, _, label in found], dtype=int)
    counts = {labels[label]: int((senses == label).sum()) for label in sorted(set(senses))}
    if len(counts) < 2 or min(counts.values()) < FOLDS:
        raise DataError(
            f"word = {word!r}: documents of {subject.dataset} with it by class: {counts}. Expected at least "
            f"{FOLDS} of two classes or more. Choose another word, or read more documents."
        )
    states = [
        model.base_model(input_ids=torch.tensor([ids])).last_hidden_state[0, ids.index(pieces[0])]
        for _, ids, _ in found
    ]
    contextual = torch.stack(states).double().numpy()
    static = model.get_input_embeddings().weight[pieces].double().numpy().repeat(len(found), axis=0)
    frames = []
    for name, vectors in (("static", static), ("contextual", contextual)):
        places = PCA(2).fit_transform(vectors) if name == "contextual" else np.zeros((len(found), 2))
        silhouette, accuracy = separation(vectors, senses, subject.seed)
        columns = {
            "representation": name,
            "word": word,
            "document": [document for document, _, _ in found],
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


def _holding(subject: Subject, token: int, count: int) -> Iterator[tuple[str, list[int], int]]:
    """Yield id, token ids and label of the first documents that hold `token`."""
    columns = (subject.tokens[name][:] for name in ("id", "input_ids", "label"))
    holding = (row for row in zip(*columns, strict=True) if token in row[1])
    yield from (row for _, row in zip(range(count), holding, strict=False))
