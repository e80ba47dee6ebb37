import json
import os
import resource
import stat
import subprocess
import sys
import tempfile

import pytest
from litter import leave_litter

from lib.core import files
from lib.core.errors import ConfigError, ProjectError
from lib.core.files import (
    atomic_path,
    check_target,
    files_in,
    folders_in,
    mapping_text,
    read_mapping,
    settle,
    write_json,
    write_text,
)
from lib.study.runs import as_json


def test_failed_write_leaves_what_was_there(tmp_path):
    target = tmp_path / "deep" / "file.json"
    write_json(target, {"b": 1, "a": "ä"})
    assert target.read_text(encoding="utf-8") == '{\n  "b": 1,\n  "a": "ä"\n}\n'
    before = target.read_bytes()

    def fail():
        with atomic_path(target) as partial:
            partial.write_text("half")
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    assert target.read_bytes() == before
    assert [path.name for path in target.parent.iterdir()] == ["file.json"]


@pytest.mark.parametrize("there", [True, False])
def test_write_through_a_link(there, tmp_path):
    target, link = tmp_path / "elsewhere" / "file.csv", tmp_path / "link.csv"
    target.parent.mkdir()
    if there:
        target.write_text("before")
    link.symlink_to("elsewhere/file.csv")
    write_text(link, "text")
    assert (link.is_symlink(), target.is_symlink(), target.read_text()) == (True, False, "text")


def test_folder_is_replaced_whole(tmp_path):
    target = tmp_path / "folder"
    for name in ("first", "second"):
        with atomic_path(target) as partial:
            partial.mkdir()
            (partial / name).write_text(name)
    assert [path.name for path in target.iterdir()] == ["second"]


