import pytest
from run_records import scope_of, write_baseline, write_run

from lib.core.errors import DataError
from lib.results.settings import TABLES

SETTINGS = TABLES.parse({"kind": "parameters", "stage": "finetune"})
STAGES = {"finetune": ["imdb"]}
PARTS = {"embeddings": 50, "attention": 20, "feed_forward": 15, "norms": 5}


def test_weights_by_part_in_order_and_gaps_for_what_a_model_does_not_have(tmp_path):
    folders = [
        write_run(
            tmp_path,
            "finetune",
            "sdpa",
            "imdb",
            seed=seed,
            parameters={"head": 10, **PARTS, "backbone": 90, "total": 100},
        )
        for seed in (1, 2)
    ]
    folders += [write_baseline(tmp_path, "imdb", 0.9, seed=seed, parameters={"total": 7}) for seed in (1, 2)]
    table = SETTINGS.make(scope_of(folders, STAGES, ["tfidf", "sdpa"]))
    assert table.to_csv() == (
        "model,embeddings,attention,feed_forward,norms,backbone,head,total\ntfidf,,,,,,,7\nsdpa,50,20,15,5,90,10,100\n"
    )
    assert table.columns["total"].label == "all"


def test_a_record_that_counts_no_parts_leaves_them_empty(tmp_path):
    folders = [
        write_run(
            tmp_path, "finetune", "gru", "imdb", parameters={"total": 30, "backbone": 25, "recurrence": 25, "head": 5}
        ),
        write_run(tmp_path, "finetune", "old", "imdb"),
    ]
    assert SETTINGS.make(scope_of(folders, STAGES, ["gru", "old"])).to_csv() == (
        "model,recurrence,backbone,head,total\ngru,25,25,5,30\nold,,90,10,100\n"
    )


def test_a_record_without_weights_is_named(tmp_path):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", parameters={})]
    with pytest.raises(DataError, match="finetune/sdpa/imdb/seed-0.*parameters_total"):
        SETTINGS.make(scope_of(folders, STAGES, ["sdpa"]))
