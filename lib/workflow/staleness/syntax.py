"""The parts of a syntax tree that can change numbers. Knows no files: `digests` resolves names."""

import ast
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Chain = tuple[str, ...]
"""A name and its attributes: `("metrics", "accuracy")` for `metrics.accuracy`."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
HOLDERS = (ast.stmt, ast.excepthandler, ast.match_case)
"""Nodes that hold statements."""

VALIDATORS = {"field_validator", "model_validator", "check"}
"""Decorators of the methods that check settings."""
WRAPPERS = {"cache", "contextmanager", "dataclass", "disable", "jit", "lru_cache", "no_grad"}
"""Decorators that register nothing. Any other may, so that a definition with it counts like a statement."""
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def chain_of(node: ast.AST) -> Chain:
    """Return the name and attributes that an expression consists of; () for any other expression."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else ()


def chains_in(tree: ast.AST) -> set[Chain]:
    """Return the names in `tree`, each with its attributes."""
    found, waiting = set(), [tree]
    while waiting:
        node = waiting.pop()
        if chain := chain_of(node):
            found.add(chain)
        else:
            waiting += ast.iter_child_nodes(node)
    return found


def statements_in(tree: ast.AST) -> Iterator[ast.stmt]:
    """Return the statements in `tree`, those inside others included: expressions, which hold none, are most of it."""
    waiting = [tree]
    while waiting:
        for part in vars(waiting.pop()).values():
            found = [each for each in part if isinstance(each, HOLDERS)] if isinstance(part, list) else []
            waiting += found
            yield from (each for each in found if isinstance(each, ast.stmt))


def defined_names(statement: ast.stmt) -> list[str]:
    """Return the names that a statement defines; none if it does anything else."""
    if isinstance(statement, Function | ast.ClassDef):
        return [statement.name]
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    parts = [part for target in targets for part in ast.walk(target)]
    stores_elsewhere = any(isinstance(part, ast.Attribute | ast.Subscript) for part in parts)
    return [] if stores_elsewhere else [part.id for part in parts if isinstance(part, ast.Name)]


def normalised(
    statements: Iterable[ast.stmt], is_settings: Callable[[ast.ClassDef], bool]
) -> tuple[list[ast.stmt], list[ast.AST]]:
    """Return what can change numbers of top-level statements, and what else settings classes are made of.

    Comments, docstrings, annotations, texts of errors and log messages do not count. Neither do the fields and
    validators of settings classes, since the resolved settings of a run are compared by themselves; but a run uses the
    methods of the classes that their fields name.

    Args:
        statements: of a module.
        is_settings: tells whether a class is a settings class.
    """
    normaliser = _Normaliser(is_settings)
    kept = [normaliser.visit(_copied(statement)) for statement in statements]
    return [each for each in kept if each is not None], normaliser.types


def _copied(part: Any) -> Any:
    """Return what `copy.deepcopy` does of a syntax tree, in a quarter of its time, which was most of a plan's."""
    if isinstance(part, list):
        return [_copied(each) for each in part]
    if not isinstance(part, ast.AST):
        return part
    made = type(part).__new__(type(part))
    vars(made).update((name, _copied(value)) for name, value in vars(part).items())
    return made


class _Normaliser(ast.NodeTransformer):
    """Removes statements, and what of them does not count."""

    def __init__(self, is_settings: Callable[[ast.ClassDef], bool]):
        self.is_settings = is_settings
        self.types: list[ast.AST] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST | None:
        if is_settings := self.is_settings(node):
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and _is_field(each)]
            self.types += [*node.bases, *(_unquoted(field.annotation) for field in fields)]
            node.body = [each for each in node.body if not (_is_field(each) or _only_checks(each))]
        for index, each in enumerate(node.body):
            if isinstance(each, ast.AnnAssign):
                # It makes a field of a dataclass, also without a value: that it is there counts.
                mark = "ClassVar" if _last_name(each.annotation) == "ClassVar" else "field"
                node.body[index] = ast.Assign([each.target], each.value or ast.Constant(...), mark)
        self.generic_visit(node)
        return None if is_settings and not node.body else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return ast.Assert(node.test)

    def visit_Pass(self, node: ast.Pass) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.AST | None:
        # What is imported for annotations alone does not run.
        return None if chain_of(node.test) == ("TYPE_CHECKING",) else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return self.visit_Assign(ast.Assign([node.target], node.value)) if node.value else None

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        value = node.value.func if isinstance(node.value, ast.Call) else node.value
        return None if chain_of(value) == ("logging", "getLogger") else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) or _is_message(node.value) else node


def _is_field(statement: ast.stmt) -> bool:
    """Whether a statement of a settings class makes a field; private attributes are none."""
    if not isinstance(statement, ast.AnnAssign) or _last_name(statement.target).startswith("_"):
        return False
    return _last_name(statement.annotation) != "ClassVar"


def _only_checks(statement: ast.stmt) -> bool:
    """Whether a statement of a settings class only says which values they may have."""
    if isinstance(statement, Function):
        return not VALIDATORS.isdisjoint(map(_last_name, statement.decorator_list))
    return isinstance(statement, ast.Assign) and chain_of(statement.targets[0]) == ("model_config",)


def _is_message(node: ast.expr) -> bool:
    """Whether an expression is a call that logs or warns."""
    function = chain_of(node.func) if isinstance(node, ast.Call) else ()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        return chain_of(node.func.value.func) == ("logging", "getLogger")
    return function == ("warnings", "warn") or (function[:1] == ("logger",) and function[-1] in LEVELS)


def registers(statement: ast.stmt) -> bool:
    """Return whether a decorator may register what a statement defines."""
    decorators = statement.decorator_list if isinstance(statement, Function | ast.ClassDef) else []
    return any(_last_name(each) not in WRAPPERS for each in decorators)


def _last_name(node: ast.AST) -> str:
    """Return the last name of a decorator or an annotation, without arguments."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return (chain_of(node) or ("",))[-1]


def _unquoted(annotation: ast.AST) -> ast.AST:
    """Return an annotation, or the one that it spells."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        with contextlib.suppress(SyntaxError):
            return ast.parse(annotation.value, mode="eval").body
    return annotation
