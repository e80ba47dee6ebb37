"""Errors that a user can fix. Programs print their message without a traceback.

A message names the file or setting, the value found, what was expected and what to do.
"""

import re
import tomllib
from collections.abc import Sequence
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

# torch raises this instead of loading a pickle that could run code.
from pickle import UnpicklingError as UnpicklingError  # noqa: TID251

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
"""The file of a clone; where the project is installed, it is not there."""
MOST_OF_VALUE = 100
"""Most characters of a value that a message shows."""
MOST_OF_LINE = 2_000
MOST_LINES = 100
"""Most characters of a message: a value in it may be as large as its file."""


def cut(text: str, most: int) -> str:
    """Return a text without its middle if it is longer than `most` characters."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def printable(text: str) -> str:
    """Return a text with lone surrogates, which cannot be encoded, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def first(names: Sequence[str], most: int = 6) -> list[str]:
    """Return the first names, and how many more there are."""
    return [*names[:most], *([f"and {len(names) - most} more"] if len(names) > most else [])]


class ProjectError(Exception):
    """Base of every error whose cause is the user's input or environment.

    Long lines of the message lose their middle, since the end says what to do; only the first lines are kept.
    """

    def __init__(self, message: str = ""):
        lines = [cut(line, MOST_OF_LINE) for line in printable(message).split("\n", MOST_LINES)]
        more = [f"... and more of {len(message):,} characters."] if len(lines) > MOST_LINES else []
        super().__init__("\n".join([*lines[:MOST_LINES], *more]))


class ConfigError(ProjectError, ValueError):
    """A setting is unknown, of the wrong type, or contradicts another one.

    It is a ValueError, so that a section of the configuration reports it together with its other errors.
    """


class DataError(ProjectError):
    """A corpus cannot be read, or differs from its settings."""


class DownloadError(ProjectError):
    """A file could not be downloaded completely."""


class RunError(ProjectError):
    """A training run cannot use its inputs or its folder, or its loss is NaN or inf.

    Args:
        message: message for the user.
        diverged: whether the loss is NaN or inf, so that other settings may work.
    """

    def __init__(self, message: str, *, diverged: bool = False):
        super().__init__(message)
        self.diverged = diverged


def require(package: str, setting: str) -> None:
    """Raise an error if a package is not installed.

    Args:
        package: its name; an extra of the project has it.
        setting: setting that needs it, as in the configuration.

    Raises:
        RunError: it is not installed.
    """
    if find_spec(package) is None:
        raise RunError(f"{setting} needs the package {package}. Install it ({installing(package)}), or leave it out.")


def extras() -> dict[str, list[str]]:
    """Return the packages of each extra of the project."""
    if not PROJECT.is_file():
        lines = requires("attention-grid") or ()
        pairs = [each for line in lines for each in re.findall(r"""^([a-z-]+).*extra == ['"](.+)['"]""", line)]
        return {extra: [package for package, having in pairs if having == extra] for _, extra in pairs}
    found = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return {extra: [re.split("[^a-z-]", line)[0] for line in lines] for extra, lines in found.items()}


def installing(package: str) -> str | None:
    """Return the command that installs a package of an extra of the project, the first that has it."""
    having = [extra for extra, packages in extras().items() if package in packages]
    what = "-e '.[{}]' -c requirements-all.lock" if PROJECT.is_file() else "'attention-grid[{}]'"
    return f"pip install {what.format(having[0])}" if having else None
