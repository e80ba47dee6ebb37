"""Digests of the code that a rule executes: a result is stale if the text of a definition that it reaches has changed.

Definitions are the top-level functions, classes and assignments that a program reaches by name, through imports and
re-exports. `syntax.py` removes from their text what cannot change numbers. Other top-level statements run when their
module is imported, so they count then, and so does every definition with a decorator, which may register it. Modules
that are imported by a name built at run time (mechanisms, tasks) are named explicitly. Nothing that is analysed is
imported.
"""

import ast
import functools
import hashlib
import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from lib.core.extensions import ROOT, sources
from lib.core.files import file_digest, files_in
from lib.workflow.staleness import syntax
from lib.workflow.staleness.syntax import Chain

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
    digest = _hash(*(f"{name} {text}" for name, text in reached(script, *modules).items()))
    _roots[digest] = (script, *modules)
    return digest


def roots(digest: str) -> tuple[str, ...]:
    """Return the arguments of `code_digest` that gave a digest in this process."""
    return _roots[digest]


def reached(script: str, *modules: str) -> dict[str, str]:
    """Return what counts in the digest of the same arguments, sorted: `module:name` of each, with its own digest."""
    closure = _closure(script, *modules)
    return {":".join(each): _hash(text) for each in sorted(closure) if (text := _meaning(*each).text)}


def files_read(script: str, *modules: str) -> set[Path]:
    """Return the files that the digest of the same arguments depends on."""
    closure = _closure(script, *modules)
    files = {file_of(module) for module, _ in closure}.union(*(_meaning(*each).files for each in closure))
    return {file for file in files if file.is_file()}


@functools.cache
def _closure(script: str, *modules: str) -> set[Definition]:
    """Return the definitions that a program and modules reach."""
    roots = [script.removesuffix(".py").replace("/", "."), *modules]
    if missing := [root for root in roots if _module(root) is None and root not in SILENT]:
        raise FileNotFoundError(f"{', '.join(missing)}: not found in {ROOT}. Expected a script and modules of lib.")
    waiting = [each for root in roots for each in _lookup(root, ()) if each[0] not in SILENT]
    found: set[Definition] = set()
    while waiting:
        definition = waiting.pop()
        if definition not in found:
            found.add(definition)
            waiting += _meaning(*definition).uses
    return found


def file_of(module: str) -> Path:
    """Return the file of a module of the project, which may not be there."""
    package, *rest = module.split(".")
    place = sources().get(package, ROOT / package).joinpath(*rest)
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class _Module(NamedTuple):
    tree: ast.Module
    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, list[tuple[str, Chain]]]  # imported name: module and attribute, from every import of the name
    loaded: list[str]  # modules that an import names, with the attribute where that is a module
    registered: list[str]  # definitions with a decorator that may register them


