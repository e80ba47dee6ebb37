"""What tests of all rooms share: the repository, the real text beside it, and copies in which Snakemake really runs."""

import contextlib
import io
import itertools
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
import yaml
from code_digests import reading
from loopback import serving
from ready import SNAKEMAKE, TRAINING, ready

from lib.core.errors import ProjectError
from lib.core.extensions import VARIABLE, use

pytest_plugins = ["extending", "last_skipped", "progress", "span_tokenizers", "training_fixtures", "workflow_fixtures"]

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels for GPUs run without one; to be said before the first is imported

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it puts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else programs under test would inherit it

with contextlib.suppress(ImportError):  # a GPU's machine may lack it
    import hypothesis

    hypothesis.settings.register_profile("busy", deadline=None)  # tests are no benchmarks: a busy machine fails none
    hypothesis.settings.load_profile("busy")


def pytest_addoption(parser):
    parser.addoption("--extension", action="append", default=[], metavar="NAME", help="in use, as in a configuration")


def pytest_configure(config):
    """Take extensions into use before helpers ask for them."""
    use(config.getoption("extension"))


@pytest.fixture(scope="module")
def all_studies(repository):
    """All studies of the project are extensions in use."""
    with pytest.MonkeyPatch.context() as patch:
        names = (path.relative_to(repository).as_posix() for path in sorted(repository.glob("studies/*/")))
        patch.setenv(VARIABLE, os.pathsep.join(names))
        yield


LONGEST = ("real", "workflow", "browser", "training")
"""Folders whose files take minutes: begun first, so that no process waits for the last of them in the end."""


def pytest_collection_modifyitems(items):
    """Put the tests of the folders that take longest first."""
    place = {folder: number for number, folder in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.split("/")[1], len(place)) if "/" in item.nodeid else len(place))


MANY = 15
"""Of so many files the slowest are named."""


def pytest_terminal_summary(terminalreporter):
    """Name the files whose tests took longest, if there were many."""
    seconds = Counter()
    for report in itertools.chain(*terminalreporter.stats.values()):
        if hasattr(report, "duration"):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > MANY:
        terminalreporter.section(f"the {MANY} slowest of {len(seconds)} files, in seconds of all processes")
        for file, each in seconds.most_common(MANY):
            terminalreporter.write_line(f"{each:8.1f} {file}")


def program_of(job):
    """Return which program of `scripts/` makes a run, as its command says."""
    return re.search(r"scripts/(\w+)\.py", f"{job.params.program}")[1]


