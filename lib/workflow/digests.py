"""Digests of the code that a rule executes: an edit makes exactly the runs stale whose numbers it can change.

A digest covers definitions: the top-level functions, classes and assignments that a program reaches by name, through
imports and re-exports. Modules that are imported by a name built at run time (mechanisms, tasks) are named explicitly.
Other top-level statements act when their module is imported, so they count then. `_Normaliser` removes what cannot
change numbers. All of this reads files; nothing is imported.
"""

import ast
import contextlib
import functools
import hashlib
import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

SILENT = frozenset(
    {
        "lib.core.errors",  # classes of errors
        "lib.core.record",  # describes a finished run and names its files
        "lib.core.program",  # command line, messages, exit status
        "lib.training.record",  # writes the record after the training
        "lib.training.trackers",  # reports the training's progress
    }
)
"""Modules that only describe, carry or report a run; neither they nor what they use counts."""
VALIDATORS = {"field_validator", "model_validator", "check"}
"""Decorators of the methods that check settings."""
WRAPPERS = {"cache", "contextmanager", "dataclass", "disable", "lru_cache", "no_grad"}
"""Decorators that register nothing. Any other may, so that what it decorates counts like a statement."""
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
STATEMENTS = "<statements>"
"""Stands for the top-level statements of a module that define nothing."""

Definition = tuple[str, str]  # module and name
Chain = tuple[str, ...]  # a name and its attributes: ("metrics", "accuracy") for `metrics.accuracy`
Function = ast.FunctionDef | ast.AsyncFunctionDef


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
    return digest.hexdigest()[:16]


def reached(script: str, *modules: str) -> list[str]:
    """Return what counts in the digest of the same arguments, as sorted strings `module:name`."""
    return [":".join(definition) for definition in _closure(script, modules)]


def _closure(script: str, modules: Iterable[str]) -> list[Definition]:
    roots = [script.removesuffix(".py").replace("/", "."), *modules]
    if missing := [root for root in roots if _module(root) is None and root not in SILENT]:
        raise FileNotFoundError(f"{', '.join(missing)}: not found in {ROOT}. Expected a script and modules of lib.")
    waiting = [definition for root in roots for definition in _lookup(root, ())]
    found: set[Definition] = set()
    while waiting:
        definition = waiting.pop()
        if definition not in found and _module(definition[0]) is not None:
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
    """Return what a module holds; None if it is silent, not of the project, or not there."""
    path = ROOT.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if name.split(".")[0] not in ("lib", "scripts") or name in SILENT or not (path.is_dir() or file.is_file()):
        return None
    tree = ast.parse(file.read_text(encoding="utf-8") if file.is_file() else "", filename=str(file))
    module = _Module({}, {}, [], [], set())
    for statement in tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            for defined in _defined_names(statement) or [STATEMENTS]:
                module.definitions.setdefault(defined, []).append(statement)
        if not {_last_name(decorator) for decorator in getattr(statement, "decorator_list", ())} <= WRAPPERS:
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
            package = name if path.is_dir() else name.rpartition(".")[0]
            target = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                module.imports.setdefault(alias.asname or alias.name, []).append((target, (alias.name,)))
                module.loaded.append((target, alias.name))
    return module


def _defined_names(statement: ast.stmt) -> list[str]:
    """Return the names that a statement defines; none if it does anything else."""
    if isinstance(statement, Function | ast.ClassDef):
        return [statement.name]
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    parts = [part for target in targets for part in ast.walk(target)]
    stores_elsewhere = any(isinstance(part, ast.Attribute | ast.Subscript) for part in parts)
    return [] if stores_elsewhere else [part.id for part in parts if isinstance(part, ast.Name)]


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
        elif _exists(submodule := f"{module}.{chain[0]}"):
            waiting.append((submodule, chain[1:]))
        else:
            found |= {(module, STATEMENTS), *_imported_on_demand(module, chain[0])}
    return frozenset(found)


def _exists(module: str) -> bool:
    return module in SILENT or _module(module) is not None


def _imported_on_demand(package: str, name: str) -> set[Definition]:
    """Return what the `__getattr__` of a package may return for `name`: definitions of that name in its modules."""
    if "__getattr__" not in _module(package).definitions:
        return set()
    files = ROOT.joinpath(*package.split(".")).rglob("*.py")
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    return {(each, name) for each in modules if _module(each) and name in _module(each).definitions} or {
        (package, "__getattr__")
    }


class _Meaning(NamedTuple):
    text: str  # the syntax tree and what its imported names stand for; empty if nothing counts
    uses: set[Definition]


@functools.cache
def _meaning(module: str, name: str) -> _Meaning:
    """Return what counts of a definition."""
    source, normaliser = _module(module), _Normaliser(module)
    trees = normaliser.keep(source.definitions.get(name, ()))
    names = _resolve(module, trees)
    uses = {(module, STATEMENTS), *normaliser.classes}.union(*names.values())
    if name == STATEMENTS:
        uses |= {(module, registered) for registered in source.registered}
        for target, attribute in source.loaded:
            submodule = f"{target}.{attribute}"
            uses.add((submodule if attribute and _exists(submodule) else target, STATEMENTS))
            if attribute == "*":
                uses |= _lookup(target, ())
    imported = [(chain, sorted(found)) for chain, found in sorted(names.items()) if chain[0] in source.imports]
    return _Meaning("".join(map(ast.dump, trees)) + (str(imported) if imported else ""), uses)


