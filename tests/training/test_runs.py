"""Whole small trainings: what they leave, what they keep, what they refuse."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from comparing import same
from transformers import pipeline

from lib.core.errors import RunError
from lib.core.record import read_record
from lib.evaluation.metrics import classification_metrics
from lib.study.run import RunSettings
from lib.tokens.stored import load_tokens
from lib.training.predictor import Observer
from lib.training.run import train

ROOT = Path(__file__).resolve().parents[2]
LSH = {"kind": "lsh", "num_hashes": 2, "chunk_size": 8}
MAX_TOKENS = 32


def program(name):
    return runpy.run_path(str(ROOT / "scripts" / f"{name}.py"))["main"]


class Norms(Observer):
    """Notes, of each step, the norm of the gradients before they are clipped, and after."""

    def __init__(self):
        self.before, self.after = [], []

    def has_gradients(self, trainer):
        gradients = [weight.grad for weight in trainer.model.parameters() if weight.grad is not None]
        self.after.append(float(torch.nn.utils.get_total_norm(gradients)))

    def stepped(self, trainer):
        self.before.append(trainer.grad_norm)


@pytest.fixture(scope="module")
def tagging(settings, tmp_path_factory):
    """The folder of a training on labelled words."""
    folder = tmp_path_factory.mktemp("tagging")
    values = settings("tag", recipe={"epochs": 6, "learning_rate": 5e-3, "batch_size": 16})
    train(RunSettings.model_validate(values), folder / "tag")
    return folder / "tag"


@pytest.fixture(scope="module")
def stages(settings, tmp_path_factory):
    """The folders of a pretraining and of the fine-tuning that starts from it, each by its script."""
    folder = tmp_path_factory.mktemp("stages")
    common = {"model": "lsh-h2-c8", "seed": 3, "backbone": {"mechanism": LSH}}
    recipe = {"epochs": 3, "learning_rate": 2e-3, "batch_size": 16}
    start = {"run": str(folder / "pretrain"), "checkpoint": str(folder / "pretrain" / "model")}
    configs = {
        "pretrain": settings("pretrain", **common, recipe=recipe),
        "finetune": settings(
            "finetune", **common, recipe=recipe | {"freeze_layers": 1, "head_lr_multiplier": 2.0}, start=start
        ),
    }
    for stage, values in configs.items():
        config = folder / f"{stage}.yaml"
        config.write_text(yaml.safe_dump(values))
        program("train")(["--config", str(config), "--out", str(folder / stage)])
    return folder


def test_record_of_a_pretraining(stages, corpus):
    out = stages / "pretrain"
    assert {path.name for path in out.iterdir()} == {"config.yaml", "history.csv", "run.json", "model"}
    record = read_record(out)
    history = pd.read_csv(out / "history.csv")
    assert record.steps == 3 * 192 // 16 == history["step"].iloc[-1]
    assert record.epochs == len(history) == 3
    assert record.metrics["train_loss"] == pytest.approx(history["train_loss"].min())
    assert record.metrics["eval_perplexity"] == pytest.approx(np.exp(record.metrics["eval_loss"]))
    assert record.seconds == pytest.approx(history["seconds"].sum())
    assert record.peak_memory_kind == "resident"
    assert record.peak_memory_mb > 100
    assert record.parameters["total"] == record.parameters["backbone"] + record.parameters["head"]
    assert set(record.parents) == {"tokenizer", "train", "validation"}
    assert not record.shared
    lengths = load_tokens(corpus / "tokens" / "train")["length"][:]
    assert record.tokens == 3 * sum(lengths), "padding is not counted"
    share = sum(length > 2 * LSH["chunk_size"] for length in lengths) / len(lengths)
    assert 0 < share < 1
    assert [read_record(stages / stage).approximated for stage in ("pretrain", "finetune")] == [share, share]
    assert history["train_loss"].is_monotonic_decreasing


def test_best_epoch_of_a_finetuning(stages, corpus):
    out = stages / "finetune"
    record, history = read_record(out), pd.read_csv(out / "history.csv")
    assert record.metrics["test_f1_macro"] > 0.8
    best = history["eval_f1_macro"].idxmax()
    assert record.metrics["best_epoch"] == best + 1
    assert record.metrics["eval_f1_macro"] == pytest.approx(history["eval_f1_macro"][best])
    predictions = pd.read_parquet(out / "predictions.parquet")
    assert predictions.groupby("split").size().to_dict() == {"validation": 40, "test": 40}
    for split, prefix in (("validation", "eval"), ("test", "test")):
        rows = predictions[predictions["split"] == split]
        labels = pd.read_parquet(corpus / f"{split}.parquet").set_index("id")["label"]
        assert rows["label"].tolist() == labels[rows["id"]].tolist()
        found = classification_metrics(rows["label"], np.stack(rows["probabilities"]), ["low", "high"])
        assert found["f1_macro"] == pytest.approx(record.metrics[f"{prefix}_f1_macro"])
    assert record.parents["start"].path == str(stages / "pretrain" / "model")
    assert set(record.shared) == {"validation", "test"}


def test_prediction_by_hand_as_in_the_run(stages, corpus, tmp_path):
    """Also of documents that are longer than every training document, cut where the run cut its own."""
    source = pd.read_parquet(corpus / "test.parquet")
    longest = max(load_tokens(corpus / "tokens" / "train")["length"])
    assert longest < load_tokens(corpus / "tokens" / "test")["length"][0] < MAX_TOKENS
    assert load_tokens(corpus / "tokens" / "test")["length"][1] == MAX_TOKENS
    options = ["--model", str(stages / "finetune" / "model"), "--input", str(corpus / "test.parquet")]
    program("tools/predict")([*options, "--out", str(tmp_path / "out.csv")])
    program("tools/predict")([*options, "--out", str(tmp_path / "cut.csv"), "--max-tokens", str(longest)])
    found, cut = (pd.read_csv(tmp_path / name) for name in ("out.csv", "cut.csv"))
    recorded = pd.read_parquet(stages / "finetune" / "predictions.parquet").query("split == 'test'").set_index("id")
    expected = np.stack(recorded.loc[source["id"], "probabilities"])
    np.testing.assert_allclose(found[["low", "high"]], expected, atol=1e-6)
    different = (cut["high"] - found["high"]).abs() > 1e-5
    assert different.tolist() == [True, True] + [False] * 38


def test_run_repeated_by_its_own_config(stages, tmp_path):
    train_again = program("train")
    train_again(["--config", str(stages / "pretrain" / "config.yaml"), "--out", str(tmp_path / "again")])
    assert same(stages / "pretrain" / "model", tmp_path / "again" / "model")
    before = (stages / "pretrain" / "run.json").read_bytes()
    with pytest.raises(RunError, match="finished run"):
        train_again(["--config", str(stages / "pretrain.yaml"), "--out", str(stages / "pretrain")])
    assert (stages / "pretrain" / "run.json").read_bytes() == before


def test_gradients_after_clipping_and_order_by_seed(run_of, tmp_path):
    """Both runs begin with the same weights, so that only the order of documents can make their losses differ."""
    norms, first = {}, {}

    class Begin(Observer):
        def began(self, trainer):
            first.update(first or {name: weight.clone() for name, weight in trainer.model.state_dict().items()})
            trainer.model.load_state_dict(first)

    recipe = {"epochs": 1, "max_grad_norm": 0.1}
    for name, seed in (("one", 7), ("again", 7), ("other", 8)):
        norms[name] = Norms()
        dropouts = dict.fromkeys(("embedding_dropout", "mlp_dropout", "attention_output_dropout"), 0.0)
        run = run_of("finetune", seed=seed, recipe=recipe, backbone=dropouts, task={"classifier_dropout": 0.0})
        train(run, tmp_path / name, observers=[Begin(), norms[name]])
    assert min(norms["one"].before) < 0.1 < max(norms["one"].before)
    expected = [min(norm, 0.1) for norm in norms["one"].before]
    assert norms["one"].after == pytest.approx(expected, rel=1e-4)
    assert norms["one"].before == norms["again"].before != norms["other"].before
    assert norms["other"].before[0] != pytest.approx(norms["one"].before[0], rel=1e-6)


@pytest.mark.extended
def test_words_told_by_their_context(tagging, tagged):
    """A word's class is a matter of the word before it, so that the word itself tells nothing."""
    record, history = read_record(tagging), pd.read_csv(tagging / "history.csv")
    assert record.metrics["test_accuracy"] > 0.9
    best = history["eval_accuracy"].idxmax()
    assert record.metrics["best_epoch"] == best + 1
    for name in ("accuracy", "sequence_accuracy", "loss", "f1_macro"):
        assert record.metrics[f"eval_{name}"] == pytest.approx(history[f"eval_{name}"][best], rel=1e-5)
    predictions = pd.read_parquet(tagging / "predictions.parquet")
    assert sorted(predictions.columns) == ["group", "id", "label", "prediction", "split"]
    for split, prefix in (("validation", "eval"), ("test", "test")):
        rows = predictions[predictions["split"] == split].set_index("id")
        source = pd.read_parquet(tagged / f"{split}.parquet").set_index("id").loc[rows.index]
        assert len(rows) == 40
        # In order; the first word has no label, and one document of the test is cut.
        for found, labels in zip(rows["label"], source["label"], strict=True):
            assert found.tolist() == labels[1:MAX_TOKENS].tolist()
        assert rows["group"].tolist() == source["group"].tolist()
        right = [found == labels for found, labels in zip(rows["prediction"], rows["label"], strict=True)]
        assert record.metrics[f"{prefix}_accuracy"] == pytest.approx(np.concatenate(right).mean())
        whole = np.mean([row.all() for row in right])
        assert record.metrics[f"{prefix}_sequence_accuracy"] == pytest.approx(whole)
    # `low` and `high` are the halves of the ten words that the model knows, and tell of the word before.
    found = pipeline("token-classification", model=str(tagging / "model"))("bal bat ban  ber bel bam")
    assert [entry["word"] for entry in found] == ["bal", "bat", "ban", "ber", "bel", "bam"]
    assert [entry["entity"] for entry in found][1:] == ["low", "high", "low", "high", "high"]


@pytest.mark.parametrize("stage", ["pretrain", pytest.param("tag", marks=pytest.mark.extended)])
def test_held_out_loss_by_batches(stage, run_of, tmp_path):
    """One document to a batch or all at once: the mean over predicted tokens, or labelled words, is the same."""
    losses = []
    for tokens in (32, 4096):
        recipe = {"epochs": 1, "steps": 1, "learning_rate": 1e-9}
        train(run_of(stage, recipe=recipe, execution={"micro_batch_tokens": tokens}), tmp_path / str(tokens))
        losses.append(read_record(tmp_path / str(tokens)).metrics["eval_loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.extended
def test_loss_that_is_no_number(run_of, tmp_path):
    run = run_of("pretrain", recipe={"learning_rate": 1e9, "max_grad_norm": 0})
    with pytest.raises(RunError, match="step 6 is nan"):
        train(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.extended
def test_bf16_on_a_cpu(run_of, tmp_path):
    train(run_of("pretrain", recipe={"epochs": 1}, precision="bf16"), tmp_path / "out")
    record = read_record(tmp_path / "out")
    assert record.precision == "bf16"
    assert np.isfinite(record.metrics["eval_loss"])


"""What the message names, all of it at once."""
