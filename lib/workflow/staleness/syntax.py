"""The parts of a syntax tree that can change numbers. Knows no files: `digests` resolves names."""

import ast
from collections.abc import Callable, Iterable

Chain = tuple[str, ...]
"""A name and its attributes: `("metrics", "accuracy")` for `metrics.accuracy`."""
Function = ast.FunctionDef | ast.AsyncFunctionDef

VALIDATORS = {"field_validator", "model_validator", "check"}
"""Decorators of the methods that check settings."""
FIELD_MARKS = {"ClassVar", "InitVar", "KW_ONLY"}
"""Annotations that decide whether an attribute of a dataclass is a field."""
WRAPPERS = {"cache", "contextmanager", "dataclass", "disable", "jit", "lru_cache", "no_grad"}
"""Decorators that register nothing. Any other may, so that what it decorates counts like a statement."""
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def chain_of(node: ast.AST) -> Chain:
    """Return the name and attributes that an expression consists of; () for any other expression."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else ()


def last_name(node: ast.AST) -> str:
    """Return the last name of a decorator or an annotation, without arguments."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return (chain_of(node) or ("",))[-1]


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


def references(tree: ast.AST) -> set[Chain]:
    """Return the names in `tree`, each with its attributes; not those of raised errors, which only describe."""
    found: set[Chain] = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if chain := chain_of(node):
            found.add(chain)
        elif not isinstance(node, ast.Raise):
            waiting += ast.iter_child_nodes(node)
    return found


def registers(node: Function | ast.ClassDef) -> bool:
    """Whether a decorator may register a definition, perhaps by its name."""
    return not WRAPPERS.issuperset(map(last_name, node.decorator_list))


def normalise(
    statements: Iterable[ast.stmt], is_settings: Callable[[ast.ClassDef], bool]
) -> tuple[list[ast.stmt], list[ast.expr]]:
    """Remove what cannot change numbers from `statements`, which are changed in place.

    Comments, docstrings, annotations, texts of errors and log messages do not count. Neither do the fields and
    validators of settings classes, since the resolved settings of a run are compared by themselves.

    Args:
        statements: top-level statements of a module.
        is_settings: tells whether a class is a settings class.

    Returns:
        What is left, and the bases and field types of settings classes, whose classes are used although they are no
        part of what is left.
    """
    normaliser = _Normaliser(is_settings)
    return normaliser.keep(statements), normaliser.types


class _Normaliser(ast.NodeVisitor):
    """A visit returns what is left of a statement, or None."""

    def __init__(self, is_settings: Callable[[ast.ClassDef], bool]):
        self.is_settings = is_settings
        self.types: list[ast.expr] = []
        self.in_check = False

    def keep(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        return [kept for statement in statements if (kept := self.visit(statement)) is not None]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        # Statements alone: nothing in an expression is removed.
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(statements := getattr(node, block, None), list):
                setattr(node, block, self.keep(statements))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST | None:
        is_settings = self.is_settings(node)
        if is_settings:
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and _is_field(each)]
            self.types += [*node.bases, *(field.annotation for field in fields)]
            node.body = [each for each in node.body if not _describes_settings(each)]
        for index, statement in enumerate(node.body):
            if isinstance(statement, ast.AnnAssign):
                # An annotation makes an attribute of a dataclass a field: that it is there counts.
                mark = last_name(statement.annotation)
                value = statement.value or ast.Constant(...)
                attribute = ast.Assign([statement.target], value, mark if mark in FIELD_MARKS else "field")
                node.body[index] = attribute
        self.generic_visit(node)
        return None if is_settings and not node.body else node

    def visit_FunctionDef(self, node: Function) -> ast.AST:
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        outer, self.in_check = self.in_check, "check" in map(last_name, node.decorator_list)
        self.generic_visit(node)
        self.in_check = outer
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self.visit_FunctionDef(node)

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
        if isinstance(node.value, ast.Call) and chain_of(node.value.func) == ("logging", "getLogger"):
            return None
        return _without_texts(node) if chain_of(node.targets[0]) == ("problems",) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return _without_texts(node) if chain_of(node.target) == ("problems",) else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant) or _is_log(node.value):
            return None
        function = chain_of(node.value.func) if isinstance(node.value, ast.Call) else ()
        gathers = function in (("problems", "append"), ("problems", "extend"))
        yields = self.in_check and isinstance(node.value, ast.Yield | ast.YieldFrom)
        return _without_texts(node) if gathers or yields else node


def _is_field(statement: ast.stmt) -> bool:
    """Whether a statement of a settings class makes a field; private attributes are none."""
    return (
        isinstance(statement, ast.AnnAssign)
        and not last_name(statement.target).startswith("_")
        and last_name(statement.annotation) != "ClassVar"
    )


def _describes_settings(statement: ast.stmt) -> bool:
    """Whether a statement of a settings class only says which settings there are and which values they may have."""
    if isinstance(statement, Function):
        return not VALIDATORS.isdisjoint(map(last_name, statement.decorator_list))
    is_configuration = isinstance(statement, ast.Assign) and chain_of(statement.targets[0]) == ("model_config",)
    return is_configuration or _is_field(statement)


def _is_log(node: ast.expr) -> bool:
    function = chain_of(node.func) if isinstance(node, ast.Call) else ()
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    reports = function == ("warnings", "warn") or (function[:1] == ("logger",) and function[-1] in LEVELS)
    return reports or chain_of(node) == ("logging",)


class _TextRemover(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant("")


def _without_texts(node: ast.stmt) -> ast.AST:
    return _TextRemover().visit(node)
