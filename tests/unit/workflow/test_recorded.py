"""Runs that are recorded elsewhere: the plan takes them and refuses others; verification compares what they read."""

import json
from pathlib import Path

import pytest
import yaml
from run_records import write_run
from small_plans import key, plan
from small_studies import study

from lib.core.errors import ConfigError, DataError
from lib.core.files import file_digest
from lib.core.record import CONFIG, RunRecord, digest_of, read_record
from lib.core.record import write_run as write_record
from lib.workflow.commands.verification import verify
from lib.workflow.planning.plan import Plan
from lib.workflow.staleness.agreement import check_recorded

NAME = key("finetune", "sdpa")


def planned(folder="kept"):
    """Return the plan of one run and those that it needs, with recorded runs in a folder."""
    only = {"models": ["sdpa"], "stages": ["finetune"], "datasets": ["imdb"], "seeds": [1]}
    return Plan(study(layers=[("mine.yaml", {"only": only, "execution": {"recorded": [folder], "results": "own"}})]))


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Return a function that records a run in the folder `kept`, with the study's settings but for some."""
    monkeypatch.chdir(tmp_path)

    def write(name=NAME, digest="0", **settings):
        folder = write_run(Path("kept"), *name[:4], parents={"train": {"path": "theirs", "digest": digest}})
        (folder / CONFIG).write_text(yaml.safe_dump(json.loads(plan().run(name).settings) | settings))
        files = {CONFIG: file_digest(folder / CONFIG), "model/model.safetensors": "0"}
        write_record(folder, RunRecord(**read_record(folder).model_dump() | {"files": files}))
        return folder

    return write


def test_recorded_run_is_not_made(record):
    record()
    found = planned()
    check_recorded(found)
    assert found.paths.record(NAME) == f"kept/runs/{NAME.path}/run.json"
    assert [run.id for run in found.needed()] == [NAME]  # neither its pretraining nor its adaptation
    assert found.paths.record(key("finetune", "sdpa", seed=2)).startswith("own/runs/")


def test_records_that_do_not_fit(record):
    with pytest.raises(ConfigError, match=r"execution\.recorded: kept is not there"):
        planned()
    record(precision="bf16")
    with pytest.raises(DataError, match=r'setting precision: "bf16" in the run, "fp32" in the plan.*Correct'):
        check_recorded(planned())


def test_start_from_a_recorded_run(record):
    record(key("tapt", "sdpa"))
    with pytest.raises(DataError, match=f"{NAME.path}: needs the weights of tapt/sdpa/imdb/seed-1, which no record"):
        check_recorded(planned())


def test_recorded_run_that_read_other_data(record):
    place = Path(planned_data := plan().data(plan().run(NAME))["train"].replace("results", "own", 1))
    place.mkdir(parents=True)
    (place / "data.arrow").write_bytes(b"tokens")
    folder = record(digest=digest_of(place))
    found = planned()
    assert not verify("own", "own/code", found).differing
    record(digest="other")
    assert verify("own", "own/code", found).differing == {
        str(folder): [f"input train differs from that of the study's own runs: {planned_data}"]
    }
    (folder / CONFIG).write_text("{}\n")
    assert f"{CONFIG} is not what the run left" in verify("own", "own/code", found).differing[str(folder)]
