"""Synthetic run records, written as a finished training writes them."""

import json
from pathlib import Path

from lib.core.files import write_json
from lib.core.record import HISTORY, RUN, RunRecord

MODELS = ["sdpa", "lsh-h2-c64", "lsh-h4-c64", "favor-m64"]


def write_run(root: Path, stage: str, model: str, dataset: str, seed: int = 0, **values: object) -> Path:
    """Write a record below `root` and return its folder; `values` replace fields, or else are metrics."""
    fields = {
        "stage": stage,
        "model": model,
        "dataset": dataset,
        "seed": seed,
        "task": "sequence_classification" if stage == "finetune" else "masked_lm",
        "parents": {"tokenizer": {"path": "tokenizer", "digest": "0"}},
        "parameters": {"total": 100, "backbone": 90, "head": 10},
        "epochs": 2,
        "steps": 20,
        "tokens": 4000,
        "seconds": 120.0,
        "seconds_per_epoch": 60.0,
        "tokens_per_second": 33.3,
        "peak_memory_mb": 1024.0,
        "peak_memory_kind": "resident",
        "precision": "fp32",
        "device": "cpu",
        "hardware": "a laptop",
        "versions": {"torch": "2"},
        "git_commit": None,
    }
    metrics = {"test_f1_macro": 0.8, "eval_f1_macro": 0.8} if stage == "finetune" else {"train_loss": 3.0}
    metrics |= {name: value for name, value in values.items() if name not in fields}
    fields |= {name: value for name, value in values.items() if name in fields}
    folder = root / "runs" / stage / model / dataset / f"seed-{seed}"
    write_json(folder / RUN, json.loads(RunRecord(**fields, metrics=metrics).model_dump_json()))
    (folder / HISTORY).write_text("epoch,train_loss\n1,3.5\n2,3.0\n")
    return folder
