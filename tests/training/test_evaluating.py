"""scripts/evaluate.py: a run without a training loop leaves the record and the predictions of any other."""

import itertools
import re
import runpy
import threading
import time
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
from word_vectors import stored

from lib.core.attempts import read_heartbeat
from lib.core.errors import ConfigError, DataError, RunError
from lib.core.record import read_record
from lib.evaluation.metrics import classification_metrics
from lib.study.run import RunSettings
from lib.tokens.stored import load_tokens
from lib.training import evaluate as evaluating
from lib.training import evaluate_texts
from lib.training.evaluate import evaluate
from lib.training.run import train

pytestmark = pytest.mark.extensions("studies/decoders", "studies/hate_speech", "studies/word_vectors")

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
        frame.to_parquet(tmp_path / f"{split}.parquet")
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


def test_record_and_predictions(values, splits, tmp_path):
    out = tmp_path / "out"
    program(values, out)
    assert {path.name for path in out.iterdir()} == {"config.yaml", "run.json", "predictions.parquet"}
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


def test_predictions_carry_the_groups_of_documents(values, splits, tmp_path):
    evaluate(RunSettings.model_validate(values), tmp_path / "without")
    assert "group" not in pd.read_parquet(tmp_path / "without" / "predictions.parquet")
    for path in splits.values():
        frame = pd.read_parquet(path)
        frame.assign(group=range(len(frame)), more="ignored").to_parquet(path)
    evaluate(RunSettings.model_validate(values), tmp_path / "with")
    assert pd.read_parquet(tmp_path / "with" / "predictions.parquet")["group"].tolist() == [*range(8), *range(4)]


def noisy(size, seed, kind):
    """Return documents, pairs or spans whose words only lean to their class; the third class is rare."""
    rng = np.random.default_rng(seed)
    words = np.array([f"{first}{last}" for first in "bdfgklmnpr" for last in ("ab", "en", "ir", "ot", "us")])
    labels = rng.choice(3, size, p=[0.72, 0.23, 0.05])
    lean = [np.repeat(words, 1 + 2 * (np.arange(50) % 3 == label)) for label in range(3)]
    names = ["text", "text_pair"] if kind == "pairs" else ["text"]
    columns = {name: [" ".join(rng.choice(lean[label], 12)) for label in labels] for name in names}
    if kind == "tfidf_spans":
        found = [re.finditer(r"\S+", text) for text in columns["text"]]
        labels = [[word.span() for word in each if rng.random() < (0.6 if "us" in word[0] else 0.1)] for each in found]
    return pd.DataFrame({"id": [f"{seed}-{number}" for number in range(size)], **columns, "label": labels})


@pytest.fixture
def chosen(values, tmp_path):
    """Return the record of a run of a baseline on noisy documents; it reads splits as they are named by `data`."""
    places = itertools.count()

    def run(kind, data=(), **settings):
        files = {}
        for seed, (split, size) in enumerate({"train": 150, "validation": 80, "test": 200, "other": 90}.items()):
            files[split] = tmp_path / f"{kind}-{split}.parquet"
            noisy(size, seed, kind).to_parquet(files[split])
        backbone = {"kind": "tfidf" if kind == "pairs" else kind} | settings
        if kind == "word_vectors":
            words = sorted(set(" ".join(noisy(150, 0, kind)["text"]).split()))
            vectors = dict(zip(words, np.random.default_rng(0).normal(size=(len(words), 20)), strict=True))
            folder = tmp_path / f"vectors-{next(places)}"
            backbone |= {"vectors": "v", "vectors_folder": str(stored(folder, vectors))}
        spans = {"task": {"kind": "span_detection"}, "labels": LABELS[:2]} if kind == "tfidf_spans" else {}
        named = {"train": "train", "validation": "validation", "test": "test"} | dict(data)
        read = {split: str(files[name]) for split, name in named.items()}
        out = tmp_path / f"out-{next(places)}"
        evaluate(RunSettings.model_validate(values | spans | {"backbone": backbone, "data": read}), out)
        return read_record(out)

    return run


