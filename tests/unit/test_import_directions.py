"""Imports run one way: each room imports only the rooms that the plan allows."""

import ast
import functools
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

from lib.analysis.settings import ANALYSES
from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.results.settings import FIGURES, TABLES
from lib.tasks.settings import TASKS

ROOT = Path(__file__).resolve().parents[2]

ALLOWED = {
    "core": set(),
    "attention": {"core"},
    "backbones": {"core", "attention", "evaluation"},  # of evaluation the passages that decide
    "reading": {"core", "preparing", "tokens"},  # settings only, and of tokens the names of tokenisers' files
    "preparing": {"core", "reading"},
    "generators": {"core", "preparing"},
    "tokens": {"core", "preparing", "reading"},  # of preparing the settings and how parts are read
    "evaluation": {"core"},
    "tasks": {"core", "preparing", "reading", "tokens", "evaluation", "backbones"},
    "results": {"core", "backbones", "evaluation"},  # of backbones the axis
    # Their settings only, without torch; of reading the rules of cells.
    "study": {"core", "analysis", "attention", "backbones", "preparing", "reading", "tasks", "results"},
    "training": {"core", "attention", "preparing", "reading", "tokens", "evaluation", "backbones", "tasks", "study"},
    "predicting": {"core", "attention", "preparing", "reading", "tokens", "evaluation", "backbones", "tasks", "study"}
    | {"training"},
    # Of results the style of figures, and tables.
    "analysis": {"core", "attention", "backbones", "reading", "tokens", "evaluation", "results"},
    "workflow": {
        "core",
        "analysis",
        "attention",
        "backbones",
        "predicting",
        "preparing",
        "tokens",
        "tasks",
        "results",
        "study",
    },
    "advice": {
        "core",
        "attention",
        "backbones",
        "preparing",
        "reading",
        "tokens",
        "evaluation",
        "tasks",
        "results",
        "study",
        "workflow",
        "training",  # of it how the encoders of a study read
    },
}
STUDIES = sorted(path.name for path in (ROOT / "studies").iterdir() if path.is_dir())
AXES = (MECHANISMS, BACKBONES, TASKS, TABLES, FIGURES, ANALYSES)
# What the Snakefile's process imports, or may import.
WITHOUT_TORCH = {
    "core": ["**/*.py"],
    "study": ["**/*.py"],
    "results": ["**/*.py"],
    "workflow": ["**/*.py"],
    "analysis": ["*.py"],
    "attention": ["**/settings.py"],
    "backbones": ["**/settings.py", "state_size.py", "contract.py", "**/__init__.py"],
    "tasks": ["*.py", "**/settings.py", "**/__init__.py"],
}


@functools.cache
def imported_modules(file):
    return list(_imported_modules(file))


def _imported_modules(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}: relative import; write the whole name"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_rooms_are_all_listed():
    rooms = {path.name for path in (ROOT / "lib").iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(ALLOWED)


def test_room_imports_only_what_it_may():
    """The parts of a study as those of the grid."""
    for room, allowed in ALLOWED.items():
        parts = [ROOT / "lib" / room, *(ROOT / "studies").glob(f"*/{room}")]
        for file in (file for part in parts for file in part.rglob("*.py")):
            rooms = {name.split(".")[1] for name in imported_modules(file) if name.startswith("lib.")}
            assert rooms <= allowed | {room}, file


def test_studies_are_imported_by_themselves_alone():
    """Studies and benchmarks import the grid, never the other way about; studies never import each other."""
    for folder in ("lib", "scripts", "benchmarks", *(f"studies/{name}" for name in STUDIES)):
        refused = {"studies", "benchmarks"} if folder in ("lib", "scripts") else {"studies"}
        for file in set((ROOT / folder).rglob("*.py")) - set((ROOT / folder).glob("tests/**/*.py")):
            names = {name for name in imported_modules(file) if name.split(".")[0] in refused}
            assert not {name for name in names if not f"{name}.".startswith(f"{folder.replace('/', '.')}.")}, file


def test_modules_form_no_circle():
    """Not even by imports inside functions."""
    files = [file.relative_to(ROOT) for folder in ("lib", "studies") for file in (ROOT / folder).rglob("*.py")]
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__init__"): ROOT / file for file in files}
    used = {name: {each for each in imported_modules(file) if each in modules} for name, file in modules.items()}
    packages = {name for name, file in modules.items() if file.name == "__init__.py"}
    graphlib.TopologicalSorter({name: each - packages for name, each in used.items()}).prepare()


def test_core_needs_pydantic_and_yaml_alone():
    for file in (ROOT / "lib" / "core").rglob("*.py"):
        outside = {name.split(".")[0] for name in imported_modules(file)} - set(sys.stdlib_module_names) - {"lib"}
        further = {"tokenizers"} if file.name == "model_folder.py" else set()  # inside of the function that opens one
        assert outside <= {"pydantic", "pydantic_core", "yaml"} | further, file


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.noun)
def test_kinds_are_imported_by_nobody(axis):
    """They are found by name, so that editing one makes no other's runs stale."""
    kinds = {axis.module(kind, "settings").removesuffix(".settings") for kind in axis.kinds()}
    assert kinds
    programs = [
        ROOT / "scripts" / f"{name}.py"
        for name in ("train", "evaluate", "table", "figure", "analyse", "analysis_figure")
    ]
    for file in [*(ROOT / "lib").rglob("*.py"), *programs]:
        for kind in kinds:
            own = (ROOT / kind.replace(".", "/")) in file.parents or file.stem == kind.rpartition(".")[2]
            if own:
                continue
            assert not {name for name in imported_modules(file) if f"{name}.".startswith(f"{kind}.")}, file


def without_torch(modules):
    """Whether importing `modules` in a new process imports no torch."""
    program = f"import sys, {', '.join(modules)}; sys.exit(bool({{'torch', 'transformers'}} & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def modules_in(files):
    return [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in sorted(files)]


@pytest.mark.extended
def test_rooms_of_the_plan_run_without_torch():
    files = []
    for room, patterns in WITHOUT_TORCH.items():
        places = [ROOT / "lib" / room, *(ROOT / "studies").glob(f"*/{room}")]
        files += [file for pattern in patterns for place in places for file in place.glob(pattern)]
    assert without_torch(modules_in(files))
    assert not without_torch(["lib.attention.contract"])


@pytest.mark.extended
def test_plan_runs_without_torch_and_statistics():
    """Every kind of the grid, as the Snakefile's process takes them in; how tables compute is imported when they do."""
    program = (
        "import sys\n"
        "from lib.study.configuration import load_study, read_layers\n"
        "from lib.results.settings import FIGURES, TABLES\n"
        "from lib.workflow.planning.plan import Plan\n"
        "plan = Plan(load_study(read_layers(['config/config.yaml'])))\n"
        "for run in plan.runs: plan.code(run), plan.data(run), plan.start(run)\n"
        "for axis, results in ((TABLES, plan.report.tables), (FIGURES, plan.report.figures)):\n"
        "    for result in results.values(): plan.report.inputs(result['scope']), plan.report.code(axis, result)\n"
        "assert len(plan.report.tables) > 5\n"
        "for axis in (TABLES, FIGURES):\n"
        "    for kind in axis.kinds(): axis.load(kind, 'settings')\n"
        "heavy = {'torch', 'transformers', 'datasets', 'scipy', 'sklearn', 'statsmodels', 'gensim'}\n"
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0
