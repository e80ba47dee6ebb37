"""Pictures in the plan."""

import json

import pytest
from small_plans import reported

from lib.results.scope import scope as read_scope

pytestmark = pytest.mark.extended


def test_plan_of_pictures():
    made = reported(figures={"pictures": {"kind": "pictures", "datasets": ["imdb"]}})
    shown = made.report.figures["pictures"]["scope"]
    assert made.report.inputs(shown) == ["results/data/imdb/prepared/test.parquet"]
    scope = read_scope(json.loads(json.dumps(shown)), made.report.inputs(shown))
    shown = [(name, list(labels), split) for name, labels, split in scope.documents]
    assert shown == [("imdb", ["no", "yes"], "test")]
