"""Digests of the code that a rule executes: an edit makes exactly the runs stale whose numbers it can change.

A digest covers definitions: the top-level functions, classes and assignments that a program reaches by name, through
imports and re-exports. With a definition that names files of data beside `__file__`, these count. Modules that are
imported by a name built at run time (mechanisms, tasks) are named explicitly. Other top-level statements act when their
module is imported, so they count then. `lib.workflow.syntax` removes what cannot change numbers. Nothing that is
analysed is imported.
"""

import ast
import contextlib
import functools
import hashlib
import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from lib.workflow.syntax import Chain, Function, chain_of, defined_names, last_name, normalise

ROOT = Path(__file__).resolve().parents[2]

SILENT = frozenset(
    {
        "lib.core.attempts",  # where runs are at work, and what they say of themselves meanwhile
        "lib.core.errors",  # classes of errors
        "lib.core.files",  # reads settings, writes files whole
        "lib.core.record",  # describes a finished run and names its files
        "lib.attention.parameters",  # settings of mechanisms; those that a run uses are roots of their own
        "lib.backbones.parameters",
        "lib.tasks.parameters",
        "lib.results.parameters",
        "lib.study.arguments",  # command line
        "lib.core.kinds",  # finds kinds by name; those that a run uses are roots of their own
        "lib.core.program",  # command line, messages, exit status
        "lib.training.folders",  # where a run works and where its results go
        "lib.training.heartbeats",  # what a training says of itself
        "lib.training.interruptions",  # what ends it from outside
        "lib.training.record",  # writes the record after the training
        "lib.training.trackers",  # reports the training's progress
    }
)
"""Modules that only describe, carry or report a run; neither they nor what they use counts."""
WRAPPERS = {"cache", "contextmanager", "dataclass", "disable", "lru_cache", "no_grad"}
"""Decorators that register nothing. Any other may, so that what it decorates counts like a statement."""
STATEMENTS = "<statements>"
"""Stands for the top-level statements of a module that define nothing."""

Definition = tuple[str, str]  # module and name
_roots: dict[str, tuple[str, ...]] = {}


@functools.cache
def code_digest(script: str, *modules: str) -> str:
    """Return a digest of the project's definitions that `script` reaches.

    Args:
        script: path of the program, relative to the repository.
        modules: dotted names of modules that it imports at run time, for instance `lib.attention.lsh.mechanism`.

    Raises:
        FileNotFoundError: the script or a module does not exist.
    """
    digest = hashlib.sha256()
    for module, name in _closure(script, modules):
        digest.update(f"{module}\0{name}\0{_meaning(module, name).text}\0".encode())
    _roots[(key := digest.hexdigest()[:16])] = (script, *modules)
    return key


def roots(digest: str) -> tuple[str, ...]:
    """Return the arguments of `code_digest` that gave a digest in this process."""
    return _roots[digest]


def reached(script: str, *modules: str) -> dict[str, str]:
    """Return what counts in the digest of the same arguments, sorted: `module:name` of each, with its own digest."""
    return {
        ":".join(definition): hashlib.sha256(_meaning(*definition).text.encode()).hexdigest()[:16]
        for definition in _closure(script, modules)
    }


def _closure(script: str, modules: Iterable[str]) -> list[Definition]:
    roots = [script.removesuffix(".py").replace("/", "."), *modules]
    if missing := [root for root in roots if _module(root) is None and root not in SILENT]:
        raise FileNotFoundError(f"{', '.join(missing)}: not found in {ROOT}. Expected a script and modules of lib.")
    waiting = [definition for root in roots for definition in _lookup(root, ())]
    found: set[Definition] = set()
    while waiting:
        definition = waiting.pop()
        if definition not in found and definition[0] not in SILENT and _module(definition[0]) is not None:
            found.add(definition)
            waiting += _meaning(*definition).uses
    return sorted(definition for definition in found if _meaning(*definition).text)


class _Module(NamedTuple):
    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, list[tuple[str, Chain]]]  # imported name: module and attribute, from every import of the name
    loaded: list[tuple[str, str]]  # module and attribute (or "") of every import
    registered: list[str]  # definitions with a decorator that may register them
    mentioned: set[str]  # all names that occur, those in annotations included


