"""A run computes with the kernels that its execution asks for, and its record says so."""

import pytest
from killing import killed_in

from lib.core.record import read_record
from lib.training.folders import RunFolders
from lib.training.run import train

pytestmark = pytest.mark.extended

LSH = {"mechanism": {"kind": "lsh", "num_hashes": 1, "chunk_size": 16}}
FAVOR = {"mechanism": {"kind": "favor", "nb_features": 16}}
WINDOW = {"mechanism": {"kind": "window", "width": 8, "global_tokens": 1}}
HYBRID = {"mechanism": [{"kind": "sdpa"}, FAVOR["mechanism"]], "num_hidden_layers": 2}
SSM = {
    "kind": "ssm",
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "head_size": 16,
    "state_size": 16,
    "embedding_dropout": 0.0,
    "layer_dropout": 0.0,
}
ONE_STEP = {"epochs": 1, "steps": 1, "batch_size": 4}


@pytest.mark.parametrize("backbone", [LSH, WINDOW, HYBRID, SSM], ids=["lsh", "window", "hybrid", "ssm"])
def test_training_by_kernels_as_by_torch(backbone, run_of, tmp_path):
    pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
    records = {}
    for kernels in ("torch", "triton"):
        execution = {"kernels": kernels, "micro_batch_tokens": 128}
        train(run_of("pretrain", backbone=backbone, recipe=ONE_STEP, execution=execution), tmp_path / kernels)
        records[kernels] = read_record(tmp_path / kernels)
        assert records[kernels].kernels == kernels
    expected, found = (records[kernels].metrics for kernels in ("torch", "triton"))
    assert found == pytest.approx(expected, rel=1e-4)


def test_recorded_kernels_of_a_run_without_steps(run_of, tmp_path):
    """It had all its steps when it was killed; exact attention has no kernels of ours."""
    run = run_of("pretrain", backbone=HYBRID, recipe=ONE_STEP)
    with killed_in(RunFolders, "stage"):
        train(run, tmp_path / "out")
    train(run, tmp_path / "out")
    assert read_record(tmp_path / "out").kernels == "torch"
    train(run_of("pretrain", recipe=ONE_STEP), tmp_path / "exact")
    assert read_record(tmp_path / "exact").kernels is None
