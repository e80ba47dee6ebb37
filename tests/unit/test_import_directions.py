"""Imports run one way: each room imports only the rooms that the plan allows."""

import ast
import functools
import graphlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from lib.analysis.settings import ANALYSES
from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.results.settings import FIGURES, TABLES
from lib.tasks.settings import TASKS
from lib.workflow.staleness.digests import reached

ROOT = Path(__file__).resolve().parents[2]

ALLOWED = {
    "core": set(),
    "attention": {"core"},
    "backbones": {"core", "attention"},
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
    # Of results the style of figures, and tables.
    "analysis": {"core", "attention", "backbones", "reading", "tokens", "evaluation", "results"},
    "workflow": {
        "core",
        "analysis",
        "attention",
        "backbones",
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


def test_every_room_is_listed():
    rooms = {path.name for path in (ROOT / "lib").iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(ALLOWED)


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_what_it_may(room):
    for file in (ROOT / "lib" / room).rglob("*.py"):
        rooms = {name.split(".")[1] for name in imported_modules(file) if name.startswith("lib.")}
        assert rooms <= ALLOWED[room] | {room}, file


def test_nothing_imports_a_study_but_itself_and_lib_imports_no_benchmark():
    """Studies and benchmarks import the grid, never the other way about; studies never import each other."""
    for folder in ("lib", "scripts", "benchmarks", *(f"studies/{name}" for name in STUDIES)):
        refused = {"studies", "benchmarks"} if folder == "lib" else {"studies"}
        for file in set((ROOT / folder).rglob("*.py")) - set((ROOT / folder).glob("tests/**/*.py")):
            names = {name for name in imported_modules(file) if name.split(".")[0] in refused}
            assert not {name for name in names if not f"{name}.".startswith(f"{folder.replace('/', '.')}.")}, file


@pytest.mark.parametrize("name", STUDIES)
def test_a_part_of_a_study_imports_only_what_that_of_the_grid_may(name):
    for file in (ROOT / "studies" / name).rglob("*.py"):
        room = file.relative_to(ROOT / "studies" / name).parts[0]
        rooms = {each.split(".")[1] for each in imported_modules(file) if each.startswith("lib.")}
        assert room not in ALLOWED or rooms <= ALLOWED[room] | {room}, file


def test_of_preparing_the_rooms_beside_it_take_the_settings_and_how_parts_are_read():
    for room, allowed in (("reading", ("settings",)), ("tokens", ("settings", "parts"))):
        for file in (ROOT / "lib" / room).rglob("*.py"):
            found = {name for name in imported_modules(file) if name.startswith("lib.preparing.")}
            assert {name.split(".")[2] for name in found} <= set(allowed), file


def test_modules_form_no_circle():
    """Not even by imports inside functions."""
    files = [file.relative_to(ROOT) for folder in ("lib", "studies") for file in (ROOT / folder).rglob("*.py")]
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__init__"): ROOT / file for file in files}
    used = {name: {each for each in imported_modules(file) if each in modules} for name, file in modules.items()}
    packages = {name for name, file in modules.items() if file.name == "__init__.py"}
    graphlib.TopologicalSorter({name: each - packages for name, each in used.items()}).prepare()


def test_benchmarks_import_lib_and_never_the_other_way_about():
    for file in [*(ROOT / "lib").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")]:
        assert not {name for name in imported_modules(file) if name.split(".")[0] == "benchmarks"}, file
    for file in (ROOT / "benchmarks").glob("*.py"):
        found = {name for name in imported_modules(file) if name.startswith("lib.results.")}
        assert all(name.startswith(("lib.results.style", "lib.results.printed_values")) for name in found), file
        assert file.stem in ("figures", "grid_hours") or not found, file


TIMED = ("attention_cost", "training_cost", "encoder_cost", "sequence_cost", "memory_cost", "adaptation_cost")


def modules_of(program):
    """Return the modules that count in the digest of a program of the benchmarks."""
    return {definition.split(":")[0] for definition in reached(f"benchmarks/{program}.py")}


@pytest.mark.parametrize("program", TIMED)
def test_what_the_benchmark_measures_needs_no_study(program):
    """A GPU's machine has little installed, and an edit of the settings makes no measurement stale."""
    found = modules_of(program) - {"lib.advice.cost", "lib.advice.trained_model", "lib.advice"}
    assert not {name.split(".")[1] for name in found} & {"study", "tasks", "workflow", "results", "advice"}


def test_what_draws_and_sums_up_does_not_import_what_measures():
    """So that editing a figure makes no measurement stale, nor the other way about."""
    measuring = {f"benchmarks.{name}" for name in (*TIMED, "favor_error", "lsh_recall", "implementations", "cost")}
    for program in ("figures", "summaries", "cost_page"):
        assert not modules_of(program) & measuring, program
    for program in (*TIMED, "favor_error", "lsh_recall"):
        assert not modules_of(program) & {"benchmarks.figures", "benchmarks.summaries"}, program


def test_the_core_needs_pydantic_and_yaml_only():
    for file in (ROOT / "lib" / "core").rglob("*.py"):
        outside = {name.split(".")[0] for name in imported_modules(file)} - set(sys.stdlib_module_names) - {"lib"}
        assert outside <= {"pydantic", "pydantic_core", "yaml"}, file


def test_the_core_imports_no_other_room():
    """Not even inside functions: kinds are found by a name made at run time."""
    for file in (ROOT / "lib" / "core").rglob("*.py"):
        assert {name.split(".")[1] for name in imported_modules(file) if name.startswith("lib.")} <= {"core"}, file


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.noun)
def test_a_kind_is_imported_by_nobody(axis):
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


def test_every_kind_of_a_folder_is_found():
    computations = {path.stem for path in (ROOT / "lib/analysis/computations").glob("*.py")}
    assert computations - {"__init__", "subject"} == set(ANALYSES.kinds())
    for axis in (MECHANISMS, BACKBONES, TASKS):
        folder = ROOT / axis.package.replace(".", "/")
        found = {path.parent.name for path in folder.glob("*/settings.py")}
        if axis is TASKS:
            shared = {"__init__", "contract", "document_classification", "language_model", "settings"}
            found |= {path.stem for path in folder.glob("*.py")} - shared
        assert found == set(axis.kinds())


def test_tables_and_figures_are_classes_called_as_their_kind_in_modules_that_hold_nothing_else():
    files = {path.stem for path in (ROOT / "lib/results/kinds").glob("*.py")} - {"__init__"}
    assert files == {axis.module(kind).rpartition(".")[2] for axis in (TABLES, FIGURES) for kind in axis.kinds()}
    for axis, noun in ((TABLES, "Table"), (FIGURES, "Figure")):
        for kind in axis.kinds():
            assert axis.settings(kind).__name__ == kind.title().replace("_", "") + noun


def without_torch(modules):
    """Whether importing `modules` in a new process imports no torch."""
    program = f"import sys, {', '.join(modules)}; sys.exit(bool({{'torch', 'transformers'}} & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def modules_in(files):
    return [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in sorted(files)]


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_a_room_runs_without_torch(room):
    places = [ROOT / "lib" / room, *(ROOT / "studies").glob(f"*/{room}")]
    files = [file for pattern in WITHOUT_TORCH[room] for place in places for file in place.glob(pattern)]
    assert files
    assert without_torch(modules_in(files))


def test_the_proof_of_no_torch_can_fail():
    assert not without_torch(["lib.attention.contract"])


def test_what_a_plan_needs_runs_without_torch_and_statistics():
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


IMPORT_EACH_FIRST = """
import importlib, os, sys
import torch.nn, transformers.modeling_utils  # shared by all; what registers the models comes later
assert "transformers.models.auto.modeling_auto" not in sys.modules and "lib" not in sys.modules
for name in sys.argv[1:]:
    sys.stderr.flush()
    child = os.fork()
    if not child:
        try:
            importlib.import_module(name)
        except BaseException as error:
            print(f"{name}: {error}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_every_module_with_a_model_can_be_the_first_import_of_a_process():
    """`lib` imports them by itself, when transformers' Auto classes come into being; what imports no torch does not."""
    without_torch = WITHOUT_TORCH["backbones"]
    files = [path for path in sorted((ROOT / "lib/backbones").rglob("*.py")) if path.name not in without_torch]
    if importlib.util.find_spec("triton") is None:  # the language of the kernels
        files = [path for path in files if path.name != "kernels.py"]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH_FIRST, *names], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not done.stdout
