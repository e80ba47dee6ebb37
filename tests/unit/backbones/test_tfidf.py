"""The baseline by itself: what it learns, what it cannot learn from."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.svm import LinearSVC

from lib.backbones.settings import BACKBONES
from lib.backbones.tfidf.backbone import ngrams, part_bounds, part_of
from lib.core.errors import DataError

FIXED = {"C": 1.0, "class_weight": None}
WORDS = ["dull tiresome story", "bright lively story", "green cheese sings"]


def documents(labels):
    texts = [f"{WORDS[label]} number {number % 4}" for number, label in enumerate(labels)]
    return pd.DataFrame({"text": texts, "label": labels})


def unfitted(**settings):
    return BACKBONES.load("tfidf", "backbone").Backbone(BACKBONES.parse({"kind": "tfidf"} | FIXED | settings), seed=0)


def fitted(frame, **settings):
    backbone = unfitted(**settings)
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
    backbone = unfitted()
    pairs = frame[["text", "text_pair"]]
    backbone.fit(pairs, frame["label"])
    assert (backbone.class_probabilities(pairs, 2).argmax(axis=1) == frame["label"]).all()
    assert not backbone.has_passages
    assert backbone.weights == 4 * len(backbone.classifier[0].vectorizer.vocabulary_) + 1


PARTS = [(0, 0.25), (0.2, 0.7), (0.6, 0.61), (0, 1)]
LETTERS = st.text(alphabet=st.sampled_from("aBİßΣǅ .,'-_\n\t\u00a0\u0301\u0131e9好"), max_size=60)


@given(LETTERS, st.sampled_from(["words", "characters"]), st.integers(1, 3), st.integers(0, 2), st.sampled_from(PARTS))
def test_ngrams_where_they_are(whole, unit, least, more, part):
    vectors = TfidfVectorizer(analyzer={"words": "word"}.get(unit, "char"), ngram_range=(least, least + more))
    read, same = vectors.build_analyzer(), {0x3C2: 0x3C3}  # Σ becomes either sigma, by the letters around it
    text = whole[slice(*part_bounds(whole, part, unit))]
    found = list(ngrams(text, vectors))
    assert [ngram for ngram, _, _ in found] == read(part_of(whole, part, unit))
    for ngram, start, end in found:
        assert ngram.translate(same) in [each.translate(same) for each in read(text[start:end])]


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2], [1, 3]])
@pytest.mark.parametrize("settings", [{}, {"unit": "characters", "ngram_max": 3}, {"part": (0.0, 0.6)}])
def test_passages_by_losses_of_the_decision(labels, settings):
    """Their weights are the losses of the decision without one n-gram after the other."""
    rows = [(f"{WORDS[label % 3]} number {n % 4}", label) for n in range(20) for label in labels]
    backbone = fitted(pd.DataFrame(rows, columns=["text", "label"]), min_df=1, max_df=1.0, **settings)
    text = "A  Lively, DULL\nstory -- number 3 is a lively story; the rest is not"
    vectors, regression = backbone.classifier
    read = part_of(text, settings.get("part", (0, 1)), settings.get("unit", "words"))
    (features,) = vectors.transform([read]).toarray()
    scores = regression.decision_function([features, *(features * (1 - one) for one in np.eye(len(features)))])
    scores = np.stack([-scores, scores], axis=1) / 2 if len(labels) == 2 else scores
    for place, label in enumerate(labels):
        decisions = scores[:, place] - np.delete(scores, place, axis=1).mean(axis=1)
        losses = decisions[0] - decisions[1:]
        found = [passage.weight for passage in backbone.passages(text, label, 1000)]
        assert found == pytest.approx(sorted(losses[losses > 5e-7], reverse=True), abs=1e-6)


def test_passages_at_all_places():
    backbone = fitted(documents([0, 1] * 20), max_df=1.0)
    text = "A LIVELY, story. Dull? lively\n  Story!"
    found = [[text[slice(*span)] for span in passage.spans] for passage in backbone.passages(text, 1, 2)]
    assert found == [["LIVELY", "lively"], ["LIVELY, story", "lively\n  Story"]]
    assert backbone.passages("", 1, 3) == backbone.passages("nothing known", 1, 3) == []
    with pytest.raises(ValueError, match="7 is not in list"):
        backbone.passages(text, 7, 1)


TOPICS = ["tax", "fish", "law", "none has it", "all have it"]
DECISIONS = {
    "logistic": LogisticRegression(C=3.0, class_weight="balanced", max_iter=1000),
    "svm": LinearSVC(C=3.0, class_weight="balanced", max_iter=1000, random_state=0),
    "ridge": RidgeClassifier(alpha=1 / 6, class_weight="balanced"),
}


def with_sets(count, seed=0):
    """Return documents of up to four topics, whose words lean to them."""
    rng = np.random.default_rng(seed)
    has = rng.random((count, 3)) < [0.5, 0.3, 0.1]
    words = [[*np.array(TOPICS[:3])[row], *rng.choice([*TOPICS[:3], "net", "court"], 3)] for row in has]
    labels = [[*map(int, np.flatnonzero(row)), 4] for row in has]
    return pd.DataFrame({"text": [" ".join(each) for each in words], "label": labels})


def fitted_to_sets(frame, **settings):
    backbone = unfitted(**settings)
    backbone.sets, backbone.labels = True, TOPICS
    backbone.fit(frame["text"], frame["label"])
    return backbone


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.filterwarnings("ignore:Label")
def test_one_class_against_the_rest_is_scikit_learns(decision, tmp_path):
    """Also of a class that no document has, one that all have, and weights of classes by their names; after loading."""
    train, test = with_sets(80), with_sets(30, seed=1)["text"]
    own = fitted_to_sets(train, decision=decision, C=3.0, class_weight="balanced")
    features, read = clone(own.classifier[0]).fit_transform(train["text"]), own.classifier[0].transform(test)
    has = MultiLabelBinarizer(classes=range(5)).fit_transform(train["label"])
    rest = OneVsRestClassifier(DECISIONS[decision]).fit(features, has)
    expected = rest.predict_proba(read) if decision == "logistic" else expit(rest.decision_function(read))
    expected[:, 3:] = [0, 1]
    found = own.class_probabilities(test, 5)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    own.save(tmp_path)
    again = unfitted(decision=decision)
    again.sets = True
    again.load(tmp_path)
    np.testing.assert_array_equal(again.class_probabilities(test, 5), found)
    weighed = fitted_to_sets(train, decision=decision, C=3.0, class_weight={"law": 7.0}).classifier[1]
    for number, weight in ((0, 1), (2, 7)):
        alone = clone(DECISIONS[decision]).set_params(class_weight={0: 1, 1: weight}).fit(features, has[:, number])
        np.testing.assert_allclose(weighed.coef_[number], alone.coef_.ravel(), rtol=0, atol=1e-12)


def test_documents_with_one_set_of_classes():
    with pytest.raises(DataError, match="only one set of classes"):
        fitted_to_sets(with_sets(9).assign(label=[[0, 2]] * 9))
