"""Shared by all command-line programs in `scripts/`: arguments, logging, errors, exit status.

This module and the top level of each program import only fast modules; a program imports the rest in its `main`. So
`--help` and wrong arguments are answered at once.
"""

from __future__ import annotations

import argparse
import errno
import functools
import gc
import json
import logging
import os
import platform
import resource
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from lib.core.errors import ConfigError, ProjectError, RunError, installing
from lib.core.extensions import ROOT, sources, use

if TYPE_CHECKING:
    from pydantic import BaseModel


DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""Error numbers of a disk that cannot be written."""

Settings = TypeVar("Settings", bound="BaseModel")

Argv = Sequence[str] | None
"""The arguments of a program; None = those of the command line."""

FINISHED = ".py finished in "
"""Part of the last line of a log whose program succeeded."""

MEMORY_UNIT = 1 if sys.platform == "darwin" else 2**10
"""Unit of the system's memory counts, in bytes: 1 on macOS, 1024 elsewhere."""

CHECKED = "ATTENTION_GRID_CHECKED"
"""Environment variable: the states of the source files when they were found to be those of the plan."""


def states_of(*files: str | Path) -> dict[str, list[int]]:
    """Return what differs after any edit of a file, also after one that was undone, by its path in the project."""
    found = {os.path.relpath(os.path.realpath(file), ROOT): os.stat(file) for file in files}
    return {name: [each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns] for name, each in found.items()}


class Imports(PathFinder):
    """Finds the modules of the project, and refuses those that were edited since their code was checked.

    Attributes:
        states: of the source files when they were imported.
    """

    states: ClassVar[dict[str, list[int]]] = {}

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return where a module of the project is; None for any other.

        Raises:
            RunError: a file was edited.
        """
        spec = super().find_spec(fullname, path, target) if fullname.partition(".")[0] in sources() else None
        if spec is not None and spec.origin is not None:
            cls.states |= states_of(spec.origin)
            if files := edited(os.environ):
                raise RunError(f"{files[0]}: edited while this program started. Expected planned code; start again.")
        return spec


sys.meta_path.insert(0, Imports)
_read_once = functools.cache(json.loads)


def edited(environment: Mapping[str, str]) -> list[str]:
    """Return the source files that were imported in another state than the checked one, if the environment has that."""
    checked = _read_once(environment.get(CHECKED, "{}"))
    return [file for file, state in Imports.states.items() if checked and checked.get(file) != state]


class _Use(argparse.Action):
    def __call__(self, parser: object, namespace: object, values: Any, option_string: str | None = None) -> None:
        use([values])


def parser(documentation: str | None) -> argparse.ArgumentParser:
    """Return an argument parser that shows the docstring of the script; `@FILE` adds arguments, one per line.

    `--extension` takes an extension into use at once, and is no argument of the program.
    """
    raw = argparse.RawDescriptionHelpFormatter
    result = argparse.ArgumentParser(description=documentation, formatter_class=raw, fromfile_prefix_chars="@")
    shown = "folder or package whose parts are used, as under `extensions` of a configuration; may be repeated"
    result.add_argument("--extension", action=_Use, default=argparse.SUPPRESS, metavar="NAME", help=shown)
    return result


def file_to_write(argument: str) -> str:
    """Return an argument of the command line that names a file to write; a folder is refused."""
    if Path(argument).is_dir():
        raise argparse.ArgumentTypeError(f"{argument} is a folder; expected the name of a file to write")
    return argument


def positive(argument: str) -> int:
    """Return an argument of the command line that is a whole number above 0."""
    if not argument.isdecimal() or not int(argument):
        raise argparse.ArgumentTypeError(f"{argument!r} is no whole number above 0")
    return int(argument)


def study_parser(documentation: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option that names the study."""
    result = parser(documentation)
    result.add_argument("--configfile", nargs="+", default=["config/config.yaml"], metavar="FILE", help="the study")
    return result


def start(main: Callable[[Argv], int | None], *, trouble: int = 1) -> NoReturn:
    """Run `main` with the arguments of the command line as `run` does, and end this process with its exit status."""
    sys.exit(run(main, trouble=trouble))