class Project:
    """A copy of the repository.

    Args:
        folder: where the copy is.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.results = folder / "results" / "demo"
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(folder),
            "OMP_NUM_THREADS": "1",
            VARIABLE: "",  # configurations name what they need
        }

    def snakemake(self, *arguments, check=True):
        """Run snakemake, as a fork, and return the finished process, its two streams in one.

        Where it may run jobs, their programs share a process, as `scripts/preloaded.py` lets them. With `-p` the plan
        has commands and reasons.
        """
        if "-p" in arguments:
            arguments = ("--quiet", "host", *arguments)
        if "--cores" in arguments:
            command = [sys.executable, "scripts/preloaded.py", "snakemake", *map(str, arguments)]
            command, environment = ready(command, self.environment, TRAINING)
        else:
            command, environment = ready([*SNAKEMAKE, *map(str, arguments)], self.environment)
        process = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if check:
            assert process.returncode == 0, self.logs() + process.stdout[-5000:]  # ends with the log that failed
        return process

    def program(self, name, *arguments):
        """Run a program of `scripts/tools/` and return the finished process."""
        command = [sys.executable, f"scripts/tools/{name}.py", *map(str, arguments)]
        command, environment = ready(command, self.environment)
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)

    @contextlib.contextmanager
    def here(self):
        """Be in the copy, so that what is asked in this process compares the copy's code, settings and results.

        The process goes on with its own modules: an edit in the copy is compared, and never executed.
        """
        variables, places = dict(os.environ), [*sys.path]
        try:
            with contextlib.chdir(self.folder), reading(self.folder):
                yield
        finally:
            os.environ.clear()
            os.environ.update(variables)
            sys.path[:] = places

    @contextlib.contextmanager
    def planned(self, *configfiles, targets=()):
        """Yield Snakemake's workflow with its plan, asked in this process."""
        from lib.workflow.planning.steps import workflow_with_plan  # Snakemake is not on every machine with a GPU

        with self.here(), workflow_with_plan(configfiles, targets) as workflow:
            yield workflow

    def stale(self, *configfiles, target=None):
        """Return what would run: the number of jobs by rule, of runs by their program."""
        with self.planned(*configfiles, targets=[target] if target else []) as workflow:
            jobs = workflow.dag.needrun_jobs()
            found = Counter(program_of(job) if job.rule.name == "run" else job.rule.name for job in jobs)
        return found | ({"total": found.total()} if found else {})

    def ask(self, name, *arguments):
        """Call what a program of `scripts/tools/` does in this process; return what it says, and its exit status."""
        said = io.StringIO()
        with self.here(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                status = runpy.run_path(f"scripts/tools/{name}.py")["main"]([*map(str, arguments)])
            except ProjectError as error:
                print(error)
                status = 2
        return said.getvalue(), status or 0

    @staticmethod
    def jobs_of(output):
        """Return the number of jobs by rule that a dry run printed with their commands; runs by their program."""
        jobs = {rule: int(number) for rule, number in re.findall(r"^(\w+) +(\d+)$", output, re.MULTILINE)}
        programs = Counter(re.findall(r"scripts/(train|evaluate|tune)\.py --config", output))
        assert programs.total() == jobs.pop("run", 0)
        return jobs | programs

    def configure(self, values, name="config.test.yaml"):
        """Write a configuration file and return its name."""
        (self.folder / name).write_text(yaml.safe_dump(values, sort_keys=False))
        return name

    def touch(self, *names):
        """Make empty files below the user's folder of data."""
        for name in names:
            path = self.folder / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def logs(self):
        """Return what the rules wrote, the latest last."""
        paths = sorted((self.results / "logs").rglob("*.log"), key=lambda path: path.stat().st_mtime)
        return "".join(f"\n--- {path}\n{path.read_text()[-2000:]}" for path in paths)


@pytest.fixture
def site(monkeypatch):
    """A site on loopback, which is also a hub."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    with serving() as server:
        yield server


@pytest.fixture(scope="session")
def project_at():
    """What makes a project of the folder of a copy that is there."""
    return Project


@pytest.fixture(scope="session")
def copy_of_repository(repository, shared_folder, tmp_path_factory):
    """Make a copy of the repository's own files. All copies remember digests of code at one place."""
    digests = shared_folder / "digests"
    digests.mkdir(exist_ok=True)

    def copy(name):
        folder = tmp_path_factory.mktemp(name)
        for part in ("benchmarks", "config", "lib", "scripts", "slurm", "studies", "workflow"):
            shutil.copytree(repository / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "tests"))
        shutil.copy(repository / "pyproject.toml", folder)
        (folder / "lib" / "__pycache__").symlink_to(digests)
        return Project(folder)

    return copy


@pytest.fixture(scope="session")
def run_study(copy_of_repository):
    """Run a study to its end, in a copy of the repository that bears the name of its results."""

    def run(settings):
        results = settings["execution"]["results"]
        project = copy_of_repository(Path(results).name)
        project.results = project.folder / results
        project.snakemake("--cores", 2, "--configfile", project.configure(settings, f"{project.results.name}.yaml"))
        return project

    return run


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """A temporary folder that all processes of this call of pytest share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def repository():
    """The root of the repository."""
    return Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def shared(repository):
    """The folder of real text beside the repository; tests that need it skip where it is absent."""
    folder = repository.parent / "shared"
    if not (folder / "data").is_dir():
        pytest.skip(f"the real text is not there: {folder / 'data'}")
    return folder


@pytest.fixture(scope="session")
def minilm(shared):
    """The folder of a published encoder; tests that need it skip where it is absent."""
    folder = shared / "models" / "minilm"
    if not folder.is_dir():
        pytest.skip(f"the published model is not there: {folder}")
    return folder
