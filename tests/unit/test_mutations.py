"""Whatever stands in a configuration: it is read, or a clear error says what is wrong with it.

Every example is a valid one with some mutations, drawn the same way each time; `-m slow` draws many more.
"""

import contextlib
import copy
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_studies import SMALL

from lib.core.errors import ProjectError
from lib.study.configuration import SHIPPED, load_study, merged, read_layers
from lib.workflow.planning.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.extended
EXAMPLES = [pytest.param(1, id="few"), pytest.param(60, id="many", marks=pytest.mark.slow)]
"""How many times as many examples as `make test-all` draws."""


def drawn(examples):
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(max_examples=examples, derandomize=True, database=None, deadline=None, suppress_health_check=checks)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["", "null", "scratch", "sdpa", "imdb", "finetune", "{a}", "../x", "a\nb", "$(id)", "[", "\udc80", "\0", "yes"]
    ),
    st.sampled_from(
        ["1_0", "0o17", "12:30:45", "1e3", "n" * 300, "n" * 5000, "/dev/zero", "{0..99999999}", 2**63, 10**400, 1e300]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


STUDIES = [SMALL, *(merged(read_layers([SHIPPED[f"demo_{name}.yaml"]])) for name in ("toy", "hate_speech"))]


def places(values, path=()):
    """Return the path of everything in nested values."""
    found = [path] if path else []
    items = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, value in items:
        found += places(value, (*path, key))
    return found


def reached(values, path):
    for key in path:
        values = values[key]
    return values


@st.composite
def mutated_studies(draw):
    result = copy.deepcopy(STUDIES[draw(st.sampled_from([0, 0, 0, 1, 2]))])
    for _ in range(draw(st.integers(1, 3))):
        found = places(result)
        if not found:
            break
        *path, last = draw(st.sampled_from(found))
        target = reached(result, path)
        change = draw(st.sampled_from(["value", "value", "delete", "rename", "add", "copy"]))
        if change == "value":
            target[last] = draw(values)
        elif change == "delete":
            del target[last]
        elif change == "copy":
            target[last] = copy.deepcopy(reached(result, draw(st.sampled_from(found))))
        elif isinstance(target, dict):
            name = draw(st.text(max_size=6) | st.sampled_from([str(place[-1]) for place in found]))
            target[name] = target.pop(last) if change == "rename" else draw(values)
    return result


def planned(layers):
    """Ask for what the rules ask for."""
    plan = Plan(load_study(layers))
    plan.check()
    assert plan.report.tables is not None
    assert plan.report.figures is not None
    for run in plan.runs:
        plan.data(run)
        plan.start(run)
        plan.minutes(run)


@pytest.mark.parametrize("times", EXAMPLES)
def test_mutated_configuration_is_read_or_refused(times, monkeypatch):
    monkeypatch.chdir(ROOT)  # where the files are that configurations name

    @drawn(100 * times)
    @given(mutated_studies())
    def check(values):
        with contextlib.suppress(ProjectError):
            planned([("mutated.yaml", values)])

    check()
