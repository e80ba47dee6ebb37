"""Imports run one way: each room imports only the rooms that the plan allows."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from lib.core.kinds import MECHANISMS
from lib.workflow.digests import imported_files

ROOT = Path(__file__).resolve().parents[2]

ALLOWED = {
    "core": set(),
    "attention": {"core"},
    "backbones": {"core", "attention"},
    "data": {"core"},
    "evaluation": {"core"},
    "training": {"core", "attention", "backbones", "data", "evaluation"},
    "measure": {"core", "attention", "backbones", "data", "results"},  # of results only the style of figures
    "results": {"core"},
    "workflow": {"core"},
}
WITHOUT_TORCH = ["core", "results", "workflow"]


def imported_modules(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative import; write the whole name"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_room_is_listed():
    rooms = {path.name for path in (ROOT / "lib").iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(ALLOWED)


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_what_it_may(room):
    for file in (ROOT / "lib" / room).rglob("*.py"):
        rooms = {name.split(".")[1] for name in imported_modules(file) if name.startswith("lib.")}
        assert rooms <= ALLOWED[room] | {room}, file


def test_measuring_shares_only_the_style_of_figures_with_the_run_records():
    for file in (ROOT / "lib" / "measure").rglob("*.py"):
        found = {name for name in imported_modules(file) if name.startswith("lib.results.")}
        style = {f"lib.results.figures{name}" for name in ("", ".MARKERS", ".STYLE")}
        assert found <= style, file


def test_what_draws_and_sums_up_does_not_import_what_measures():
    """So that editing a figure makes no measurement stale, nor the other way about."""
    measuring = {"attention_cost", "training_cost", "approximation", "implementations", "cost"}
    for program in ("measure_figure", "measure_summary", "cost_page"):
        files = {Path(file).stem for file in imported_files(f"scripts/{program}.py")}
        assert not files & measuring, program
    for program in ("attention_cost", "training_cost", "favor_error", "lsh_recall"):
        files = {Path(file).stem for file in imported_files(f"scripts/{program}.py")}
        assert not files & {"cost_figures", "approximation_figures", "summaries", "crossovers", "page"}, program


def test_the_core_needs_pydantic_and_yaml_only():
    for file in (ROOT / "lib" / "core").rglob("*.py"):
        outside = {name.split(".")[0] for name in imported_modules(file)} - set(sys.stdlib_module_names) - {"lib"}
        assert outside <= {"pydantic", "yaml"}, file


def test_a_mechanism_is_imported_by_nobody():
    """They are found by name, so that editing one makes no other's runs stale."""
    for file in (ROOT / "lib").rglob("*.py"):
        for kind in MECHANISMS.kinds():
            if (ROOT / "lib" / "attention" / kind) in file.parents:
                continue
            found = {name for name in imported_modules(file) if f"{name}.".startswith(f"lib.attention.{kind}.")}
            assert not found, file


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_a_room_runs_without_torch(room):
    modules = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for file in sorted((ROOT / "lib" / room).rglob("*.py"))
    ]
    program = f"import sys, {', '.join(modules)}; sys.exit(bool({{'torch', 'transformers'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0
