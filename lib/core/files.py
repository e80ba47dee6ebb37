"""Settings files and atomic writes: a file or folder appears complete or not at all."""

import contextlib
import hashlib
import io
import json
import math
import os
import re
import shlex
import shutil
import stat
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import yaml

from lib.core.errors import MOST_OF_VALUE, ConfigError, ProjectError, cut

STANDARD_OUTPUT = ("-", "/dev/stdout")
UMASK = os.umask(0)
"""Rights that new files and folders do not get. It can only be read by setting it, for all threads; so once."""
os.umask(UMASK)


@contextlib.contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of `target`; on success it replaces `target`, on failure it is removed.

    The body may create a file or a folder at the yielded path. The temporary path keeps the suffix of
    `target`, since many writers choose the format by it. The file or folder gets the permissions of the umask, also if
    its writer set others. What `is_stream` is not replaced: the finished file is written into it.

    Args:
        target: file or folder to appear. Parent folders are made. A link stays, and the file that it names is replaced.

    Raises:
        ProjectError: the folder cannot be written, the disk is full, or a folder is in the place of a file.
    """
    stream = is_stream(target)
    target = Path(os.path.realpath(target) if os.path.islink(target) and not stream else target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=None if stream else target.parent))
    except OSError as error:
        raise ProjectError(explained(target, error)) from error
    try:
        partial = scratch / target.name
        yield partial
        if stream:
            place = 1 if str(target) in STANDARD_OUTPUT else target
            with partial.open("rb") as file, open(place, "wb", closefd=place != 1) as out:
                shutil.copyfileobj(file, out)
            return
        _give_usual_rights(partial)
        if target.is_dir():
            if not partial.is_dir():
                raise ConfigError(f"{target}: is a folder, which a file cannot replace. Name a file, or remove it.")
            shutil.rmtree(target)
        os.replace(partial, target)
    except OSError as error:
        if error.errno is None or isinstance(error, FileNotFoundError) or str(target) in STANDARD_OUTPUT:
            raise
        raise ProjectError(explained(target, error)) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def is_stream(target: str | Path) -> bool:
    """Whether a file to be written is standard output, a device or a pipe, which nothing can replace."""
    exists, replaceable = os.path.exists(target), os.path.isfile(target) or os.path.isdir(target)
    return str(target) in STANDARD_OUTPUT or (exists and not replaceable)


def check_target(target: Path, *inputs: str | Path) -> None:
    """Refuse a file to be written that is one of the files to be read.

    Raises:
        ConfigError: it is one of them.
    """
    for path in map(Path, inputs):
        if path.exists() and target.exists() and target.samefile(path):
            raise ConfigError(f"{target}: is read as well ({path}). Expected another file; name one with --out.")


def require_new(target: str | Path) -> None:
    """Refuse a folder that a user names if something is there, which `atomic_path` would replace.

    Raises:
        ConfigError: it is there.
    """
    if os.path.lexists(target):
        raise ConfigError(f"{target}: is there already. Expected a new folder; name another, or move it away.")


def write_text(target: str | Path, text: str) -> None:
    """Write `text` to `target` atomically, as UTF-8."""
    with atomic_path(target) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(target: str | Path, value: object) -> None:
    """Write `value` to `target` atomically, as indented JSON with a final newline, which is YAML as well."""
    write_text(target, json_as_yaml(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)) + "\n")


def json_as_yaml(text: str) -> str:
    """Return JSON with escapes instead of the signs that YAML refuses, or reads as the end of a line."""
    return _NOT_IN_YAML.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


MOST_VALUES = 100_000
"""Most values that a short text may expand to: far above the needs of any study."""
MOST_RUNS = 10_000
"""Most values that one short text may expand to where each costs much work, such as a training run."""


class _Loader(yaml.SafeLoader):
    """Reads numbers as JSON and YAML 1.2 define them.

    PyYAML reads 1e-05, which JSON writes, as a string, and converts 1:30 (to 90), 017 (to 15) and dates. Here those
    three are strings, which a setting that expects a number refuses. 10_000 is a number.
    """

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in found if tag.rpartition(":")[2] not in ("int", "float", "timestamp")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text)
        self.name = source

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        """Return the node of a mapping; in PyYAML, the second of two equal keys would replace the first silently."""
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            line = key.start_mark.line + 1
            if before := lines.setdefault((key.tag, key.value), 0):
                twice = f"the key '{key.value}' is in line {before} and again in line {line}"
                raise ConfigError(f"{self.name}: {twice}. Expected every key once; rename one of them.")
            lines[key.tag, key.value] = line
        return node


class _Dumper(yaml.SafeDumper):
    """Writes values that `_Loader` reads back unchanged: strings that look like numbers are quoted."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Return the node of a text; in any other style than this one, U+0085 would be read as a line feed."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if "\x85" in data else None)


