import subprocess

import pytest

from lib.training import record


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A committed checkout of a few files, in which the code of the record lies."""
    for name in ("lib/training/record.py", "slurm/profile.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("first\n")
    author = ["-c", "user.name=A", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(record, "__file__", str(tmp_path / "lib/training/record.py"))
    return tmp_path


def test_the_commit_is_marked_when_code_differs_from_it(checkout):
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True).stdout.strip()
    assert record._git_commit() == commit
    (checkout / "lib/training/record.py").write_text("second\n")
    assert record._git_commit() == f"{commit}-dirty"


def test_account_and_partition_do_not_mark_the_commit(checkout):
    (checkout / "slurm/profile.yaml").write_text("slurm_account: mine\n")
    assert not record._git_commit().endswith("-dirty")
