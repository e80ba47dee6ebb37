"""Edits made by rule of everything that the full grid executes: harmless ones to all of it, real ones to each part."""

import ast
import copy
import functools
import shutil
from collections import Counter, defaultdict

import pytest
from code_digests import forget

from lib.results.settings import FIGURES, TABLES
from lib.study.configuration import load_study, read_layers
from lib.workflow import digests
from lib.workflow.plan import Plan
from lib.workflow.structure import registers, structure
from lib.workflow.syntax import defined_names, normalise

SPOKEN_OF = {"problems"}
"""Variables whose texts do not count, as long as they are called so."""
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.fixture(scope="module")
def programs():
    """Arguments of `code_digest` of everything that the grid makes."""
    named = {(f"scripts/{name}.py",) for name in ("prepare_dataset", "tokenize_dataset", "tokenize_corpus")}
    with pytest.MonkeyPatch.context() as patch:
        for module in ("plan", "report"):
            patch.setattr(f"lib.workflow.{module}.code_digest", lambda *places: named.add(places))
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


@pytest.fixture(scope="module")
def before(programs):
    """What `digests_of` returns of the code as it is."""
    return digests_of(programs)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of the code, to be edited."""
    for folder in ("lib", "scripts"):
        shutil.copytree(digests.ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(digests, "ROOT", tmp_path)
    yield tmp_path
    forget(lambda: None)


def digests_of(programs):
    """Return the digest of each, and what it is made of."""
    forget(lambda: None)
    return {program: (digests.code_digest(*program), texts(program)) for program in programs}


def texts(program):
    """Return the digests of the definitions that a program reaches, named unless they are private."""
    found = ((*definition.split(":"), digest) for definition, digest in digests.reached(*program).items())
    return sorted((digests._public_name(module, name), digest) for module, name, digest in found)


def trees(project):
    """Return path and tree of every file of the copy, by module."""
    paths = {path: path.relative_to(project).with_suffix("").parts for path in sorted(project.rglob("*.py"))}
    return {".".join(parts): (path, ast.parse(path.read_text())) for path, parts in paths.items()}


def code_objects(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from code_objects(constant)


def only_local(tree):
    """Return the names that are variables of functions, and nothing else, as Python's compiler sees them."""
    local, other = set(), set(SPOKEN_OF)
    for code in code_objects(compile(tree, "any", "exec")):
        arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        local |= set(code.co_varnames[arguments:]) | set(code.co_cellvars)
        other |= set(code.co_varnames[:arguments]) | set(code.co_names)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            other |= {node.name, *(name for each in node.body for name in defined_names(each))}
        elif isinstance(node, ast.alias):
            other.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.keyword):
            other.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            other |= {word for name in local if f"@{name}" in node.value or f"{name}=" in node.value for word in [name]}
    return {name for name in local - other if name.isidentifier()}


def rename(tree, names):
    """Rename what is called by one of `names`, attributes and keywords apart."""
    for node in ast.walk(tree):
        for field in {
            ast.Name: ["id"], ast.FunctionDef: ["name"], ast.ExceptHandler: ["name"], ast.MatchAs: ["name"],
            ast.MatchStar: ["name"], ast.MatchMapping: ["rest"],
        }.get(type(node), []):  # fmt: skip
            if getattr(node, field) in names:
                setattr(node, field, names[getattr(node, field)])
        if isinstance(node, ast.Nonlocal):
            node.names = [names.get(name, name) for name in node.names]


def test_every_local_variable_may_be_called_otherwise(before, project, programs, definitions):
    renamed = Counter()
    for module, (path, tree) in trees(project).items():
        names = {name: f"other_{name}" for name in only_local(tree)}
        renamed[module.removesuffix(".__init__") in definitions] += len(names)
        rename(tree, names)
        path.write_text(ast.unparse(tree))
    assert renamed[True] > 1000
    assert digests_of(programs) == before