_Dumper.add_representer(str, _Dumper.represent_str)

_WHOLE = "(0|[1-9][0-9]*|[1-9][0-9]{0,2}(_[0-9]{3})+)"
_EXPONENT = "[eE][-+]?[0-9]+"
for _class in (_Loader, _Dumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(rf"[-+]?{_WHOLE}$"), list("-+0123456789"))
    _class.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(
            rf"[-+]?({_WHOLE}(\.[0-9]*({_EXPONENT})?|{_EXPONENT})|\.[0-9]+({_EXPONENT})?|\.(inf|Inf|INF))$"
            r"|\.(nan|NaN|NAN)$"
        ),
        list("-+0123456789."),
    )


def mapping_text(values: dict[str, Any], width: int = 80, *, one_line: bool = False) -> str:
    """Return `values` as YAML that `read_mapping` reads as the same values.

    Args:
        values: JSON values by key.
        width: characters of a line, above which it breaks between words.
        one_line: return `{key: value, ...}` in one line instead of the text of a file.
    """
    style = {"default_flow_style": one_line, "width": math.inf if one_line else width}
    text: str = yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, **style)  # noqa: TID251
    return text.removesuffix("\n") if one_line else text


def read_mapping(source: str | Path) -> dict[str, Any]:
    """Return the settings in `source`: an inline mapping (`{...}`, JSON), or the path of a YAML file.

    Raises:
        ConfigError: the file cannot be read, has a key twice, or is not a mapping.
    """
    in_place = str(source).lstrip().startswith("{")
    name = cut(str(source), MOST_OF_VALUE) if in_place else str(source)
    try:
        if not in_place and os.path.exists(source) and not os.path.isfile(source):
            raise OSError("it is a folder, a pipe or a device")
        text = str(source) if in_place else Path(source).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(_unreadable(name, error)) from error
    values = read_value(text, name)
    if not isinstance(values, dict):
        raise ConfigError(f"{name}: holds {type(values).__name__}, expected a mapping of settings.")
    return values


def read_value(text: str, source: str) -> Any:
    """Return the value of a text in YAML.

    Args:
        text: the text itself.
        source: the name in messages.

    Raises:
        ConfigError: it is not YAML, or has a key twice.
    """
    try:
        return _Loader(text, source).get_single_data()
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise ConfigError(_unreadable(source, error)) from error


def check_expansion(what: str, number: int, noun: str = "names", most: int = MOST_VALUES) -> None:
    """Refuse a short text with too many expansions before they are made.

    Args:
        what: the text, or a name for it.
        number: number of its expansions.
        noun: what an expansion is.
        most: largest number allowed.

    Raises:
        ConfigError: there are more than `most`.
    """
    if number > most:
        raise ConfigError(f"{cut(what, 2 * MOST_OF_VALUE)}: more than {most:,} {noun}. Name fewer.")