def test_write_in_place_of_a_folder_or_below_a_file(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").write_text("kept")
    with pytest.raises(ProjectError, match="folder: is a folder"):
        write_text(tmp_path / "folder", "text")
    with pytest.raises(ProjectError, match="kept/inside.txt:"):
        write_text(tmp_path / "folder" / "kept" / "inside.txt", "text")
    assert (tmp_path / "folder" / "kept").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


# Rights


@pytest.fixture(params=[0o022, 0o077], ids=oct)
def umask(request, monkeypatch):
    before = os.umask(request.param)
    monkeypatch.setattr(files, "UMASK", request.param)
    yield request.param
    os.umask(before)


def modes(place):
    return {str(path.relative_to(place.parent)): path.stat().st_mode & 0o7777 for path in [place, *place.rglob("*")]}


@pytest.mark.parametrize("too_few", [0o600, 0o777])
def test_rights_are_those_of_the_umask(umask, too_few, tmp_path):
    """Whatever the writer chose: safetensors gives 0600, mkdtemp 0700, a copy those of its source."""
    with atomic_path(tmp_path / "model") as partial:
        os.rename(tempfile.mkdtemp(dir=tmp_path), partial)
        (partial / "state").mkdir(mode=too_few)
        for name in ("weights", "state/weights"):
            (partial / name).touch(mode=too_few)
    file, folder = 0o666 & ~umask, 0o777 & ~umask
    found = modes(tmp_path / "model")
    assert found == {"model": folder, "model/state": folder, "model/weights": file, "model/state/weights": file}
    write_text(tmp_path / "text", "text")
    with atomic_path(tmp_path / "table") as partial:
        partial.touch(mode=too_few)
    assert modes(tmp_path / "text") == {"text": file}
    assert modes(tmp_path / "table") == {"table": file}
    (tmp_path / "model" / "weights").chmod(too_few)
    settle(tmp_path / "model")
    assert modes(tmp_path / "model") == found
    assert {path.name for path in tmp_path.iterdir()} == {"model", "text", "table"}
    (tmp_path / "group").mkdir()
    (tmp_path / "group").chmod(0o2775)  # its content belongs to the group, too
    with atomic_path(tmp_path / "group" / "made") as partial:
        partial.mkdir()
        (partial / "link").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").touch(mode=0o600)
    assert modes(tmp_path / "group" / "made")["made"] & stat.S_ISGID
    assert stat.S_IMODE((tmp_path / "elsewhere").stat().st_mode) == 0o600


# Litter


def test_litter_is_no_file(tmp_path):
    for name in ("model/config.json", "history.csv", "weights.safetensors", "module.py"):
        write_text(tmp_path / name, "text")
    files, folders = files_in(tmp_path), folders_in(tmp_path)
    assert [path.name for path in files] == ["history.csv", "config.json", "module.py", "weights.safetensors"]
    leave_litter(tmp_path)
    assert [path for path in files_in(tmp_path) if path.name != "0099-a-file"] == files
    assert files_in(tmp_path, "*.py") == [tmp_path / "module.py"]
    assert folders == [tmp_path / "model"]
    assert folders_in(tmp_path) == [tmp_path / ".Trashes", tmp_path / "folder.py", tmp_path / "model"]
    for place in ("missing", "history.csv", "link-history.csv", "loop"):
        assert folders_in(tmp_path / place) == files_in(tmp_path / place) == []
    settle(tmp_path)


WRITER = """
import signal, sys
from lib.core import files, program
from lib.core.files import write_text

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def main(argv):
    {write}
sys.exit(program.run(main))
"""


@pytest.mark.parametrize(
    "write",
    [
        "write_text(sys.argv[1], 'x' * 100_000)",
        pytest.param(
            "import torch, safetensors.torch as s; s.save_file({'w': torch.zeros(99_999)}, sys.argv[1] + '.part')",
            marks=pytest.mark.extended,
        ),
    ],
    ids=["atomic", "safetensors"],
)
def test_full_disk_ends_in_a_message_and_loses_nothing(tmp_path, write):
    """The limit on a file's size stands for the limit of the disk: the same system call fails."""
    target = tmp_path / "result.txt"
    target.write_text("before")
    process = subprocess.run(
        [sys.executable, "-c", WRITER.format(write=write), str(target)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )
    assert process.returncode == 1
    assert "File too large" in process.stderr
    assert "free space" in process.stderr
    assert "Traceback" not in process.stderr
    assert target.read_text() == "before"


@pytest.mark.parametrize(
    "text", ["1_00", "0o17", "017", "0x1F", "12:30:45", "2024-01-01", "1e", "-", ".", "e5", "1e5a"]
)
def test_text_that_yaml_takes_for_a_number_is_a_text(text):
    assert read_mapping(f"{{value: [{text}, a], {text!r}: 1}}") == {"value": [text, "a"], text: 1}


def test_numbers_are_those_of_yaml_1_2_and_json(tmp_path):
    numbers = [0, 7, -7, 10**20, 1_234_567, 0.5, -0.5, 5.0, 1e300, float("inf"), float("-inf")]
    assert read_mapping("{a: [0, +7, -7, 100000000000000000000, 1_234_567, .5, -0.5, 5., 1e300, .inf, -.INF]}") == {
        "a": numbers
    }
    assert read_mapping('{"a": "5", b: yes, c: null}') == {"a": "5", "b": True, "c": None}
    (tmp_path / "settings.yaml").write_text("value: [1e-05, 1E5, -2e+16, 1.5e3]\n")
    assert read_mapping(tmp_path / "settings.yaml") == {"value": [1e-05, 1e5, -2e16, 1.5e3]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"seeds: [1]\nmodels:\n  a: {}\n  b: {}\n  a: {}\n", "the key 'a' is in line 3 and again in line 5"),
        (b"a: " + b"[" * 5000 + b"]" * 5000, "cannot be read"),
        (b"name: caf\xe9\n", "cannot be read .*in UTF-8"),
        (b"a: \x00\n", "cannot be read"),
        (b"a: !!bool x\n", "cannot be read"),
        (b"a: !!python/object/apply:os.mkdir ['ran']\n", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_file_that_is_no_settings_is_named(tmp_path, content, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "study.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"study\.yaml: {message}"):
        read_mapping(file)
    assert not (tmp_path / "ran").exists()


# YAML refuses some signs, and reads others as the end of a line; names of classes may have any of them.
SIGNS = [*map(chr, range(1, 0x100)), "\u2028", "\u2029", "\ufeff", "\ufffe", "\uffff", "\U0001f600", "\U0010ffff"]


@pytest.mark.parametrize("written", ["file of JSON", "JSON", "YAML", "YAML in one line"])
def test_any_sign_is_read_as_it_was_written(tmp_path, written):
    values = {"labels": [f"Sci{sign}Fi" for sign in SIGNS] + SIGNS, **{f"a{sign}b": 1 for sign in SIGNS}}
    source = tmp_path / "settings.json"
    if written == "file of JSON":
        write_json(source, values)
        assert json.loads(source.read_text(encoding="utf-8")) == values
    elif written == "JSON":
        source = as_json(values)
        assert json.loads(source) == values
    else:
        source.write_text(mapping_text(values, one_line="line" in written), encoding="utf-8")
    assert read_mapping(source) == values


def test_file_that_is_read_is_not_replaced(tmp_path):
    (tmp_path / "texts.csv").write_text("text\n")
    (tmp_path / "link.csv").symlink_to("texts.csv")
    for name in ("texts.csv", "link.csv"):
        with pytest.raises(ConfigError, match=f"{name}: is read as well.*--out"):
            check_target(tmp_path / name, tmp_path / "absent.csv", tmp_path / "texts.csv")
    check_target(tmp_path / "new.csv", tmp_path / "texts.csv", tmp_path / "absent.csv")
