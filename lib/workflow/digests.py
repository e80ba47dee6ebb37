"""Digests of the code that a rule executes: an edit makes exactly the runs stale whose numbers it can change.

A digest covers definitions: the top-level functions, classes and assignments that a program reaches by name, through
imports and re-exports. If a definition names data files next to `__file__`, these count. Modules that are
imported by a name built at run time (mechanisms, tasks) are named explicitly. Other top-level statements act when their
module is imported, so they count then. `lib.workflow.syntax` removes what cannot change numbers. Nothing that is
analysed is imported.
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
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from lib.core.errors import ProjectError
from lib.core.files import files_in, write_json
from lib.workflow.structure import OURS, registers, structure
from lib.workflow.syntax import Chain, Function, chain_of, defined_names, last_name, normalise

ROOT = Path(__file__).resolve().parents[2]

SILENT = frozenset(
    {
        "lib.core.attempts",  # where runs are at work, and what they say of themselves meanwhile
        "lib.core.errors",  # classes of errors
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
        "lib.training.heartbeats",  # what a training says of itself
        "lib.training.interruptions",  # what ends it from outside
        "lib.training.record",  # writes the record after the training
        "lib.training.trackers",  # reports the training's progress
    }
)
"""Modules that only describe, carry or report a run; neither they nor what they use counts."""
OPTIONAL: dict[str, frozenset[str]] = {
    "lib.training.run": frozenset({"lib.backbones.adapters", "lib.training.geometry"}),
    "lib.training.evaluate": frozenset({"lib.training.evaluate_texts", "lib.training.evaluate_tokens"}),
    # Heads, of tasks that baselines do as well, which read texts and have none.
    "lib.tasks.sequence_classification": frozenset({"lib.backbones.heads.sequence_classification"}),
    "lib.backbones.recurrent.backbone": frozenset({"lib.backbones.first_embeddings"}),
    "lib.tasks.pair_classification": frozenset({"lib.backbones.heads.pair_classification"}),
    "lib.tasks.span_detection.task": frozenset({"lib.backbones.heads.token_classification"}),
}
"""What a module uses only if a run's settings ask for it. `Plan.code` names it for the runs whose settings do."""
STATEMENTS = "<statements>"
"""Stands for the top-level statements of a module that define nothing."""

PLACES = {"__file__", "__name__", "__package__", "__spec__"}
"""Names by which a definition finds its own file; data files next to it count."""

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
        remembered[arguments] = _hash(*sorted(_looks(_closure(script, modules)).values()))[:16]
        _remember(remembered)
    key = remembered[arguments]
    _roots[key] = (script, *modules)
    return key


