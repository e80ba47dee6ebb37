"""Errors that a user can fix. Programs print their message without a traceback.

A message names the file or setting, the value found, what was expected and what to do.
"""

import contextlib
from collections.abc import Iterator

# What torch raises in place of loading what could run code.
from pickle import UnpicklingError as UnpicklingError  # noqa: TID251


class ProjectError(Exception):
    """Base of every error whose cause lies in the user's input or surroundings."""


class ConfigError(ProjectError, ValueError):
    """A setting is unknown, of the wrong type, or contradicts another one.

    It is a ValueError, so that a section of the configuration reports it beside its other problems.
    """


class DataError(ProjectError):
    """A corpus cannot be read, or does not hold what its settings promise."""


class DownloadError(ProjectError):
    """A file could not be fetched whole from its source."""


class RunError(ProjectError):
    """A training cannot start from, or write to, what it was given, or its loss is no finite number.

    Args:
        message: what the user reads.
        diverged: whether it is the loss, so that other settings may do.
    """

    def __init__(self, message: str, *, diverged: bool = False):
        super().__init__(message)
        self.diverged = diverged


@contextlib.contextmanager
def panics_are_errors() -> Iterator[None]:
    """Raise a RuntimeError in place of a panic of a library written in Rust, which is no Exception."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise RuntimeError(str(error)) from error
        raise
