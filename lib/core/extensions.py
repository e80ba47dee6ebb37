"""Extensions: folders with parts of their own, which a configuration names: `extensions: [studies/toy]`.

An extension mirrors `lib`: its `tasks/reverse.py` is found as `lib/tasks/...` is. It may also have `rules/*.smk`, and
`report/*.rst` with captions. Which are in use stands in the environment, so that programs which a process starts know
it as well.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from lib.core.errors import ConfigError, cut, printable

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "ATTENTION_GRID_EXTENSIONS"
"""Environment variable: the extensions in use, as configurations name them."""
SHIPPED = "studies"
ON_USE: list[Callable[[], None]] = []
"""Functions that are called when an extension comes into use."""


def in_use() -> list[str]:
    """Return the extensions in use, as configurations name them."""
    return list(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))


def shipped() -> list[str]:
    """Return the extensions of the project itself."""
    return sorted(f"{SHIPPED}/{each.name}" for each in (ROOT / SHIPPED).iterdir() if each.is_dir())


def use(names: Iterable[str]) -> None:
    """Take extensions into use, in this process and in those that it starts.

    Raises:
        ConfigError: one is no folder, or Python knows its name as that of another package.
    """
    for name in dict.fromkeys(names):
        if not os.path.isdir(folder_of(name)) or os.pathsep in name:
            said = f"{printable(cut(name, 300))} is not there"
            raise ConfigError(f"extensions: {said}. Expected a folder such as {SHIPPED}/toy, without {os.pathsep!r}.")
        _import_from(name)
        if name not in in_use():
            os.environ[VARIABLE] = os.pathsep.join([*in_use(), name])
            for call in ON_USE:
                call()


def folder_of(name: str) -> Path:
    """Return the folder of an extension: relative to the working folder, or else to the project."""
    return next((path.resolve() for path in (Path(name), ROOT / name) if os.path.isdir(path)), ROOT / name)


def package_of(name: str) -> str:
    """Return the name of an extension's package: of one outside of the project, that of its folder."""
    folder = folder_of(name)
    inside = folder.is_relative_to(ROOT)
    return ".".join(folder.relative_to(ROOT).parts) if inside else folder.name


def packages(place: str) -> list[str]:
    """Return the packages with the parts of `lib.<place>`: that of `lib`, and those of the extensions in use."""
    mirrored = place.removeprefix("lib.")
    for name in in_use():
        _import_from(name)
    own = [package_of(name) for name in in_use() if (folder_of(name) / _path(mirrored)).is_dir()]
    return [f"{package}.{mirrored}" for package in ("lib", *own)]


def part(module: str) -> str:
    """Return the dotted name of a module that only extensions have, by the name that it would have in `lib`.

    Raises:
        ConfigError: no extension in use has it.
    """
    mirrored = module.removeprefix("lib.")
    for name in in_use():
        if (folder_of(name) / f"{_path(mirrored)}.py").is_file():
            _import_from(name)
            return f"{package_of(name)}.{mirrored}"
    found = "".join(
        f" {'/'.join(file.relative_to(ROOT).parts[:2])} has it: add it to `extensions`."
        for file in sorted(ROOT.glob(f"{SHIPPED}/*/{_path(mirrored)}.py"))
    )
    raise ConfigError(f"extensions: the study asks for `{mirrored}`, which none of its extensions has.{found}")


def load(module: str) -> ModuleType:
    """Import and return a module that was found by name.

    Raises:
        ConfigError: it is an extension's, and no Python, or needs a package that is not there.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, SyntaxError) as error:
        if module.startswith("lib."):
            raise
        raise ConfigError(f"extensions: {module}: {error}. Correct it, or install its packages.") from error


def claim(found: dict[str, str], name: str, place: str) -> None:
    """Add the place of a kind to those `found`.

    Raises:
        ConfigError: a kind of this name is in another place.
    """
    if (other := found.setdefault(name, place)) != place:
        raise ConfigError(f"kind: {name} is both {other} and {place}. Rename one.")


def remedy(place: str, name: str) -> str:
    """Return a sentence on the shipped extensions that have a part; nothing if none has."""
    files = ROOT.glob(f"{SHIPPED}/*/{_path(place.removeprefix('lib.'))}/**/*.py")
    having = [each for each in files if each.stem == name or f'kind: Literal["{name}"]' in each.read_text("utf-8")]
    found = sorted({"/".join(each.relative_to(ROOT).parts[:2]) for each in having})
    return "".join(f" {each} has it: add it to `extensions`." for each in found)


def _path(place: str) -> str:
    return place.replace(".", "/")


def sources() -> dict[str, Path]:
    """Return the folders of all packages of the project's own code, by name: those of extensions included."""
    own = {name: ROOT / name for name in ("lib", "scripts", SHIPPED, "benchmarks") if (ROOT / name).is_dir()}
    outside = {package_of(name): folder_of(name) for name in in_use() if not folder_of(name).is_relative_to(ROOT)}
    return own | outside


def _import_from(name: str) -> None:
    """Let Python find the package of an extension outside of the project."""
    folder, package = folder_of(name), package_of(name)
    if folder.is_relative_to(ROOT) or (parent := str(folder.parent)) in sys.path:
        return
    if not package.isidentifier() or PathFinder.find_spec(package) is not None:
        raise ConfigError(f"extensions: {name}: Python cannot import {package!r} from there. Rename the folder.")
    sys.path.append(parent)
