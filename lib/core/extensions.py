"""Extensions: folders or installed packages with parts of their own, which a configuration names.

`extensions: [studies/toy, grid_extras]`. An extension mirrors `lib`: its `tasks/reverse.py` is found as `lib/tasks/...`
is. It may also have `rules/*.smk`, and `report/*.rst` with captions. Which are in use stands in the environment, so
that programs which a process starts know it as well.
"""

import functools
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from lib.core.errors import ConfigError, cut, printable

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "ATTENTION_GRID_EXTENSIONS"
"""Environment variable: the extensions in use, as configurations name them."""
SHIPPED = "studies"
ON_USE: list[Callable[[], None]] = []
"""Functions to call when an extension comes into use."""


class Extension(NamedTuple):
    """An extension in use."""

    name: str
    """Its name in configurations."""
    package: str
    folder: Path

    def has(self, place: str) -> bool:
        """Whether it has a folder or module `place`, such as `training.geometry`."""
        path = self.folder.joinpath(*place.split("."))
        return path.is_dir() or path.with_suffix(".py").is_file()


def in_use() -> list[str]:
    """Return the extensions in use, as configurations name them."""
    return list(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))


def shipped() -> list[str]:
    """Return the extensions of the project itself."""
    return sorted(f"{SHIPPED}/{each.name}" for each in (ROOT / SHIPPED).glob("*/"))


def use(names: Iterable[str]) -> None:
    """Take extensions into use, in this process and in those that it starts.

    Raises:
        ConfigError: one is neither a folder nor a package, or Python knows its name as that of another package.
    """
    for name in dict.fromkeys(names):
        _found(name, os.getcwd())
        if name not in in_use():
            os.environ[VARIABLE] = os.pathsep.join([*in_use(), name])
            for call in ON_USE:
                call()


def extensions() -> list[Extension]:
    """Return the extensions in use."""
    return [_found(name, os.getcwd()) for name in in_use()]


@functools.cache
def _found(name: str, working_folder: str) -> Extension:
    """Return the extension in a folder, relative to the working folder, or else to the project; or in a package."""
    folders = [path.resolve() for path in (Path(working_folder, name), ROOT / name) if os.path.isdir(path)]
    if not folders and all(map(str.isidentifier, name.split("."))) and (place := _place(name)):
        return Extension(name, name, place)
    if not folders or os.pathsep in name:
        wanted = f"a folder such as {SHIPPED}/toy, without {os.pathsep!r}, or an installed package"
        raise ConfigError(f"extensions: {printable(cut(name, 300))} is not there. Expected {wanted}.")
    folder = folders[0]
    own = folder.is_relative_to(ROOT / SHIPPED)
    package, home = (".".join(folder.relative_to(ROOT).parts), ROOT) if own else (folder.name, folder.parent)
    if str(home) not in sys.path:
        sys.path.append(str(home))
    spec = PathFinder.find_spec(package) if package.isidentifier() else None
    if not own and (spec is None or str(folder) not in (spec.submodule_search_locations or ())):
        raise ConfigError(f"extensions: {name}: Python cannot import {package!r} from there. Rename the folder.")
    return Extension(name, package, folder)


def _place(package: str) -> Path | None:
    """Return the folder of a package that Python finds; neither it nor a package around it is imported."""
    # Finders of programs are left out, since they ask for the extensions in use.
    finders = [each for each in sys.meta_path if PathFinder not in getattr(each, "__mro__", ())[1:]]
    path: list[str] | None = None
    for name in itertools.accumulate(package.split("."), "{}.{}".format):
        specs = filter(None, (each.find_spec(name, path) for each in finders))
        path = next((spec.submodule_search_locations for spec in specs), None)
        if path is None:
            return None
    return Path(next(iter(path))) if path else None


def packages(place: str) -> list[str]:
    """Return the packages with the parts of `lib.<place>`: that of `lib`, and those of the extensions in use."""
    mirrored = place.removeprefix("lib.")
    return [f"{package}.{mirrored}" for package in ("lib", *(e.package for e in extensions() if e.has(mirrored)))]


def part(module: str) -> str:
    """Return the dotted name of a module that only extensions have, by the name that it would have in `lib`.

    Raises:
        ConfigError: no extension in use has it.
    """
    mirrored = module.removeprefix("lib.")
    for extension in extensions():
        if extension.has(mirrored):
            return f"{extension.package}.{mirrored}"
    found = remedy(*module.rsplit(".", 1))
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
    files = ROOT.glob(f"{SHIPPED}/*{place.removeprefix('lib').replace('.', '/')}/**/*.py")
    having = [each for each in files if each.stem == name or f'kind: Literal["{name}"]' in each.read_text("utf-8")]
    found = sorted({"/".join(each.relative_to(ROOT).parts[:2]) for each in having})
    return "".join(f" {each} has it: add it to `extensions`." for each in found)


def sources() -> dict[str, Path]:
    """Return the folders of all packages of the project's own code, by name: those of extensions included."""
    # Asked at every import. The first name is that of the folder: `attention_grid` where it is installed.
    own = {name: ROOT / name for name in (__name__.partition(".")[0], "scripts", SHIPPED, "benchmarks")}
    further = {each.package: (each.folder, *each.folder.parents) for each in extensions()}
    return {name.partition(".")[0]: above[name.count(".")] for name, above in further.items()} | own
