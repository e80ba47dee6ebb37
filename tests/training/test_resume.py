"""Runs killed at random instants and started again end bit-identical to those that were left alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ready import TRAINING, ready

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[2]
ONE_CYCLE = {"schedule": "one_cycle"}
LLAMA = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
RUNS = [
    ("pretrain", {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 8}}, {}),
    ("finetune", {"mechanism": {"kind": "favor", "nb_features": 16, "redraw_interval": 3}}, ONE_CYCLE),
    (
        "finetune",
        {
            "kind": "hierarchical",
            "encoder": {"kind": "pretrained", "architecture": LLAMA | {"num_attention_heads": 2}},
            "segment": 10,
            "overlap": 2,
            "pooling": "transformer",
            "group": 3,
        },
        {},
    ),
    ("tag", {"mechanism": {"kind": "sdpa"}}, {"lora": {"r": 4}, "steps": 41, "evaluate_every": 7}),
    ("imitate", {}, {"evaluate_every": 7}),
]


@pytest.fixture(scope="module")
def counts(settings, imitation, tmp_path_factory):
    """What studies/torture/scripts/torture.py counted, a mapping per run."""
    folder = tmp_path_factory.mktemp("torture")
    configs = []
    for number, (stage, backbone, recipe) in enumerate(RUNS):
        configs.append(folder / f"{number}.yaml")
        changes = {"backbone": backbone, "recipe": {"epochs": 2, "batch_size": 8} | recipe}
        values = imitation(**changes) if stage == "imitate" else settings(stage, **changes)
        configs[-1].write_text(json.dumps(values))
    torture = [
        sys.executable,
        ROOT / "studies/torture/scripts/torture.py",
        "--kills",
        "2",
        "--out",
        folder / "out",
        *configs,
    ]
    command = [sys.executable, str(ROOT / "scripts" / "preloaded.py"), *map(str, torture)]
    command, environment = ready(command, os.environ | {"PYTHONPATH": str(ROOT)}, TRAINING)
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    assert f"all {len(RUNS)}: {2 * len(RUNS)} kills" in process.stdout
    return json.loads((folder / "out" / "counts.json").read_text())


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_run_killed_at_random(number, counts):
    found = counts[number]
    assert found["run"].startswith(RUNS[number][0])
    assert found["kills"] == 2
    assert found["finished"] >= 1
    assert found["differences"] == []
    assert sum(found["resumes"] for found in counts) >= len(RUNS) // 2


def test_difference_between_seeds(settings, tmp_path):
    """Of runs with different seeds, that is."""
    from lib.study.run import RunSettings
    from lib.training.run import train
    from studies.torture.survival import differing

    for seed in (1, 2):
        train(RunSettings.model_validate(settings("finetune", seed=seed, recipe={"epochs": 1})), tmp_path / str(seed))
    assert {"model/model.safetensors", "history.csv", "run.json", "predictions.parquet"} <= set(
        differing(tmp_path / "1", tmp_path / "2")
    )
    assert differing(tmp_path / "1", tmp_path / "1") == []
