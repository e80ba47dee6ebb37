import contextlib
import json
from importlib.metadata import PackageNotFoundError, version

import pytest
from litter import leave_litter
from run_records import write_run

from lib.core.errors import DataError
from lib.core.files import write_json
from lib.core.record import RunRecord, digest_of, file_digest, read_record
from lib.core.record import write_run as write_record
from lib.workflow.commands import verification
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


def edited(code, digest="0123456789abcdef"):
    """Keep code of which a definition was another one, one is new, and one is gone; return its digest."""
    kept = kept_code(code, code_digest(SCRIPT))
    changed, new, *_ = [name for name in kept.definitions if name.startswith("studies.hate_speech.description:")]
    definitions = kept.definitions | {changed: "another", "studies.hate_speech.description:gone": "any"}
    del definitions[new]
    write_json(
        code / f"{digest}.json",
        kept.model_copy(update={"definitions": definitions, "files": {"gone.py": ""}}).model_dump(),
    )
    return digest, changed.split(":")[1], new.split(":")[1]


@pytest.fixture
def run(tmp_path, code):
    """A finished run that left a model and read a tokeniser."""
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "vocab.txt").write_text("a\nb\n")
    model = tmp_path / "runs/pretrain/sdpa/wikipedia/seed-0/model/model.safetensors"
    model.parent.mkdir(parents=True)
    model.write_bytes(b"weights")
    return write_run(
        tmp_path,
        "pretrain",
        "sdpa",
        "wikipedia",
        parents={"tokenizer": {"path": str(tokenizer), "digest": digest_of(tokenizer)}},
        files={"model/model.safetensors": file_digest(model)},
        code=code_digest(SCRIPT),
    )


def problems(tmp_path):
    return verify(str(tmp_path), str(tmp_path / "code")).differing


def test_an_untouched_run_is_as_recorded(tmp_path, run):
    found = verify(str(tmp_path), str(tmp_path / "code"))
    assert found.runs == 1
    assert not found.differing
    assert not found.unknown
    assert "1 finished runs, 1 as recorded, 0 differ." in verification_report(found, "results")


def test_resumed_runs_and_different_instruction_sets_are_named(tmp_path, code):
    stretch = {"step": 8, "device": "cpu", "threads": 4, "processes": 1, "instruction_set": "AVX2"}
    stretch |= {"hardware": "a laptop", "versions": {}, "execution": {}}
    write_run(tmp_path, "pretrain", "favor-m64", "wikipedia", instruction_set="AVX512")
    first = write_run(tmp_path, "pretrain", "sdpa", "wikipedia", instruction_set="AVX2", stretches=[stretch])
    found = verify(str(tmp_path), str(code))
    assert found.mixed == {str(first): "up to step 8: unknown"}
    assert found.instruction_sets == {"AVX512": 1, "AVX2": 1}
    report = verification_report(found, str(tmp_path))
    assert f"Resumed under other conditions, 1 of 2 runs:\n    {first}: up to step 8: unknown\n" in report
    assert "different instruction sets: AVX512 for 1, AVX2 for 1 of 2 runs." in report


def test_litter_is_no_run_and_no_file_of_one(tmp_path, run):
    leave_litter(tmp_path)
    (tmp_path / "runs/pretrain/sdpa/wikipedia" / f".seed-1.{'0' * 32}").mkdir()
    (tmp_path / "runs/pretrain/sdpa/wikipedia" / f".seed-1.{'0' * 32}" / "run.json").write_text("{}")
    found = verify(str(tmp_path), str(tmp_path / "code"))
    assert (found.runs, found.differing) == (1, {})


@pytest.mark.parametrize("beginning", ["", "{", "[]", "null", '{"new": 1, '])
def test_a_record_that_cannot_be_read_is_named_with_what_makes_it_again(tmp_path, run, beginning):
    """It was cut or damaged, or another version of the project wrote it, with a field more."""
    rest = (run / "run.json").read_text()[1:] if "new" in beginning else ""
    (run / "run.json").write_text(beginning + rest)
    with pytest.raises(DataError, match=r"(?s)run\.json: not a run record of this version.*make why says how"):
        problems(tmp_path)


def test_files_that_the_run_left_are_compared(tmp_path, run):
    (run / "model/model.safetensors").write_bytes(b"Weights")
    assert problems(tmp_path) == {str(run): ["model/model.safetensors is not what the run left"]}
    (run / "model/model.safetensors").unlink()
    assert problems(tmp_path) == {str(run): ["model/model.safetensors is gone"]}


def test_what_the_run_read_is_compared(tmp_path, run):
    (tmp_path / "tokenizer/vocab.txt").write_text("a\nc\n")
    assert problems(tmp_path) == {str(run): [f"input tokenizer is not what the run read: {tmp_path}/tokenizer"]}
    (tmp_path / "tokenizer").rename(tmp_path / "elsewhere")
    assert problems(tmp_path) == {str(run): [f"input tokenizer is gone: {tmp_path}/tokenizer"]}


