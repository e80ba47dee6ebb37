"""Trainings whose blocks are compiled: they resume bit for bit, score as others do, and their records say so."""

import shutil

import pytest
import torch
from killing import killed_at
from safetensors.torch import load_file

from lib.backbones.faster import check_compiler
from lib.core.errors import RunError
from lib.core.record import read_record
from lib.training.run import train

COMPILED = {"compile": True}
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler: g++")


def trained(run, out, *, killed=None):
    torch._dynamo.reset()
    if killed is not None:
        with killed_at(killed):
            train(run, out)
        torch._dynamo.reset()  # as in a new process
    train(run, out)
    return load_file(out / "model" / "model.safetensors"), read_record(out)


@needs_compiler
@pytest.mark.parametrize("mechanism", [{"kind": "sdpa"}, {"kind": "favor", "nb_features": 16}], ids=["sdpa", "favor"])
def test_a_killed_training_ends_with_the_bits_of_an_undisturbed_one(mechanism, run_of, tmp_path):
    run = run_of("finetune", backbone={"mechanism": mechanism}, execution=COMPILED)
    weights, record = trained(run, tmp_path / "undisturbed")
    resumed, _ = trained(run, tmp_path / "killed", killed=8)
    assert all(map(torch.equal, weights.values(), resumed.values()))
    assert all(each.execution["compile"] for each in record.stretches)
    plain, others = trained(run_of("finetune", backbone={"mechanism": mechanism}), tmp_path / "plain")
    assert not any(each.execution["compile"] for each in others.stretches)
    assert plain.keys() == weights.keys()
    assert record.metrics == pytest.approx(others.metrics, abs=0.05)


def test_without_a_compiler_a_run_says_what_is_missing(run_of, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(RunError, match=r"execution.training.compile is true, but there is no C\+\+ compiler"):
        train(run_of("finetune", execution=COMPILED | {"device": "cpu"}), tmp_path / "out")
    monkeypatch.setenv("CXX", "true")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    check_compiler("cpu")