CANDIDATES = [
    {"C": strength, "class_weight": weight}
    for strength in (1.0, 3.0, 10.0, 30.0, 100.0)
    for weight in (None, "balanced")
]


@pytest.mark.parametrize("kind", ["tfidf", "pairs", "word_vectors", "tfidf_spans"])
def test_the_best_penalty_and_weights_on_validation_are_taken_and_recorded(kind, chosen):
    record, every = chosen(kind), [chosen(kind, **candidate) for candidate in CANDIDATES]
    scores = [each.metrics["eval_f1" if kind == "tfidf_spans" else "eval_f1_macro"] for each in every]
    if kind == "tfidf":
        train, validation = noisy(150, 0, kind), noisy(80, 1, kind)
        vectors = TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_df=0.9)
        features, held_out = vectors.fit_transform(train["text"]), vectors.transform(validation["text"])
        expected = [LogisticRegression(**each, max_iter=1000).fit(features, train["label"]) for each in CANDIDATES]
        found = [f1_score(validation["label"], each.predict(held_out), average="macro") for each in expected]
        assert scores == pytest.approx(found)
    assert len(set(scores)) > 2
    assert record.candidates == [each | {"score": score} for each, score in zip(CANDIDATES, scores, strict=True)]
    best = scores.index(max(scores))
    assert record.chosen == CANDIDATES[best]
    assert record.metrics == every[best].metrics
    assert not every[best].chosen


def test_balanced_weights_find_a_class_that_is_never_predicted_without_them(chosen):
    assert chosen("tfidf", C=1.0, class_weight=None).metrics["test_recall_class_odd"] == 0
    record = chosen("tfidf", C=1.0)
    assert record.chosen == {"C": 1.0, "class_weight": "balanced"}
    assert record.metrics["test_recall_class_odd"] > 0.2


def test_what_is_fitted_elsewhere_is_chosen_there(chosen):
    there, here = chosen("tfidf"), chosen("tfidf", data={"validation": "other"})
    record = chosen("tfidf", data={"validation": "other", "choice": "validation"})
    assert record.candidates == there.candidates != here.candidates
    assert set(record.shared) == {"validation", "test"}
    assert record.metrics["eval_f1_macro"] != there.metrics["eval_f1_macro"]


def test_an_evaluation_beats_while_it_computes(values, tmp_path, monkeypatch):
    compute = evaluate_texts.evaluate

    def long_compute(run, folders):
        begun, deadline = read_heartbeat(folders.work).updated, time.monotonic() + 30
        while read_heartbeat(folders.work).updated == begun:
            assert time.monotonic() < deadline, "no heartbeat"
        return compute(run, folders)

    monkeypatch.setattr(evaluating, "SECONDS", 0.05)
    monkeypatch.setattr(evaluate_texts, "evaluate", long_compute)
    threads = threading.active_count()
    evaluate(RunSettings.model_validate(values), tmp_path / "out", tmp_path / "work")
    assert read_record(tmp_path / "out").metrics["test_accuracy"] == 0.75
    assert threading.active_count() == threads
    (attempt,) = (tmp_path / "work").glob("*/*")
    assert read_heartbeat(attempt).state == "finished"


def test_a_run_is_repeated_by_its_own_config_and_not_overwritten(values, tmp_path):
    program(values, tmp_path / "one")
    config = yaml.safe_load((tmp_path / "one" / "config.yaml").read_text())
    assert config["backbone"]["max_features"] == 20_000  # complete, defaults included
    program(config, tmp_path / "two")
    one, two = ((tmp_path / name / "predictions.parquet").read_bytes() for name in ("one", "two"))
    assert one == two
    with pytest.raises(RunError, match="finished run.*--out another"):
        program(config, tmp_path / "two")


