"""The baselines that find spans: what they learn, what they cannot learn from."""

import numpy as np
import pandas as pd
import pytest

from lib.backbones.settings import BACKBONES

pytestmark = pytest.mark.extended

TEXTS = pd.Series([f"plain words, wicked lies! then {number} plain words" for number in range(20)])


def inside(texts):
    return [np.array([13 <= place < 24 for place in range(len(text))]) for text in texts]


def fitted(kind, texts=TEXTS, marks=None, **settings):
    fixed = {"C": 1.0, "class_weight": None} if kind == "tfidf_spans" else {}
    backbone = BACKBONES.load(kind, "backbone").Backbone(BACKBONES.parse({"kind": kind} | fixed | settings), seed=0)
    backbone.fit(texts, inside(texts) if marks is None else marks)
    return backbone


def test_words_told_by_their_surroundings():
    (found,) = fitted("tfidf_spans", window=3, C=100).pieces(pd.Series([" so: wicked lies!  plain words"]))
    assert list(zip(found.starts, found.ends, strict=True)) == [(1, 4), (5, 11), (12, 17), (19, 24), (25, 30)]
    assert [probability > 0.5 for probability in found.probabilities] == [False, True, True, False, False]
