"""scripts/evaluate.py: a run without a training loop leaves the record and the predictions of any other."""

import itertools
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer

from lib.core.errors import DataError, RunError
from lib.core.record import read_record
from lib.evaluation.metrics import classification_metrics
from lib.predicting.predict import predict
from lib.study.run import RunSettings
from lib.tokens.stored import load_tokens
from lib.training.evaluate import evaluate
from lib.training.run import train

pytestmark = pytest.mark.extensions("studies/hate_speech")

ROOT = Path(__file__).resolve().parents[2]
LABELS = ["bad", "good", "odd"]
WORDS = ["dull tiresome story", "bright lively story", "green cheese sings"]


def documents(labels, start=0):
    texts = [f"{WORDS[label]} number {number % 4}" for number, label in enumerate(labels)]
    return pd.DataFrame({"id": [f"d{start + number}" for number in range(len(labels))], "text": texts, "label": labels})


@pytest.fixture
def splits(tmp_path):
    frames = {
        "train": documents([0, 1] * 20),
        "validation": documents([0, 1] * 4, start=100),
        "test": documents([0, 1, 1, 2], start=200),
    }
    for split, frame in frames.items():
        frame.assign(group=range(len(frame)), more="ignored").to_parquet(tmp_path / f"{split}.parquet")
    return {split: tmp_path / f"{split}.parquet" for split in frames}


@pytest.fixture
def values(splits):
    return {
        "stage": "baseline",
        "model": "tfidf",
        "dataset": "toy",
        "seed": 0,
        "task": {"kind": "sequence_classification"},
        "backbone": {"kind": "tfidf"},
        "labels": LABELS,
        "data": {split: str(path) for split, path in splits.items()},
    }


def program(values, out):
    config = out.parent / f"{out.name}.yaml"
    config.write_text(yaml.safe_dump(values))
    runpy.run_path(str(ROOT / "scripts" / "evaluate.py"))["main"](["--config", str(config), "--out", str(out)])


def test_record_and_predictions_of_a_baseline(values, splits, tmp_path):
    out = tmp_path / "out"
    program(values, out)
    assert {path.name for path in out.iterdir()} == {"config.yaml", "run.json", "predictions.parquet", "model"}
    assert not list(tmp_path.glob(".*.work"))
    record, predictions = read_record(out), pd.read_parquet(out / "predictions.parquet")
    named = (record.stage, record.model, record.dataset, record.seed, record.task)
    assert named == ("baseline", "tfidf", "toy", 0, "sequence_classification")
    assert record.metrics["test_accuracy"] == 0.75  # the class that training never saw is missed
    assert record.metrics["eval_f1_macro"] == pytest.approx(2 / 3)  # two classes right, the third absent
    assert (record.epochs, record.steps, record.tokens, record.seconds_per_epoch) == (0, 0, 0, None)
    assert record.seconds > 0
    assert record.parameters["total"] == 9
    assert record.chosen == {"C": 1.0, "class_weight": None}  # of equals the strongest penalty, and no weights
    assert len(record.candidates) == 10
    assert {name: parent.path for name, parent in record.parents.items()} == values["data"]
    assert len({parent.digest for parent in record.parents.values()}) == 3
    assert "scikit-learn" in record.versions
    texts = {split: pd.read_parquet(splits[split])["text"] for split in ("train", "validation", "test")}
    assert record.shared == {name: texts[name].isin(texts["train"]).mean() for name in ("validation", "test")}
    assert [record.metrics[f"featureless_{split}"] for split in texts] == [0, 0, 1 / 4]

    assert predictions["split"].tolist() == ["validation"] * 8 + ["test"] * 4
    assert predictions["group"].tolist() == [*range(8), *range(4)]
    assert predictions["id"].tolist() == [f"d{n}" for n in (*range(100, 108), *range(200, 204))]
    probabilities = np.stack(predictions["probabilities"])
    assert probabilities.shape == (12, 3)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(12))
    assert (probabilities.argmax(axis=1) == predictions["prediction"]).all()
    for split, prefix in (("validation", "eval"), ("test", "test")):
        rows = predictions[predictions["split"] == split]
        assert rows["label"].tolist() == pd.read_parquet(splits[split])["label"].tolist()
        found = classification_metrics(rows["label"], np.stack(rows["probabilities"]), LABELS)
        assert {name: record.metrics[f"{prefix}_{name}"] for name in found} == pytest.approx(found, nan_ok=True)


