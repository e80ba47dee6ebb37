"""Snakemake takes a result as up to date with every state that it is known to be good for, and with no other."""

from types import SimpleNamespace

import pytest
from snakemake.persistence import PersistenceBase

from lib.workflow.known_states import FILE, recognise_states, remember_states

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
    monkeypatch.setattr(PersistenceBase, "params_changed", PersistenceBase.params_changed)


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
