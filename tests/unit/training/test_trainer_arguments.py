"""What the recipe and the machine make of the Trainer's arguments."""

import math

import pytest
import torch
from pydantic import ValidationError

from lib.core import packages
from lib.core.errors import RunError
from lib.study.execution import Training
from lib.study.run import RunSettings
from lib.training.trainer import evaluation_arguments, micro_batch_size, training_arguments


def arguments(tmp_path, *, precision="fp32", device="cpu", best=None, run_name=None, **recipe):
    run = RunSettings(
        stage="pretrain",
        model="sdpa",
        dataset="wikipedia",
        seed=1,
        precision=precision,
        task={"kind": "masked_lm"},
        backbone={"kind": "encoder"},
        tokenizer="tokenizer",
        data={"train": "train", "validation": "validation"},
        recipe={"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.1, "batch_size": 8} | recipe,
        execution={"device": device} | ({"run_name": run_name} if run_name else {}),
    )
    return training_arguments(
        work=str(tmp_path), run=run, recipe=run.recipe, longest=32, longest_evaluated=64, best=best
    )


@pytest.mark.parametrize(
    ("batch_size", "longest", "tokens", "expected"),
    [
        (64, 512, 32_768, 64),
        (64, 4096, 32_768, 8),
        (16, 16_384, 32_768, 2),
        (10, 100, 750, 5),
        (8, 512, 100, 1),
        (10**9, 512, 1024, 2),
    ],
)
def test_the_micro_batch_is_the_largest_divisor_that_fits(batch_size, longest, tokens, expected):
    assert micro_batch_size(batch_size, longest, tokens) == expected


def test_the_warm_up_is_a_share_of_the_steps_up_to_all_of_them(tmp_path):
    shares = [0.0, 1e-9, *(number / 997 for number in range(1, 997)), 0.1, 0.3, 0.999999, 1.0]
    for share in shares:
        found = arguments(tmp_path, warmup_ratio=share)
        for steps in (1, 2, 7, 10, 24, 999, 1000, 123_457, 10_000_000):
            assert found.get_warmup_steps(steps) == math.ceil(steps * share), (share, steps)


def test_bf16_on_a_gpu_without_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Old GPU")
    with pytest.raises(RunError, match="'bf16', which Old GPU cannot do. Expected.*'fp16' or 'fp32'"):
        arguments(tmp_path, precision="bf16", device="auto")


@pytest.mark.skipif(torch.accelerator.is_available(), reason="needs a machine without an accelerator")
def test_bf16_without_a_gpu_runs_on_the_cpu(tmp_path):
    assert arguments(tmp_path, precision="bf16", device="auto").device.type == "cpu"


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_bf16_runs_where_the_device_does_it(device, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: device != "cpu")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A GPU")
    assert arguments(tmp_path, precision="bf16", device=device).bf16


def test_the_best_epoch_is_chosen_as_asked(tmp_path):
    last, best = arguments(tmp_path), arguments(tmp_path, best=("loss", False))
    assert (last.load_best_model_at_end, best.load_best_model_at_end) == (False, True)
    assert (best.metric_for_best_model, best.greater_is_better) == ("loss", False)


def test_evaluations_come_at_steps_if_asked(tmp_path):
    epochs, steps = arguments(tmp_path), arguments(tmp_path, evaluate_every=7, best=("loss", False))
    assert (epochs.eval_strategy, epochs.save_strategy) == ("epoch", "epoch")
    assert (steps.eval_strategy, steps.eval_steps, steps.save_strategy, steps.save_steps) == ("steps", 7, "steps", 7)


def test_the_optimiser_is_that_of_the_recipe(tmp_path, monkeypatch):
    plain = arguments(tmp_path).optim
    assert "8bit" not in plain
    monkeypatch.setattr(packages, "find_spec", lambda name: object())
    assert arguments(tmp_path, optimizer="adamw_8bit").optim == "adamw_8bit"
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(RunError, match="recipe.optimizer: adamw_8bit needs the package bitsandbytes"):
        arguments(tmp_path, optimizer="adamw_8bit")
    assert arguments(tmp_path).optim == plain


def test_trackers_show_the_name_that_the_settings_spell(tmp_path):
    assert arguments(tmp_path).run_name == "pretrain/sdpa/wikipedia/seed-1"
    assert arguments(tmp_path, run_name="{model} ({seed})").run_name == "sdpa (1)"
    with pytest.raises(ValidationError, match=r"'\{modle\}' cannot be filled in"):
        Training(run_name="{modle}")


def test_an_evaluation_has_the_batches_that_a_training_evaluates_by(tmp_path):
    """As many documents as fit, by the longest that is evaluated and not the longest that is trained on."""
    trained = arguments(tmp_path)
    assert (trained.per_device_train_batch_size, trained.per_device_eval_batch_size) == (8, 32_768 // 64)
    run = RunSettings(
        stage="probe",
        model="sdpa",
        dataset="imdb",
        seed=1,
        task={"kind": "sequence_classification"},
        backbone={"kind": "encoder"},
        tokenizer="tokenizer",
        labels=["no", "yes"],
        data={"validation": "validation", "test": "test"},
        start={"checkpoint": "model"},
        execution={"device": "cpu"},
    )
    alone = evaluation_arguments(work=str(tmp_path), run=run, longest=64)
    for name in ("per_device_eval_batch_size", "bf16", "fp16", "use_cpu", "remove_unused_columns"):
        assert getattr(alone, name) == getattr(trained, name), name
    assert evaluation_arguments(work=str(tmp_path), run=run, longest=40_000).per_device_eval_batch_size == 1
