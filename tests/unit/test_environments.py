"""The ways to an environment (make, conda, a container) install the same packages: those of requirements.lock."""

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

OWN_LOCK = ("bench", "kernels")
"""Extras whose exact versions are in files of their own."""


@pytest.fixture(scope="module")
def project(repository):
    return tomllib.loads((repository / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def locked(repository):
    """Exact versions of the lock, by package."""
    lines = (repository / "requirements.lock").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def test_conda_installs_the_lock_and_the_project_on_a_python_that_the_project_allows(repository, project):
    environment = yaml.safe_load((repository / "environment.yml").read_text())
    python, pip, packages = environment["dependencies"]
    name, _, version = python.partition("=")
    assert (name, pip, list(packages)) == ("python", "pip", ["pip"])
    assert version in SpecifierSet(project["requires-python"])
    files = [line.removeprefix("-r ") for line in packages["pip"] if line.startswith("-r ")]
    assert files == ["requirements.lock"]
    assert [line for line in packages["pip"] if not line.startswith("-r ")] == ["-e ."]


def test_make_and_the_container_install_the_same_file(repository):
    setup = (repository / "Makefile").read_text().partition("\n.venv/.done:")[2].partition("\n\n")[0]
    for text in (setup, (repository / "Containerfile").read_text()):
        assert set(re.findall(r"--requirement (?:/tmp/)?(\S+)", text)) == {"requirements.lock"}


def test_the_page_of_the_demo_names_the_conda_environment_that_its_file_makes(repository):
    name = yaml.safe_load((repository / "environment.yml").read_text())["name"]
    page = (repository / "docs/demo.md").read_text()
    assert f"conda env create --file environment.yml && conda activate {name}\n" in page


def test_the_lock_has_a_version_in_the_range_of_every_requirement(project, locked):
    extras = [requirements for name, requirements in project["optional-dependencies"].items() if name not in OWN_LOCK]
    wanted = [Requirement(line) for line in sum(extras, project["dependencies"])]
    wrong = [str(each) for each in wanted if locked.get(canonicalize_name(each.name), "0") not in each.specifier]
    assert not wrong
