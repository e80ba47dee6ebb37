"""The baseline on word vectors by itself: means, weights, what it learns and what it cannot learn from."""

import numpy as np
import pandas as pd
import pytest
from word_vectors import stored

from lib.backbones.settings import BACKBONES
from lib.core.errors import DataError

pytestmark = pytest.mark.extended

WORDS = {"dull": [1, 0], "tiresome": [0.8, 0.1], "bright": [0, 1], "lively": [0.1, 0.8], "story": [0.4, 0.4]}
TEXTS = ["A dull, tiresome story.", "A bright, lively story!"]


@pytest.fixture
def folder(tmp_path):
    return str(stored(tmp_path / "v", WORDS))


def documents(labels):
    return pd.DataFrame({"text": [f"{TEXTS[label % 2]} {'story' * (n % 3)}" for n, label in enumerate(labels)],
                         "label": labels})  # fmt: skip


def made(folder, **settings):
    fixed = {"C": 1.0, "class_weight": None, "vectors": "v", "vectors_folder": folder}
    parameters = BACKBONES.parse({"kind": "word_vectors"} | fixed | settings)
    return BACKBONES.load("word_vectors", "backbone").Backbone(parameters, seed=0)


def fitted(folder, frame, **settings):
    backbone = made(folder, **settings)
    backbone.fit(frame["text"], frame["label"])
    return backbone


@pytest.mark.parametrize("weighting", ["none", "tfidf"])
def test_classes_of_unseen_words(folder, weighting, tmp_path):
    frame = pd.DataFrame({"text": ["dull story", "bright story"] * 10, "label": [0, 1] * 10})
    backbone, stored_fit = fitted(folder, frame, weighting=weighting), made("gone", weighting=weighting)
    found = backbone.class_probabilities(pd.Series(["tiresome", "lively"]), 3)
    backbone.save(tmp_path / "model")
    stored_fit.load(tmp_path / "model")
    assert (stored_fit.class_probabilities(pd.Series(["tiresome", "lively"]), 3) == found).all()
    assert found.argmax(axis=1).tolist() == [0, 1]
    assert found.sum(axis=1) == pytest.approx(np.ones(2))
    assert (found[:, 2] == 0).all()


def test_text_as_mean_of_its_words(folder):
    backbone = fitted(folder, documents([0, 1] * 10))
    means = backbone._means(pd.Series(["dull DULL bright unheard", "unheard", ""]))
    assert means.tolist() == [pytest.approx([2 / 3, 1 / 3]), [0, 0], [0, 0]]


def test_weights_by_rarity(folder):
    frame = pd.DataFrame({"text": ["dull story", "bright story", "dull", "bright"], "label": [0, 1, 0, 1]})
    means = fitted(folder, frame, weighting="tfidf")._means(pd.Series(["dull bright", "dull lively"]))
    dull, unseen = np.log(5 / 3) + 1, np.log(5 / 1) + 1  # as scikit-learn smooths them
    lively = np.array(WORDS["lively"])
    assert means[0] == pytest.approx([0.5, 0.5])
    assert means[1] == pytest.approx((dull * np.array([1, 0]) + unseen * lively) / (dull + unseen))


def test_probabilities_repeat(folder):
    frame = documents([0, 1] * 10)
    one, two = (fitted(folder, frame).class_probabilities(frame["text"], 2) for _ in range(2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"text": ["x y", "z"], "label": [0, 1]}), "no word of 2 documents has a vector"),
        (documents([1] * 10), "only one class in training; expected at least two"),
    ],
)
def test_baseline_refused(folder, frame, message):
    with pytest.raises(DataError, match=message):
        fitted(folder, frame)


def test_record_of_the_vectors(folder):
    assert made(folder).parameters.folders() == {"word_vectors": folder}
    assert made(None).parameters.folders() == {}