def noisy(size, seed):
    """Return documents whose words only lean to their class; the third class is rare."""
    rng = np.random.default_rng(seed)
    words = np.array([f"{first}{last}" for first in "bdfgklmnpr" for last in ("ab", "en", "ir", "ot", "us")])
    labels = rng.choice(3, size, p=[0.72, 0.23, 0.05])
    lean = [np.repeat(words, 1 + 2 * (np.arange(50) % 3 == label)) for label in range(3)]
    texts = [" ".join(rng.choice(lean[label], 12)) for label in labels]
    return pd.DataFrame({"id": [f"{seed}-{number}" for number in range(size)], "text": texts, "label": labels})


@pytest.fixture
def chosen(values, tmp_path):
    """Return the record of a run of TF-IDF on noisy documents; it reads splits as they are named by `data`."""
    places, files = itertools.count(), {}
    for seed, (split, size) in enumerate({"train": 150, "validation": 80, "test": 200, "other": 90}.items()):
        files[split] = tmp_path / f"noisy-{split}.parquet"
        noisy(size, seed).to_parquet(files[split])

    def run(data=(), **settings):
        named = {"train": "train", "validation": "validation", "test": "test"} | dict(data)
        read = {split: str(files[name]) for split, name in named.items()}
        out = tmp_path / f"out-{next(places)}"
        evaluate(RunSettings.model_validate(values | {"backbone": {"kind": "tfidf"} | settings, "data": read}), out)
        return read_record(out)

    return run


@pytest.mark.extended
def test_candidates_chosen_on_validation(chosen):
    """Of the penalties and weights of classes, the best by scikit-learn; or where another split is named for it."""
    record = chosen()
    candidates = [
        {"C": strength, "class_weight": weight}
        for strength in (1.0, 3.0, 10.0, 30.0, 100.0)
        for weight in (None, "balanced")
    ]
    train_, validation = noisy(150, 0), noisy(80, 1)
    vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_df=0.9)
    features, held_out = vectors.fit_transform(train_["text"]), vectors.transform(validation["text"])
    fitted = [LogisticRegression(**each, max_iter=1000).fit(features, train_["label"]) for each in candidates]
    scores = [f1_score(validation["label"], each.predict(held_out), average="macro") for each in fitted]
    assert len(set(scores)) > 2
    assert [each["score"] for each in record.candidates] == pytest.approx(scores)
    assert record.chosen == candidates[scores.index(max(scores))]
    alone = chosen(**record.chosen)
    assert record.metrics == alone.metrics
    assert not alone.chosen
    elsewhere = chosen({"validation": "other", "choice": "validation"})
    assert elsewhere.candidates == record.candidates != chosen({"validation": "other"}).candidates
    assert set(elsewhere.shared) == {"validation", "test"}
    assert elsewhere.metrics["eval_f1_macro"] != record.metrics["eval_f1_macro"]


def test_class_weights_of_a_baseline(values, chosen, tmp_path):
    """Those of scikit-learn, by name; the best of the penalties is chosen with them."""
    named = {"odd": 9.0, "good": 2.0}
    record, train_, test = chosen(class_weight=named), noisy(150, 0), noisy(200, 2)
    assert [each["class_weight"] for each in record.candidates] == [named] * 5
    vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_df=0.9)
    features, weights = vectors.fit_transform(train_["text"]), {0: 1.0, 1: 2.0, 2: 9.0}
    best = LogisticRegression(C=record.chosen["C"], class_weight=weights, max_iter=1000).fit(features, train_["label"])
    found = pd.read_parquet(next(tmp_path.glob("out-*")) / "predictions.parquet").query("split == 'test'")
    assert np.allclose(np.stack(found["probabilities"]), best.predict_proba(vectors.transform(test["text"])))
    with pytest.raises(ValueError, match="there is no class 'od'. Did you mean 'odd'"):
        RunSettings.model_validate(values | {"backbone": {"kind": "tfidf", "class_weight": {"od": 2.0}}})


