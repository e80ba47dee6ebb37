"""The history: one row per epoch, with the learning rates, the speed and, for the epoch kept, the test."""

import json

import pandas as pd
import pytest
import torch
from killing import attempt, killed_at
from torch.optim.optimizer import register_optimizer_step_pre_hook

from lib.core.record import read_record
from lib.tokens.stored import load_tokens
from lib.training.run import train
from lib.training.trainer import Trainer
from studies.hate_speech.schedule import learning_rates


def history(folder):
    return pd.read_csv(folder / "history.csv")


@pytest.fixture
def optimiser_rates(monkeypatch):
    """The optimiser's own learning rates in each epoch's last step, group by group."""
    steps, seen = [], []
    evaluate = Trainer._evaluate

    def watch(self):
        seen.append(steps[-1])
        evaluate(self)

    monkeypatch.setattr(Trainer, "_evaluate", watch)
    hook = register_optimizer_step_pre_hook(
        lambda optimizer, *_: steps.append({group["lr"] for group in optimizer.param_groups})
    )
    yield seen
    hook.remove()


@pytest.mark.parametrize(
    "multipliers", [(0.3, 0.7), pytest.param((0.0, 1.0), marks=pytest.mark.extended)], ids=["both", "head alone"]
)
def test_learning_rate_of_each_part(multipliers, run_of, tmp_path, optimiser_rates):
    backbone, head = multipliers
    recipe = {"epochs": 3, "backbone_lr_multiplier": backbone, "head_lr_multiplier": head, "min_lr_ratio": 0.5}
    run = run_of("finetune", recipe=recipe)
    train(run, tmp_path / "out")
    rows, record = history(tmp_path / "out"), read_record(tmp_path / "out")
    assert rows["learning_rate"].tolist() == pytest.approx(learning_rates(run.recipe.model_dump(), 18)[5::6])
    for (_, row), rates in zip(rows.iterrows(), optimiser_rates, strict=True):
        assert {row["learning_rate_backbone"], row["learning_rate_head"]} == rates
        assert row["learning_rate_backbone"] == pytest.approx(backbone * row["learning_rate"])
        assert row["learning_rate_head"] == pytest.approx(head * row["learning_rate"])
    # The test stands in the row of the epoch kept.
    tested = rows.dropna(subset="test_f1_macro")
    assert tested["epoch"].tolist() == [record.metrics["best_epoch"]]
    expected = {name: value for name, value in record.metrics.items() if name.startswith("test_")}
    assert tested.iloc[0][list(expected)].to_dict() == pytest.approx(expected)
    assert rows.drop(index=tested.index).filter(like="test_").isna().all(axis=None)


@pytest.mark.parametrize(("head", "lowest"), [(1.0, 0.0), (3.0, 0.1)])
def test_one_cycle_as_torch_has_it(head, lowest, run_of, tmp_path, optimiser_rates):
    recipe = {"schedule": "one_cycle", "epochs": 4, "warmup_ratio": 0.3, "min_lr_ratio": lowest}
    train(run_of("finetune", recipe=recipe | {"head_lr_multiplier": head}), tmp_path / "out")
    weight = torch.nn.Parameter(torch.zeros(1))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        torch.optim.AdamW([weight], lr=1e-4), max_lr=1e-3, total_steps=24, final_div_factor=0.04 / (lowest or 1e-30)
    )
    expected = []
    for _ in range(4):
        for _ in range(6):
            rate = schedule.get_last_lr()[0]
            schedule.optimizer.step()
            schedule.step()
        expected.append(rate)
    rows = history(tmp_path / "out")
    assert rows["learning_rate"].tolist() == pytest.approx(expected, rel=1e-6, abs=1e-12)
    named = {name for name in rows if name.startswith("learning_rate")}
    assert named == {"learning_rate"} if head == 1 else {"learning_rate", "learning_rate_backbone"} < named
    for rates, rate in zip(optimiser_rates, expected, strict=True):
        assert sorted(rates) == pytest.approx(sorted({rate, head * rate}), abs=1e-12)


def test_speed_and_memory_after_a_kill(run_of, corpus, tmp_path):
    run = run_of("pretrain", execution={"checkpoint_minutes": 1e-6})
    with killed_at(192 // 32 + 3):
        train(run, tmp_path / "out")
    state = attempt(tmp_path / "out") / "checkpoint-9" / "state.json"
    before = json.loads(state.read_text())["history"]["seconds"]
    train(run, tmp_path / "out")
    rows, tokens = history(tmp_path / "out"), sum(load_tokens(corpus / "tokens" / "train")["length"])
    assert (rows["tokens_per_second"] * rows["seconds"]).tolist() == pytest.approx([tokens, tokens])
    assert rows["seconds"].iloc[1] > before > 0
    assert rows["peak_memory_mb"].is_monotonic_increasing
    assert rows["peak_memory_mb"].min() > 100