@functools.cache
def _memory() -> Path:
    """Return the file of the digests of the project's packages as they are, for this Python.

    It lies where Python keeps what it has compiled, and is called by the contents of all files, so that it is never
    out of date.
    """
    files = [file for package in sorted(OURS) for file in files_in(ROOT / package)]
    contents = [
        f"{file.relative_to(ROOT).as_posix()} {hashlib.sha256(file.read_bytes()).hexdigest()}"
        for file in files
        if "__pycache__" not in file.relative_to(ROOT).parts
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
    """Store digests for other processes, if that is possible, and remove those of other files after some days."""
    with contextlib.suppress(OSError, ProjectError):
        write_json(_memory(), digests)
        for other in _memory().parent.glob("digests-*.json"):
            if time.time() - other.stat().st_mtime > KEPT_SECONDS:
                other.unlink()


def roots(digest: str) -> tuple[str, ...]:
    """Return the arguments of `code_digest` that gave a digest in this process."""
    return _roots[digest]


def reached(script: str, *modules: str) -> dict[str, str]:
    """Return what counts in the digest of the same arguments, sorted: `module:name` of each, with its own digest."""
    return {
        ":".join(definition): _hash(
            _meaning(*definition).look,
            *(name for gap in _meaning(*definition).gaps for name in sorted(_public_name(*each) for each in gap)),
        )[:16]
        for definition in _closure(script, modules)
    }


def _looks(definitions: Iterable[Definition]) -> dict[Definition, str]:
    """Return a digest of each definition that holds what it refers to, wherever that stands.

    Each starts as its own text and is then refined by those that it refers to, until no more of them differ; two that
    look alike also by those that refer to them.

    Source: Weisfeiler and Lehman 1968, colour refinement.
    """
    looks = {definition: _meaning(*definition).look for definition in definitions}
    referring: dict[Definition, list[Definition]] = {}
    for definition in looks:
        for target in {target for gap in _meaning(*definition).gaps for target in gap}:
            referring.setdefault(target, []).append(definition)
    known = 0
    while (number := len(set(looks.values()))) > known:
        known, before, counts = number, looks, Counter(looks.values())
        looks = {
            definition: _hash(
                look,
                *(
                    ",".join(sorted(before.get(target) or _meaning(*target).look for target in gap))
                    for gap in _meaning(*definition).gaps
                ),
                *(sorted(before[each] for each in referring.get(definition, ())) if counts[look] > 1 else ()),
            )
            for definition, look in before.items()
        }
    return looks


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
    path = ROOT.joinpath(*name.split("."))
    files = [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]
    if name.split(".")[0] not in OURS or not (files or path.is_dir()):
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


def _source(name: str) -> _Module:
    """Return what a module holds; nothing if it is not of the project."""
    return _module(name) or _Module({}, {}, [], [], set(), set())


@functools.cache
def _lookup(module: str, chain: Chain) -> dict[Definition, Chain]:
    """Return the definitions that `chain` refers to in `module`, each with the attributes of it that are meant.

    All of the module if the chain is empty. Imports that were passed on the way stand as their modules' statements.
    """
    found: dict[Definition, Chain] = {}
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
            found[module, ".".join(chain)] = ()
        elif not chain:
            found |= {(module, name): () for name in (*source.definitions, STATEMENTS)}
            # A module imports for others what it does not mention itself.
            exports = source.imports.keys() - source.mentioned
            waiting += [target for name in exports for target in source.imports[name] if target[1]]
        elif chain[0] in source.definitions or chain[0] in source.imports:
            found |= {(module, chain[0]): chain[1:]} if chain[0] in source.definitions else {(module, STATEMENTS): ()}
            waiting += [(target, (*attribute, *chain[1:])) for target, attribute in source.imports.get(chain[0], ())]
        elif _module(submodule := f"{module}.{chain[0]}"):
            waiting.append((submodule, chain[1:]))
        else:
            on_demand = _imported_on_demand(module, chain[0])
            found |= {(module, STATEMENTS): () if on_demand else chain, **dict.fromkeys(on_demand, chain[1:])}
    return found


def _imported_on_demand(package: str, name: str) -> set[Definition]:
    """Return what the `__getattr__` of a package may return for `name`: definitions of that name in its modules."""
    if "__getattr__" not in _source(package).definitions:
        return set()
    files = files_in(ROOT.joinpath(*package.split(".")), "**/*.py")
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    found = {(each, name) for each in modules if name in _source(each).definitions}
    return found or {(package, "__getattr__")}


class _Meaning(NamedTuple):
    text: str  # its code, with references that are not followed; empty if nothing counts
    look: str  # digest of the text
    gaps: list[list[Definition]]  # definitions of each of its references
    uses: set[Definition]


@functools.cache
def _meaning(module: str, name: str) -> _Meaning:
    """Return what counts of a definition."""
    source = _source(module)
    statements = source.definitions.get(name, [])
    nothing = _hash(name, *(ast.dump(each.annotation) for each in _kind_fields(statements)))
    trees, types = normalise(statements, functools.partial(_is_settings, module))
    ambiguous = {each for each, targets in source.imports.items() if len(set(targets)) > 1}
    text, names = structure(trees, source.known, ambiguous, functools.partial(_is_private, module))
    uses, gaps, parts = {(module, STATEMENTS), *_classes(module, types)}, [], []
    for chain in names:
        found = _lookup(module, chain) if chain[0] else _lookup(*_split(chain[-1]))
        followed = {definition for definition in found if _is_followed(module, definition[0])}
        uses |= followed
        gaps.append([each for each in followed if each[1] != STATEMENTS])
        spelled = (_spelled(each, rest, each in followed) for each, rest in found.items())
        parts.append(str(sorted(filter(None, spelled))))
    if name == STATEMENTS:
        uses |= {(module, registered) for registered in source.registered}
        for target, attribute in source.loaded:
            submodule = f"{target}.{attribute}"
            loaded = submodule if attribute and _module(submodule) else target
            if _is_followed(module, loaded):
                uses.add((loaded, STATEMENTS))
            if attribute == "*":
                uses |= _lookup(target, ()).keys()
    nodes = [node for tree in trees for node in ast.walk(tree)]
    if not PLACES.isdisjoint(node.id for node in nodes if isinstance(node, ast.Name)):
        parts += [module, *map(str, _data_files(module, nodes))]
    if trees:
        parts += [text, _public_name(module, name) or str(defined_names(statements[0]).index(name))]
    text = "\0".join(parts)
    return _Meaning(text, _hash(text) if text else nothing, gaps, uses)


def _split(name: str) -> tuple[str, Chain]:
    """Return the top package of a dotted name, and the rest."""
    package, *rest = name.split(".")
    return package, tuple(rest)


def _kind_fields(statements: Iterable[ast.stmt]) -> list[ast.AnnAssign]:
    """Return the fields of classes that name a kind; of such settings nothing else counts."""
    return [
        each
        for statement in statements
        if isinstance(statement, ast.ClassDef)
        for each in statement.body
        if isinstance(each, ast.AnnAssign) and last_name(each.target) == "kind"
    ]


def _is_followed(module: str, target: str) -> bool:
    """Whether what `module` uses of `target` counts in its digest."""
    return target not in SILENT and target not in OPTIONAL.get(module, ()) and _module(target) is not None


def _spelled(definition: Definition, attributes: Chain, is_followed: bool) -> str:
    """Return how a text names a definition: not at all if it is followed, by its name if it is silent."""
    module, name = definition
    if is_followed:
        return ".".join(attributes)
    place = module.rpartition(".")[2] if any(module in modules for modules in OPTIONAL.values()) else module
    return ".".join([*([] if module in SILENT else [place]), name, *attributes])


@functools.cache
def _is_private(module: str, name: str) -> bool:
    """Whether a definition may be called otherwise without a consequence: no text can name it."""
    if not name.startswith("_") or name.startswith("__") or name in _quoted():
        return False
    statements = _source(module).definitions.get(name, [])
    classes = (
        isinstance(each, ast.ClassDef) or (isinstance(each, Function) and registers(each)) for each in statements
    )
    return len(statements) == 1 and not any(classes)


def _public_name(module: str, name: str) -> str:
    return "" if _is_private(module, name) else name


@functools.cache
def _quoted() -> frozenset[str]:
    """Return the private names in quotes in the project, which `getattr` may use."""
    files = (path for folder in ("lib", "scripts") for path in files_in(ROOT / folder, "**/*.py"))
    return frozenset(
        name for path in files for name in re.findall(r"""["'.](_[A-Za-z]\w*)["']""", path.read_text(encoding="utf-8"))
    )


def _data_files(module: str, nodes: Iterable[ast.AST]) -> list[tuple[str, str]]:
    """Return the files without code that a definition names next to `__file__`, with their digests."""
    place = ROOT.joinpath(*module.split("."))
    own = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    texts = sorted({node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)})
    named = [own.with_suffix(text) for text in texts if re.fullmatch(r"\.\w+", text)]
    named += [own.with_name(text) for text in texts if re.fullmatch(r"\w+", text)]
    files = [file for path in named for file in ([path] if path.is_file() else files_in(path, "**/*.*"))]
    return [
        (file.relative_to(ROOT).as_posix(), hashlib.sha256(file.read_bytes()).hexdigest())
        for file in files
        if file.is_file() and file.suffix not in (".py", ".pyc")
    ]


def _resolve(module: str, trees: Iterable[ast.AST]) -> set[Definition]:
    """Return the definitions of the names in `trees` that `module` defines or imports."""
    found: set[Definition] = set()
    source, waiting = _source(module), list(trees)
    while waiting:
        node = waiting.pop()
        if not (chain := chain_of(node)):
            waiting += ast.iter_child_nodes(node)
        elif chain[0] in source.known:
            found |= _lookup(module, chain).keys()
    return found


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
