"""Runs that are killed, by what no `except Exception` survives."""

from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from comparing import assert_alike

from lib.training.folders import RunFolders
from lib.training.run import train
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


def assert_goes_on_exactly(run, folder: Path) -> None:
    """Fail unless a run killed before its sixteenth step ends as the same run undisturbed."""
    with killed_at(15):
        train(run, folder / "out")
    train(run, folder / "out")
    train(run, folder / "undisturbed")
    assert_alike(folder / "undisturbed", folder / "out")


def assert_trains_no_further(run, folder: Path) -> None:
    """Fail unless a run that was killed when all was trained leaves its record without another step."""
    with killed_in(RunFolders, "move_to_out"):
        train(run, folder / "out")
    with patch.object(Trainer, "training_step", kill):
        train(run, folder / "out")
    train(run, folder / "undisturbed")
    assert_alike(folder / "undisturbed", folder / "out")


def attempt(out: Path) -> Path:
    """Return the folder in which the only attempt at a run worked, whose results were to go to `out`."""
    (found,) = (out.parent / f".{out.name}.work").glob("*/[0-9]*")
    return found
