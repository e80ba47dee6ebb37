"""The words that a prediction relies on, and how it changes without the strongest ones or with them alone.

Shapes: n documents, W words of one of them, K amounts, P orders of its words, C classes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lib.analysis.computations.subject import Subject
from lib.backbones.contract import TextClassifier
from lib.core.randomness import derive_seed
from lib.evaluation.statistics import Estimate, PairedPredictions
from studies.published.analysis.computations.reading import (
    Document,
    ModelReader,
    Reader,
    TextReader,
    log_odds,
    one_by_one,
    read_documents,
    sentences,
)

CONFIDENCE = 0.95
TFIDF, RANDOM = "tfidf", "random"
"""Orders of words that those by a model's own measures are compared with."""
CHANGES = ("removed", "kept")
DECIMALS = 6
"""Strengths are rounded to so few decimals before they are compared; the first of equal words comes first."""


class Versions(NamedTuple):
    """Predictions of a model for documents without some of their words."""

    labels: np.ndarray
    """True classes [n]."""
    predictions: np.ndarray
    """Predicted classes of the unchanged documents [n]."""
    probabilities: np.ndarray
    """Probabilities of the predicted classes [n]."""
    changed: dict[str, tuple[np.ndarray, np.ndarray]]
    """New prediction, and probability of the old class, by order: [n, draws, 2, K] each."""
    shared: dict[str, np.ndarray]
    """Share of the strongest words that TF-IDF also finds strongest, by order [n, K]."""
    chance: np.ndarray
    """Which share would be at random [n, K]."""


def analyse(
    subject: Subject,
    *,
    documents: int,
    length: int,
    measures: Sequence[str],
    occlude: str,
    amounts: Sequence[float],
    draws: int,
    examples: int,
    labels: Sequence[str],
    text_baseline: TextClassifier | None = None,
) -> pd.DataFrame:
    """Return how predictions change without the strongest words of each document, and with them alone.

    A word is a place in the document: a word that occurs twice has two strengths. A strength is a change of the
    log-odds of the class that the model predicts for the whole document, so that it does not fade where the probability
    is near 1; a strong word speaks for this class. Documents are read as they are cut to `length`.

    Args:
        subject: a run that classifies documents, or the classifier of texts that it is compared with.
        documents: how many documents are read, at most.
        length: tokens that they are cut to.
        measures: `gradient` times input, the occlusion of `words`, that of `sentences` (a word has the strength of its
            sentence). A classifier of texts has no gradient.
        occlude: `mask` replaces tokens, `remove` takes them away.
        amounts: numbers of words, and shares below 1.
        draws: random orders per document.
        examples: documents whose words come with their strengths.
        labels: names of the classes [C].
        text_baseline: fitted classifier of texts; its words with the greatest weights are another order.

    Returns:
        Rows of two kinds (`part`). `curve`: by `measure` (`tfidf` and `random` included), `change` (the strongest words
        are `removed`, or `kept` alone) and `amount`, a `quantity` with `value`, `low` and `high` (interval of 95 % over
        documents for the given model). Quantities: `accuracy`, `f1` (macro), `probability` (of the class predicted for
        the whole document), `fall` (how far that lies below its value for the whole document: comprehensiveness and
        sufficiency), `fall_minus_random`, `f1_minus_random`, the same `_minus_tfidf`, and `shared_with_tfidf` with
        its `chance`. Falls without an `amount` are means over all amounts; measure `none` is the whole document.
        `word`: `document`, `label`, `prediction`, `probability`, `place`, `word`, `measure` and `value`, its strength;
        none for punctuation, which is not ranked.

    Raises:
        DataError: fewer than two documents have a word, or they have no label each.
        ConfigError: the tokeniser has no mask token.

    Source:
        DeYoung et al. 2020, ERASER (https://aclanthology.org/2020.acl-main.408), section 4.2: comprehensiveness,
        sufficiency and their means over shares of the tokens. Theirs are removed; here `occlude` decides.
    """
    texts = read_documents(subject, documents, length)
    words = None if text_baseline is None else TextReader(text_baseline, len(labels), occlude)
    reader: Reader
    if words is not None and subject.classifier is not None:
        reader, measures = words, [measure for measure in measures if measure != "gradient"]
    else:
        reader = ModelReader(subject.trained(), subject.tokenizer, occlude)
    rows: list[dict[str, Any]] = []
    found = []
    for number, document in enumerate(texts):
        whole = reader.log_probabilities(document, np.zeros((1, len(document.words)), dtype=bool))[0]
        target = int(whole.argmax())
        strengths = {name: strengths_by(name, reader, document, target) for name in measures}
        if words is not None:
            strengths[TFIDF] = words.contributions(document, target)
        found.append(_versions(reader, document, whole, strengths, amounts, draws, subject.seed))
        if number < examples:
            rows += _word_rows(document, strengths, labels, target, float(np.exp(whole[target])))
    curves = _curves(_joined(found), amounts, len(labels))
    frame = pd.concat([pd.DataFrame(curves).assign(part="curve", documents=len(texts)), pd.DataFrame(rows)])
    return frame[["part", *frame.columns.drop("part")]].reset_index(drop=True)


