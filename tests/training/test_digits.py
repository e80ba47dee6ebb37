"""Weights to the last bit: the variables of docs/results.md make them equal on x86-64 processors with AVX2."""

import hashlib
import os
import platform
import re
import subprocess
import sys

import pytest
import torch
import yaml

VARIABLES = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "COMPATIBLE"}
MECHANISMS = {
    "sdpa": {"kind": "sdpa"},
    "lsh": {"kind": "lsh", "num_hashes": 2, "chunk_size": 4},
    "favor": {"kind": "favor", "nb_features": 16},
}
STAGES = ("pretrain", "tapt", "finetune")
DIGESTS = {
    "sdpa pretrain": "768ee14938bfdece",
    "sdpa tapt": "28630bb26e5a3e30",
    "sdpa finetune": "ebd8d239693b8892",
    "lsh pretrain": "0c8544f9f3bfe96f",
    "lsh tapt": "88e6b0a7a88935c9",
    "lsh finetune": "989c9297120996f8",
    "favor pretrain": "48d8e449111a7a0c",
    "favor tapt": "5dacc9a4f9daddfd",
    "favor finetune": "4e49dc6e2034171b",
}
"""Of the weights after each stage, with the packages of requirements.lock. If those or the arithmetic change,
take the new ones, which the failing test prints."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        platform.machine() != "x86_64" or torch.backends.cpu.get_cpu_capability() == "DEFAULT",
        reason="needs an x86-64 processor with AVX2",
    ),
]


def test_weights_with_the_documented_variables(settings, repository, tmp_path):
    lock = (repository / "requirements.lock").read_text()
    locked, here = re.search(r"^torch==(.*)$", lock, re.MULTILINE)[1], torch.__version__.partition("+")[0]
    if here != locked:
        pytest.skip(f"the digests are those of torch {locked}; this is {here}")
    page = (repository / "docs/results.md").read_text()
    assert "export " + " ".join(f"{name}={value}" for name, value in VARIABLES.items()) in page
    arguments = []
    for name, mechanism in MECHANISMS.items():
        start = {}
        for stage in STAGES:
            out, config = tmp_path / name / stage, tmp_path / f"{name}-{stage}.yaml"
            values = settings(stage, model=name, backbone={"mechanism": mechanism}, **start)
            config.write_text(yaml.safe_dump(values))
            arguments += [config, out]
            start = {"start": {"run": str(out), "checkpoint": str(out / "model")}}
    subprocess.run(
        [sys.executable, repository / "tests/helpers/train_all.py", *arguments],
        env=os.environ | VARIABLES | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(repository)},
        check=True,
    )
    found = {
        f"{name} {stage}": hashlib.sha256(
            (tmp_path / name / stage / "model/model.safetensors").read_bytes()
        ).hexdigest()[:16]
        for name in MECHANISMS
        for stage in STAGES
    }
    assert found == DIGESTS
