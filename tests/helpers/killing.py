"""Runs that are killed, by what no `except Exception` survives."""

from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from lib.training.trainer import Trainer


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
    train_on = Trainer.training_step

    def kill_there(self, *arguments):
        if self.progress.step == step:
            raise Killed
        return train_on(self, *arguments)

    with patch.object(Trainer, "training_step", kill_there), pytest.raises(Killed):
        yield


def attempt(out: Path) -> Path:
    """Return the folder in which the only attempt at a run worked, whose results were to go to `out`."""
    (found,) = (out.parent / f".{out.name}.work").glob("*/[0-9]*")
    return found
