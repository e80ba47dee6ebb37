import platform
import subprocess
import sys

import pytest
import sklearn
import torch

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


def test_the_commit_is_marked_when_code_differs_from_it(checkout):
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True).stdout.strip()
    assert folders.git_commit() == commit
    (checkout / "lib/training/folders.py").write_text("second\n")
    assert folders.git_commit() == commit, "that of the start"
    folders.git_commit.cache_clear()
    assert folders.git_commit() == f"{commit}-dirty"


def test_account_and_partition_do_not_mark_the_commit(checkout):
    (checkout / "slurm/profile.yaml").write_text("slurm_account: mine\n")
    assert not folders.git_commit().endswith("-dirty")


def test_versions_are_those_that_were_imported_and_not_those_installed_since(monkeypatch):
    monkeypatch.setattr(record, "version", lambda package: "99.0")
    packages = ["torch", "scikit-learn", "triton"]
    found = record._versions(record.Environment("cpu", "", packages, 0))
    assert found == {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "triton": "99.0" if "triton" not in sys.modules else sys.modules["triton"].__version__,
    }
