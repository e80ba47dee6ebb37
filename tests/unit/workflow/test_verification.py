import contextlib
import json

import pytest
from litter import leave_litter
from run_records import write_run

from lib.core.errors import DataError
from lib.core.files import write_json
from lib.core.record import RunRecord, digest_of, file_digest, read_record
from lib.core.record import write_run as write_record
from lib.workflow.commands.verification import verification_report, verify
from lib.workflow.staleness.acceptance import ACCEPTED
from lib.workflow.staleness.digests import code_digest
from lib.workflow.staleness.kept_code import VERSION, KeptCode, code_since, keep_code, kept_code

SCRIPT = "studies/hate_speech/scripts/describe_dataset.py"


@pytest.fixture
def code(tmp_path):
    """Folder of kept code, with that of a small program."""
    keep_code(tmp_path / "code", [code_digest(SCRIPT)])
    return tmp_path / "code"


def edited(code):
    """Keep code of which a definition was another one, one is new, and one is gone; return its digest."""
    kept, digest = kept_code(code, code_digest(SCRIPT)), "0123456789abcdef"
    changed, new, *_ = [name for name in kept.definitions if name.startswith("studies.hate_speech.description:")]
    definitions = kept.definitions | {changed: "another", "studies.hate_speech.description:gone": "any"}
    del definitions[new]
    changes = {"definitions": definitions, "files": {"gone.py": ""}}
    write_json(code / f"{digest}.json", kept.model_copy(update=changes).model_dump())
    return digest, changed.split(":")[1], new.split(":")[1]


@pytest.fixture
def run(tmp_path, code):
    """A finished run that left a model and read a tokeniser."""
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "vocab.txt").write_text("a\nb\n")
    (tokenizer / "tokenizer.json").write_text("{}")
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    (tokens / "data.arrow").write_bytes(b"tokens")
    places = {"tokenizer": tokenizer, "train": tokens}
    model = tmp_path / "runs/pretrain/sdpa/wikipedia/seed-0/model/model.safetensors"
    model.parent.mkdir(parents=True)
    model.write_bytes(b"weights")
    return write_run(
        tmp_path,
        "pretrain",
        "sdpa",
        "wikipedia",
        parents={name: {"path": str(place), "digest": digest_of(place)} for name, place in places.items()},
        files={"model/model.safetensors": file_digest(model)},
        code=code_digest(SCRIPT),
    )


def problems(tmp_path):
    return verify(str(tmp_path), str(tmp_path / "code")).differing


def test_untouched_run_is_as_recorded(tmp_path, run):
    found = verify(str(tmp_path), str(tmp_path / "code"))
    assert found.runs == 1
    assert not found.differing
    assert not found.unknown
    assert "1 finished runs, 1 as recorded, 0 differ." in verification_report(found, "results")


def test_litter_is_no_run(tmp_path, run):
    leave_litter(tmp_path)
    (tmp_path / "runs/pretrain/sdpa/wikipedia" / f".seed-1.{'0' * 32}").mkdir()
    (tmp_path / "runs/pretrain/sdpa/wikipedia" / f".seed-1.{'0' * 32}" / "run.json").write_text("{}")
    found = verify(str(tmp_path), str(tmp_path / "code"))
    assert (found.runs, found.differing) == (1, {})


@pytest.mark.parametrize("beginning", ["", "{", "null", '{"new": 1, '])
def test_record_that_cannot_be_read(tmp_path, run, beginning):
    """It was cut or damaged, or another version of the project wrote it, with a field more."""
    rest = (run / "run.json").read_text()[1:] if "new" in beginning else ""
    (run / "run.json").write_text(beginning + rest)
    with pytest.raises(DataError, match=r"run\.json"):
        problems(tmp_path)


def test_changed_file_of_a_run_differs(tmp_path, run):
    (run / "model/model.safetensors").write_bytes(b"Weights")
    assert problems(tmp_path) == {str(run): ["model/model.safetensors is not what the run left"]}
    (run / "model/model.safetensors").unlink()
    assert problems(tmp_path) == {str(run): ["model/model.safetensors is gone"]}