def strengths_by(measure: str, reader: Reader, document: Document, target: int) -> np.ndarray:
    """Return how strongly each word speaks for a class [W], by a measure of `Settings`."""
    count = len(document.words)
    if measure == "gradient":
        assert isinstance(reader, ModelReader)
        return reader.gradient(document, target)
    groups = [document.ranked[[place]] for place in range(len(document.ranked))]
    if measure == "sentences":
        groups = list(sentences(document))
    gone = np.concatenate([np.zeros((1, count), dtype=bool), one_by_one(groups, count)])
    whole, *without = log_odds(reader.log_probabilities(document, gone), target)
    found = np.zeros(count)
    for group, rest in zip(groups, without, strict=True):
        found[group] = whole - rest
    return found


def numbers_of(amounts: Sequence[float], words: int) -> list[int]:
    """Return the number of words of each amount in a document: at least one, at most all."""
    return [min(words, max(1, math.ceil(amount * words - 1e-9) if amount < 1 else int(amount))) for amount in amounts]


def _versions(
    reader: Reader,
    document: Document,
    whole: np.ndarray,
    strengths: Mapping[str, np.ndarray],
    amounts: Sequence[float],
    draws: int,
    seed: int,
) -> Versions:
    """Return predictions for one document without its first words of each order, and with these alone."""
    ranked, count = document.ranked, len(document.words)
    orders = {
        name: ranked[np.argsort(-values[ranked].round(DECIMALS), kind="stable")][None]
        for name, values in strengths.items()
    }
    orders[RANDOM] = np.stack(
        [
            np.random.default_rng(derive_seed("reliance", seed, document.name, draw)).permutation(ranked)
            for draw in range(draws)
        ]
    )
    numbers = numbers_of(amounts, len(ranked))
    gone = []
    for order in np.concatenate(list(orders.values())):
        first = np.stack([np.isin(np.arange(count), order[:number]) for number in numbers])  # [K, W]
        gone.append(np.stack([first, ~first]))
    versions = np.stack(gone)  # [P, 2, K, W]
    said = reader.log_probabilities(document, versions.reshape(-1, count)).reshape(*versions.shape[:3], -1)
    target = whole.argmax()
    classes, probabilities = said.argmax(-1), np.exp(said[..., target])  # [P, 2, K]
    ends = np.cumsum([len(rows) for rows in orders.values()])[:-1]
    changed = zip(orders, np.split(classes, ends), np.split(probabilities, ends), strict=True)
    shared = {}
    if TFIDF in orders:
        theirs = orders[TFIDF][0]
        for name, (order, *_) in orders.items():
            if name not in (TFIDF, RANDOM):
                shared[name] = np.array([[np.isin(order[:number], theirs[:number]).mean() for number in numbers]])
    return Versions(
        np.array([document.label]),
        np.array([target]),
        np.exp(whole[[target]]),
        {name: (own[None], probability[None]) for name, own, probability in changed},
        shared,
        np.array([[number / len(ranked) for number in numbers]]),
    )


def _joined(parts: Sequence[Versions]) -> Versions:
    """Return the predictions for all documents together."""
    labels, predictions, probabilities, chance = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("labels", "predictions", "probabilities", "chance")
    )
    changed = {
        name: (
            np.concatenate([part.changed[name][0] for part in parts]),
            np.concatenate([part.changed[name][1] for part in parts]),
        )
        for name in parts[0].changed
    }
    shared = {name: np.concatenate([part.shared[name] for part in parts]) for name in parts[0].shared}
    return Versions(labels, predictions, probabilities, changed, shared, chance)