def run(main: Callable[[Argv], int | None], argv: Argv = None, *, trouble: int = 1) -> int:
    """Run `main(argv)` with logging to standard error.

    An error that the user can fix (a `ProjectError`, a full disk, a missing permission) ends it with a message and the
    status `trouble`, any other error with its traceback. It ends in silence where nobody reads its output to the end,
    as `head` does.

    Args:
        main: the program.
        argv: its arguments; None = those of the command line.
        trouble: status after such an error; a program that answers a question uses 1 as an answer.

    Returns:
        The exit status: what `main` returns, 0 for None, 141 if nobody reads the output.
    """
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Libraries log every request, which hides the progress of the program.
    for package in ("lib", *sources()):
        logging.getLogger(package).setLevel(logging.INFO)
    if argv is None and (job := os.environ.get("SLURM_JOB_ID")):  # the terminal shows the logs of several attempts
        logging.getLogger("lib").info("%s starts on %s, Slurm job %s", Path(sys.argv[0]).name, platform.node(), job)
    begin = time.monotonic()
    try:
        status = main(argv)
        if sys.stdout is not None:  # as in a process without one
            sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_has_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the rest, which is written when the interpreter ends
        return 128 + signal.SIGPIPE
    except Exception as error:
        if (message := _explained(error)) is None:
            raise
        logging.getLogger("lib").error("%s", message)
        return trouble
    if argv is None and not status and stat.S_ISREG(os.fstat(2).st_mode):  # a log file, not a terminal
        _log_usage(time.monotonic() - begin)
    # Else garbage collection at exit searches every module: 1.5 s after importing torch. But it also frees the objects
    # of Triton's bindings (nanobind), which else report them as leaked, in 30 lines behind the program's last one.
    if "triton" not in sys.modules:
        gc.freeze()
    return status or 0


def _reader_has_gone() -> bool:
    """Whether standard output is a pipe whose other end is closed."""
    output = select.poll()
    output.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in output.poll(0))


def _log_usage(seconds: float) -> None:
    """Log the time and memory of this process, and the CPU time of its children as well."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    used = f"{seconds:.1f} s, with {cpu:.1f} s of CPU time and at most {resident_peak_mb(own):.0f} MiB of memory"
    logging.getLogger("lib").info("%s%s%s", Path(sys.argv[0]).stem, FINISHED, used)


def _explained(error: Exception) -> str | None:
    """Return the message of an error that the user can fix: of a package, a file, its disk or a permission; else None.

    Libraries in other languages report it only as text, without saying whether they were reading or writing.
    """
    if isinstance(error, ProjectError):
        return str(error)
    from lib.core.files import unreadable, where

    package = str(error.name).partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if command := package and installing(package):
        return f"The package {package} is not installed. Install it: {command}"
    number = error.errno if isinstance(error, OSError) else None
    if any(number == code or os.strerror(code) in str(error) for code in (errno.EACCES, errno.EPERM)):
        return unreadable(error) or f"{error}. Expected permission to read inputs and to write results; correct it."
    if any(number == code or os.strerror(code) in str(error) for code in DISK):
        return f"{error}. Expected write permission and free space; nothing was left half-written. Free some space."
    if isinstance(error, OSError) and number is not None and (file := where(error)):
        return f"{file}: cannot be used ({error.strerror}). Expected a sound file or folder; check its path and disk."
    return None


def json_value(source: str) -> Any:
    """Return the value of `source`: JSON text, or the name of a JSON file.

    Raises:
        ConfigError: the file cannot be read.
    """
    in_place = source.lstrip().startswith(("{", "["))
    try:
        return json.loads(source if in_place else Path(source).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{source}: cannot be read ({error.strerror}). Expected a JSON file.") from error


def read_settings(kind: type[Settings], source: str | dict[str, Any]) -> Settings:
    """Return `source` (as in `read_mapping`, or a mapping) as validated settings of `kind`.

    Raises:
        ConfigError: a setting is wrong; the message has one line per error.
    """
    from pydantic import ValidationError

    from lib.core.files import read_mapping
    from lib.core.settings import describe

    values = source if isinstance(source, dict) else read_mapping(source)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(describe(error)) from error


def resident_peak_mb(usage: resource.struct_rusage | None = None) -> float:
    """Return the peak resident memory in MiB: of `usage`, by default of this process so far."""
    usage = usage or resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_maxrss * MEMORY_UNIT / 2**20