@pytest.mark.parametrize(
    ("name", "file"), [("tokenizer", "vocab.txt"), ("tokenizer", "tokenizer.json"), ("train", "data.arrow")]
)
def test_changed_input_differs(tmp_path, run, name, file):
    place = {"tokenizer": tmp_path / "tokenizer", "train": tmp_path / "tokens"}[name]
    (place / file).write_text("other")
    assert problems(tmp_path) == {str(run): [f"input {name} is not what the run read: {place}"]}
    place.rename(tmp_path / "elsewhere")
    assert problems(tmp_path) == {str(run): [f"input {name} is gone: {place}"]}


def test_changed_code_differs_by_definitions(tmp_path, code):
    digest, changed, new = edited(code)
    run = write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={}, code=digest)
    (said,) = problems(tmp_path)[str(run)]
    assert said.startswith("code of studies/hate_speech/description.py: `")
    assert said.endswith(" changed")
    assert all(f"`{name}`" in said for name in (changed, new, "gone"))


def test_accepted_code_and_inputs_do_not_differ(tmp_path, run, code):
    digest, *_ = edited(code)
    record = read_record(run)
    write_record(run, record.model_copy(update={"code": digest}))
    (tmp_path / "tokenizer/vocab.txt").write_text("a\nc\n")
    assert len(problems(tmp_path)[str(run)]) == 2
    entry = {"when": "2026", "reason": "why", "changes": [], "settings": {}, "code": code_digest(SCRIPT)}
    entry |= {"inputs": {"tokenizer": digest_of(tmp_path / "tokenizer")}}
    write_json(code / ACCEPTED, {str(run): [entry]})
    found = verify(str(tmp_path), str(code))
    assert not found.differing
    assert f"Accepted after changes, 1 of 1 runs:\n    {run}: why" in verification_report(found, "results")
    (tmp_path / "tokenizer/vocab.txt").write_text("a\nd\n")
    assert problems(tmp_path)


def test_digests_of_another_version(code):
    kept = kept_code(code, code_digest(SCRIPT))
    write_json(code / "0123456789abcdef.json", kept.model_dump(exclude={"version"}))
    (said,) = code_since(code, "0123456789abcdef", code_digest(SCRIPT))
    assert "makes digests in another way" in said


def test_record_without_settings_is_broken(tmp_path):
    folder = write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={})
    record = read_record(folder)
    write_record(folder, record.model_copy(update={"files": {}}))
    found = verify(str(tmp_path), str(tmp_path / "code"))
    assert found.damaged == [str(folder)]
    assert found.differing[str(folder)] == ["run.json does not name config.yaml, which every run leaves"]

    write_record(folder, record.model_copy(update={"files": {}, "imported": "a run of other people's code"}))
    assert not problems(tmp_path)
    (folder / "config.yaml").unlink()
    assert problems(tmp_path)[str(folder)] == ["config.yaml is gone"]


def test_code_that_was_not_kept_or_is_gone(tmp_path):
    write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={}, code="0123456789abcdef")
    ((found,),) = problems(tmp_path).values()
    assert "0123456789abcdef.json, which would tell where, is not there" in found
    gone = KeptCode(roots=["scripts/retired.py"], definitions={}, version=VERSION)
    write_json(tmp_path / "aa.json", gone.model_dump())
    assert "scripts.retired" in code_since(tmp_path, "aa")[0]


def test_changed_field_of_a_record_differs(tmp_path):
    folder = write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={})
    values = {"saved_steps": None} | json.loads((folder / "run.json").read_text())
    changed = {str: "x", int: 7, float: 0.123, list: ["x"], dict: {"x": 1}, type(None): "x"}
    for field in RunRecord.model_fields.keys() - {"digest"}:
        write_json(folder / "run.json", values | {field: changed[type(values.get(field))]})
        with contextlib.suppress(DataError):  # no record any more
            assert "run.json has changed since the run" in problems(tmp_path)[str(folder)], field


def test_record_of_another_run_differs(tmp_path):
    folder = write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={}, seed=1)
    folder.rename(folder.with_name("seed-2"))
    assert problems(tmp_path) == {
        str(folder.with_name("seed-2")): ["run.json is the record of another run, pretrain/sdpa/wikipedia/seed-1"]
    }
