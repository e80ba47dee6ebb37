"""Whole small trainings: what they leave, what they keep, what they refuse."""

import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from safetensors.torch import load_file

from lib.core.errors import ConfigError, RunError
from lib.core.record import read_record
from lib.core.settings.finetune_run import FinetuneRun
from lib.core.settings.run import MlmRun
from lib.evaluation.metrics import classification_metrics
from lib.training import callbacks
from lib.training.finetune import finetune
from lib.training.masked_lm import train_masked_lm

ROOT = Path(__file__).resolve().parents[3]
LSH = {"kind": "lsh", "num_hashes": 2, "chunk_size": 8}


def program(stage):
    return runpy.run_path(str(ROOT / "scripts" / f"{stage}.py"))["main"]


@pytest.fixture(scope="module")
def stages(corpus, tmp_path_factory):
    """The folders of a pretraining and of the fine-tuning that starts from it, each by its script."""
    folder = tmp_path_factory.mktemp("stages")
    data = {split: str(corpus / "tokens" / split) for split in ("train", "validation", "test")}
    common = {
        "model": "lsh-h2-c8",
        "seed": 3,
        "precision": "fp32",
        "mechanism": LSH,
        "encoder": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64},
        "tokenizer": str(corpus / "tokenizer"),
        "execution": {"device": "cpu"},
    }
    optimisation = {"epochs": 3, "learning_rate": 2e-3, "min_lr_ratio": 0.1, "batch_size": 16}
    pretrain = common | {
        "stage": "pretrain",
        "dataset": "wikipedia",
        "data": {split: data[split] for split in ("train", "validation")},
        "optimisation": optimisation,
    }
    finetuning = common | {
        "stage": "finetune",
        "dataset": "toy",
        "data": data,
        "labels": ["low", "high"],
        "optimisation": optimisation | {"freeze_layers": 1, "head_lr_multiplier": 2.0},
        "start": {"run": str(folder / "pretrain"), "checkpoint": str(folder / "pretrain" / "model")},
    }
    for stage, settings in (("pretrain", pretrain), ("finetune", finetuning)):
        config = folder / f"{stage}.yaml"
        config.write_text(yaml.safe_dump(settings))
        program(stage)(["--config", str(config), "--out", str(folder / stage)])
    return folder


def test_a_pretraining_leaves_its_record(stages):
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
    assert record.parameters["total"] == record.parameters["encoder"] + record.parameters["head"]
    assert set(record.parents) == {"tokenizer", "train", "validation"}


def test_tokens_are_the_real_ones_of_all_epochs(stages, corpus):
    from lib.data.tokens import load_tokens

    assert read_record(stages / "pretrain").tokens == 3 * sum(load_tokens(corpus / "tokens" / "train")["length"])


def test_training_learns(stages):
    history = pd.read_csv(stages / "pretrain" / "history.csv")
    assert history["train_loss"].is_monotonic_decreasing
    assert read_record(stages / "finetune").metrics["test_f1_macro"] > 0.8


def test_a_finetuning_keeps_the_best_epoch_and_tests_it(stages):
    out = stages / "finetune"
    record, history = read_record(out), pd.read_csv(out / "history.csv")
    best = history["eval_f1_macro"].idxmax()
    assert record.metrics["best_epoch"] == best + 1
    assert record.metrics["eval_f1_macro"] == pytest.approx(history["eval_f1_macro"][best])
    predictions = pd.read_parquet(out / "predictions.parquet")
    assert predictions.groupby("split").size().to_dict() == {"validation": 40, "test": 40}
    for split, prefix in (("validation", "eval"), ("test", "test")):
        rows = predictions[predictions["split"] == split]
        found = classification_metrics(rows["label"], np.stack(rows["probabilities"]), ["low", "high"])
        assert found["f1_macro"] == pytest.approx(record.metrics[f"{prefix}_f1_macro"])
    assert record.parents["start"].path == str(stages / "pretrain" / "model")


def test_a_run_is_repeated_by_its_own_config(stages, tmp_path):
    program("pretrain")(["--config", str(stages / "pretrain" / "config.yaml"), "--out", str(tmp_path / "again")])
    first, second = (
        load_file(folder / "model" / "model.safetensors") for folder in (stages / "pretrain", tmp_path / "again")
    )
    assert first.keys() == second.keys()
    for name, weight in first.items():
        assert torch.equal(weight, second[name]), name


def test_a_finished_run_is_not_overwritten(stages):
    before = (stages / "pretrain" / "run.json").read_bytes()
    with pytest.raises(RunError, match="finished run.*--out another"):
        program("pretrain")(["--config", str(stages / "pretrain.yaml"), "--out", str(stages / "pretrain")])
    assert (stages / "pretrain" / "run.json").read_bytes() == before


