"""Which words carry a prediction: models that look at one word, gradients by finite differences, padding, TF-IDF."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from encoder_cases import EncoderForSequenceClassification
from small_studies import study
from torch import nn

from lib.analysis.computations.subject import Subject
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.tfidf.backbone import Backbone
from lib.backbones.tfidf.settings import Settings
from lib.study.shown import text_baselines
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import train_wordpiece
from studies.published.analysis.computations.reading import ModelReader, TextReader, log_odds, read_documents
from studies.published.analysis.computations.reliance import analyse, strengths_by
from studies.published.analysis.reliance import Settings as RelianceSettings

pytestmark = pytest.mark.extended

ORDINARY = str.split("the film was long and we saw it in town with many friends on some evening of a week")
KEY = "quirky"
OPTIONS = {
    "documents": 20, "length": 64, "measures": ["gradient", "words", "sentences"], "occlude": "mask",
    "amounts": [1, 0.5], "draws": 2, "examples": 1, "labels": ["bad", "good"],
}  # fmt: skip
MECHANISMS = {
    "sdpa": {"kind": "sdpa"},
    "favor": {"kind": "favor", "nb_features": 8},
    "lsh": {"kind": "lsh", "num_hashes": 2, "chunk_size": 4},
}


class OneWord(nn.Module):
    """Says `good` if a token is there, `bad` otherwise, and reads nothing else."""

    def __init__(self, vocabulary, token):
        super().__init__()
        self.embeddings = nn.Embedding(vocabulary, 4)
        with torch.no_grad():
            self.embeddings.weight[:, 0] = 0
            self.embeddings.weight[token, 0] = 1

    def get_input_embeddings(self):
        return self.embeddings

    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None):
        states = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        there = (states[..., 0] * attention_mask).sum(1)
        return SimpleNamespace(logits=torch.stack([2 - 4 * there, 4 * there - 2], dim=1))


def texts():
    """Documents of 16 words in two sentences, sorted by class; good ones have the key word somewhere."""
    generator = np.random.default_rng(0)
    found = []
    for number in range(40):
        words = list(generator.choice(ORDINARY, 16))
        if number >= 20:
            words[int(generator.integers(16))] = KEY
        words[7] += " ."
        found.append(" ".join([*words, "."]))
    return found


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    train_wordpiece(folder, texts(), vocab_size=60)  # so small that words have several pieces
    return TextTokenizer.load(folder).backend


@pytest.fixture(scope="module")
def tokens(tokenizer):
    ids = [tokenizer(text)["input_ids"] for text in texts()]
    columns = {"id": [f"d{number}" for number in range(40)], "input_ids": ids, "length": list(map(len, ids))}
    return Dataset.from_dict(columns | {"label": [int(number >= 20) for number in range(40)]})


def encoder(mechanism, seed=0):
    torch.manual_seed(seed)
    config = EncoderConfig(
        vocab_size=100, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        num_labels=3, mechanism=mechanism, initializer_range=0.5,
    )  # fmt: skip
    return EncoderForSequenceClassification(config).eval()


@pytest.fixture(scope="module")
def subject(tokenizer, tokens):
    # The first piece of the key word, since no other word begins with q.
    token = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(KEY))[0]
    assert sum(ids.count(token) for ids in tokens["input_ids"][:]) == 20
    return Subject("one", "films", 3, tokenizer, tokens, OneWord(len(tokenizer), token), lambda model: None)


@pytest.fixture(scope="module")
def classifier():
    found = Backbone(Settings(kind="tfidf", C=1.0, class_weight=None, min_df=1, max_df=1.0), seed=0)
    found.fit(pd.Series(texts()), pd.Series([int(number >= 20) for number in range(40)]))
    return found


@pytest.fixture(scope="module")
def frame(subject, classifier):
    return analyse(subject, **OPTIONS, text_baseline=classifier)


def value(frame, measure, change, amount, quantity):
    rows = frame[(frame["part"] == "curve") & (frame["measure"] == measure) & (frame["quantity"] == quantity)]
    rows = rows[rows["amount"].isna()] if amount is None else rows[rows["amount"] == amount]
    (found,) = rows.loc[rows["change"].isna() if change is None else rows["change"] == change, "value"]
    return found


def test_documents_of_a_sorted_split(subject):
    found = read_documents(subject, 10, 64)
    assert len(found) == 10
    assert {document.label for document in found} == {0, 1}
    again = read_documents(subject._replace(name="other"), 10, 64)
    assert [document.name for document in again] == [document.name for document in found]


def test_words_and_sentences_of_a_document(subject, tokenizer):
    (document, *_) = [each for each in read_documents(subject, 40, 64) if each.name == "d25"]
    assert document.words == texts()[25].split()
    assert [document.words[place] for place in document.ranked] == [word for word in document.words if word != "."]
    first_end = document.words.index(".")
    assert document.sentence.tolist() == [int(place > first_end) for place in range(len(document.words))]
    assert (document.word[[0, -1]] == -1).all()
    assert (np.diff(document.word[1:-1]) >= 0).all()
    for number, word in enumerate(document.words):
        pieces = document.ids[document.word == number]
        assert tokenizer.convert_ids_to_tokens(pieces.tolist()) == tokenizer.tokenize(word)
    (cut, *_) = [each for each in read_documents(subject, 40, 7) if each.name == "d25"]
    assert cut.ids.tolist() == [*document.ids[:6], tokenizer.sep_token_id]


@pytest.mark.parametrize("measure", ["gradient", "words"])
def test_strengths_of_a_model_of_one_word(subject, tokenizer, measure):
    reader = ModelReader(subject.trained(), tokenizer, "mask")
    for document in read_documents(subject, 40, 64):
        strengths = strengths_by(measure, reader, document, target=1)
        others = np.delete(strengths, document.words.index(KEY)) if document.label else strengths
        assert others == pytest.approx(0, abs=1e-5)
        if document.label:
            assert strengths[document.words.index(KEY)] == pytest.approx(8, abs=1e-5)


def test_curves_of_a_model_of_one_word(frame):
    assert value(frame, "none", None, None, "f1") == 1
    for measure in ("gradient", "words"):
        assert value(frame, measure, "removed", 1.0, "accuracy") < 0.8  # all of them are `bad` now
        assert value(frame, measure, "kept", 1.0, "f1") == 1
        assert value(frame, measure, "removed", 1.0, "fall_minus_random") > 0.2
    assert value(frame, "tfidf", "removed", 1.0, "f1") == value(frame, "words", "removed", 1.0, "f1")
    assert value(frame, "random", "removed", 1.0, "f1") > value(frame, "words", "removed", 1.0, "f1")


def test_intervals_and_means_of_curves(frame):
    curves = frame[frame["part"] == "curve"]
    assert (curves["low"] <= curves["value"] + 1e-12).all()
    assert (curves["value"] <= curves["high"] + 1e-12).all()
    falls = [value(frame, "words", "removed", amount, "fall") for amount in (1.0, 0.5)]
    assert value(frame, "words", "removed", None, "fall") == pytest.approx(np.mean(falls))
    assert set(curves["documents"]) == {20}


def test_reliance_by_seed(subject, classifier, frame):
    pd.testing.assert_frame_equal(frame, analyse(subject, **OPTIONS, text_baseline=classifier))
    other = analyse(subject._replace(seed=4), **OPTIONS, text_baseline=classifier)
    assert not other.equals(frame)


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_gradient_by_finite_differences(subject, tokenizer, mechanism):
    """The derivative by the scale of a word's embeddings, in double precision."""
    model = encoder(mechanism).double()
    reader = ModelReader(model, tokenizer, "mask")
    document = read_documents(subject, 3, 12)[0]
    found = reader.gradient(document, target=1)
    ids, step = torch.from_numpy(document.ids)[None], 1e-6
    embeddings = model.get_input_embeddings()(ids).detach()
    for place in document.ranked:
        scaled = []
        for scale in (1 + step, 1 - step):
            factor = torch.from_numpy(np.where(document.word == place, scale, 1.0))[None, :, None]
            with torch.no_grad():
                logits = model(attention_mask=torch.ones_like(ids), inputs_embeds=embeddings * factor).logits
            scaled.append(log_odds(logits.log_softmax(-1).numpy(), 1)[0])
        assert found[place] == pytest.approx((scaled[0] - scaled[1]) / (2 * step), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize(("name", "occlude"), [("sdpa", "mask"), ("lsh", "remove"), ("favor", "remove")])
def test_versions_in_a_batch(subject, tokenizer, name, occlude):
    """Versions with words removed have different lengths, so they stand beside padding in a batch."""
    reader = ModelReader(encoder(MECHANISMS[name]), tokenizer, occlude)
    document = read_documents(subject, 2, 64)[0]
    gone = np.tri(len(document.words), dtype=bool)
    together = reader.log_probabilities(document, gone)
    alone = np.concatenate([reader.log_probabilities(document, row[None]) for row in gone])
    assert together == pytest.approx(alone, abs=1e-5)
    assert np.exp(together).sum(axis=1) == pytest.approx(1)


def test_versions_with_masked_or_removed_words(subject, tokenizer):
    model = encoder({"kind": "sdpa"})
    document = read_documents(subject, 2, 64)[0]
    gone = np.zeros((1, len(document.words)), dtype=bool)
    gone[0, [1, 4]] = True
    absent = np.isin(document.word, [1, 4])
    versions = {"mask": np.where(absent, tokenizer.mask_token_id, document.ids), "remove": document.ids[~absent]}
    for occlude, ids in versions.items():
        found = ModelReader(model, tokenizer, occlude).log_probabilities(document, gone)
        with torch.no_grad():
            expected = model(input_ids=torch.from_numpy(ids)[None]).logits.double().log_softmax(-1)
        assert found == pytest.approx(expected.numpy(), abs=1e-5)


@pytest.mark.parametrize(("unit", "classes"), [("words", 2), ("characters", 3)])
def test_contributions_to_the_decision_of_tfidf(subject, classes, unit):
    labels = pd.Series([number % classes for number in range(40)])
    fitted = Backbone(Settings(kind="tfidf", C=1.0, class_weight=None, unit=unit, min_df=1, max_df=1.0), seed=0)
    fitted.fit(pd.Series(texts()), labels)
    reader = TextReader(fitted, classes, "mask")
    vectors, regression = fitted.classifier
    for document in read_documents(subject, 5, 64):
        decisions = regression.decision_function(vectors.transform([" ".join(document.words)]))[0]
        decisions = np.array([-decisions, decisions]) if classes == 2 else decisions
        biases = np.array([-1, 1]) * regression.intercept_ if classes == 2 else regression.intercept_
        for target in range(classes):
            total = (decisions - biases)[target]
            if classes > 2:
                total -= np.delete(decisions - biases, target).mean()
            assert reader.contributions(document, target).sum() == pytest.approx(total)


@pytest.mark.parametrize(
    "options",
    [
        {"ngram_max": 4, "max_features": 30, "max_df": 0.4},
        {"unit": "characters", "ngram_max": 5, "max_features": 60, "min_df": 4},
        {"part": [0.5, 1]},
    ],
)
def test_contributions_to_shown_tfidf(subject, options):
    """With the intercept, to the log-odds of the probabilities that the row itself gives."""
    values = {"kind": "tfidf", "C": 1.0, "class_weight": None} | options
    graph = study(("backbones/tfidf", values)).graph
    shown = text_baselines(graph, RelianceSettings(kind="reliance", stage="finetune", dataset="imdb"))
    assert (not shown) == ("part" in options)
    if not shown:
        return
    fitted = Backbone(graph.backbone_at(shown[0], "finetune", "imdb"), seed=0)
    fitted.fit(pd.Series(texts()), pd.Series([int(number >= 20) for number in range(40)]))
    reader, intercept = TextReader(fitted, 2, "mask"), fitted.classifier[1].intercept_[0]
    for document in read_documents(subject, 8, 64):
        whole = reader.log_probabilities(document, np.zeros((1, len(document.words)), dtype=bool))
        for target, sign in ((0, -1), (1, 1)):
            total = reader.contributions(document, target).sum() + sign * intercept
            assert total == pytest.approx(log_odds(whole, target)[0])