def test_every_private_function_and_constant_may_be_called_otherwise(before, project, programs, definitions):
    renamed = 0
    files = trees(project)
    for module, (path, tree) in files.items():
        names = {
            name: f"_other{name}"
            for statement in tree.body
            for name in ([] if isinstance(statement, ast.ClassDef) else defined_names(statement))
            if name.startswith("_") and not name.startswith("__") and name not in digests._quoted()
            and not (isinstance(statement, FUNCTIONS) and registers(statement))
        }  # fmt: skip
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        local = {name for code in code_objects(compile(tree, "any", "exec")) for name in code.co_varnames}
        names = {old: new for old, new in names.items() if old not in imported | local}
        renamed += len(names.keys() & definitions.get(module, set()))
        rename(tree, names)
        path.write_text(ast.unparse(tree))
    assert renamed > 100
    assert digests_of(programs) == before


def may_move(statement):
    named = isinstance(statement, FUNCTIONS | ast.ClassDef) and not registers(statement)
    places = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} & digests.PLACES
    return named and not places and not statement.name.startswith("__")


def without_unused_imports(statements):
    """Imports of the top level alone; names in quotes count as used."""
    used = {node.id for each in statements for node in ast.walk(each) if isinstance(node, ast.Name)}
    for each in statements:
        if isinstance(each, ast.Import | ast.ImportFrom):
            each.names = [alias for alias in each.names if (alias.asname or alias.name).split(".")[0] in used]
    return [each for each in statements if not isinstance(each, ast.Import | ast.ImportFrom) or each.names]


def test_every_definition_may_stand_in_another_file(before, project, programs, definitions):
    """All that a module defines moves at once, and whoever imports it does so from its new place.

    Modules with statements stay, since they run with their module; so do those that the digest's tables name.
    """
    files, moved = trees(project), {}
    for module, (path, tree) in files.items():
        fixed = digests.SILENT.union(digests.OPTIONAL, *digests.OPTIONAL.values())
        if module not in definitions or module in fixed or digests.STATEMENTS in definitions[module]:
            continue
        chosen = [statement for statement in tree.body if may_move(statement)]
        moved |= {(module, statement.name): f"{module}_moved" for statement in chosen}
        rest = [statement for statement in tree.body if statement not in chosen]
        imports = [each for each in rest if isinstance(each, ast.Import | ast.ImportFrom)]
        kept = sorted({name for statement in rest for name in defined_names(statement)})
        back = [ast.ImportFrom(module, [ast.alias(name)], 0) for name in kept]
        (project / f"{module.replace('.', '/')}_moved.py").write_text(
            ast.unparse(ast.Module([*copy.deepcopy(imports), *back, *chosen], []))
        )
        here = [ast.ImportFrom(f"{module}_moved", [ast.alias(statement.name)], 0) for statement in chosen]
        tree.body = [*here, *without_unused_imports(rest)]
        path.write_text(ast.unparse(tree))
    for path, tree in trees(project).values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and {moved.get((node.module, alias.name)) for alias in node.names} == {
                f"{node.module}_moved"
            }:
                node.module += "_moved"
        path.write_text(ast.unparse(tree))
    assert len(moved.keys() & {(module, name) for module, names in definitions.items() for name in names}) > 200
    assert digests_of(programs) == before


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
        if not isinstance(node.value, ast.Constant) and not names & {"problems", "warnings", "logger", "logging"}:
            self.generic_visit(node)

    def visit_Assign(self, node):
        if not any(isinstance(each, ast.Name) and each.id in ("problems", "logging") for each in ast.walk(node)):
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


def test_every_constant_operator_argument_and_name_counts(definitions):
    """Of whatever the grid executes, at most eight per statement; in the text of which its digest is made."""
    tried = 0
    for module, names in definitions.items():
        source = forget(digests._source, module)
        is_settings = functools.partial(digests._is_settings, module)
        for name in names:
            for statement in source.definitions[name]:
                if isinstance(statement, ast.ClassDef) and is_settings(statement):
                    statement.body = normalise([copy.deepcopy(statement)], is_settings)[0][0].body

                def text(statement=statement, source=source, is_settings=is_settings):
                    left, _ = normalise([copy.deepcopy(statement)], is_settings)
                    return structure(left, source.known, (), lambda name: False)

                original, mutations = text(), Mutations()
                mutations.visit(ast.Module([statement], []))
                for node, field, index, other in mutations.found[:: len(mutations.found) // 8 + 1]:
                    place, key = (node.__dict__, field) if index is None else (getattr(node, field), index)
                    was, place[key] = place[key], other
                    assert text() != original, f"{module}:{name}: {ast.unparse(was)}"
                    place[key] = was
                    tried += 1
    assert tried > 2000
