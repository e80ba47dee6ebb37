"""Snakemake takes a result as up to date with every state that it is known to be good for, and with no other."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from ready import SNAKEMAKE, ready
from snakemake.persistence import PersistenceBase

from lib.workflow.staleness.known_states import FILE, recognise_states, remember_states

OUT = "runs/run.json"


class Metadata(PersistenceBase):
    """Snakemake's comparison on a record in memory."""

    def __init__(self, **record):
        self.record = SimpleNamespace(record_format_version=6, **record)

    def metadata(self, target):
        return self.record

    def _params(self, job):
        return job.parameters


Metadata.__abstractmethods__ = frozenset()


def job(*parameters):
    made = type("Job", (), {})()
    made.output, made.parameters = [OUT], list(parameters)
    return made


@pytest.fixture(autouse=True)
def snakemake_as_it_was(monkeypatch):
    for name in ("params_changed", "metadata"):
        monkeypatch.setattr(PersistenceBase, name, getattr(PersistenceBase, name))


@pytest.fixture
def accepted(tmp_path):
    """Return the metadata of a result that was made with code `a`, accepted with `b`, and is looked at now."""

    def accept(only_parameters=True, made=1.5):
        metadata = Metadata(params=["settings", "a"], starttime=1.5)
        remember_states(tmp_path, metadata, {job(): True})
        metadata.record.params = ["settings", "b"]
        if not only_parameters:
            remember_states(tmp_path, metadata, {job(): False})
        metadata.record.starttime = made
        recognise_states(tmp_path)
        return metadata

    return accept


@pytest.mark.parametrize("code", ["a", "b"])
def test_known_states_are_up_to_date(accepted, code):
    assert not accepted().params_changed(job(code, "settings"))


def test_other_code_and_other_settings_are_stale(accepted):
    metadata = accepted()
    assert metadata.params_changed(job("settings", "c"))
    assert metadata.params_changed(job("other settings", "a"))
    assert metadata.params_changed(job("other settings", "b"))


def test_a_result_that_was_made_again_is_known_for_its_own_state_alone(accepted):
    metadata = accepted(made=2.5)
    assert metadata.params_changed(job("settings", "a"))
    assert not metadata.params_changed(job("settings", "b"))


def test_what_was_known_is_forgotten_when_more_than_parameters_is_accepted(accepted):
    """It was known together with other inputs."""
    assert accepted(only_parameters=False).params_changed(job("settings", "a"))


def test_a_damaged_file_makes_more_stale_and_never_less(accepted, tmp_path):
    metadata = accepted()
    (tmp_path / FILE).write_text("{")
    assert metadata.params_changed(job("settings", "a"))
    assert not metadata.params_changed(job("settings", "b"))


SNAKEFILE = """
from lib.workflow.staleness.known_states import recognise_states
recognise_states(".")
rule a:
    output: "a.txt"
    shell: "touch {output}"
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """What runs Snakemake in a folder with a finished result, and the file of its metadata."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "Snakefile").write_text(SNAKEFILE)

    def snakemake(*arguments):
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[3])}
        command, environment = ready([*SNAKEMAKE, *arguments], environment)
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)

    assert snakemake("--cores", "1").returncode == 0
    (metadata,) = (path for path in (folder / ".snakemake/metadata").rglob("*") if path.is_file())
    return snakemake, metadata


@pytest.mark.parametrize(
    "content", [b'"x"', b'{"code": 5}', b"\xff\xfe", None], ids=["text", "number", "bytes", "folder"]
)
def test_metadata_that_cannot_be_read_ends_in_a_message(finished, content):
    snakemake, metadata = finished
    before = metadata.read_bytes()
    metadata.unlink()
    metadata.mkdir() if content is None else metadata.write_bytes(content)
    done = snakemake("-n")
    metadata.rmdir() if content is None else metadata.unlink()
    metadata.write_bytes(before)
    output = done.stdout + done.stderr
    assert done.returncode == 1
    assert ".snakemake/metadata: the entry of a.txt cannot be read (" in output
    assert "chmod -R u+rwX .snakemake" in output
    assert "Traceback" not in output
    assert snakemake("-n").returncode == 0
