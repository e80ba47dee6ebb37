"""Extensions outside of the repository are found by the names that a study gives, or refused by one sentence."""

import re
import sys

import pytest
from code_digests import forget
from small_extension import MECHANISM, PARTS, small_extension, study_of

from lib.attention.settings import MECHANISMS
from lib.core import program
from lib.core.errors import ConfigError
from lib.core.extensions import VARIABLE, in_use, packages
from lib.results.settings import TABLES
from lib.study.configuration import load_study
from lib.training.record import used_extensions
from lib.workflow.planning.plan import Plan
from lib.workflow.staleness.digests import reached


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(sys, "path", list(sys.path))


def loaded(*extensions, parts=study_of):
    return load_study([("own.yaml", parts(*extensions))])


def test_parts_of_an_extension_count_for_runs_that_need_them(tmp_path):
    name = small_extension(tmp_path / "house_outside")
    plan = Plan(loaded(name))
    assert in_use() == [name]
    assert packages("lib.tasks") == ["lib.tasks", "house_outside.tasks"]
    runs = {run.id.model: run for run in plan.runs}
    assert plan.code(runs["gentle"]) != plan.code(runs["sdpa"])
    assert TABLES.module("counted") == "house_outside.results.kinds.counted"
    assert plan.report.tables["counted"]


def test_extension_in_an_installed_package(tmp_path, monkeypatch):
    """It is found without an import, counts, also where it imports `attention_grid`, and is recorded."""
    folder, own = tmp_path / "acme" / "extras", PARTS[MECHANISM].replace("from lib.", "from attention_grid.")
    small_extension(folder, PARTS | {MECHANISM: own, "__init__.py": ""})
    metadata = {"METADATA": "Name: acme\nVersion: 1.2\n", "top_level.txt": "acme\n"}
    small_extension(tmp_path / "acme-1.2.dist-info", metadata)
    monkeypatch.syspath_prepend(tmp_path)
    program.parser(None).parse_args(["--extension", "acme.extras"])
    assert "acme" not in sys.modules
    assert TABLES.module("counted") == "acme.extras.results.kinds.counted"
    module = MECHANISMS.module("gentle", "mechanism")
    before, record = forget(reached, module), used_extensions()["acme.extras"]
    assert "lib.attention.contract:Attention" in before
    (folder / MECHANISM).write_text(own.replace("+ 1", "+ 2"))
    assert {name for name, _ in before.items() ^ forget(reached, module).items()} == {f"{module}:Mechanism"}
    assert record["acme"] == "1.2"
    assert record["digest"] != used_extensions()["acme.extras"]["digest"]


TASK = PARTS["tasks/moods.py"]
BROKEN = {
    "a folder that is missing": ("nowhere", None, "nowhere is not there. .* or an installed package"),
    "a kind of the grid": (
        "house_again",
        {"attention/sdpa/__init__.py": "", "attention/sdpa/settings.py": "class Settings: ..."},
        "sdpa is both lib.* house_again",
    ),
    "a part that is no Python": (
        "house_broken",
        {"tasks/moods.py": TASK.replace("class Task(", "class Task(:")},
        "house_broken.tasks.moods: invalid syntax .moods.py, line 10.",
    ),
}


@pytest.mark.parametrize(("name", "parts", "message"), BROKEN.values(), ids=BROKEN)
def test_extension_that_is_broken_is_refused_once(tmp_path, name, parts, message):
    folder = tmp_path / name
    if parts is not None:
        folder.mkdir()
        small_extension(folder, PARTS | parts)
    with pytest.raises(ConfigError, match=message) as error:
        loaded(name if parts is None else str(folder))
    assert all(re.search(message, line) for line in str(error.value).splitlines()[1:])


def test_extensions_with_one_kind_are_refused(tmp_path):
    first, second = (small_extension(tmp_path / name) for name in ("house_one", "house_two"))
    with pytest.raises(ConfigError, match="is both house_one.* and house_two"):
        loaded(first, second)
