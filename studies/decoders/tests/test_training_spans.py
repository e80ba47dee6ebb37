"""Detection of spans from raw posts to a record: a small encoder, and the baselines that need no training."""

import numpy as np
import pandas as pd
import pytest
from killing import killed_in

from lib.core.files import read_mapping
from lib.core.record import read_record
from lib.preparing.generating import generate
from lib.preparing.labelled import SPLITS, prepare_dataset
from lib.preparing.settings.preparation import Preparation, Split
from lib.reading.spans import marked
from lib.study.run import RunSettings
from lib.tokens.stored import load_tokens
from lib.tokens.tokenizing import StoredTexts, tokenize_dataset
from lib.tokens.vocabularies import train_wordpiece
from lib.training import run as training_run
from lib.training.evaluate import evaluate
from lib.training.run import train
from studies.decoders.evaluation.spans import character_counts, span_metrics, spans_of

pytestmark = pytest.mark.extended

SIZES = {"train": 240, "validation": 30, "test": 30}


@pytest.fixture(scope="module")
def posts(tmp_path_factory):
    """Generated posts, prepared and tokenised; most are longer than a window."""
    folder = tmp_path_factory.mktemp("posts")
    generate("phrases", sum(SIZES.values()), 0, folder / "raw", options={"validation": 30, "test": 30})
    files = {split: [folder / "raw" / f"{split}.parquet"] for split in SPLITS}
    settings = Preparation(label_per="span", labels=["plain", "loaded"], split=Split(published=True))
    prepare_dataset(files, folder / "prepared", settings)
    sources = {split: folder / "prepared" / f"{split}.parquet" for split in SPLITS}
    tokenizer = train_wordpiece(folder / "tokenizer", StoredTexts([sources["train"]]), vocab_size=500)
    tokenize_dataset(sources, tokenizer, max_tokens=32, folder=folder / "tokens", lengths=folder / "lengths.json")
    return folder


def run_of(posts, *, backbone, tokens=None, **fields):
    data = {
        split: str(posts / "tokens" / split if tokens else posts / "prepared" / f"{split}.parquet") for split in SPLITS
    }
    values = {
        "stage": "find",
        "model": "any",
        "dataset": "posts",
        "seed": 3,
        "labels": ["plain", "loaded"],
        "data": data,
    }
    task = {"kind": "span_detection", "classifier_dropout": 0.0} if tokens else {"kind": "span_detection"}
    return RunSettings.model_validate({**values, "backbone": backbone, "task": task, **fields})


def detector(posts):
    backbone = {"kind": "encoder", "mechanism": {"kind": "sdpa"}, "hidden_size": 48, "num_hidden_layers": 2}
    backbone |= {"num_attention_heads": 2, "intermediate_size": 96, "initializer_range": 0.1}
    backbone |= dict.fromkeys(("embedding_dropout", "mlp_dropout", "attention_output_dropout"), 0.0)
    return run_of(
        posts,
        backbone=backbone,
        tokens=True,
        tokenizer=str(posts / "tokenizer"),
        max_tokens=32,
        recipe={"epochs": 3, "learning_rate": 5e-3, "min_lr_ratio": 0.1, "batch_size": 8},
        execution={"device": "cpu"},
    )


@pytest.fixture(scope="module")
def trained(posts, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "run"
    train(detector(posts), out)
    return out


def test_scores_of_learnt_phrases(trained):
    record, history = read_record(trained), pd.read_csv(trained / "history.csv")
    assert record.metrics["test_f1"] > 0.9
    best = history["eval_f1"].idxmax()
    assert record.metrics["best_epoch"] == best + 1
    for name in ("f1", "precision", "recall", "loss", "threshold"):
        assert record.metrics[f"eval_{name}"] == pytest.approx(history[f"eval_{name}"][best])
    assert 0.1 <= record.metrics["eval_threshold"] <= 0.5


def test_predictions_of_documents_in_windows(trained, posts):
    record, predictions = read_record(trained), pd.read_parquet(trained / "predictions.parquet")
    assert len(load_tokens(posts / "tokens" / "test")) > SIZES["test"]
    for split, prefix in (("validation", "eval"), ("test", "test")):
        rows = predictions[predictions["split"] == split].set_index("id")
        source = pd.read_parquet(posts / "prepared" / f"{split}.parquet").set_index("id").loc[rows.index]
        assert len(rows) == SIZES[split]
        found, inside = [], []
        for row, text, spans in zip(rows.itertuples(), source["text"], source["label"], strict=True):
            assert len(row.probabilities) == len(text)
            inside.append(marked(spans, len(text)))
            assert spans_of(inside[-1]) == [tuple(span) for span in row.label]
            found.append(row.probabilities.astype(float) >= record.metrics["eval_threshold"])
            assert spans_of(found[-1]) == [tuple(span) for span in row.prediction]
            counts = character_counts(found[-1], inside[-1])
            assert counts == (row.true_positives, row.false_positives, row.false_negatives)
        scores = span_metrics(character_counts(np.concatenate(found), np.concatenate(inside)))
        assert scores == pytest.approx({name: record.metrics[f"{prefix}_{name}"] for name in scores})


def test_trained_detector_evaluated(trained, tmp_path):
    """Its threshold is chosen anew, on the same validation."""
    settings = read_mapping(trained / "config.yaml") | {"recipe": None, "start": {"checkpoint": str(trained / "model")}}
    evaluate(RunSettings.model_validate(settings), tmp_path / "again")
    before, after = (read_record(folder).metrics for folder in (trained, tmp_path / "again"))
    names = [f"{prefix}_{name}" for prefix in ("eval", "test") for name in ("f1", "precision", "recall")]
    assert {name: after[name] for name in names} == pytest.approx({name: before[name] for name in names})


def test_killed_detection(posts, trained, tmp_path):
    """The threshold and what a document's windows found are no part of a checkpoint."""
    with killed_in(training_run, "predict_splits"):
        train(detector(posts), tmp_path / "out")
    train(detector(posts), tmp_path / "out")
    assert read_record(tmp_path / "out").metrics == read_record(trained).metrics
    found, expected = (pd.read_parquet(folder / "predictions.parquet") for folder in (tmp_path / "out", trained))
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("kind", ["everything", "tfidf_spans"])
def test_baselines_of_detection(posts, tmp_path, kind):
    evaluate(run_of(posts, backbone={"kind": kind}), tmp_path / kind)
    metrics, predictions = (
        read_record(tmp_path / kind).metrics,
        pd.read_parquet(tmp_path / kind / "predictions.parquet"),
    )
    assert sorted(predictions["split"].value_counts().tolist()) == [30, 30]
    assert set(metrics) == {
        f"{prefix}_{name}" for prefix in ("eval", "test") for name in ("f1", "precision", "recall")
    } | {"eval_threshold"}
    rows = predictions[predictions["split"] == "test"]
    characters = rows["probabilities"].map(len).sum()
    share = rows[["true_positives", "false_negatives"]].to_numpy().sum() / characters
    if kind == "everything":
        assert (metrics["test_recall"], metrics["test_precision"]) == (1, pytest.approx(share))
    else:
        assert metrics["test_f1"] > 2 * share / (1 + share) + 0.2
