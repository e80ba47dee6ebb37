"""Edits of everything that the full grid executes: harmless ones of all of it at once, real ones of each part."""

import ast
import functools
from collections import defaultdict

import pytest
from code_digests import forget

from lib.results.settings import FIGURES, TABLES
from lib.study.configuration import load_study, read_layers
from lib.workflow.planning.plan import Plan
from lib.workflow.staleness import digests
from lib.workflow.staleness.syntax import normalised


@pytest.fixture(scope="module")
def programs():
    """Arguments of `code_digest` of everything that the grid makes."""
    named = {(f"scripts/{name}.py",) for name in ("prepare_dataset", "tokenize_dataset", "tokenize_corpus")}
    with pytest.MonkeyPatch.context() as patch:
        for module in ("plan", "report"):
            patch.setattr(f"lib.workflow.planning.{module}.code_digest", lambda *places: named.add(places))
        plan = Plan(load_study(read_layers(["config/config.yaml"])))
        for run in plan.runs:
            plan.code(run)
        for axis, results in ((TABLES, plan.report.tables), (FIGURES, plan.report.figures)):
            for result in results.values():
                plan.report.code(axis, result)
    return sorted(named)


@pytest.fixture(scope="module")
def definitions(programs):
    """Everything that the grid executes, by module."""
    by_module = defaultdict(set)
    forget(lambda: None)
    for definition in set().union(*(digests.reached(*program) for program in programs)):
        module, name = definition.split(":")
        by_module[module].add(name)
    return dict(by_module)


class Mutations(ast.NodeVisitor):
    """Collects places of a definition that count, each with what to put there."""

    def __init__(self):
        self.found, self.stores = [], []

    def generic_visit(self, node):
        for field, value in ast.iter_fields(node):
            for index, each in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(each, ast.AST) and field not in ("annotation", "returns", "msg"):
                    for other in self.others(each):
                        self.found.append((node, field, index, other))
                    self.visit(each)

    def visit_Raise(self, node):
        return

    def visit_Expr(self, node):
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if not isinstance(node.value, ast.Constant) and not names & {"warnings", "logger", "logging"}:
            self.generic_visit(node)

    def visit_Assign(self, node):
        if not any(isinstance(each, ast.Name) and each.id == "logging" for each in ast.walk(node)):
            self.generic_visit(node)

    visit_AugAssign = visit_Assign  # noqa: N815

    def others(self, node):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield ast.Constant(not node.value if isinstance(node.value, bool) else 2 * node.value + 1)
        elif isinstance(node, ast.BinOp):
            yield ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
        elif isinstance(node, ast.Compare):
            other = ast.GtE() if isinstance(node.ops[0], ast.Gt) else ast.Gt()
            yield ast.Compare(node.left, [other, *node.ops[1:]], node.comparators)
        elif isinstance(node, ast.BoolOp):
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        elif isinstance(node, ast.UnaryOp):
            yield node.operand
        elif isinstance(node, ast.Attribute):
            yield ast.Attribute(node.value, f"{node.attr}_other", node.ctx)
        elif isinstance(node, ast.Call) and node.args:
            yield ast.Call(node.func, node.args[1:], node.keywords)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            self.stores.append(node.id)
            for other in dict.fromkeys(self.stores[-4:-1]):
                if other != node.id:
                    yield ast.Name(other, ast.Load())


@pytest.mark.extended
def test_digest_after_each_edit_of_a_definition(definitions):
    """Of everything that the grid executes, at most eight per statement, in the text that its digest is made of."""
    tried = 0
    for module, names in definitions.items():
        source = forget(digests._module, module)
        is_settings = functools.partial(digests._is_settings, module)
        for name in names:
            for statement in source.definitions[name]:
                if isinstance(statement, ast.ClassDef) and is_settings(statement):
                    statement.body = normalised([statement], is_settings)[0][0].body

                def text(statement=statement, is_settings=is_settings):
                    left, _ = normalised([statement], is_settings)
                    return [ast.unparse(ast.fix_missing_locations(each)) for each in left]

                original, mutations = text(), Mutations()
                mutations.visit(ast.Module([statement], []))
                for node, field, index, other in mutations.found[:: len(mutations.found) // 8 + 1]:
                    place, key = (node.__dict__, field) if index is None else (getattr(node, field), index)
                    was, place[key] = place[key], other
                    assert text() != original, f"{module}:{name}: {ast.unparse(was)}"
                    place[key] = was
                    tried += 1
    assert tried > 2000
