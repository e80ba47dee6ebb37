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

from lib.analysis.computations import approximation, attention_maps, embeddings, gradients, heads
from lib.analysis.table import read_analysis
from lib.core.errors import ConfigError, DataError
from lib.core.files import read_mapping
from lib.core.program import read_settings
from lib.study.run import RunSettings
from lib.tokens.encoding import encode
from lib.training.evaluate import evaluate
from lib.training.predictor import assemble
from lib.training.run import train

PROGRAM = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts/analyse.py"))
WORD = "fol"  # in five test documents of each class
LABELS = ["low", "high"]
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


def test_maps_are_those_of_the_models_read_by_transformers(subject, runs):
    frame = attention_maps.analyse(subject, document=2)
    ids = subject.tokens[2]["input_ids"]
    assert len(frame) == 2 * 2 * 2 * len(ids) ** 2
    assert frame.groupby(["when", "layer", "head", "query"])["weight"].sum().to_numpy() == pytest.approx(1, abs=1e-5)
    model = AutoModelForSequenceClassification.from_pretrained(runs / "sdpa/model").eval()
    with torch.no_grad():
        maps = model.base_model(torch.tensor([ids]), output_attentions=True).attentions
    after = frame[frame["when"] == "after"]
    for layer, head in ((0, 1), (1, 0)):
        part = after[(after["layer"] == layer) & (after["head"] == head)]
        found = part.pivot(index="query", columns="key", values="weight").to_numpy()
        assert found == pytest.approx(maps[layer][0, head].numpy(), abs=1e-6)
    tokens = subject.tokenizer.convert_ids_to_tokens(ids)
    assert after.drop_duplicates("query")["query_token"].tolist() == tokens
    assert after.drop_duplicates("key")["key_token"].tolist() == tokens
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")


def test_heads_of_one_document_are_those_of_its_maps(subject):
    maps = attention_maps.analyse(subject, document=0).query("when == 'after'")
    found = heads.analyse(subject, documents=1, length=99, window=2).set_index(["layer", "head"])
    assert len(found) == 4
    ends = [0, maps["key"].max()]
    for place, head in maps.groupby(["layer", "head"]):
        weights = head.pivot(index="query", columns="key", values="weight").to_numpy()
        entropy = -(weights * np.log(weights)).sum(axis=1).mean()
        assert found.loc[place, "entropy"] == pytest.approx(entropy, rel=1e-4)
        assert found.loc[place, "itself"] == pytest.approx(np.diag(weights).mean(), rel=1e-4)
        assert found.loc[place, "special"] == pytest.approx(weights[:, ends].sum(axis=1).mean(), rel=1e-4)
        assert found.loc[place, ["special", "near", "far"]].sum() == pytest.approx(1, rel=1e-4)
        assert found.loc[place, ["documents", "window"]].tolist() == [1, 2]


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


def test_gradients_of_documents_come_from_those_that_are_long_enough(subject):
    lengths = subject.tokens["length"][:]
    length = sorted(lengths)[-5]
    frame = gradients.analyse(subject, documents=200, tokens="documents", length=length)
    assert set(frame["sequences"]) == {sum(found >= length for found in lengths)}
    assert frame["when"].unique().tolist() == ["before", "after"]
    assert (frame["gradient_norm"] > 0).all()
    assert (frame.loc[frame["distance"] == 0, "relative"] == 1).all()
    before, after = (part["gradient_norm"].to_numpy() for _, part in frame.groupby("when", sort=False))
    assert not np.allclose(before, after)


def test_gradients_of_drawn_tokens_need_no_documents(subject):
    first, again = (gradients.analyse(subject, documents=3, tokens="random", length=50) for _ in range(2))
    assert first["distance"].unique().tolist() == [0, 1, 2, 5, 10, 20, 49]
    assert set(first["sequences"]) == {3}
    pd.testing.assert_frame_equal(first, again)


def test_contextual_states_tell_what_the_static_embedding_cannot(subject):
    frame = embeddings.analyse(subject, documents=200, word=WORD, labels=LABELS)
    static, contextual = (frame[frame["representation"] == name] for name in ("static", "contextual"))
    documents = dict(zip(subject.tokens["id"][:], subject.tokens["label"][:], strict=True))
    assert contextual["label"].tolist() == [LABELS[documents[name]] for name in contextual["document"]]
    assert static["document"].tolist() == contextual["document"].tolist()
    assert not static[["x", "y"]].to_numpy().any()
    assert static[["silhouette", "accuracy"]].drop_duplicates().to_numpy() == pytest.approx(
        np.array([[0, 0.5]]), abs=0.1
    )
    assert contextual["silhouette"].iloc[0] > 0.5
    assert contextual["accuracy"].iloc[0] > 0.9
    assert contextual["x"].var() > contextual["y"].var() > 0


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (attention_maps, {"document": 40}, "document = 40: there are 40 documents, counted from 0"),
        (gradients, {"documents": 5, "tokens": "documents", "length": 99}, "no document is that long.*longest has 32"),
        (embeddings, {"word": "xyzzy"}, r"word = 'xyzzy': is \[.*\] to the tokeniser, expected one token"),
        (embeddings, {"word": "bil"}, "word = 'bil': documents of toy with it by class: .*Expected at least 5"),
    ],
)
def test_what_cannot_be_looked_at_is_said(subject, kind, options, message):
    if kind is embeddings:
        options = {"documents": 200, "labels": LABELS, **options}
    with pytest.raises((ConfigError, DataError), match=message):
        kind.analyse(subject, **options)


def test_maps_of_a_long_document_are_refused(subject):
    lengths = [attention_maps.LONGEST + 1] * 3 + [attention_maps.LONGEST]
    tokens = Dataset.from_dict({"input_ids": [[5] * length for length in lengths], "length": lengths})
    with pytest.raises(ConfigError, match=f"document = 0.*{lengths[0]} tokens.*document 3"):
        attention_maps.analyse(subject._replace(tokens=tokens), document=0)


def test_documents_without_labels_are_no_senses(subject):
    unlabelled = subject._replace(tokens=subject.tokens.remove_columns("label"))
    with pytest.raises(DataError, match="toy.*label"):
        embeddings.analyse(unlabelled, documents=200, word=WORD, labels=LABELS)


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
