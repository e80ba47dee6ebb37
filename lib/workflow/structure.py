"""What a definition does, in a text that says neither what its local variables are called nor how its names came in.

A local variable stands as a number, in the order in which a function binds its variables. What a module defines or
imports stands as a gap, to be filled by `digests`, which knows what it is. Everything else keeps its spelling:
parameters (callers may name them), attributes, and whatever text could look up a name by.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from lib.workflow.syntax import WRAPPERS, Chain, Function, chain_of, last_name

OURS = {"lib", "scripts"}
"""Packages of the project. What is imported from them stands where it is used."""
GAP = "\0?"
"""Stands in a text for a name that the module defines or imports."""
_Scoped = Function | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_LOOK_AT_LOCALS = {"locals", "vars", "dir", "eval", "exec"}


class Structure(NamedTuple):
    """A text with gaps, and their contents."""

    text: str
    names: list[Chain]
    """Of the gaps, in order; `("", "lib.room.name")` for what is imported under a name that has other meanings."""


def structure(
    statements: Iterable[ast.stmt],
    known: Collection[str],
    ambiguous: Collection[str],
    is_private: Callable[[str], bool],
) -> Structure:
    """Return what `statements` do; of definitions at the top level, their own names are left out.

    Args:
        statements: top-level statements of a module, normalised.
        known: names that the module defines or imports.
        ambiguous: those that it imports from several places.
        is_private: whether nothing but references depends on what a definition of the module is called.
    """
    writer = _Writer(known, ambiguous, is_private)
    for statement in statements:
        writer.keeps = _spoken_of(statement)
        writer.write(statement)
    return Structure("\0".join(writer.parts), writer.names)


class _Scope(NamedTuple):
    names: dict[str, str | None]
    """How a name is spelled; None if it is the module's own, or imported."""
    is_class: bool = False


