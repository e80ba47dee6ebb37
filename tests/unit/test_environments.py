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


def test_files_of_each_way_to_an_environment(repository, project):
    conda = yaml.safe_load((repository / "environment.yml").read_text())
    python, _, packages = conda["dependencies"]
    assert python.partition("=")[2] in SpecifierSet(project["requires-python"])
    assert packages["pip"] == ["-r requirements.lock", "-e ."]
    assert f"conda activate {conda['name']}\n" in (repository / "docs/demo.md").read_text()
    makefile = (repository / "Makefile").read_text()
    setup, tests = (makefile.partition(f"\n.venv/.{name}:")[2].partition("\n\n")[0] for name in ("done", "all"))
    for text in (setup + tests, (repository / "Containerfile").read_text()):
        assert re.findall(r"--requirement (?:/tmp/)?(\S+)", text) == LOCKS


def test_versions_of_each_lock_in_the_ranges_of_the_project(project, locked):
    small, rest = locked
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name not in OWN_LOCK}
    needed = (small, project["dependencies"] + extras.pop("test") + extras.pop("workflow"))
    for lock, lines in (needed, *((rest, lines) for lines in extras.values())):
        wanted = map(Requirement, lines)
        assert not [each for each in wanted if lock.get(canonicalize_name(each.name), "0") not in each.specifier]
    assert not small.keys() & rest.keys()


NEEDING = [  # a change of a study or an extension, what then needs a package, and the extra that has it
    ("studies/trials", "extensions: studies/trials needs the package optuna", "search"),
    (
        ("stages/pretrain/recipe/optimizer", "adamw_8bit"),
        "adamw_8bit .* needs the package bitsandbytes",
        "quantized",
    ),
    ("studies/word_vectors", "extensions: studies/word_vectors needs the package gensim", "word-vectors"),
]


@pytest.mark.extended  # with the extras
@pytest.mark.parametrize(("change", "need", "extra"), NEEDING)
def test_plan_without_its_extra(change, need, extra, monkeypatch):
    named, changes = ([change], []) if isinstance(change, str) else ([], [change])
    plan = Plan(study(*changes, layers=[("extending.yaml", {"extensions": named})]))
    plan.check()
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(RunError, match=rf"{need}\. .*'\.\[{extra}\]' -c requirements-all\.lock"):
        plan.check()


def test_program_without_its_extra(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "gensim", None)
    assert program.run(lambda _: importlib.import_module("gensim"), []) == 1
    (said,) = caplog.messages
    assert said == f"The package gensim is not installed. Install it: {errors.installing('gensim')}"