def _unreadable(source: str | Path, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or error
    return f"{cut(str(source), MOST_OF_VALUE)}: cannot be read ({reason}). Expected a YAML file of settings, in UTF-8."


_FORMULA = re.compile(r"(?![-+][\d.,]+( [(±]|$))[=+\-@\t].", re.DOTALL)


def csv_cell(text: object) -> str:
    """Return a text as CSV shows it to people: with ' before a formula of a spreadsheet, and in one row."""
    cell = str(text).replace("\r", " ")  # pandas quotes a line feed, but no carriage return
    return f"'{cell}" if _FORMULA.match(cell) else cell


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_POINTER = b"version https://git-lfs.github.com/spec/"


def not_fetched(path: str | Path) -> str | None:
    """Return the error message if a file is a pointer that Git LFS left in its place, else None.

    Source: the specification of Git LFS, https://git-lfs.com
    """
    with open(path, "rb") as file:
        if file.read(len(_POINTER)) != _POINTER:
            return None
    return f"{path}: is a pointer of Git LFS. Expected the file itself; run 'git lfs pull' where it is from."


LITTER = ("Thumbs.db", "ehthumbs.db", "desktop.ini")
"""Files that file managers leave in any folder, in addition to hidden ones (`.DS_Store`, `._name`, `.nfs0001`)."""


def litter(folder: str | Path, names: Iterable[str]) -> set[str]:
    """Return the `names` in a folder that no program of the project creates; also for `shutil.copytree`."""
    return {name for name in names if name.startswith(".") or name in LITTER or not name.isprintable()}


def files_in(folder: str | Path, pattern: str = "**/*") -> list[Path]:
    """Return the files in `folder` that match `pattern`, sorted, without litter."""
    found = Path(folder).glob(pattern)
    return sorted(path for path in found if os.path.isfile(path) and not litter(folder, path.relative_to(folder).parts))


def link_tree(source: str | Path, target: Path, *left: str, theirs: bool = False) -> None:
    """Copy a folder without taking space where the file system has hard links; the names `left` stay behind.

    Args:
        source: the folder.
        target: to appear.
        left: patterns of names.
        theirs: it is a user's own, so it is really copied: rights and times of a hard link are those of the file.
    """

    def linked(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, target)

    shutil.copytree(
        source, target, ignore=shutil.ignore_patterns(*left, ".*"), copy_function=shutil.copyfile if theirs else linked
    )


def folders_in(folder: str | Path) -> list[Path]:
    """Return the folders in `folder`, sorted; none if it cannot be read."""
    try:
        return sorted(path for path in Path(folder).iterdir() if os.path.isdir(path))
    except OSError:
        return []


def settle(folder: Path) -> None:
    """Give everything in `folder` the permissions of the umask, and sync it to disk."""
    _give_usual_rights(folder)
    for path in reversed(_own(folder)):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _give_usual_rights(place: Path) -> None:
    """Give a file, or a folder and its content, default permissions; writers such as safetensors set others.

    A bit that hands the group of a folder on to its content stays.
    """
    for path in _own(place):
        mode = stat.S_IMODE(path.stat().st_mode)
        usual = (mode & 0o7000) | (0o777 if path.is_dir() else 0o666) & ~UMASK
        if mode != usual:
            path.chmod(usual)


def _own(place: Path) -> list[Path]:
    """Return a file, or a folder and its content without links and litter; every folder comes before its content."""
    below = [path for path in place.rglob("*") if not litter(place, [path.name])]
    return [path for path in [place, *below] if not path.is_symlink() and (path.is_file() or path.is_dir())]


def explained(target: Path, error: OSError) -> str:
    """Return the error message for a `target` that cannot be written, or an input that cannot be read."""
    asked = "Expected a folder with write permission and free space; nothing was left half-written. Correct it"
    return unreadable(error) or f"{target}: cannot be written ({error.strerror or error}). {asked}, and run again."


def where(error: OSError) -> str | None:
    """Return the file that an error is about. A failed read does not name it, but had it open."""
    frames = reversed([frame for frame, _ in traceback.walk_tb(error.__traceback__)])
    held = [value for frame in frames for value in frame.f_locals.values() if isinstance(value, io.IOBase)]
    names = [error.filename, *(getattr(file, "name", None) for file in held)]
    return next((os.fsdecode(name) for name in names if isinstance(name, str | bytes)), None)


def unreadable(error: Exception) -> str | None:
    """Return the error message if a file or folder may not be read, else None."""
    if not isinstance(error, PermissionError) or error.filename is None:
        return None
    place = Path(os.fsdecode(error.filename)).absolute()
    found = next(path for path in [place, *place.parents] if os.path.lexists(path))
    if os.access(found, os.R_OK | (os.X_OK if found.is_dir() else 0)):
        return None
    return f"{found}: cannot be read ({error.strerror}). Ask for the right (chmod -R a+rX {shlex.quote(str(found))})."
