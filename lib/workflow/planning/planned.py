"""Files that the plan hands to its jobs: the study, settings and lists, each named after its content.

A configuration or the code may be edited while a study runs, and jobs on a cluster read both again. They get the study
that was planned, from a copy. A job whose settings or code differ from the plan does not find its file, or is refused
by `lib.workflow.start`. Linux limits a command line to 128 KiB, so nothing of unbounded size is on it.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

from lib.core.files import write_text

NAME = re.compile(r"[0-9a-f]{16}\.[a-z]+")
"""Names of these files."""


class Planned(str):
    """The text of a file of the plan. Snakemake compares the text; a command gets the path of the file.

    Attributes:
        path: of the file, named after the text.
        writes_itself: whether the file is written when a command names it, and not when snakemake starts.
    """

    path: str
    writes_itself: bool

    def __new__(cls, text: str, folder: str, suffix: str, writes_itself: bool) -> Self:
        """Return `text` with its path in `folder`."""
        planned = super().__new__(cls, text)
        planned.writes_itself = writes_itself
        planned.path = f"{folder}/{hashlib.sha256(text.encode()).hexdigest()[:16]}.{suffix}"
        return planned

    def __format__(self, specification: str) -> str:
        if self.writes_itself:
            self.write()
        return format(self.path, specification)

    def write(self) -> None:
        """Write the file unless it is there."""
        if not Path(self.path).is_file():
            write_text(self.path, self)


class Program(str):
    """The digest of a program's code. Snakemake compares the digest; a command gets the words that start the program.

    Args:
        digest: of the code that the program executes.
        words: return the start of the command.
    """

    _words: Callable[[str], str]

    def __new__(cls, digest: str, words: Callable[[str], str]) -> Self:
        """Return `digest` with the words that start its program."""
        program = super().__new__(cls, digest)
        program._words = words
        return program

    @property
    def digest(self) -> str:
        """The digest itself, for a command."""
        return str(self)

    def __format__(self, specification: str) -> str:
        return format(self._words(self.digest), specification)


def write_planned(jobs: Iterable[Any]) -> None:
    """Write the files that the plan hands to its jobs."""
    for parameter in (each for job in jobs for each in job.params if isinstance(each, Planned)):
        parameter.write()


def planned_code(jobs: Iterable[Any]) -> set[str]:
    """Return the digests of the code that jobs execute."""
    return {each.digest for job in jobs for each in job.params if isinstance(each, Program)}
