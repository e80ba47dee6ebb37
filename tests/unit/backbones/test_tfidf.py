"""The baseline by itself: what it learns, what it cannot learn from."""

import numpy as np
import pandas as pd
import pytest

from lib.backbones.settings import BACKBONES
from lib.core.errors import DataError

FIXED = {"C": 1.0, "class_weight": None}
WORDS = ["dull tiresome story", "bright lively story", "green cheese sings"]


def documents(labels):
    texts = [f"{WORDS[label]} number {number % 4}" for number, label in enumerate(labels)]
    return pd.DataFrame({"text": texts, "label": labels})


def fitted(frame, **settings):
    parameters = BACKBONES.parse({"kind": "tfidf"} | FIXED | settings)
    backbone = BACKBONES.load("tfidf", "backbone").Backbone(parameters, seed=0)
    backbone.fit(frame["text"], frame["label"])
    return backbone


def test_classes_and_one_that_was_never_seen():
    probabilities = fitted(documents([0, 1] * 20)).class_probabilities(documents([0, 1, 1, 2])["text"], 3)
    assert probabilities.shape == (4, 3)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(4))
    assert (probabilities[:, 2] == 0).all()
    assert probabilities.argmax(axis=1).tolist()[:3] == [0, 1, 1]
    assert fitted(documents([0, 1] * 20), max_features=3).weights == 3 + 1
    assert fitted(documents([0, 1, 2] * 20), max_features=3).weights == 3 * (3 + 1)


def test_class_in_the_middle_that_was_never_seen():
    probabilities = fitted(documents([0, 2] * 20)).class_probabilities(documents([0, 2])["text"], 3)
    assert probabilities.argmax(axis=1).tolist() == [0, 2]
    assert (probabilities[:, 1] == 0).all()


def test_settings_reach_the_vectoriser():
    frame = documents([0, 1] * 20)

    def features(**settings):
        return fitted(frame, **settings).classifier[0].get_feature_names_out()

    assert len(features(max_features=3)) == 3
    assert not [name for name in features(ngram_max=1) if " " in name]
    assert {name.count(" ") for name in features(ngram_max=3)} == {0, 1, 2}
    assert "story" in features(max_df=1.0)
    assert "story" not in features(max_df=0.9)
    rare = pd.concat([frame, pd.DataFrame({"text": ["unheard"], "label": [0]})])
    assert "unheard" in fitted(rare, min_df=1).classifier[0].vocabulary_
    assert "unheard" not in fitted(rare, min_df=2).classifier[0].vocabulary_


CHINESE = ["房间很小不干净", "服务很好位置方便", "菜太咸了不好吃"]


def chinese(count=60):
    """Reviews without spaces, no two of which are alike."""
    texts = [f"{CHINESE[n % 3]}{chr(0x4E00 + 17 * n)}{chr(0x5E00 + 13 * n)}" for n in range(count)]
    return pd.DataFrame({"text": texts, "label": [n % 3 for n in range(count)]})


def test_texts_without_spaces():
    frame = chinese()
    with pytest.raises(DataError, match="unit: characters"):
        fitted(frame)
    found = fitted(frame, unit="characters", ngram_max=3)
    assert found.featureless == 0
    assert (found.class_probabilities(frame["text"], 3).argmax(axis=1) == frame["label"]).all()
    assert {len(ngram) for ngram in found.classifier[0].get_feature_names_out()} == {1, 2, 3}


def test_documents_without_a_feature(caplog):
    frame = pd.concat([documents([0, 1] * 20), chinese(10)])
    found = fitted(frame)
    assert found.featureless == 10 / 50
    assert "20.0 %" in caplog.text
    assert "unit: characters" in caplog.text
    found.class_probabilities(documents([0, 1])["text"], 3)
    assert found.featureless == 0
    found.class_probabilities(chinese(4)["text"], 3)
    assert found.featureless == 1


def test_pairs_by_what_their_texts_share():
    """Neither text alone tells the class: it is whether both are of the same subject."""
    subjects = ["cheese", "weather", "music", "chess"]
    rows = [
        (f"{first} number {place}", f"about {second}", int(first == second))
        for place in range(8)
        for first in subjects
        for second in subjects
    ]
    frame = pd.DataFrame(rows, columns=["text", "text_pair", "label"])
    backbone = BACKBONES.load("tfidf", "backbone").Backbone(BACKBONES.parse({"kind": "tfidf"} | FIXED), seed=0)
    pairs = frame[["text", "text_pair"]]
    backbone.fit(pairs, frame["label"])
    assert (backbone.class_probabilities(pairs, 2).argmax(axis=1) == frame["label"]).all()
    assert backbone.weights == 4 * len(backbone.classifier[0].vectorizer.vocabulary_) + 1
