"""Vectors by encoders that do not train, and the decision on them, against transformers and scikit-learn themselves."""

import json
from itertools import pairwise
from shutil import copyfile

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC
from transformers import AutoTokenizer, BertConfig, BertModel, T5Config, T5Model

from lib.backbones.text_encoder import StateEncoder, open_encoder
from lib.core.errors import ConfigError, DataError, ProjectError, RunError
from lib.core.weights import VECTORS, EncoderSettings
from lib.predicting.reader import open_reader
from lib.study.run import RunSettings
from lib.tokens.vocabularies import train_wordpiece
from lib.training.encoding import make_vectors
from lib.training.evaluate import evaluate

WORDS = ["bright lively story", "dull tiresome plot", "a long and quiet tale of the sea", "good"]
TEXTS = [*WORDS, "", " ".join(WORDS * 6)]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder as of a published encoder, with random weights."""
    folder = tmp_path_factory.mktemp("published") / "encoder"
    size = len(train_wordpiece(folder, TEXTS, vocab_size=90).backend)
    torch.manual_seed(1)
    BertModel(BertConfig(vocab_size=size, max_position_embeddings=64, **SIZES)).save_pretrained(folder)
    return folder


def settings(folder, **fields):
    return EncoderSettings(folder=str(folder), **fields)


def states(folder, texts, side):
    """Return the states of texts that transformers pads on a side, and the mask."""
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side=side)
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    mask = batch["attention_mask"]
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)  # BERT would begin to count at padding
    with torch.inference_mode():
        model = BertModel.from_pretrained(folder).eval()
        found = model(input_ids=batch["input_ids"], attention_mask=mask, position_ids=positions)
    return found.last_hidden_state, mask


@pytest.mark.parametrize("side", ["left", "right"])
def test_vectors_are_those_of_transformers(side, published):
    texts = TEXTS[:5]
    found, mask = states(published, texts, side)
    mean = (found * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1)[:, None]
    np.testing.assert_allclose(open_encoder(published, settings(published, segment=64)).vectors(texts), mean, atol=1e-6)
    first = found[torch.arange(len(texts)), mask.argmax(dim=1)]
    vectors = open_encoder(published, settings(published, segment=64, pooling="first")).vectors(texts)
    np.testing.assert_allclose(vectors, first, atol=1e-6)


def test_segments_by_hand(published):
    tokenizer, text = AutoTokenizer.from_pretrained(published), TEXTS[-1]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    count = -(-len(ids) // 28)
    bounds = [len(ids) * number // count for number in range(count + 1)]
    assert count > 2
    parts = []
    model = BertModel.from_pretrained(published).eval()
    for start, end in pairwise(bounds):
        piece = [tokenizer.cls_token_id, *ids[start:end], tokenizer.sep_token_id]
        with torch.inference_mode():
            parts.append(model(torch.tensor([piece])).last_hidden_state[0].mean(dim=0).numpy())
    mean = open_encoder(published, settings(published, segment=30)).vectors([text, "good"])
    np.testing.assert_allclose(mean[0], np.mean(parts, axis=0), atol=1e-6)
    both = open_encoder(published, settings(published, segment=30, segments="first_and_mean")).vectors([text, "good"])
    np.testing.assert_allclose(both[0], np.hstack([parts[0], np.mean(parts, axis=0)]), atol=1e-6)
    np.testing.assert_array_equal(both[1][:16], both[1][16:])  # one segment
    cut = open_encoder(published, settings(published, segment=30, max_tokens=len(ids[: bounds[1]]) + 2)).vectors([text])
    np.testing.assert_allclose(cut[0], parts[0], atol=1e-6)


def test_vectors_do_not_depend_on_the_number_of_cores(published):
    encoder, before = open_encoder(published, settings(published, segment=16)), torch.get_num_threads()
    found = []
    try:
        for cores in (1, 3):
            torch.set_num_threads(cores)
            found.append(encoder.vectors(TEXTS))
            assert torch.get_num_threads() == cores
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*found)


def test_static_vectors(tmp_path):
    model2vec = pytest.importorskip("model2vec", reason="the extra static is not installed")
    tokenizer = train_wordpiece(tmp_path / "tokenizer", TEXTS, vocab_size=90, enclose=False).backend.backend_tokenizer
    table = np.random.default_rng(1).normal(size=(tokenizer.get_vocab_size(), 8)).astype(np.float32)
    model2vec.StaticModel(table, tokenizer, {"model_type": "model2vec"}).save_pretrained(tmp_path / "static")
    found = open_encoder(tmp_path / "static", settings(tmp_path)).vectors(["bright lively", ""])
    by_hand = table[tokenizer.encode("bright lively").ids].mean(axis=0)
    np.testing.assert_allclose(found, [by_hand, np.zeros(8)], atol=1e-6)


def documents(count):
    rows = [
        (f"d{number}", f"{WORDS[number % 2]} {WORDS[number % 3]} {number % 7}", number % 2) for number in range(count)
    ]
    return pd.DataFrame(rows, columns=["id", "text", "label"])


@pytest.fixture(scope="module")
def splits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    for split, count in (("train", 60), ("validation", 20), ("test", 24)):
        documents(count).to_parquet(folder / f"{split}.parquet")
    return {split: folder / f"{split}.parquet" for split in ("train", "validation", "test")}


@pytest.fixture(scope="module")
def vectors(published, splits, tmp_path_factory):
    """The folder of an encoder with the vectors of the documents."""
    folder = tmp_path_factory.mktemp("vectors")
    own = settings(published, segment=32)
    place = {"weights": published, "tokenizer": published, "splits": splits, "out": folder / "bert"}
    before = [path.stat() for path in sorted(published.iterdir())]
    make_vectors("bert", own, **place, work=folder / "work")
    assert not (folder / "work").exists()
    after = [path.stat() for path in sorted(published.iterdir())]
    assert [(each.st_mode, each.st_ctime_ns, each.st_nlink) for each in after] == [
        (each.st_mode, each.st_ctime_ns, each.st_nlink) for each in before
    ]  # they are a user's
    return folder / "bert"


@pytest.fixture
def fit(splits, vectors, tmp_path):
    """Make a run of a backbone of kind `frozen`, and return its folder."""

    def fit(**fields):
        backbone = {"kind": "frozen", "encoders": ["bert"], "vectors_folders": [str(vectors)]} | fields
        values = {"stage": "score", "model": "frozen", "dataset": "toy", "seed": 0, "labels": ["no", "yes"]}
        data = {split: str(path) for split, path in splits.items()}
        task = {"kind": "sequence_classification"}
        run = RunSettings.model_validate(values | {"data": data, "task": task, "backbone": backbone})
        evaluate(run, tmp_path / "run")
        return tmp_path / "run"

    return fit


DECISIONS = {
    "logistic": LogisticRegression(C=3.0, max_iter=1000),
    "svm": LinearSVC(C=3.0, max_iter=1000, random_state=0),
    "ridge": RidgeClassifier(alpha=1 / 6),
}


@pytest.mark.parametrize("decision", DECISIONS)
def test_decision_is_scikit_learns(decision, fit, splits, published):
    run = fit(decision=decision, C=3.0, class_weight=None)
    encoder = open_encoder(published, settings(published, segment=32))
    train, test = (normalize(encoder.vectors(documents(count)["text"])) for count in (60, 24))
    expected = DECISIONS[decision].fit(train, documents(60)["label"])
    found = pd.read_parquet(run / "predictions.parquet").query("split == 'test'")
    probabilities = np.stack(found["probabilities"])
    np.testing.assert_array_equal(found["prediction"], expected.predict(test))
    if decision == "logistic":
        np.testing.assert_array_equal(probabilities, expected.predict_proba(test))
    else:
        odds = 1 / (1 + np.exp(-2 * expected.decision_function(test)))
        np.testing.assert_allclose(probabilities[:, 1], odds, rtol=1e-6)


@pytest.mark.parametrize(
    "fields",
    [{}, {"C": "folds"}, {"decision": "ridge", "tfidf": {"ngram_max": 1}}, {"decision": "svm"}],
)
def test_answers_of_a_stored_fit(fields, fit):
    run = fit(**fields)
    found = pd.read_parquet(run / "predictions.parquet").query("split == 'test'")
    assert not (run / "model/encoders/bert" / VECTORS).exists()
    answers = open_reader(run).probabilities(documents(24)["text"].tolist())
    np.testing.assert_array_equal(answers, np.stack(found["probabilities"]))
    record = json.loads((run / "run.json").read_text())
    assert record["chosen"]["C"] in (1.0, 3.0, 10.0, 30.0, 100.0)


def test_stopped_job_goes_on(published, splits, tmp_path, monkeypatch):
    monkeypatch.setattr("lib.backbones.text_vectors.PART", 10)
    read = []

    def stop_at(number):
        def counted(encoder, texts, told=lambda _: None):
            if len(read) == number:
                raise KeyboardInterrupt
            read.append(len(texts))
            return original(encoder, texts, told)

        monkeypatch.setattr(StateEncoder, "vectors", counted)

    original = StateEncoder.vectors
    own, place = settings(published, segment=32), {"weights": published, "tokenizer": published, "splits": splits}
    stop_at(4)
    with pytest.raises(KeyboardInterrupt):
        make_vectors("bert", own, **place, out=tmp_path / "out", work=tmp_path / "work")
    assert not (tmp_path / "out").exists()
    stop_at(None)
    make_vectors("bert", own, **place, out=tmp_path / "out", work=tmp_path / "work")
    assert read == [10] * 6 + [4]  # of train, then of test; the others are the same documents
    assert not (tmp_path / "work").exists()


def test_encoders_and_folders_that_are_refused(published, fit, splits, tmp_path):
    with pytest.raises(RunError, match="Expected an encoder of texts that has positions for segment = 65"):
        open_encoder(published, settings(published, segment=65))
    with pytest.raises(ConfigError, match="segment = 2: leaves no room"):
        open_encoder(published, settings(published, segment=2))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProjectError, match="empty"):
        open_encoder(tmp_path / "empty", settings(published))
    own = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "vocab_size": 90}
    T5Model(T5Config(**own)).save_pretrained(tmp_path / "t5")
    copyfile(published / "tokenizer.json", tmp_path / "t5/tokenizer.json")
    with pytest.raises(RunError, match="t5: cannot read .*Expected an encoder of texts"):
        open_encoder(tmp_path / "t5", settings(published))
    with pytest.raises(ConfigError, match="none is of other"):
        fit(encoders=["other"])
    documents(60).assign(label=[1] * 4 + [0] * 56).to_parquet(tmp_path / "rare.parquet")
    original = splits["train"].read_bytes()
    splits["train"].write_bytes((tmp_path / "rare.parquet").read_bytes())
    try:
        with pytest.raises(DataError, match="4 training documents; expected 5, one for each fold"):
            fit(C="folds")
    finally:
        splits["train"].write_bytes(original)
    with pytest.raises(RunError, match="is no encoder"):
        fit(vectors_folders=[str(published)])
