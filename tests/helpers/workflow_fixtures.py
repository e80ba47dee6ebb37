"""Small studies, each run once for all tests that ask about their results."""

import fcntl
import shutil
from pathlib import Path

import pytest
from small_studies import TINY, reviews

from lib.workflow.staleness.digests import reached

# A study without training, backbones of tokens or anything of the grid.
ALONE = {
    "experiment": {
        "seeds": [1, 2],
        "backbones": {"tfidf": {"kind": "tfidf"}},
        "datasets": {"imdb": reviews(200, 48)},
        "stages": {"score": {"task": {"kind": "sequence_classification"}, "data": {"imdb": {}}}},
        "models": {"words": {"backbone": "tfidf"}},
    },
    "report": {
        "tables": {
            "scores": {"stage": "score", "columns": ["minutes", "f1"]},
            "classes": {"kind": "classes", "stage": "score", "models": ["words"]},
        }
    },
    "execution": {"results": "results/alone"},
}


@pytest.fixture(scope="session")
def alone():
    """Settings of a study that stands alone."""
    return ALONE


@pytest.fixture(scope="module")
def project(copy_of_repository):
    """A copy of the repository, for one module."""
    return copy_of_repository("project")


@pytest.fixture(scope="session")
def made(copy_of_repository, project_at, shared_folder):
    """Return a project in which a study has run to its end, for copies alone; one for all processes of pytest."""

    def make(name, settings):
        place = shared_folder / name
        with open(f"{place}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if place.is_symlink():
                return project_at(place.resolve())
            project = copy_of_repository(name)
            config = project.configure(settings)
            project.snakemake("--cores", 2, "--configfile", config)
            place.symlink_to(project.folder)
        return project

    return make


@pytest.fixture(scope="session")
def clone(made, copy_of_repository):
    """Make a fresh copy of the repository with parts of what a small study left, their times kept."""

    def make(name, *parts, settings=TINY):
        origin = made(f"made_{Path(settings['execution']['results']).name}", settings)
        project = copy_of_repository(name)
        project.results = project.folder / settings["execution"]["results"]
        project.configure(settings)
        for part in parts or ("results", ".snakemake"):
            shutil.copytree(origin.folder / part, project.folder / part)
        return project

    return make


@pytest.fixture(scope="module")
def finished(clone):
    """A project whose small study has run to its end, for one module."""
    return clone("finished")


@pytest.fixture
def modules_of(monkeypatch):
    """Return the modules that count in the digest of a run's code."""

    def modules(made, run):
        with monkeypatch.context() as context:
            context.setattr("lib.workflow.planning.plan.code_digest", reached)
            return {name.partition(":")[0] for name in made.code(made.run(run))}

    return modules