def test_a_folder_with_files_of_a_user_stays_as_it_is(values, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("mine")
    with pytest.raises(RunError, match=r"mine: holds letter\.txt.*--out another"):
        program(values, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (documents([1] * 10), "train.parquet: only one class"),
        (documents([0, 1]).assign(text=""), "train.parquet: no n-gram"),
        (documents([0, 1] * 5).assign(label=[0, 3] * 5), r"labels \[0, 3\]; expected at least one, labelled 0 to 2"),
        (documents([0, 1]).iloc[:0], "0 documents"),
        (documents([0, 1]).drop(columns="text"), "columns id, text and label"),
    ],
)
def test_unusable_documents_are_refused_and_nothing_is_left(values, splits, tmp_path, frame, message):
    frame.to_parquet(splits["train"])
    with pytest.raises(DataError, match=message):
        evaluate(RunSettings.model_validate(values), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_or_truncated_file_is_named(values, splits, tmp_path):
    splits["test"].write_bytes(splits["test"].read_bytes()[:100])
    with pytest.raises(DataError, match=r"test\.parquet: cannot be read"):
        evaluate(RunSettings.model_validate(values), tmp_path / "out")
    splits["test"].unlink()
    with pytest.raises(DataError, match=r"test\.parquet: cannot be read"):
        evaluate(RunSettings.model_validate(values), tmp_path / "out")
    splits["test"].symlink_to("/proc/self/mem")  # whose first byte cannot be read, as of a damaged disk
    with pytest.raises(DataError, match=r"test\.parquet: cannot be read \(Input/output error"):
        evaluate(RunSettings.model_validate(values), tmp_path / "out")


def test_settings_are_checked_with_all_problems_at_once(values, tmp_path):
    """Those of single fields first, then those of fields that do not fit together."""
    values["data"].pop("test")
    values["labels"] = None
    wrong = values | {"backbone": values["backbone"] | {"max_df": 2, "min_df": 0}}
    for settings, parts in (
        (wrong, ("backbone.max_df: ", "backbone.min_df: ")),
        (values, ("data: test is missing", "labels are missing")),
    ):
        with pytest.raises(ConfigError) as error:
            program(settings, tmp_path / "out")
        assert [part for part in parts if part not in str(error.value)] == []
    assert not (tmp_path / "out").exists()


def test_a_run_goes_to_the_program_that_can_do_it(values, tmp_path):
    recipe = {"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.1, "batch_size": 8}
    with pytest.raises(ConfigError, match="tfidf.*sequence_classification"):
        program(values | {"recipe": recipe, "tokenizer": "somewhere"}, tmp_path / "out")
    with pytest.raises(RunError, match=r"recipe: missing.*scripts/evaluate\.py"):
        train(RunSettings.model_validate(values), tmp_path / "out")


# A model that was trained, evaluated as it is.

BACKBONES = {
    "sdpa": {},
    "lsh": {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 8}},
    "favor": {"mechanism": {"kind": "favor", "nb_features": 8, "redraw_interval": 2}},
    "lstm": {"kind": "recurrent", "cell": "lstm", "hidden_size": 32, "num_hidden_layers": 2},
}
RECIPE = {"epochs": 2, "learning_rate": 5e-3, "batch_size": 16}


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


@pytest.mark.parametrize(("name", "precision"), [*((name, "fp32") for name in BACKBONES), ("sdpa", "bf16")])
def test_a_trained_model_is_scored_as_by_its_own_run(name, precision, trained, tmp_path):
    values, folder = trained(name, precision)
    out = tmp_path / "out"
    program(as_it_is(values, folder, stage="probe"), out)
    assert {path.name for path in out.iterdir()} == {"config.yaml", "run.json", "predictions.parquet"}
    assert not list(tmp_path.glob(".*.work"))
    pd.testing.assert_frame_equal(
        pd.read_parquet(out / "predictions.parquet"), pd.read_parquet(folder / "predictions.parquet"), check_exact=True
    )
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


def test_a_model_may_change_where_it_is_evaluated(trained, tmp_path):
    values, folder = trained("sdpa")
    mechanism = {"mechanism": {"kind": "favor", "nb_features": 8}}
    program(as_it_is(values, folder, backbone=values["backbone"] | mechanism), tmp_path / "out")
    changed, same = (read_record(place) for place in (tmp_path / "out", folder))
    assert changed.metrics["eval_loss"] != same.metrics["eval_loss"]
    other = values["backbone"] | {"position_embedding_type": "learned"}
    with pytest.raises(RunError, match="position_embedding_type is learned, but the weights come from rope"):
        program(as_it_is(values, folder, backbone=other), tmp_path / "other")


def test_a_model_without_the_tasks_head_is_refused(trained, run_of, tmp_path):
    values, _ = trained("sdpa")
    train(run_of("pretrain", recipe={"epochs": 1}), tmp_path / "pretrained")
    with pytest.raises(RunError, match="holds EncoderForMaskedLM; expected EncoderForSequenceClassification"):
        program(as_it_is(values, tmp_path / "pretrained"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_an_evaluation_of_a_model_needs_is_named_at_once(trained, tmp_path):
    values, folder = trained("sdpa")
    lacking = as_it_is(values, folder, tokenizer=None) | {"start": None, "data": {}}
    with pytest.raises(ConfigError) as error:
        program(lacking, tmp_path / "out")
    for part in ("tokenizer is missing", "Add one, or a start", "data: validation, test is missing"):
        assert part in str(error.value)
    with pytest.raises(ConfigError, match="encoder.*masked_lm"):
        program(as_it_is(values, folder, task={"kind": "masked_lm"}, labels=None), tmp_path / "out")
    with pytest.raises(RunError, match=r"recipe: .*scripts/train\.py"):
        program(values, tmp_path / "out")


PHRASES = {"kind": "label_matching", "phrases": ["bal bel bil", "kon kor kul"]}


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_documents_are_matched_with_phrases(trained, tmp_path, pooling):
    values, folder = trained("sdpa")
    task = PHRASES | {"classifier_pooling": pooling, "scale": 5.0}
    program(as_it_is(values, folder, stage="match", task=task), tmp_path / "out")
    record, predictions = read_record(tmp_path / "out"), pd.read_parquet(tmp_path / "out" / "predictions.parquet")
    model = AutoModel.from_pretrained(folder / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")

    def vector(ids):
        with torch.no_grad():
            states = model(torch.tensor([ids])).last_hidden_state[0]
        return functional.normalize(states[0] if pooling == "cls" else states.mean(dim=0), dim=0)

    phrases = torch.stack([vector(tokenizer(phrase)["input_ids"]) for phrase in PHRASES["phrases"]])
    tokens = {row["id"]: row["input_ids"] for row in load_tokens(values["data"]["test"])}
    rows = predictions[predictions["split"] == "test"]
    expected = torch.stack([(5 * phrases @ vector(tokens[id_])).softmax(dim=0) for id_ in rows["id"]]).numpy()
    assert np.stack(rows["probabilities"]) == pytest.approx(expected, abs=1e-5)
    assert (rows["prediction"] == expected.argmax(axis=1)).all()
    assert record.metrics["test_accuracy"] == (rows["prediction"] == rows["label"]).mean()
    assert (record.task, record.epochs, record.parameters["head"]) == ("label_matching", 0, 0)
    assert set(record.parents) == {"start", "tokenizer", "validation", "test"}


def test_phrases_are_matched_by_any_weights_but_not_without(trained, run_of, tmp_path):
    values, _ = trained("sdpa")
    train(run_of("pretrain", recipe={"epochs": 1}), tmp_path / "pretrained")
    program(as_it_is(values, tmp_path / "pretrained", task=PHRASES), tmp_path / "out")
    with pytest.raises(ConfigError, match="Add one, or a start"):
        program(as_it_is(values, tmp_path / "pretrained", task=PHRASES) | {"start": None}, tmp_path / "other")
    three = PHRASES | {"phrases": ["bal", "bel", "bil"]}
    with pytest.raises(ConfigError, match=r"task\.phrases: 3 .*low, high"):
        program(as_it_is(values, tmp_path / "pretrained", task=three), tmp_path / "other")
