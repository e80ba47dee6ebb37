"""The files of a model folder, its tokeniser too, checked before use, and a limit of the time that they may take."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lib.core.errors import DataError, DownloadError, ProjectError, RunError
from lib.core.files import not_fetched

FIELDS, WEIGHTS = "config.json", "model.safetensors"
FORMS = (WEIGHTS, "pytorch_model.bin")
"""Names of a model's weights, the one to be preferred first. Weights in shards have an index instead."""
ADAPTER_FIELDS = "adapter_config.json"
TOKENIZER = "tokenizer.json"
UNKNOWN = "a \U0010fffd"
"""Text with a character that no vocabulary holds whole."""
MOST_SECONDS, BYTES_PER_SECOND = 300, 10**7
"""Time to open a model or a tokeniser: so many seconds, and those that a slow disk needs to read its files."""


def read_fields(folder: Path, name: str = FIELDS) -> dict[str, Any]:
    """Return the fields of a model's configuration, or of another one in its folder.

    Raises:
        RunError: it cannot be read, or as `files_of` raises it.
    """
    path = folder / name
    files_of(folder)
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(fields, dict):
            raise ValueError(f"it holds {type(fields).__name__}, expected a mapping")
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path}: cannot be read ({error}). Name the folder of a model, of a finished run.") from error
    return fields


def files_of(folder: Path) -> list[Path]:
    """Return the files of a model or a tokeniser, which lie directly in its folder.

    Raises:
        RunError: one is a pipe or a device, which may never end, or a pointer of Git LFS.
    """
    found = [path for path in folder.glob("[!.]*") if path.exists() and not path.is_dir()]
    for path in found:
        if problem := not_fetched(path) if path.is_file() else f"{path}: is a pipe, a socket or a device. Remove it.":
            raise RunError(problem)
    return found


def require_whole(folder: Path) -> None:
    """Refuse a folder without the whole weights of a model, by the names of its files alone.

    Raises:
        RunError: there is an adapter, no file of weights in a form of torch, or not every shard that an index names.
    """
    names = {path.name for path in files_of(folder)}
    if ADAPTER_FIELDS in names:
        raise RunError(f"{folder / ADAPTER_FIELDS}: an adapter of peft. Merge it into its model by `merge_and_unload`.")
    form = next((name for each in FORMS for name in (each, f"{each}.index.json") if name in names), None)
    if form is None:
        raise RunError(f"{folder}: holds neither {' nor '.join(FORMS)}, nor their shards. Save it by torch.")
    try:
        missing = [] if form in FORMS else sorted({*shards(folder / form)} - names)
    except DownloadError as error:
        raise unreadable(folder / form, error) from error
    if missing:
        raise RunError(f"{folder}: lacks {missing[0]}, which {form} names. Expected every shard; download it again.")


def shards(index: Path) -> list[str]:
    """Return the files that an index of weights names.

    Raises:
        DownloadError: it is none, or names other files than shards next to it.
    """
    try:
        first, *others = sorted(set(map(Path, json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DownloadError(f"{index.name}: not an index of weights ({error!r}). Name another revision.") from error
    found, kind = [first, *others], index.suffixes[0]
    if strange := [str(shard) for shard in found if shard.name != str(shard) or shard.suffix != kind]:
        raise DownloadError(f"{index.name}: names the shard {strange[0]!r}, no {kind} file. Name another revision.")
    return [shard.name for shard in found]


@contextlib.contextmanager
def in_time(folder: Path) -> Iterator[None]:
    """End this process with a message if the block, which opens the files of a folder, takes too long.

    Another process watches, since libraries in Rust or C may keep the interpreter's lock, so that no thread and no
    signal handler of this one would run. It ends with the block, or with this process.

    Raises:
        RunError: as `files_of` raises it.
    """
    seconds = MOST_SECONDS + sum(path.stat().st_size for path in files_of(folder)) // BYTES_PER_SECOND
    message = f"ERROR {folder}: not opened after {seconds} s, the limit for files of this size. Name another model."
    script = 'read -rt "$0" || [ $? -le 128 ] || { echo "$1" >&2; kill -ALRM "$2"; }'
    command = ["bash", "-c", script, str(seconds), message, str(os.getpid())]
    path = os.pathsep.join([os.environ.get("PATH", ""), os.defpath])  # also where a program runs without a PATH
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={"PATH": path}):
        yield


def unreadable(path: Path, error: Exception) -> RunError:
    """Return the error for a file of weights that is damaged or missing."""
    return RunError(f"{path}: cannot be read ({error}). Expected the weights of a model; make or download it again.")


@contextlib.contextmanager
def opening(folder: Path, files: str = f"{TOKENIZER} next to its config") -> Iterator[None]:
    """Name the folder of a tokeniser if the block, which opens it with the help of libraries, fails or never ends.

    Raises:
        DataError: it fails.
        RunError: as `in_time` raises it.
    """
    try:
        with in_time(folder):
            yield
    except ProjectError:
        raise
    except BaseException as error:  # on a broken file a bare Exception, or a panic of Rust, which is none
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DataError(f"{folder}: not a tokeniser ({error}). Expected {files}.") from error


def read_core(folder: Path) -> Any:
    """Return the tokeniser of a tokenizer.json, of the library tokenizers, that can tokenise any text.

    Raises:
        DataError: it cannot be read, or cannot tokenise an unknown character.
    """
    from tokenizers import Tokenizer  # no library of models is needed for anything else here

    with opening(folder):
        core = Tokenizer.from_file(str(folder / TOKENIZER))
        check_core(core)
    return core


def check_core(core: Any) -> None:
    """Try whether a tokeniser can tokenise any text: an unknown character raises what the library raises, else."""
    core.no_padding()
    core.no_truncation()
    core.encode(UNKNOWN)
