"""Looking into small trained models: what is computed is what the models do, before and after training."""

import runpy
from pathlib import Path

import pandas as pd
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from lib.analysis.computations import approximation, passages
from lib.backbones.tfidf.backbone import Backbone
from lib.backbones.tfidf.settings import Settings
from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.core.program import read_settings
from lib.predicting.reader import open_reader
from lib.study.reader import ReaderSettings
from lib.study.run import RunSettings
from lib.tokens.encoding import encode
from lib.training.predictor import assemble
from lib.training.run import train

pytestmark = pytest.mark.extended

PROGRAM = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts/analyse.py"))
MODELS = {"sdpa": {"kind": "sdpa"}, "favor-m16": {"kind": "favor", "nb_features": 16}}


@pytest.fixture(scope="module")
def runs(run_of, tmp_path_factory):
    """Folders of two fine-tunings."""
    folder = tmp_path_factory.mktemp("runs")
    recipe = {"epochs": 4, "learning_rate": 3e-3}
    for model, mechanism in MODELS.items():
        backbone = {"mechanism": mechanism, "initializer_range": 0.1}
        train(run_of("finetune", model=model, backbone=backbone, recipe=recipe), folder / model)
    return folder


@pytest.fixture
def subject(runs, corpus):
    return PROGRAM["load_subject"](*map(str, (runs / "sdpa", corpus / "tokenizer", corpus / "tokens/test")))


def test_subject_as_drawn_and_as_trained(subject, runs, corpus):
    weights = [
        (when, {name: tensor.clone() for name, tensor in model.state_dict().items()}, model.training)
        for when, model in subject.models()
    ]
    assert [(when, training) for when, _, training in weights] == [("before", False), ("after", False)]
    settings = read_mapping(runs / "sdpa/config.yaml") | {"tokenizer": str(corpus / "tokenizer")}
    drawn = assemble(read_settings(RunSettings, settings)).model.state_dict()
    saved = load_file(runs / "sdpa/model/model.safetensors")
    for expected, (_, found, _) in zip((drawn, saved), weights, strict=True):
        assert set(expected) <= set(found)
        assert all(torch.equal(expected[name], found[name]) for name in expected)
    name = "encoder.layers.0.attention.query.weight"
    assert not torch.equal(weights[0][1][name], weights[1][1][name])


def test_documents_cut_by_an_analysis(subject):
    ids = subject.tokens["input_ids"][:]
    assert [len(each) for each in ids[:2]] == [30, 32]
    end = subject.tokenizer.sep_token_id
    assert subject.documents(2, 31) == [ids[0], [*ids[1][:30], end]]
    assert subject.documents(1, 10) == [[*ids[0][:9], end]]
    open_ended = [each[:-1] for each in ids]
    tokens = Dataset.from_dict({"input_ids": [[5], *open_ended], "length": [1, *map(len, open_ended)]})
    assert subject._replace(tokens=tokens).documents(1, 10) == [open_ended[0][:10]]
    with pytest.raises(DataError, match="toy: "):
        subject._replace(tokens=tokens.select([0])).documents(1, 10)


def test_approximations_before_and_after_training(subject):
    options = {"documents": 3, "length": 16, "features": [8, 64], "hashes": [1], "chunk_sizes": [4]}
    frame = approximation.analyse(subject, **options)
    assert set(frame["documents"]) == {3}
    means = frame.groupby(["quantity", "when"], sort=False)["value"].mean()
    assert means["own_error"].tolist() == pytest.approx([0, 0], abs=1e-9)
    for quantity in ("query_norm", "favor_error", "lsh_recall"):
        assert means[quantity, "before"] != pytest.approx(means[quantity, "after"], rel=1e-3), quantity
    pd.testing.assert_frame_equal(frame, approximation.analyse(subject, **options))


def test_classifier_of_a_subject(subject, runs, corpus):
    texts = pd.read_parquet(corpus / "test.parquet")["text"].tolist()
    rows = subject.open_reader().probabilities(texts)
    model = AutoModelForSequenceClassification.from_pretrained(runs / "sdpa/model").eval()
    with torch.inference_mode():
        scores = model(**encode(texts[:3], str(runs / "sdpa/model"), 32)).logits.softmax(-1)
    assert rows[:3] == pytest.approx(scores.numpy(), abs=1e-5)
    assert len(rows) == 40


def test_passages_of_a_subject(subject, corpus, tmp_path):
    documents = pd.read_parquet(corpus / "test.parquet")
    linear = Backbone(Settings(kind="tfidf", C=1.0, class_weight=None), seed=0)
    linear.fit(documents["text"], documents["label"])
    linear.save(tmp_path)
    values = {"model": "tfidf", "seed": 0, "labels": ["low", "high"], "task": {"kind": "sequence_classification"}}
    ReaderSettings.model_validate(values | {"backbone": linear.parameters.model_dump()}).write(tmp_path)
    for fitted in ({}, {"classifier": linear, "open_reader": lambda: open_reader(tmp_path)}):
        read = subject._replace(texts=documents["text"].tolist(), **fitted)
        frame = passages.analyse(read, documents=10, count=2, draws=2)
        pd.testing.assert_frame_equal(frame, passages.analyse(read, documents=10, count=2, draws=2))
        values = frame.set_index(["measure", "of"])[["low", "value", "high"]]
        assert (values.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
        own, random, difference = values["value"].loc["comprehensiveness"]
        assert own - random == pytest.approx(difference)
        assert difference > 0
