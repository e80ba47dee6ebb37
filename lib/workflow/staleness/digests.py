"""Digests of the code that a rule executes: a result is stale if the text of a definition that it reaches has changed.

Definitions are the top-level functions, classes and assignments that a program reaches by name, through imports and
re-exports. `syntax.py` removes from their text what cannot change numbers. Other top-level statements run when their
module is imported, so they count then. If a definition names data files next to `__file__`, these count. Modules that
are imported by a name built at run time (mechanisms, tasks) are named explicitly. Nothing that is analysed is
imported.
"""

import ast
import contextlib
import functools
import hashlib
import importlib.util
import json
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from lib.core.errors import ProjectError
from lib.core.extensions import ROOT, sources
from lib.core.files import files_in, write_json
from lib.workflow.staleness.syntax import Chain, Function, defined_names, normalise, references, registers

SILENT = frozenset(
    {
        "lib.core.attempts",  # where runs are at work, and what they say of themselves meanwhile
        "lib.core.errors",  # classes of errors
        "lib.core.extensions",  # finds parts by name; those that a run uses are roots of their own
        "lib.core.files",  # reads settings, writes files whole
        "lib.core.record",  # describes a finished run and names its files
        "lib.analysis.settings",  # settings of analyses; those of a kind are reached by its modules
        "lib.attention.settings",  # settings of mechanisms; those that a run uses are roots of their own
        "lib.backbones.settings",
        "lib.tasks.settings",
        "lib.results.settings",
        "lib.study.arguments",  # command line
        "lib.core.kinds",  # finds kinds by name; those that a run uses are roots of their own
        "lib.core.program",  # command line, messages, exit status
        "lib.training.folders",  # where a run works and where its results go
        "lib.training.interruptions",  # what ends it from outside
        "lib.training.record",  # writes the record after the training
        "lib.training.reporting",  # heartbeats and trackers of a training
    }
)
"""Modules that only describe, carry or report a run; neither they nor what they use counts."""
OPTIONAL: dict[str, frozenset[str]] = {
    "lib.training.run": frozenset({"lib.backbones.adapters"}),
    "lib.training.evaluate": frozenset({"lib.training.evaluate_texts", "lib.training.evaluate_tokens"}),
    # Heads, of tasks that baselines do as well, which read texts and have none.
    "lib.tasks.sequence_classification": frozenset({"lib.backbones.heads.sequence_classification"}),
    "lib.tasks.pair_classification": frozenset({"lib.backbones.heads.pair_classification"}),
}
"""What a module uses only if a run's settings ask for it. `Plan.code` names it for the runs whose settings do."""
STATEMENTS = "<statements>"
"""Stands for the top-level statements of a module that define nothing."""

PLACES = {"__file__", "__name__", "__package__", "__spec__"}
"""Names that a definition finds its own file by; data files next to it count."""

KEPT_SECONDS = 7 * 24 * 3600
"""How long digests of files that have changed since are kept: an edit may be taken back."""

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
    remembered, arguments = _remembered(), " ".join((script, *modules))
    if arguments not in remembered:
        remembered[arguments] = _hash(*(f"{name} {text}" for name, text in reached(script, *modules).items()))[:16]
        _remember(remembered)
    key = remembered[arguments]
    _roots[key] = (script, *modules)
    return key


@functools.cache
def _memory() -> Path:
    """Return the file of the digests of the project's packages as they were when this process began to read them."""
    return _memory_now()


def _memory_now() -> Path:
    """Return the file of the digests of the project's packages as they are, for this Python.

    It lies where Python keeps what it has compiled, and is called by the contents of all files, so that it is never
    out of date.
    """
    contents = [
        f"{package} {file.relative_to(folder).as_posix()} {hashlib.sha256(file.read_bytes()).hexdigest()}"
        for package, folder in sorted(sources().items())
        for file in files_in(folder, "**/*")
        if file.is_file() and "__pycache__" not in file.parts
    ]
    return ROOT / "lib" / "__pycache__" / f"digests-{_hash(sys.version, *contents)[:16]}.json"