def _resolve(module: str, trees: Iterable[ast.AST]) -> dict[Chain, frozenset[Definition]]:
    """Return what the names in `trees` stand for, those alone that `module` defines or imports."""
    source, names, waiting = _module(module), {}, list(trees)
    while waiting:
        node = waiting.pop()
        if not (chain := _chain(node)):
            waiting += ast.iter_child_nodes(node)
        elif chain[0] in source.definitions or chain[0] in source.imports:
            names[chain] = _lookup(module, chain)
    return names


def _chain(node: ast.AST) -> Chain:
    """Return the name and attributes that an expression consists of; () for any other expression."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else ()


def _last_name(node: ast.AST) -> str:
    """Return the last name of a decorator or an annotation, without arguments."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return (_chain(node) or ("",))[-1]


def _statements(definitions: Iterable[Definition], *kinds: type[ast.stmt]) -> list[tuple[Definition, ast.stmt]]:
    known = [definition for definition in definitions if _module(definition[0])]
    return [
        (definition, statement)
        for definition in known
        for statement in _module(definition[0]).definitions.get(definition[1], ())
        if isinstance(statement, kinds)
    ]


def _is_settings(module: str, node: ast.ClassDef) -> bool:
    """Whether a class derives from pydantic's BaseModel."""
    bases = set().union(*_resolve(module, node.bases).values())
    return ("pydantic", "BaseModel") in bases or any(
        base is not node and _is_settings(place, base) for (place, _), base in _statements(bases, ast.ClassDef)
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
        found |= {definition for definition, _ in _statements(new, ast.ClassDef)}
        aliases = _statements(new, ast.Assign, ast.AnnAssign)
        waiting += [(place, alias.value) for (place, _), alias in aliases if alias.value]
    return found


class _Normaliser(ast.NodeVisitor):
    """Removes from statements what cannot change numbers. A visit returns the statement, or None if nothing is left."""

    def __init__(self, module: str):
        self.module = module
        self.classes: set[Definition] = set()
        """Bases of settings classes, and the classes with which pydantic fills their fields."""
        self.in_check = False

    def keep(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Return what is left of `statements`."""
        return [kept for statement in statements if (kept := self.visit(statement)) is not None]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(statements := getattr(node, block, None), list):
                setattr(node, block, self.keep(statements))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST | None:
        is_settings = _is_settings(self.module, node)
        if is_settings:
            types = [each.annotation for each in node.body if _is_field(each)]
            self.classes |= _classes(self.module, [*node.bases, *types])
            node.body = [each for each in node.body if not _describes_settings(each)]
        for index, statement in enumerate(node.body):
            if isinstance(statement, ast.AnnAssign):
                # That there is an annotation counts: it makes an attribute a dataclass's field.
                mark = _last_name(statement.annotation)
                node.body[index] = ast.Assign([statement.target], statement.value or ast.Constant(...))
                node.body[index].type_comment = mark if mark in ("ClassVar", "InitVar", "KW_ONLY") else "field"
        self.generic_visit(node)
        return None if is_settings and not node.body else node

    def visit_FunctionDef(self, node: Function) -> ast.AST:
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        outer, self.in_check = self.in_check, "check" in map(_last_name, node.decorator_list)
        self.generic_visit(node)
        self.in_check = outer
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Pass(self, node: ast.Pass) -> None:
        return None

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        # The name of the error counts, since it may be caught, but as a text that is not followed.
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.Raise(ast.Constant(ast.unparse(error)) if error else None)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return ast.Assert(node.test)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return self.visit_Assign(ast.Assign([node.target], node.value)) if node.value else None

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        if isinstance(node.value, ast.Call) and _chain(node.value.func) == ("logging", "getLogger"):
            return None
        return _without_texts(node) if _chain(node.targets[0]) == ("problems",) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return _without_texts(node) if _chain(node.target) == ("problems",) else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        function = _chain(getattr(node.value, "func", node))
        if isinstance(node.value, ast.Constant) or _is_log(node.value):
            return None
        gathers = function in (("problems", "append"), ("problems", "extend"))
        if gathers or (self.in_check and isinstance(node.value, ast.Yield | ast.YieldFrom)):
            return _without_texts(node)
        return node


class _TextRemover(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant("")


_without_texts = _TextRemover().visit


def _is_log(node: ast.AST) -> bool:
    function = _chain(getattr(node, "func", node))
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    reports = function == ("warnings", "warn") or (function[:1] == ("logger",) and function[-1] in LEVELS)
    return reports or _chain(node) == ("logging",)


def _is_field(statement: ast.stmt) -> bool:
    """Whether a statement in a settings class makes a field; private attributes are none."""
    return (
        isinstance(statement, ast.AnnAssign)
        and not _last_name(statement.target).startswith("_")
        and _last_name(statement.annotation) != "ClassVar"
    )


def _describes_settings(statement: ast.stmt) -> bool:
    """Whether a statement in a settings class only says which values are allowed."""
    if isinstance(statement, Function):
        return not VALIDATORS.isdisjoint(map(_last_name, statement.decorator_list))
    is_configuration = isinstance(statement, ast.Assign) and _chain(statement.targets[0]) == ("model_config",)
    return is_configuration or _is_field(statement)
