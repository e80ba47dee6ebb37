"""Pictures in the plan."""

import json

from small_plans import reported

from lib.results.scope import scope as read_scope


def test_documents_are_read_where_pictures_are_shown():
    made = reported(figures={"pictures": {"kind": "pictures", "datasets": ["imdb"]}})
    shown = made.report.figures["pictures"]["scope"]
    assert made.report.inputs(shown) == ["results/data/imdb/prepared/test.parquet"]
    scope = read_scope(json.loads(json.dumps(shown)), made.report.inputs(shown))
    shown = [(name, list(labels), split) for name, labels, split in scope.documents]
    assert shown == [("imdb", ["no", "yes"], "test")]
