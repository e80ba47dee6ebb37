"""A run that needs no tokens, and its folders."""

import pytest

from lib.study.run import RunSettings
from lib.training.folders import RunFolders

DIGEST = "0" * 16


@pytest.fixture
def run(tmp_path):
    """Settings of a run that needs no tokens."""
    data = {}
    for split in ("train", "validation", "test"):
        data[split] = str(tmp_path / f"{split}.parquet")
        (tmp_path / f"{split}.parquet").write_bytes(split.encode())
    return RunSettings.model_validate(
        {
            "stage": "score",
            "model": "tfidf",
            "dataset": "imdb",
            "seed": 1,
            "task": {"kind": "sequence_classification"},
            "labels": ["no", "yes"],
            "backbone": {"kind": "tfidf"},
            "data": data,
        }
    )


@pytest.fixture
def begin(run, tmp_path):
    """Return the folders of a new process at the run, as the workflow starts it."""

    def make(**changes):
        arguments = {"run": run, "out": tmp_path / "runs" / "out", "work": tmp_path / "work", "code": DIGEST}
        return RunFolders(**arguments | changes)

    return make
