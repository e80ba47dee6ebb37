"""Looking into small trained models: what is computed is what the models do, before and after training."""

import json
import runpy
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from lib.analysis.computations import approximation
from lib.analysis.table import read_analysis
from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.core.program import read_settings
from lib.study.run import RunSettings
from lib.tokens.encoding import encode
from lib.training.evaluate import evaluate
from lib.training.predictor import assemble
from lib.training.run import train

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


def test_a_subject_is_the_model_as_drawn_and_as_trained(subject, runs, corpus):
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


def test_a_baseline_is_fitted_again_as_it_was_chosen(settings, corpus, tmp_path):
    data = {split: str(corpus / f"{split}.parquet") for split in ("train", "validation", "test")}
    values = settings("finetune", backbone={"kind": "tfidf"}, data=data) | {"recipe": None, "tokenizer": None}
    evaluate(RunSettings.model_validate(values), tmp_path / "run")
    places = map(str, (tmp_path / "run", data["train"], corpus / "tokenizer", corpus / "tokens/test"))
    subject = PROGRAM["load_baseline"](*places)
    found = subject.classifier.class_probabilities(pd.read_parquet(data["test"])["text"], 2)
    predictions = pd.read_parquet(tmp_path / "run/predictions.parquet").query("split == 'test'")
    assert found == pytest.approx(np.stack(predictions["probabilities"]))


def test_documents_are_cut_as_the_tokeniser_cuts(subject):
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


def test_approximations_are_tried_before_and_after_training(subject):
    options = {"documents": 3, "length": 16, "features": [8, 64], "hashes": [1], "chunk_sizes": [4]}
    frame = approximation.analyse(subject, **options)
    assert set(frame["documents"]) == {3}
    means = frame.groupby(["quantity", "when"], sort=False)["value"].mean()
    assert means["own_error"].tolist() == pytest.approx([0, 0], abs=1e-9)
    for quantity in ("query_norm", "favor_error", "lsh_recall"):
        assert means[quantity, "before"] != pytest.approx(means[quantity, "after"], rel=1e-3), quantity
    pd.testing.assert_frame_equal(frame, approximation.analyse(subject, **options))


def test_the_program_writes_one_table_of_all_runs(runs, corpus, tmp_path):
    analysis = {"kind": "heads", "options": {"documents": 5, "length": 20, "window": 4}}
    places = {"--runs": [str(runs / model) for model in MODELS]}
    places |= {"--tokenizers": [str(corpus / "tokenizer")] * 2, "--tokens": [str(corpus / "tokens/test")] * 2}
    arguments = [word for option, values in places.items() for word in (option, *values)]
    PROGRAM["main"](["--analysis", json.dumps(analysis), *arguments, "--out", str(tmp_path / "heads.csv")])
    frame = read_analysis(tmp_path / "heads.csv")
    assert frame["model"].tolist() == ["sdpa"] * 4 + ["favor-m16"] * 4
    assert frame.columns[:4].tolist() == ["model", "layer", "head", "documents"]
    assert frame.notna().all(axis=None)


def test_what_a_prediction_costs_is_measured_on_the_texts_of_a_run(runs, corpus, tmp_path):
    places = [str(place) for place in (runs / "sdpa", corpus / "tokenizer", corpus / "tokens/test")]
    options = {"documents": 100, "price_per_hour": 0.5, "currency": "EUR"}
    PROGRAM["main"](
        ["--analysis", json.dumps({"kind": "prediction_cost", "options": options})]
        + [
            word
            for name, place in zip(("runs", "tokenizers", "tokens"), places, strict=True)
            for word in (f"--{name}", place)
        ]
        + ["--texts", str(corpus / "test.parquet"), "--out", str(tmp_path / "cost.csv")]
    )
    (row,) = read_analysis(tmp_path / "cost.csv").to_dict("records")
    assert (row["model"], row["documents"], row["currency"]) == ("sdpa", 40, "EUR")
    assert 0 < row["latency_p50_ms"] <= row["latency_p99_ms"]
    assert row["documents_per_second"] > 1
    assert row["price_per_million"] == pytest.approx(0.5e6 / row["documents_per_second"] / 3600, rel=1e-4)
    assert row["processor"]
    assert row["measured"] == f"{datetime.now(UTC):%Y-%m-%d}"


def test_the_classifier_of_a_subject_predicts_as_the_model_does(subject, runs, corpus):
    texts = pd.read_parquet(corpus / "test.parquet")["text"].tolist()
    rows = subject.open_classifier()(texts)
    model = AutoModelForSequenceClassification.from_pretrained(runs / "sdpa/model").eval()
    with torch.inference_mode():
        scores = model(**encode(texts[:3], str(runs / "sdpa/model"), 32)).logits.softmax(-1)
    assert [[row["low"], row["high"]] for row in rows[:3]] == pytest.approx(scores.numpy(), abs=1e-5)
    assert len(rows) == 40
