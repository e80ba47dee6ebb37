"""Trainings whose blocks are compiled: they resume bit for bit, score as others do, and their records say so."""

import shutil

import pytest
import torch
from killing import killed_at
from safetensors.torch import load_file

from lib.core.record import read_record
from lib.training.run import train

pytestmark = pytest.mark.extended

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
def test_killed_compiled_run_resumes_bit_for_bit(run_of, tmp_path):
    mechanism = {"kind": "favor", "nb_features": 16}
    run = run_of("finetune", backbone={"mechanism": mechanism}, execution=COMPILED)
    weights, record = trained(run, tmp_path / "undisturbed")
    resumed, _ = trained(run, tmp_path / "killed", killed=8)
    assert all(map(torch.equal, weights.values(), resumed.values()))
    assert all(each.execution["compile"] for each in record.stretches)
    plain, others = trained(run_of("finetune", backbone={"mechanism": mechanism}), tmp_path / "plain")
    assert not any(each.execution["compile"] for each in others.stretches)
    assert plain.keys() == weights.keys()
    assert record.metrics == pytest.approx(others.metrics, abs=0.05)
