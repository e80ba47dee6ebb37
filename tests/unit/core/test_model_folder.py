"""Folders of models that strangers made: what they hold, and how long they may take."""

import os
import signal
import subprocess
import sys
import time

import pytest

from lib.core.errors import RunError
from lib.core.model_folder import in_time, read_fields

HOLDS_THE_LOCK = """
import pathlib, re, sys
from lib.core import model_folder
model_folder.MOST_SECONDS = 1
with model_folder.in_time(pathlib.Path(sys.argv[1])):
    re.match("(a+)+$", "a" * 60 + "b")  # one call in C, which lets no thread run
"""


def test_model_that_takes_too_long_ends_the_process(tmp_path):
    ended = subprocess.run([sys.executable, "-c", HOLDS_THE_LOCK, tmp_path], stderr=subprocess.PIPE, text=True)
    assert ended.returncode == -signal.SIGALRM
    assert ended.stderr == (
        f"ERROR {tmp_path}: not opened after 1 s, the limit for files of this size. Name another model.\n"
    )


def test_model_that_is_open_is_watched_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.core.model_folder.MOST_SECONDS", 1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), in_time(tmp_path):
            raise ZeroDivisionError
    time.sleep(1.2)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_pipe_in_a_model_folder_is_not_read(name, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(RunError, match=f"{name}: is a pipe, a socket or a device"):
        read_fields(tmp_path)