@functools.cache
def _remembered() -> dict[str, str]:
    """Return the digests that a process has computed of the same files, by their arguments."""
    try:
        return dict(json.loads(_memory().read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError):
        return {}


def _remember(digests: dict[str, str]) -> None:
    """Store digests for other processes, if that is possible, and remove those of other files after some days.

    They are of an unknown state if a file has changed since its contents gave the name of the store.
    """
    with contextlib.suppress(OSError, ProjectError):
        if _memory_now() != _memory():
            return
        write_json(_memory(), digests)
        for other in _memory().parent.glob("digests-*.json"):
            if time.time() - other.stat().st_mtime > KEPT_SECONDS:
                other.unlink()


def roots(digest: str) -> tuple[str, ...]:
    """Return the arguments of `code_digest` that gave a digest in this process."""
    return _roots[digest]


def reached(script: str, *modules: str) -> dict[str, str]:
    """Return what counts in the digest of the same arguments, sorted: `module:name` of each, with its own digest."""
    return {":".join(each): _hash(_meaning(*each).text)[:16] for each in _closure(script, modules)}


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


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
    known: set[str]  # names that it defines or imports


@functools.cache
def _module(name: str) -> _Module | None:
    """Return what a module holds; None if it is not of the project, or not there."""
    path = _place(name)
    files = [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]
    if name.split(".")[0] not in sources() or not (files or path.is_dir()):
        return None
    tree = ast.parse(files[0].read_text(encoding="utf-8") if files else "", filename=name)
    module = _Module({}, {}, [], [], set(), set())
    for statement in tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            for defined in defined_names(statement) or [STATEMENTS]:
                module.definitions.setdefault(defined, []).append(statement)
        if isinstance(statement, Function | ast.ClassDef) and registers(statement):
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
    module.known.update(module.definitions, module.imports)
    return module


def _place(name: str) -> Path:
    """Return where a module is, without the ending of its file."""
    package, *rest = name.split(".")
    return sources().get(package, ROOT / package).joinpath(*rest)


def _source(name: str) -> _Module:
    """Return what a module holds; nothing if it is not of the project."""
    return _module(name) or _Module({}, {}, [], [], set(), set())


@functools.cache
def _lookup(module: str, chain: Chain) -> set[Definition]:
    """Return the definitions that `chain` refers to in `module`: all of the module if the chain is empty.

    A module on the way there, whose imports are used, is imported too: its statements are among them.
    """
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
        elif chain[0] in source.known:
            found.add((module, chain[0] if chain[0] in source.definitions else STATEMENTS))
            waiting += [(target, (*attribute, *chain[1:])) for target, attribute in source.imports.get(chain[0], ())]
        elif _module(submodule := f"{module}.{chain[0]}"):
            waiting.append((submodule, chain[1:]))
        else:
            found |= {(module, STATEMENTS)} | _imported_on_demand(module, chain[0])
    return found


def _imported_on_demand(package: str, name: str) -> set[Definition]:
    """Return what the `__getattr__` of a package may return for `name`: definitions of that name in its modules."""
    if "__getattr__" not in _source(package).definitions:
        return set()
    place = _place(package)
    modules = [
        ".".join((package, *file.relative_to(place).with_suffix("").parts)) for file in files_in(place, "**/*.py")
    ]
    found = {(each, name) for each in modules if name in _source(each).definitions}
    return found or {(package, "__getattr__")}


class _Meaning(NamedTuple):
    text: str  # what counts; empty if nothing does
    uses: set[Definition]


@functools.cache
def _meaning(module: str, name: str) -> _Meaning:
    """Return the normalised text of a definition, and the definitions that it uses."""
    source = _source(module)
    trees, types = normalise(source.definitions.get(name, []), functools.partial(_is_settings, module))
    chains = {chain for tree in trees for chain in references(tree) if chain[0] in source.known}
    uses = {(module, STATEMENTS), *_classes(module, types)}
    uses |= {each for chain in chains for each in _lookup(module, chain) if _is_followed(module, each[0])}
    if name == STATEMENTS:
        uses |= {(module, registered) for registered in source.registered}
        for target, attribute in source.loaded:
            submodule = f"{target}.{attribute}"
            loaded = submodule if attribute and _module(submodule) else target
            if _is_followed(module, loaded):
                uses.add((loaded, STATEMENTS))
            if attribute == "*":
                uses |= _lookup(target, ())
    # The text says what the module calls an imported name, and not what that is.
    imported = {
        f"{chain[0]} = {'.'.join((target, *attribute))}"
        for chain in chains
        for target, attribute in source.imports.get(chain[0], ())
    }
    parts = [*sorted(imported), *map(_spelled, trees)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    if not PLACES.isdisjoint(node.id for node in nodes if isinstance(node, ast.Name)):
        parts += map(str, _data_files(module, nodes))
    return _Meaning("\n".join(parts), uses)


def _spelled(part: Any) -> str:
    """Return a text of a tree that is the same under every version of Python, unlike that of `ast.unparse`."""
    if isinstance(part, list):
        return f"[{', '.join(map(_spelled, part))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    fields = (f"{name}={_spelled(value)}" for name, value in ast.iter_fields(part) if value not in (None, []))
    return f"{type(part).__name__}({', '.join(fields)})"


def _is_followed(module: str, target: str) -> bool:
    """Whether what `module` uses of `target` counts in its digest."""
    return target not in SILENT and target not in OPTIONAL.get(module, ()) and _module(target) is not None


def _data_files(module: str, nodes: Iterable[ast.AST]) -> list[tuple[str, str]]:
    """Return the files without code that a definition names next to `__file__`, with their digests."""
    place = _place(module)
    own = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    texts = sorted({node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)})
    named = [own.with_suffix(text) for text in texts if re.fullmatch(r"\.\w+", text)]
    named += [own.with_name(text) for text in texts if re.fullmatch(r"\w+", text)]
    files = [file for path in named for file in ([path] if path.is_file() else files_in(path, "**/*.*"))]
    return [
        (f"{module}/{file.relative_to(place.parent).as_posix()}", hashlib.sha256(file.read_bytes()).hexdigest())
        for file in files
        if file.is_file() and file.suffix not in (".py", ".pyc")
    ]


def _resolve(module: str, trees: Iterable[ast.AST]) -> set[Definition]:
    """Return the definitions of the names in `trees` that `module` defines or imports."""
    chains = {chain for tree in trees for chain in references(tree) if chain[0] in _source(module).known}
    return {definition for chain in chains for definition in _lookup(module, chain)}


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
    bases = _resolve(module, names)
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
        new = _resolve(module, [type_]) - seen
        seen |= new
        for definition in new:
            for place, statement in _statements([definition]):
                if isinstance(statement, ast.ClassDef):
                    found.add(definition)
                elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value:
                    waiting.append((place, statement.value))
    return found