@functools.cache
def _module(name: str) -> _Module | None:
    """Return what a module holds; None if it is not of the project, or not there."""
    path = ROOT.joinpath(*name.split("."))
    files = [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]
    if name.split(".")[0] not in ("lib", "scripts") or not (files or path.is_dir()):
        return None
    tree = ast.parse(files[0].read_text(encoding="utf-8") if files else "", filename=name)
    module = _Module({}, {}, [], [], set())
    for statement in tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            for defined in defined_names(statement) or [STATEMENTS]:
                module.definitions.setdefault(defined, []).append(statement)
        if isinstance(statement, Function | ast.ClassDef) and not WRAPPERS.issuperset(
            last_name(decorator) for decorator in statement.decorator_list
        ):
            module.registered.append(statement.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            module.mentioned.add(node.id)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                target = alias.name if alias.asname else alias.name.split(".")[0]
                module.imports.setdefault(alias.asname or target, []).append((target, ()))
                module.loaded.append((alias.name, ""))
        elif isinstance(node, ast.ImportFrom):
            package = name if files[0].stem == "__init__" else name.rpartition(".")[0]
            target = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                module.imports.setdefault(alias.asname or alias.name, []).append((target, (alias.name,)))
                module.loaded.append((target, alias.name))
    return module


def _source(name: str) -> _Module:
    """Return what a module holds; nothing if it is not of the project."""
    return _module(name) or _Module({}, {}, [], [], set())


@functools.cache
def _lookup(module: str, chain: Chain) -> frozenset[Definition]:
    """Return the definitions that `chain` stands for in `module`; all of the module if the chain is empty."""
    found: set[Definition] = set()
    seen: set[tuple[str, Chain]] = set()
    waiting = [(module, chain)]
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        module, chain = place
        source = _module(module)
        if source is None:
            found.add((module, ".".join(chain)))
        elif not chain:
            found |= {(module, name) for name in (*source.definitions, STATEMENTS)}
            # A module imports for others what it does not mention itself.
            exports = source.imports.keys() - source.mentioned
            waiting += [target for name in exports for target in source.imports[name] if target[1]]
        elif chain[0] in source.definitions or chain[0] in source.imports:
            found.add((module, chain[0] if chain[0] in source.definitions else STATEMENTS))
            waiting += [(target, (*attribute, *chain[1:])) for target, attribute in source.imports.get(chain[0], ())]
        elif _module(submodule := f"{module}.{chain[0]}"):
            waiting.append((submodule, chain[1:]))
        else:
            found |= {(module, STATEMENTS), *_imported_on_demand(module, chain[0])}
    return frozenset(found)


def _imported_on_demand(package: str, name: str) -> set[Definition]:
    """Return what the `__getattr__` of a package may return for `name`: definitions of that name in its modules."""
    if "__getattr__" not in _source(package).definitions:
        return set()
    files = ROOT.joinpath(*package.split(".")).rglob("*.py")
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    found = {(each, name) for each in modules if name in _source(each).definitions}
    return found or {(package, "__getattr__")}


class _Meaning(NamedTuple):
    text: str  # the syntax tree and what its imported names stand for; empty if nothing counts
    uses: set[Definition]


@functools.cache
def _meaning(module: str, name: str) -> _Meaning:
    """Return what counts of a definition."""
    source = _source(module)
    trees, types = normalise(source.definitions.get(name, ()), functools.partial(_is_settings, module))
    names = _resolve(module, trees)
    uses = {(module, STATEMENTS), *_classes(module, types)}.union(*names.values())
    if name == STATEMENTS:
        uses |= {(module, registered) for registered in source.registered}
        for target, attribute in source.loaded:
            submodule = f"{target}.{attribute}"
            uses.add((submodule if attribute and _module(submodule) else target, STATEMENTS))
            if attribute == "*":
                uses |= _lookup(target, ())
    imported = [(chain, sorted(found)) for chain, found in sorted(names.items()) if chain[0] in source.imports]
    parts = [part for part in (imported, _data_files(module, trees)) if part]
    return _Meaning("".join([*map(ast.dump, trees), *map(str, parts)]), uses)


def _data_files(module: str, trees: Iterable[ast.AST]) -> list[tuple[str, str]]:
    """Return the files that are no code and that a definition names beside `__file__`, with their digests."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    if not any(isinstance(node, ast.Name) and node.id == "__file__" for node in nodes):
        return []
    place = ROOT.joinpath(*module.split("."))
    own = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    texts = sorted({node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)})
    named = [own.with_suffix(text) for text in texts if re.fullmatch(r"\.\w+", text)]
    named += [own.with_name(text) for text in texts if re.fullmatch(r"\w+", text)]
    files = [file for path in named for file in ([path] if path.is_file() else sorted(path.rglob("*.*")))]
    return [
        (file.relative_to(ROOT).as_posix(), hashlib.sha256(file.read_bytes()).hexdigest())
        for file in files
        if file.is_file() and file.suffix not in (".py", ".pyc")
    ]


def _resolve(module: str, trees: Iterable[ast.AST]) -> dict[Chain, frozenset[Definition]]:
    """Return what the names in `trees` stand for, those alone that `module` defines or imports."""
    source, names, waiting = _source(module), {}, list(trees)
    while waiting:
        node = waiting.pop()
        if not (chain := chain_of(node)):
            waiting += ast.iter_child_nodes(node)
        elif chain[0] in source.definitions or chain[0] in source.imports:
            names[chain] = _lookup(module, chain)
    return names


def _statements(definitions: Iterable[Definition]) -> list[tuple[str, ast.stmt]]:
    """Return the statements of those definitions that the project holds, each with its module."""
    return [
        (module, statement) for module, name in definitions for statement in _source(module).definitions.get(name, ())
    ]


def _is_settings(module: str, node: ast.stmt) -> bool:
    """Whether a statement is a class that derives from pydantic's BaseModel."""
    if not isinstance(node, ast.ClassDef):
        return False
    names = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    bases = set().union(*_resolve(module, names).values())
    return ("pydantic", "BaseModel") in bases or any(
        base is not node and _is_settings(place, base) for place, base in _statements(bases)
    )


def _classes(module: str, types: Iterable[ast.expr]) -> set[Definition]:
    """Return the project's classes that types are made of, also those behind aliases and in quotes."""
    found: set[Definition] = set()
    seen: set[Definition] = set()
    waiting = [(module, type_) for type_ in types]
    while waiting:
        module, type_ = waiting.pop()
        for node in ast.walk(type_):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                with contextlib.suppress(SyntaxError):
                    waiting.append((module, ast.parse(node.value, mode="eval").body))
        new = set().union(*_resolve(module, [type_]).values()) - seen
        seen |= new
        for definition in new:
            for place, statement in _statements([definition]):
                if isinstance(statement, ast.ClassDef):
                    found.add(definition)
                elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value:
                    waiting.append((place, statement.value))
    return found
