"""Errors that a user can fix. Programs print their message without a traceback.

A message names the file or setting, the value found, what was expected and what to do.
"""

import contextlib
from collections.abc import Iterator

# What torch raises in place of loading what could run code.
from pickle import UnpicklingError as UnpicklingError  # noqa: TID251

MOST_OF_VALUE = 100
"""Characters of a value that a message shows."""
MOST_OF_LINE = 2_000
MOST_LINES = 100
"""Length of a message at most: a named value may be as large as its file."""


def cut(text: str, most: int) -> str:
    """Return a text without its middle if it is longer than `most` characters."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def printable(text: str) -> str:
    """Return a text with halves of characters, which no file and no terminal can hold, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


class ProjectError(Exception):
    """Base of every error whose cause lies in the user's input or surroundings.

    Long lines of the message lose their middle, since its end says what to do; of many lines the first ones stay.
    """

    def __init__(self, message: str = ""):
        lines = [cut(line, MOST_OF_LINE) for line in printable(message).split("\n", MOST_LINES)]
        more = [f"... and more of {len(message):,} characters."] if len(lines) > MOST_LINES else []
        super().__init__("\n".join([*lines[:MOST_LINES], *more]))


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