def test_evaluation_repeated_by_its_own_config(values, tmp_path):
    program(values, tmp_path / "one")
    config = yaml.safe_load((tmp_path / "one" / "config.yaml").read_text())
    assert config["backbone"]["max_features"] == 20_000  # complete, defaults included
    program(config, tmp_path / "two")
    one, two = ((tmp_path / name / "predictions.parquet").read_bytes() for name in ("one", "two"))
    assert one == two
    with pytest.raises(RunError, match="finished run"):
        program(config, tmp_path / "two")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (documents([1] * 10), "one class"),
        (documents([0, 1] * 5).assign(label=[0, 3] * 5), r"\[0, 3\]"),
        (documents([0, 1]).drop(columns="text"), "columns"),
    ],
)
def test_unusable_documents(values, splits, tmp_path, frame, message):
    frame.to_parquet(splits["train"])
    with pytest.raises(DataError, match=message):
        evaluate(RunSettings.model_validate(values), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# A model that was trained, evaluated as it is.

BACKBONES = {"sdpa": {}, "favor": {"mechanism": {"kind": "favor", "nb_features": 8, "redraw_interval": 2}}}
RECIPE = {"epochs": 2, "learning_rate": 5e-3, "batch_size": 16}
FIGURES = [("sdpa", "fp32"), pytest.param("favor", "bf16", marks=pytest.mark.extended)]


@pytest.fixture(scope="module")
def trained(settings, tmp_path_factory):
    """Return settings and folder of a fine-tuning of a backbone, made once."""
    made = {}

    def make(name, precision="fp32"):
        if (name, precision) not in made:
            folder = tmp_path_factory.mktemp(name) / "trained"
            values = settings("finetune", model=name, precision=precision, recipe=RECIPE, backbone=BACKBONES[name])
            train(RunSettings.model_validate(values), folder)
            made[name, precision] = values, folder
        return made[name, precision]

    return make


def as_it_is(values, folder, **changes):
    """Return the settings of an evaluation of a trained run's model."""
    values = {name: value for name, value in values.items() if name != "recipe"} | changes
    data = {split: path for split, path in values["data"].items() if split != "train"}
    return values | {"data": data, "start": {"run": str(folder), "checkpoint": str(folder / "model")}}


@pytest.mark.parametrize(("name", "precision"), FIGURES)
def test_scores_of_a_trained_model(name, precision, trained, tmp_path):
    values, folder = trained(name, precision)
    out = tmp_path / "out"
    program(as_it_is(values, folder, stage="probe"), out)
    assert {path.name for path in out.iterdir()} == {"config.yaml", "run.json", "predictions.parquet", "model"}
    assert not list(tmp_path.glob(".*.work"))
    pd.testing.assert_frame_equal(
        pd.read_parquet(out / "predictions.parquet"), pd.read_parquet(folder / "predictions.parquet"), check_exact=True
    )
    predict(out, Path(values["data"]["test"]).parents[1] / "test.parquet", tmp_path / "out.csv", id="id", device="cpu")
    test = pd.read_parquet(out / "predictions.parquet").query("split == 'test'").set_index("id")["probabilities"]
    made = pd.read_csv(tmp_path / "out.csv", index_col="id", dtype={"low": np.float32, "high": np.float32})
    assert all((made.loc[document, ["low", "high"]] == row).all() for document, row in test.items())
    record, before = read_record(out), read_record(folder)
    assert before.metrics["test_accuracy"] > 0.5
    not_of_training = {name for name in before.metrics if name.startswith(("eval_", "test_"))}
    assert record.metrics == {name: before.metrics[name] for name in not_of_training}
    assert (record.stage, record.epochs, record.steps, record.tokens) == ("probe", 0, 0, 0)
    assert 0 < record.seconds != before.seconds
    assert record.parameters == before.parameters
    assert record.peak_memory_mb > 100
    assert record.parents["start"].path == str(folder / "model")
    assert set(record.parents) == {"start", "tokenizer", "validation", "test"}
    assert "torch" in record.versions


@pytest.mark.extended
def test_documents_matched_with_phrases(trained, tmp_path):
    values, folder = trained("sdpa")
    task = {"kind": "label_matching", "phrases": ["bal bel bil", "kon kor kul"], "scale": 5.0}
    program(as_it_is(values, folder, stage="match", task=task), tmp_path / "out")
    record, predictions = read_record(tmp_path / "out"), pd.read_parquet(tmp_path / "out" / "predictions.parquet")
    model = AutoModel.from_pretrained(folder / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")

    def vector(ids):
        with torch.no_grad():
            states = model(torch.tensor([ids])).last_hidden_state[0]
        return functional.normalize(states.mean(dim=0), dim=0)

    phrases = torch.stack([vector(tokenizer(phrase)["input_ids"]) for phrase in task["phrases"]])
    tokens = {row["id"]: row["input_ids"] for row in load_tokens(values["data"]["test"])}
    rows = predictions[predictions["split"] == "test"]
    expected = torch.stack([(5 * phrases @ vector(tokens[id_])).softmax(dim=0) for id_ in rows["id"]]).numpy()
    assert np.stack(rows["probabilities"]) == pytest.approx(expected, abs=1e-5)
    assert (rows["prediction"] == expected.argmax(axis=1)).all()
    assert record.metrics["test_accuracy"] == (rows["prediction"] == rows["label"]).mean()
    assert (record.task, record.epochs, record.parameters["head"]) == ("label_matching", 0, 0)
    assert set(record.parents) == {"start", "tokenizer", "validation", "test"}