def test_the_code_is_compared_by_definitions(tmp_path, code):
    digest, changed, new = edited(code)
    run = write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={}, code=digest)
    (said,) = problems(tmp_path)[str(run)]
    assert said.startswith("code of studies/hate_speech/description.py: `")
    assert said.endswith(" changed")
    assert all(f"`{name}`" in said for name in (changed, new, "gone"))


def test_code_settings_and_inputs_that_a_run_was_accepted_for_do_not_differ(tmp_path, run, code):
    digest, *_ = edited(code)
    record = read_record(run)
    write_record(run, record.model_copy(update={"code": digest}))
    (tmp_path / "tokenizer/vocab.txt").write_text("a\nc\n")
    assert len(problems(tmp_path)[str(run)]) == 2
    inputs = {"tokenizer": digest_of(tmp_path / "tokenizer")}
    entry = {
        "when": "2026",
        "reason": "why",
        "changes": [],
        "settings": {},
        "code": code_digest(SCRIPT),
        "inputs": inputs,
    }
    write_json(code / ACCEPTED, {str(run): [entry]})
    found = verify(str(tmp_path), str(code))
    assert not found.differing
    assert f"Accepted after changes, 1 of 1 runs:\n    {run}: why" in verification_report(found, "results")
    (tmp_path / "tokenizer/vocab.txt").write_text("a\nd\n")
    assert problems(tmp_path)


def test_digests_that_were_made_in_another_way_are_not_compared_by_definitions(code):
    kept = kept_code(code, code_digest(SCRIPT))
    write_json(code / "0123456789abcdef.json", kept.model_dump(exclude={"version"}))
    (said,) = code_since(code, "0123456789abcdef", code_digest(SCRIPT))
    assert "makes digests in another way" in said


def test_runs_of_versions_that_are_not_installed_are_named_and_do_not_differ(tmp_path):
    here = {package: version(package) for package in ("torch", "transformers", "tokenizers")}
    write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={}, versions=here)
    write_run(tmp_path, "finetune", "tfidf", "imdb", parents={}, versions={"scikit-learn": "0.1"})
    old = [
        write_run(tmp_path, "pretrain", f"favor-{number}", "wikipedia", parents={}, versions=here | {"torch": "1.0"})
        for number in range(8)
    ]
    found = verify(str(tmp_path), str(tmp_path / "code"))
    assert not found.differing
    assert found.other_versions == {("torch", "1.0"): [str(folder) for folder in old]}
    said = verification_report(found, "results")
    assert f"torch was 1.0 for 8 of 10 runs, and is {here['torch']} here." in said
    assert f"    {old[0]}\n" in said
    assert said.endswith("    and 2 more")


def test_versions_of_packages_that_are_not_installed_are_not_compared(tmp_path, monkeypatch):
    def installed(package):
        if package == "torch":
            raise PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(verification, "version", installed)
    write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={}, versions={"torch": "1.0"})
    assert not verify(str(tmp_path), str(tmp_path / "code")).other_versions


def test_a_record_that_does_not_name_the_runs_settings_is_broken(tmp_path):
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


def test_what_a_record_does_not_tell_is_said(tmp_path):
    write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={"start": {"path": "foreign", "digest": None}})
    found = verify(str(tmp_path), str(tmp_path / "code"))
    assert not found.differing
    assert set(found.unknown.values()) == {1}
    assert "Unknown for 1 of 1: the code that they executed." in verification_report(found, "results")


def test_code_that_was_not_kept_is_no_proof(tmp_path):
    write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={}, code="0123456789abcdef")
    ((found,),) = problems(tmp_path).values()
    assert "0123456789abcdef.json, which would tell where, is not there" in found


def test_a_root_that_is_gone_is_named(tmp_path):
    write_json(
        tmp_path / "aa.json", KeptCode(roots=["scripts/retired.py"], definitions={}, version=VERSION).model_dump()
    )
    assert "scripts.retired" in code_since(tmp_path, "aa")[0]


@pytest.mark.parametrize("field", [name for name in RunRecord.model_fields if name != "digest"])
def test_a_changed_field_of_a_record_is_seen(tmp_path, field):
    folder = write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={})
    assert not problems(tmp_path)
    values = json.loads((folder / "run.json").read_text())
    changed = {str: f"{values[field]}0", int: 7, float: 0.123, list: ["x"], dict: {"x": 1}, type(None): "x"}
    write_json(folder / "run.json", values | {field: changed[type(values[field])]})
    with contextlib.suppress(DataError):  # no record any more
        assert "run.json has changed since the run" in problems(tmp_path)[str(folder)]


def test_a_record_of_another_run_is_named(tmp_path):
    folder = write_run(tmp_path, "pretrain", "sdpa", "wikipedia", parents={}, seed=1)
    folder.rename(folder.with_name("seed-2"))
    assert problems(tmp_path) == {
        str(folder.with_name("seed-2")): ["run.json is the record of another run, pretrain/sdpa/wikipedia/seed-1"]
    }