def _curves(found: Versions, amounts: Sequence[float], classes: int) -> list[dict[str, Any]]:
    """Return the rows of part `curve`; see `analyse`."""

    def f1(predictions: np.ndarray, others: np.ndarray | None = None) -> Estimate:
        """Return macro-F1 as the mean over draws, and less that of others if there are any; predictions [n, draws]."""
        parts = [predictions] if others is None else [predictions, others]
        weights = [np.full(part.shape[1], sign / part.shape[1]) for part, sign in zip(parts, (1, -1), strict=False)]
        versions = np.concatenate(parts, axis=1).T[None]  # [1, draws, n]
        names, places = [str(draw) for draw in range(versions.shape[1])], np.arange(len(found.labels))
        return PairedPredictions(names, found.labels, versions, places, classes).combined(np.concatenate(weights))

    whole = {"measure": "none", "change": None, "amount": None}
    right = found.predictions == found.labels
    rows: list[dict[str, Any]] = [
        whole | {"quantity": "accuracy"} | _score(_mean(right)),
        whole | {"quantity": "f1"} | _score(f1(found.predictions[:, None])),
        whole | {"quantity": "probability"} | _score(_mean(found.probabilities)),
    ]
    for measure, (predictions, probabilities) in found.changed.items():
        others = [other for other in (RANDOM, TFIDF) if other != measure and other in found.changed]
        for change, name in enumerate(CHANGES):
            own = found.probabilities[:, None] - probabilities.mean(axis=1)[:, change]  # [n, K]
            beside = {
                other: found.probabilities[:, None] - found.changed[other][1].mean(axis=1)[:, change]
                for other in others
            }
            for place, amount in enumerate(amounts):
                key = {"measure": measure, "change": name, "amount": float(amount)}
                now = predictions[:, :, change, place]
                rows += [
                    key | {"quantity": "accuracy"} | _score(_mean((now == found.labels[:, None]).mean(axis=1))),
                    key | {"quantity": "f1"} | _score(f1(now)),
                    key | {"quantity": "probability"} | _score(_mean(probabilities.mean(axis=1)[:, change, place])),
                    key | {"quantity": "fall"} | _difference(_mean(own[:, place])),
                ]
                for other in others:
                    apart = f1(now, found.changed[other][0][:, :, change, place])
                    fall = _mean(own[:, place] - beside[other][:, place])
                    rows.append(key | {"quantity": f"f1_minus_{other}"} | _difference(apart))
                    rows.append(key | {"quantity": f"fall_minus_{other}"} | _difference(fall))
                if name == "removed" and measure in found.shared:
                    chance = {"chance": found.chance[:, place].mean()}
                    shared = _mean(found.shared[measure][:, place])
                    rows.append(key | {"quantity": "shared_with_tfidf"} | _score(shared) | chance)
            key = {"measure": measure, "change": name, "amount": None}
            rows.append(key | {"quantity": "fall"} | _difference(_mean(own.mean(axis=1))))
            for other in others:
                fall = _mean((own - beside[other]).mean(axis=1))
                rows.append(key | {"quantity": f"fall_minus_{other}"} | _difference(fall))
    return rows


def _mean(values: np.ndarray) -> Estimate:
    """Return the mean over documents of values [n]."""
    left_out = (values.sum() - values) / (len(values) - 1)
    return Estimate(np.array([values.mean()]), left_out[:, None])


def _score(estimate: Estimate) -> dict[str, float]:
    low, high = estimate.score_interval(CONFIDENCE)
    return {"value": estimate.mean, "low": low, "high": high}


def _difference(estimate: Estimate) -> dict[str, float]:
    low, high = estimate.difference_interval(CONFIDENCE)
    return {"value": estimate.mean, "low": low, "high": high}


def _word_rows(
    document: Document, strengths: Mapping[str, np.ndarray], labels: Sequence[str], target: int, probability: float
) -> list[dict[str, Any]]:
    """Return the rows of part `word` of one document."""
    about = {
        "part": "word", "document": document.name, "label": labels[document.label], "prediction": labels[target],
        "probability": probability,
    }  # fmt: skip
    ranked = set(document.ranked.tolist())
    return [
        about | {"measure": measure, "place": place, "word": word, "value": values[place] if place in ranked else None}
        for measure, values in strengths.items()
        for place, word in enumerate(document.words)
    ]
