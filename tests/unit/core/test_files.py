import json
import os
import resource
import subprocess
import sys

import pytest

from lib.core.errors import ConfigError, ProjectError
from lib.core.files import atomic_path, read_mapping, write_json, write_text


def test_a_file_appears_whole(tmp_path):
    target = tmp_path / "deep" / "down" / "file.json"
    write_json(target, {"b": 1, "a": "ä"})
    assert json.loads(target.read_text()) == {"b": 1, "a": "ä"}
    assert [path.name for path in target.parent.iterdir()] == ["file.json"]


def test_a_failure_leaves_what_was_there(tmp_path):
    target = tmp_path / "file.txt"
    write_text(target, "before")

    def fail():
        with atomic_path(target) as partial:
            partial.write_text("half")
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_a_folder_is_replaced_whole(tmp_path):
    target = tmp_path / "folder"
    for name in ("first", "second"):
        with atomic_path(target) as partial:
            partial.mkdir()
            (partial / name).write_text(name)
    assert [path.name for path in target.iterdir()] == ["second"]


def test_a_place_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ProjectError, match=r"file/inside.txt: cannot be written .*write permission"):
        write_text(tmp_path / "file" / "inside.txt", "text")


WRITER = """
import signal, sys
from lib.core import program
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
        "open(sys.argv[1] + '.part', 'w').write('x' * 100_000)",
        "import torch, safetensors.torch as s; s.save_file({'w': torch.zeros(99_999)}, sys.argv[1] + '.part')",
    ],
    ids=["atomic", "plain", "safetensors"],
)
def test_a_full_disk_ends_in_a_message_and_loses_nothing(tmp_path, write):
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


@pytest.mark.parametrize("text", ["1e-05", "1E5", "-2e+16", "1.5e3", "1.0e-05"])
def test_numbers_are_read_as_json_writes_them(tmp_path, text):
    file = tmp_path / "settings.yaml"
    file.write_text(f"value: {text}\n")
    assert read_mapping(f'{{"value": {text}}}') == read_mapping(file) == {"value": float(text)}


@pytest.mark.parametrize(
    "text",
    [
        "1_00",
        "1000_000",
        "_1",
        "0_000",
        "0o17",
        "017",
        "0b11",
        "0x1F",
        "12:30:45",
        "1:30.5",
        "2024-01-01",
        "1_0.5",
        "1e",
        "+",
        "-",
        ".",
    ],
)
def test_what_yaml_guesses_a_number_from_is_a_text(text):
    assert read_mapping(f"{{value: [{text}, a], {text!r}: 1}}") == {"value": [text, "a"], text: 1}


def test_numbers_are_those_of_yaml_1_2(tmp_path):
    numbers = [0, 7, -7, 10**20, 1_234_567, 0.5, -0.5, 5.0, 1e300, float("inf"), float("-inf")]
    assert read_mapping("{a: [0, +7, -7, 100000000000000000000, 1_234_567, .5, -0.5, 5., 1e300, .inf, -.INF]}") == {
        "a": numbers
    }
    assert read_mapping('{"a": "5", b: yes, c: null}') == {"a": "5", "b": True, "c": None}


def test_a_device_a_pipe_and_a_file_of_another_kind_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"#" * (2**24 + 1))
    (tmp_path / "many").write_text("[" + "0, " * 200_000 + "]")
    for name in ("pipe", "/dev/zero", "."):
        with pytest.raises(ConfigError, match="is a folder, a pipe or a device. Expected a file"):
            read_mapping(tmp_path / name)
    with pytest.raises(ConfigError, match="has 16,777,217 bytes, more than 16,777,216"):
        read_mapping(tmp_path / "large")
    with pytest.raises(ConfigError, match="holds more than 100000 values"):
        read_mapping(tmp_path / "many")
    for name in ("a\0b", "n" * 300, "n" * 5_000, "f" * 300 + "/x"):
        with pytest.raises(ConfigError, match="cannot be read"):
            read_mapping(tmp_path / name)


def test_words_that_look_like_numbers_stay_words():
    assert read_mapping('{"revision": "1e5", "name": e5, "version": 1e5a}') == {
        "revision": "1e5",
        "name": "e5",
        "version": "1e5a",
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"seeds: [1]\nmodels:\n  a: {}\n  b: {}\n  a: {}\n", "the key 'a' stands in line 3 and again in line 5"),
        (b"a: &a\n  b: *a\n", "is nested .*or holds an alias .* for what it stands in"),
        (b"a: &a [*a]\n", "is nested .*or holds an alias .* for what it stands in"),
        (b"a: " + b"[" * 100 + b"]" * 100, "is nested in more than 50 levels"),
        (b"a: " + b"[" * 5000 + b"]" * 5000, "is nested in more than 50 levels"),
        (b"name: caf\xe9\n", "cannot be read .*in UTF-8"),
        (bytes(range(256)), "cannot be read .*in UTF-8"),
        (b"a: \x00\n", "cannot be read"),
        (b"a: !!timestamp x\n", "cannot be read"),
        (b"a: !!bool x\n", "cannot be read"),
        (b"a: !!int ''\n", "cannot be read"),
    ],
)
def test_a_file_that_is_no_settings_is_named_with_its_fault(tmp_path, content, message):
    file = tmp_path / "study.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"study\.yaml: {message}"):
        read_mapping(file)


@pytest.mark.parametrize("each", ["[{}]", "{{<<: [{}]}}"], ids=["lists", "merges"])
def test_aliases_of_aliases_end_in_a_message_before_they_are_written_out(tmp_path, each):
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {each.format(', '.join([f'*a{n - 1}'] * 9))}" for n in range(1, 10)]
    file = tmp_path / "study.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="holds more than 100000 values.*remove aliases"):
        read_mapping(file)


def test_aliases_and_merged_keys_are_read_as_yaml_has_them(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text("a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]\n")
    one = {"x": 1, "y": 1}
    assert read_mapping(file) == {"a": one, "b": {"x": 1, "y": 2}, "c": [one, one]}