def test_prediction_of_new_documents(stages, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("bal bel bil bol bul\n" + "gut kus kur " * 200 + "\nbal bel\n")
    program("predict")(
        ["--model", str(stages / "finetune" / "model"), "--input", str(texts), "--out", str(tmp_path / "out.csv")]
    )
    found = pd.read_csv(tmp_path / "out.csv")
    assert list(found.columns) == ["id", "label", "high", "low"]
    assert found["label"].tolist() == ["high", "low", "high"]
    np.testing.assert_allclose(found["high"] + found["low"], 1, atol=1e-5)
    table = tmp_path / "table.csv"
    pd.DataFrame({"review": ["bal bel bil bol bul", "gut kus kur " * 200]}).to_csv(table, index=False)
    program("predict")(
        ["--model", str(stages / "finetune" / "model"), "--input", str(table), "--column", "review",
         "--out", str(tmp_path / "out2.csv")]
    )  # fmt: skip
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out2.csv")["high"], found["high"][:2], atol=1e-5)


def test_frozen_weights_move_after_the_thaw(settings, tmp_path, monkeypatch):
    seen = []
    freeze = callbacks.Freezing.on_epoch_begin

    def watch(self, args, state, control, model, **kwargs):
        seen.append({name: weight.detach().clone() for name, weight in model.named_parameters()})
        freeze(self, args, state, control, model, **kwargs)

    monkeypatch.setattr(callbacks.Freezing, "on_epoch_begin", watch)
    run = FinetuneRun.model_validate(settings("finetune", optimisation={"epochs": 4, "freeze_layers": 1}))
    finetune(run, tmp_path / "out")
    start, after_one, thawed, after_thaw = seen
    frozen = [name for name in start if ".layers.0." in name or ".embeddings." in name]
    free = [name for name in start if name not in frozen]
    assert frozen
    assert any(".layers.1." in name for name in free)
    for name in frozen:
        assert torch.equal(start[name], thawed[name]), f"{name} moved while frozen"
    for name in free:
        assert not torch.equal(start[name], after_one[name]), f"{name} stood still"
    moved = [not torch.equal(thawed[name], after_thaw[name]) for name in frozen]
    assert all(moved)


def test_multipliers_scale_the_steps(settings, tmp_path):
    run = FinetuneRun.model_validate(
        settings("finetune", optimisation={"epochs": 1, "backbone_lr_multiplier": 0.0, "head_lr_multiplier": 1.0})
    )
    finetune(run, tmp_path / "still")
    moving = FinetuneRun.model_validate(settings("finetune", optimisation={"epochs": 1, "head_lr_multiplier": 0.0}))
    finetune(moving, tmp_path / "moving")
    still, moved = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("still", "moving"))
    for name, weight in still.items():
        in_encoder = name.startswith("encoder.")
        if "bias" not in name:
            assert not torch.equal(weight, moved[name]), name
        if in_encoder and "norm" not in name and "bias" not in name:
            assert float(weight.std()) == pytest.approx(0.02, rel=0.2), f"{name} left its initial spread"


def test_the_held_out_loss_is_that_of_a_token(settings, tmp_path):
    """One document to a batch or all at once: the mean over predicted tokens is the same."""
    losses = []
    for tokens in (32, 4096):
        run = MlmRun.model_validate(settings("pretrain", optimisation={"epochs": 1, "learning_rate": 1e-9},
                                             execution={"micro_batch_tokens": tokens}))  # fmt: skip
        train_masked_lm(run, tmp_path / str(tokens))
        losses.append(read_record(tmp_path / str(tokens)).metrics["eval_loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_start_with_another_architecture_is_refused(settings, stages, tmp_path):
    start = {"run": str(stages / "pretrain"), "checkpoint": str(stages / "pretrain" / "model")}
    run = FinetuneRun.model_validate(settings("finetune") | {"start": start})
    with pytest.raises(RunError, match="shares queries and keys"):
        finetune(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_resume_needs_a_working_checkpoint(settings, stages, tmp_path):
    start = {
        "run": str(stages / "pretrain"),
        "checkpoint": str(stages / "pretrain" / "model"),
        "load_only_model_state": False,
    }
    run = MlmRun.model_validate(settings("pretrain") | {"start": start})
    with pytest.raises(RunError, match="no training state.*load_only_model_state"):
        train_masked_lm(run, tmp_path / "out")


def test_a_loss_that_is_no_number_stops_the_run(settings, tmp_path):
    run = MlmRun.model_validate(settings("pretrain", optimisation={"learning_rate": 1e38, "max_grad_norm": 0}))
    with pytest.raises(RunError, match="training loss of epoch 1 is nan"):
        train_masked_lm(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bf16_trains_on_a_cpu(settings, tmp_path):
    run = MlmRun.model_validate(settings("pretrain", optimisation={"epochs": 1}) | {"precision": "bf16"})
    train_masked_lm(run, tmp_path / "out")
    record = read_record(tmp_path / "out")
    assert record.precision == "bf16"
    assert np.isfinite(record.metrics["eval_loss"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize(
    ("changes", "message"),
    [({"precision": "fp16"}, "'fp16', which needs a GPU"), ({"execution": {"device": "cuda"}}, "torch sees no GPU")],
)
def test_what_needs_a_gpu_says_so(settings, tmp_path, changes, message):
    run = MlmRun.model_validate(settings("pretrain", **changes))
    with pytest.raises(RunError, match=message):
        train_masked_lm(run, tmp_path / "out")


def test_settings_are_checked_with_all_problems_at_once(config_file, tmp_path):
    path = config_file("pretrain", optimisation={"epochs": 0, "learning_speed": 1}, precision="fp64")
    with pytest.raises(ConfigError) as error:
        program("pretrain")(["--config", str(path), "--out", str(tmp_path / "out")])
    for part in ("optimisation.epochs", "optimisation.learning_speed: unknown key", "precision", "fp64"):
        assert part in str(error.value)


def test_trackers(settings, tmp_path, monkeypatch):
    """TensorBoard writes events and Weights & Biases, offline, a run folder, both beside the results."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("WANDB_DIR", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    trackers = {"report_to": ["tensorboard", "wandb"], "wandb_project": "reading-room"}
    run = MlmRun.model_validate(settings("pretrain", execution=trackers))
    train_masked_lm(run, tmp_path / "out")
    assert list((tmp_path / "out" / "tensorboard").rglob("events.out.tfevents.*"))
    (log,) = (tmp_path / "out" / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"reading-room" in log.read_bytes()
    assert b"eval/perplexity" in log.read_bytes()
    assert json.loads((tmp_path / "out" / "run.json").read_text())["stage"] == "pretrain"
    shutil.rmtree(tmp_path / "out" / "wandb")