@functools.cache
def _module(name: str) -> _Module | None:
    """Return what a module holds; None if it is not of the project, or not there."""
    file = file_of(name)
    if name.split(".")[0] not in sources() or not (file.is_file() or file.name == "__init__.py"):
        return None
    # An extension may import `lib` by the name that it has where it is installed.
    text = re.sub(r"\battention_grid\b", "lib", file.read_text(encoding="utf-8")) if file.is_file() else ""
    tree = ast.parse(text, filename=name)
    module = _Module(tree, {STATEMENTS: []}, {}, [], [])
    for statement in tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            for defined in syntax.defined_names(statement) or [STATEMENTS]:
                module.definitions.setdefault(defined, []).append(statement)
        if syntax.registers(statement):
            module.registered.extend(syntax.defined_names(statement))
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in syntax.statements_in(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                target = alias.name if alias.asname else alias.name.split(".")[0]
                module.imports.setdefault(alias.asname or target, []).append((target, ()))
                module.loaded.append(alias.name)
        elif isinstance(node, ast.ImportFrom):
            target = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                module.imports.setdefault(alias.asname or alias.name, []).append((target, (alias.name,)))
                submodule = f"{target}.{alias.name}"
                module.loaded.append(submodule if file_of(submodule).is_file() else target)
    return module


@functools.cache
def _lookup(module: str, chain: Chain) -> frozenset[Definition]:
    """Return the definitions that `chain` refers to in `module`: all of the module if the chain is empty.

    A module on the way there, whose imports are used, is imported too: its statements are among them.
    """
    found: set[Definition] = set()
    waiting, seen = [(module, chain)], set()
    while waiting:
        if (place := waiting.pop()) not in seen and (source := _module(place[0])) is not None:
            seen.add(place)  # modules may import each other
            definitions, targets = _step(source, *place)
            found |= definitions
            waiting += targets
    return frozenset(found)


def _step(source: _Module, module: str, chain: Chain) -> tuple[set[Definition], list[tuple[str, Chain]]]:
    """Return the definitions that `chain` refers to in a module alone, and where it leads to from there."""
    found = {(module, STATEMENTS)}
    if not chain:
        found |= {(module, name) for name in source.definitions}
        # A name that a module imports and does not mention itself is for others.
        exported = source.imports.keys() - {each.id for each in ast.walk(source.tree) if isinstance(each, ast.Name)}
        return found, [target for name in exported for target in source.imports[name] if target[1]]
    if chain[0] in source.definitions:
        return found | {(module, chain[0])}, []
    if chain[0] in source.imports:
        return found, [(target, (*attribute, *chain[1:])) for target, attribute in source.imports[chain[0]]]
    if _module(submodule := f"{module}.{chain[0]}"):
        return set(), [(submodule, chain[1:])]
    return found | (_imported_on_demand(module, chain[0]) if "__getattr__" in source.definitions else set()), []


def _imported_on_demand(package: str, name: str) -> set[Definition]:
    """Return what the `__getattr__` of a package may return for `name`: definitions of that name in its modules."""
    folder = file_of(package).parent
    places = (file.relative_to(folder).with_suffix("") for file in files_in(folder, "**/*.py"))
    modules = [".".join((package, *place.parts)) for place in places]
    found = {(each, name) for each in modules if (source := _module(each)) and name in source.definitions}
    return found or {(package, "__getattr__")}


class _Meaning(NamedTuple):
    text: str  # what counts; empty if nothing does
    uses: set[Definition]
    files: list[Path]  # files without code that it reads


@functools.cache
def _meaning(module: str, name: str) -> _Meaning:
    """Return the normalised text of a definition, and the definitions that it uses."""
    source = _module(module)
    assert source is not None
    known = source.definitions.keys() | source.imports.keys()
    trees, types = syntax.normalised(source.definitions[name], functools.partial(_is_settings, module))
    written, typed = (set().union(*map(syntax.chains_in, each)) for each in (trees, types))
    chains = {chain for chain in written | typed if chain[0] in known}
    uses = {(module, STATEMENTS)}.union(*(_lookup(module, chain) for chain in chains))
    if name == STATEMENTS:
        uses |= {(module, registered) for registered in source.registered}
        uses |= {(loaded, STATEMENTS) for loaded in source.loaded if _module(loaded)}
    # The text says what the module calls an imported name, and not what that is.
    imported = {
        f"{chain[0]} = {'.'.join((target, *attribute))}"
        for chain in written
        for target, attribute in source.imports.get(chain[0], ())
    }
    parts = [*sorted(imported), *map(_spelled, trees)]
    files = _data_files(file_of(module), trees) if ("__file__",) in {chain[:1] for chain in written} else []
    parts += [f"{file.name} {file_digest(file)}" for file in files]
    ignored = SILENT | OPTIONAL.get(module, frozenset())
    uses = {each for each in uses if each[0] not in ignored}
    return _Meaning("\n".join(parts), uses, files)


def _spelled(part: Any) -> str:
    """Return a text of a tree that is the same under every version of Python, unlike that of `ast.unparse`."""
    if isinstance(part, list):
        return f"[{', '.join(map(_spelled, part))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    fields = (f"{name}={_spelled(value)}" for name, value in ast.iter_fields(part) if value not in (None, []))
    return f"{type(part).__name__}({', '.join(fields)})"


def _data_files(own: Path, trees: Iterable[ast.AST]) -> list[Path]:
    """Return the files without code that a definition names next to its own file."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = sorted({node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)})
    named = [own.with_suffix(text) for text in texts if re.fullmatch(r"\.\w+", text)]
    named += [own.with_name(text) for text in texts if re.fullmatch(r"\w+", text)]
    files = [file for path in named for file in ([path] if path.is_file() else files_in(path, "*.*"))]
    return [file for file in files if file.suffix != ".py"]


def _is_settings(module: str, node: ast.ClassDef) -> bool:
    """Whether a class derives from pydantic's BaseModel."""
    source = _module(module)
    for base in node.bases:
        chain = syntax.chain_of(base.value if isinstance(base, ast.Subscript) else base)
        if source is None or not chain:
            continue
        if any(target == "pydantic" for target, _ in source.imports.get(chain[0], ())):
            return True
        for place, name in _lookup(module, chain):
            bases = _module(place)
            for statement in bases.definitions[name] if bases else ():
                if isinstance(statement, ast.ClassDef) and statement is not node and _is_settings(place, statement):
                    return True
    return False
