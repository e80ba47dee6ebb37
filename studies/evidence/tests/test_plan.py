"""Placed documents in the plan."""

import pytest
from small_plans import key, plan, reported

from lib.core.errors import ConfigError

PLACEMENT = {"corpus": "wikipedia", "place": "middle", "words": 300}


def test_what_comes_after_a_placement_reads_what_it_leaves():
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
def test_a_placement_that_cannot_be_made_is_refused(change, error):
    with pytest.raises(ConfigError, match=error):
        plan(("datasets/imdb/placement", PLACEMENT | change))


def test_a_placement_of_copies_or_of_labelled_words_is_refused():
    augmentation = {"labels": ["yes"], "by": "synonyms", "synonyms": {"local": "wordnet"}}
    with pytest.raises(ConfigError, match=r"placement: places single texts with a label"):
        plan(("datasets/imdb/placement", PLACEMENT), ("datasets/imdb/augmentation", augmentation))
    with pytest.raises(ConfigError, match=r"placement: places single texts with a label"):
        plan(("datasets/imdb/placement", PLACEMENT), ("datasets/imdb/label_per", "word"))


def test_tables_say_that_placed_documents_are_in_no_corpus():
    made = reported(("datasets/imdb/placement", PLACEMENT), tables={"f1": {"stage": "finetune", "columns": ["f1"]}})
    scope = made.report.tables["f1"]["scope"]
    assert "imdb" in scope["generated"]
