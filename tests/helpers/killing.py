"""Runs that are killed, by what no `except Exception` survives."""

from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from lib.training import callbacks


class Killed(BaseException):
    """A run was killed."""


def kill(*arguments, **options):
    """Stand in for whatever a run is killed at."""
    raise Killed


@contextmanager
def killed_in(owner, name):
    """Kill the run of this block where it calls a method."""
    with patch.object(owner, name, kill), pytest.raises(Killed):
        yield


@contextmanager
def killed_at(step):
    """Kill the run of this block before an optimiser step."""
    begin = callbacks.KeyedDraws.on_step_begin

    def kill_there(self, args, state, control, **kwargs):
        if state.global_step == step:
            raise Killed
        begin(self, args, state, control, **kwargs)

    with patch.object(callbacks.KeyedDraws, "on_step_begin", kill_there), pytest.raises(Killed):
        yield


def attempt(out: Path) -> Path:
    """Return the folder in which the only attempt at a run worked, whose results were to go to `out`."""
    (found,) = (out.parent / f".{out.name}.work").glob("*/[0-9]*")
    return found
