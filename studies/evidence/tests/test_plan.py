"""Placed documents in the plan."""

import pytest
from small_plans import key, plan

from lib.core.errors import ConfigError

pytestmark = pytest.mark.extended

PLACEMENT = {"corpus": "wikipedia", "place": "middle", "words": 300}


def test_plan_after_a_placement():
    without, made = plan(), plan(("datasets/imdb/placement", PLACEMENT))
    placed = {split: f"results/data/imdb/placed/{split}.parquet" for split in ("train", "validation", "test")}
    assert made.data(made.run(key("finetune", "tfidf"))) == placed
    assert {split: made.corpora.documents("imdb", split) for split in placed} == placed
    assert made.corpora.documents("arxiv", "test") == "results/data/arxiv/prepared/test.parquet"
    for run in made.runs:
        assert run.settings == without.run(run.id).settings
    datasets = made.experiment.datasets["imdb"], without.experiment.datasets["imdb"]
    assert datasets[0].preparation == datasets[1].preparation
    assert "placement" not in datasets[1].model_dump()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"corpus": "imdb"}, r"datasets.imdb.placement.corpus: there is no 'imdb'. Known: wikipedia"),
        ({"place": "top"}, r"datasets.imdb.placement.place"),
        ({"words": 0}, r"datasets.imdb.placement.words"),
    ],
)
def test_placement_refused(change, error):
    with pytest.raises(ConfigError, match=error):
        plan(("datasets/imdb/placement", PLACEMENT | change))