class _Writer(ast.NodeVisitor):
    def __init__(self, known: Collection[str], ambiguous: Collection[str], is_private: Callable[[str], bool]):
        self.known = known
        self.ambiguous = ambiguous
        self.is_private = is_private
        self.keeps: Callable[[str], bool]
        self.scopes: list[_Scope] = []
        self.parts: list[str] = []
        self.names: list[Chain] = []

    def write(self, node: object) -> None:
        if isinstance(node, list):
            self.parts.append("[")
            for each in node:
                self.write(each)
            self.parts.append("]")
        elif not isinstance(node, ast.AST):
            self.parts.append(repr(node))
        elif chain := chain_of(node):
            self._write_chain(chain)
        elif not isinstance(node, ast.expr_context | ast.Global | ast.Nonlocal):  # names say as much
            self.parts.append(type(node).__name__)
            self.visit(node)
            self.parts.append(")")

    def generic_visit(self, node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            self.parts.append(name)
            self.write(value)

    def spelled(self, name: str) -> str | None:
        """Return how a name is spelled; None if it belongs to no scope but the module's."""
        for place, scope in enumerate(reversed(self.scopes)):
            if name in scope.names and not (place and scope.is_class):
                return scope.names[name]
        return None

    def _write_chain(self, chain: Chain) -> None:
        name, *attributes = chain
        spelled = self.spelled(name)
        self.parts.append("Name")
        if spelled is not None:
            self.parts += [spelled, *attributes]
        if name in self.known and (spelled is None or self.scopes[-1].is_class):
            self.parts.append(GAP)  # a class may read a name of the module and then bind it
            self.names.append(chain)
        elif spelled is None:
            self.parts += chain
        self.parts.append(")")

    def visit_Raise(self, node: ast.Raise) -> None:
        # A name, since it may be caught; not a gap, since it is not followed.
        chain = chain_of(node.exc) if node.exc else ()
        if not chain or self.spelled(chain[0]) is not None:
            self.write(node.exc)
        elif not self.is_private(chain[0]):
            self.parts += chain

    def visit_FunctionDef(self, node: Function) -> None:
        if self.scopes:
            spelled = self.spelled(node.name)
            self.parts.append(node.name if spelled is None else spelled)
        for outside in (node.decorator_list, node.args.defaults, node.args.kw_defaults):
            self.write(outside)
        self._write_function(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.write([node.args.defaults, node.args.kw_defaults])
        self._write_function(node, [node.body])

    def _write_function(self, node: _Scoped, body: list[ast.stmt] | list[ast.expr]) -> None:
        arguments = node.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        stars = [arguments.vararg, arguments.kwarg]
        names: dict[str, str | None] = {each.arg: each.arg for each in [*parameters, *stars] if each}
        self.parts += [str(len(each)) for each in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs)]
        self.parts += [each.arg if each else "" for each in [*parameters, *stars]]
        self._write_scope(names, [each for part in body for each in _bindings(part)], body)

    def _write_scope(
        self, names: dict[str, str | None], bindings: Iterable[tuple[str, ast.AST]], body: Iterable[object]
    ) -> None:
        """Write the code of a nested scope; `names` are those that keep their spelling."""
        depth, not_local, outer = len(self.scopes), set(), set()
        for name, node in bindings:
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Global):
                not_local.add(name)
            elif isinstance(node, ast.Nonlocal):
                outer.add(name)
            elif isinstance(node, ast.ClassDef) or (isinstance(node, Function) and registers(node)) or self.keeps(name):
                names[name] = name
            else:
                names.setdefault(name, f"{depth}.{len(names)}")
        names |= dict.fromkeys(not_local, None)
        self.scopes.append(_Scope({name: spelled for name, spelled in names.items() if name not in outer}))
        for each in body:
            self.write(each)
        self.scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if self.scopes:
            self.parts.append(node.name)
        self.write([node.decorator_list, node.bases, node.keywords])
        attributes = {name for each in node.body for name, _ in _bindings(each)}
        self.scopes.append(_Scope({name: name for name in attributes}, is_class=True))
        self.write(node.body)
        self.scopes.pop()

    def _write_comprehension(self, node: _Comprehension) -> None:
        first, *others = node.generators
        self.write(first.iter)
        targets = [binding for generator in node.generators for binding in _bindings(generator.target)]
        values = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        rest = [first.target, *first.ifs, *([each.target, each.iter, each.ifs] for each in others), *values]
        # Brackets, and nodes that are none, keep apart what belongs to which generator.
        self.parts += [f"{len(each.ifs)}{each.is_async}" for each in node.generators]
        self._write_scope({}, targets, rest)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _write_comprehension  # noqa: N815

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.write(node.type)
        self._write_bound(node.name)
        self.write(node.body)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.write(node.pattern)
        self._write_bound(node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._write_bound(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.write([node.keys, node.patterns])
        self._write_bound(node.rest)

    def _write_bound(self, name: str | None) -> None:
        if name is not None:
            self._write_chain((name,))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._write_import(alias.name, alias)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._write_import(f"{'.' * node.level}{node.module or ''}.{alias.name}", alias)

    def _write_import(self, name: str, alias: ast.alias) -> None:
        if name.split(".")[0] not in OURS:
            self.parts.append(name)
        elif (alias.asname or alias.name) in self.ambiguous:
            self.parts.append(GAP)
            self.names.append(("", name))


def registers(node: Function | ast.ClassDef) -> bool:
    """Whether a decorator may register a definition, perhaps by its name."""
    return not WRAPPERS.issuperset(map(last_name, node.decorator_list))


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield every name that a node binds in the scope around it, with what binds it, in order."""
    inside: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, Function | ast.ClassDef):
        yield node.name, node
        arguments = [node.args] if isinstance(node, Function) else [*node.bases, *node.keywords]
        inside = [*node.decorator_list, *arguments]
    elif isinstance(node, ast.Lambda):
        inside = [node.args]
    elif isinstance(node, _Comprehension):
        inside = [each for each in ast.walk(node) if isinstance(each, ast.NamedExpr)]
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id, node
    elif isinstance(node, ast.Global | ast.Nonlocal):
        yield from ((name, node) for name in node.names)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name.split(".")[0], node) for alias in node.names)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name, node
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest, node
    for each in inside:
        yield from _bindings(each)


def _spoken_of(node: ast.AST) -> Callable[[str], bool]:
    """Return what tells whether a local variable of `node` may be looked up by what it is called."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    if names & _LOOK_AT_LOCALS:
        return lambda name: True
    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    spoken = {name for text in texts if "@" in text for name in re.findall(r"@(\w+)", text)}  # pandas' queries
    return spoken.__contains__
