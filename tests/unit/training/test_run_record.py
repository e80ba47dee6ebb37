import platform
import re
import subprocess
import sys

import pandas as pd
import pytest
import sklearn
import torch
from datasets import Dataset
from run_records import write_run

from lib.core.record import HISTORY, PREDICTIONS, Parent, read_record
from lib.results.records import conditions_note
from lib.training import folders, record


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A committed checkout of a few files, in which the code lies."""
    for name in ("lib/training/folders.py", "slurm/profile.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("first\n")
    author = ["-c", "user.name=A", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(folders, "__file__", str(tmp_path / "lib/training/folders.py"))
    folders.git_commit.cache_clear()
    yield tmp_path
    folders.git_commit.cache_clear()


def test_commit_of_changed_code(checkout):
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True).stdout.strip()
    assert folders.git_commit() == commit
    (checkout / "slurm/profile.yaml").write_text("slurm_account: mine\n")
    folders.git_commit.cache_clear()
    assert folders.git_commit() == commit, "account and partition do not count"
    (checkout / "lib/training/folders.py").write_text("second\n")
    assert folders.git_commit() == commit, "that of the start"
    folders.git_commit.cache_clear()
    assert folders.git_commit() == f"{commit}-dirty"


EQUAL, RARE = [0, 1] * 50, [0] * 97 + [1] * 3


@pytest.mark.parametrize(
    ("labels", "losses", "predicted", "signs"),
    [
        (EQUAL, (0.7, 0.65), EQUAL, ["94 % of that of the class frequencies alone"]),
        (
            EQUAL,
            (0.3, 0.69),
            [1] * 100,
            ["100 % of that of the class frequencies alone", "100 % of the test documents"],
        ),
        (RARE, (0.14, 0.05), [0] * 98 + [1] * 2, []),
        (RARE, (0.14, 0.05), [0] * 99 + [1], ["99 % of the test documents"]),
    ],
)
def test_classifier_that_has_hardly_learnt(labels, losses, predicted, signs, tmp_path, caplog):
    """In its record and its log, and below tables, by its last loss, not its lowest one."""
    Dataset.from_dict({"id": EQUAL, "input_ids": [[1]] * 100, "length": [1] * 100, "label": labels}).save_to_disk(
        tmp_path / "train"
    )
    folder = write_run(tmp_path, "finetune", "minilm", "texts")
    pd.DataFrame({"epoch": [1, 2], "train_loss": losses}).to_csv(folder / HISTORY)
    rows = pd.DataFrame({"label": labels, "prediction": predicted, "probabilities": [[0.5, 0.5]] * 100})
    pd.concat([rows.assign(split="test"), rows.assign(split="validation", prediction=0)]).to_parquet(
        folder / PREDICTIONS
    )
    inputs = {"train": Parent(path=str(tmp_path / "train"), digest=None)}
    record.write_record(read_record(folder).model_copy(update={"parents": inputs}), folder, None)
    found = read_record(folder)
    assert re.findall(r"\d+ %.*?(?=$| and )", found.hardly_learnt) == signs
    said = f"Hardly learnt: finetune/minilm/texts/seed-0 ({found.hardly_learnt})." if signs else None
    assert conditions_note([folder / "run.json"]) == said
    assert (f"has hardly learnt: {found.hardly_learnt}." in caplog.text) == bool(signs)


def test_versions_that_were_imported(monkeypatch):
    monkeypatch.setattr(record, "version", lambda package: "99.0")
    packages = ["torch", "scikit-learn", "triton"]
    found = record._conditions(record.Environment("cpu", "", packages, 0))["versions"]
    assert found == {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "triton": "99.0" if "triton" not in sys.modules else sys.modules["triton"].__version__,
    }
