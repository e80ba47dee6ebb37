"""The ways to an environment install the same versions: make and conda those of requirements.lock, a container all."""

import importlib
import re
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from small_studies import study

from lib.core import errors, program
from lib.core.errors import RunError
from lib.workflow.planning.plan import Plan

OWN_LOCK = ("bench", "kernels")
"""Extras whose exact versions are in files of their own."""
LOCKS = ["requirements.lock", "requirements-all.lock"]


@pytest.fixture(scope="module")
def project(repository):
    return tomllib.loads((repository / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def locked(repository):
    """Exact versions of each lock, by package."""
    return [
        {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines if line[0] not in "#-"}
        for lines in ((repository / lock).read_text().splitlines() for lock in LOCKS)
    ]


def test_conda_installs_the_lock_and_the_project_on_a_python_that_the_project_allows(repository, project):
    environment = yaml.safe_load((repository / "environment.yml").read_text())
    python, pip, packages = environment["dependencies"]
    name, _, version = python.partition("=")
    assert (name, pip, list(packages)) == ("python", "pip", ["pip"])
    assert version in SpecifierSet(project["requires-python"])
    files = [line.removeprefix("-r ") for line in packages["pip"] if line.startswith("-r ")]
    assert files == ["requirements.lock"]
    assert [line for line in packages["pip"] if not line.startswith("-r ")] == ["-e ."]


def test_setup_and_the_tests_of_make_and_the_container_install_the_same_files(repository):
    makefile = (repository / "Makefile").read_text()
    setup, tests = (makefile.partition(f"\n.venv/.{name}:")[2].partition("\n\n")[0] for name in ("done", "all"))
    for text in (setup + tests, (repository / "Containerfile").read_text()):
        assert re.findall(r"--requirement (?:/tmp/)?(\S+)", text) == LOCKS


def test_the_page_of_the_demo_names_the_conda_environment_that_its_file_makes(repository):
    name = yaml.safe_load((repository / "environment.yml").read_text())["name"]
    page = (repository / "docs/demo.md").read_text()
    assert f"conda env create --file environment.yml && conda activate {name}\n" in page


def test_each_lock_has_a_version_in_the_range_of_every_requirement_of_its_own(project, locked):
    small, rest = locked
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name not in OWN_LOCK}
    for lock, lines in (small, project["dependencies"]), *((rest, lines) for lines in extras.values()):
        wanted = map(Requirement, lines)
        assert not [each for each in wanted if lock.get(canonicalize_name(each.name), "0") not in each.specifier]
    assert not small.keys() & rest.keys()


NEEDING = [  # a change of a study or an extension, what then needs a package, and the extra that has it
    ("studies/trials", "extensions: studies/trials needs the package optuna", "trials"),
    (
        ("stages/pretrain/recipe/optimizer", "adamw_8bit"),
        "adamw_8bit .* needs the package bitsandbytes",
        "quantization",
    ),
    ("studies/word_vectors", "extensions: studies/word_vectors needs the package gensim", "word-vectors"),
]


@pytest.mark.parametrize(("change", "need", "extra"), NEEDING)
def test_a_plan_whose_extra_is_missing_names_it(change, need, extra, monkeypatch):
    named, changes = ([change], []) if isinstance(change, str) else ([], [change])
    plan = Plan(study(*changes, layers=[("extending.yaml", {"extensions": named})]))
    plan.check()
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(RunError, match=rf"{need}\. .*'\.\[{extra}\]' -c requirements-all\.lock"):
        plan.check()


def test_a_program_whose_extra_is_missing_names_it(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "gensim", None)
    assert program.run(lambda _: importlib.import_module("gensim"), []) == 1
    (said,) = caplog.messages
    assert said == f"The package gensim is not installed. Install it: {errors.installing('gensim')}"
