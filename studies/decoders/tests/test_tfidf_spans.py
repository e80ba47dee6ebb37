"""The baselines that find spans: what they learn, what they cannot learn from."""

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from lib.backbones.settings import BACKBONES
from lib.core.errors import DataError

TEXTS = pd.Series([f"plain words, wicked lies! then {number} plain words" for number in range(20)])


def inside(texts):
    return [np.array([13 <= place < 24 for place in range(len(text))]) for text in texts]


def fitted(kind, texts=TEXTS, marks=None, **settings):
    fixed = {"C": 1.0, "class_weight": None} if kind == "tfidf_spans" else {}
    backbone = BACKBONES.load(kind, "backbone").Backbone(BACKBONES.parse({"kind": kind} | fixed | settings), seed=0)
    backbone.fit(texts, inside(texts) if marks is None else marks)
    return backbone


def test_everything_is_one_piece():
    backbone = fitted("everything")
    assert backbone.pieces(pd.Series(["ab c", "d"])) == [([0], [4], [1.0]), ([0], [1], [1.0])]
    assert backbone.weights == 0


def test_words_are_told_by_what_stands_around_them():
    (found,) = fitted("tfidf_spans", window=3, C=100).pieces(pd.Series([" so: wicked lies!  plain words"]))
    assert list(zip(found.starts, found.ends, strict=True)) == [(1, 4), (5, 11), (12, 17), (19, 24), (25, 30)]
    assert [probability > 0.5 for probability in found.probabilities] == [False, True, True, False, False]


def test_settings_reach_the_vectoriser():
    features = fitted("tfidf_spans", ngram_min=3, ngram_max=3).classifier[0].get_feature_names_out()
    assert {len(feature) for feature in features} == {3}
    assert fitted("tfidf_spans", max_features=7).weights == 7 + 1
    with pytest.raises(ValidationError, match="ngram_min = 5 is above ngram_max = 4"):
        BACKBONES.parse({"kind": "tfidf_spans", "ngram_min": 5})


def test_what_nothing_can_be_learnt_from_is_refused():
    with pytest.raises(DataError, match="all words of training lie in spans, or none does"):
        fitted("tfidf_spans", marks=[np.zeros(len(text), bool) for text in TEXTS])
    with pytest.raises(DataError, match="no n-gram around 160 words.*count.*min_df = 1000"):
        fitted("tfidf_spans", min_df=1000)
