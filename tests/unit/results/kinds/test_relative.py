import itertools

import pytest
from pydantic import ValidationError
from run_records import scope_of, write_baseline, write_run

from lib.results.settings import TABLES
from lib.results.table import Key

STAGES = {"pretrain": ["wikipedia"], "tapt": ["imdb", "arxiv"], "finetune": ["imdb", "arxiv"]}


def parsed(stage, column):
    return TABLES.parse({"kind": "relative", "stage": stage, "column": column})


def test_times_add_up_and_the_greatest_memory_counts(tmp_path):
    """Worked out by hand: 100 + 100 s against 50 + 50 s, 100 + 20 s against 60 + 20 s; 3 GiB at most against 2 GiB."""
    values = {
        ("sdpa", "pretrain", "wikipedia"): (200, 1024),
        ("sdpa", "tapt", "imdb"): (100, 2048),
        ("sdpa", "finetune", "imdb"): (100, 512),
        ("sdpa", "tapt", "arxiv"): (60, 2048),
        ("sdpa", "finetune", "arxiv"): (20, 512),
        ("lsh", "pretrain", "wikipedia"): (250, 1024),
        ("lsh", "tapt", "imdb"): (50, 3072),
        ("lsh", "finetune", "imdb"): (50, 2560),
        ("lsh", "tapt", "arxiv"): (100, 1024),
        ("lsh", "finetune", "arxiv"): (20, 2048),
    }
    folders = [
        write_run(tmp_path, stage, model, dataset, seconds=float(seconds), peak_memory_mb=float(memory))
        for (model, stage, dataset), (seconds, memory) in values.items()
    ]
    scope = scope_of(folders, STAGES, ["sdpa", "lsh"], reference="sdpa")
    groups = ["pretrain", ["tapt", "finetune"]]
    time = parsed(groups, "total_minutes").make(scope)
    assert time.to_csv() == "model,pretrain_wikipedia,tapt_finetune_imdb,tapt_finetune_arxiv\nlsh,+25.0,-50.0,+50.0\n"
    assert time.columns[Key(("tapt", "finetune", "imdb"))].label == "tapt + finetune/imdb time against sdpa [%]"
    assert time.note is None
    assert parsed(groups, "memory").make(scope).to_csv().splitlines()[1] == "lsh,0.0,+50.0,0.0"


def test_a_single_group_bears_the_names_of_the_datasets_and_seeds_are_averaged(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", model, "imdb", seed=seed, seconds=seconds)
        for model, both in (("sdpa", (100.0, 300.0)), ("lsh", (100.0, 500.0)))
        for seed, seconds in enumerate(both)
    ]
    scope = scope_of(folders, {"finetune": ["imdb"]}, ["lsh"], reference="sdpa")
    assert parsed(["finetune"], "total_minutes").make(scope).to_csv() == "model,imdb\nlsh,+50.0\n"


def test_a_stage_that_does_not_work_on_a_dataset_is_not_in_its_columns_name(tmp_path):
    folders = [
        write_run(tmp_path, stage, model, dataset, seconds=seconds)
        for model, seconds in (("sdpa", 100.0), ("lsh", 125.0))
        for stage, dataset in (("pretrain", "wikipedia"), ("finetune", "imdb"))
    ]
    scope = scope_of(folders, {"pretrain": ["wikipedia"], "finetune": ["imdb"]}, ["lsh"], reference="sdpa")
    table = parsed([["pretrain", "finetune"], "finetune"], "total_minutes").make(scope)
    assert table.to_csv().splitlines()[0] == "model,pretrain_wikipedia,finetune_imdb"


def test_weights_are_compared_whatever_the_hardware(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", model, "imdb", parameters={"total": total}, hardware=model)
        for model, total in (("sdpa", 1000), ("lsh", 963))
    ]
    scope = scope_of(folders, {"finetune": ["imdb"]}, ["lsh"], reference="sdpa")
    assert parsed(["finetune"], "parameters").make(scope).to_csv() == "model,imdb\nlsh,-3.7\n"


def test_what_cannot_be_compared_is_a_gap_with_its_reason(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", "sdpa", "imdb", hardware="A100", peak_memory_kind="gpu"),
        write_run(tmp_path, "finetune", "lsh", "imdb", hardware="H200", peak_memory_kind="gpu", peak_memory_mb=512.0),
        write_run(tmp_path, "finetune", "favor", "imdb", hardware="A100", seconds=30.0),
        write_baseline(tmp_path, "imdb", 0.8, hardware="A100"),
    ]
    scope = scope_of(folders, {"finetune": ["imdb"]}, ["tfidf", "sdpa", "lsh", "favor"], reference="sdpa")
    time = parsed(["finetune"], "total_minutes").make(scope)
    assert time.to_csv() == "model,imdb\ntfidf,\nlsh,\nfavor,-75.0\n"
    assert time.note == "A dash: no training, or one on other hardware than that of sdpa."
    memory = parsed(["finetune"], "memory").make(scope)
    assert memory.to_csv() == "model,imdb\ntfidf,\nlsh,-50.0\nfavor,\n"
    assert memory.note == "A dash: memory of another kind than that of sdpa."


def test_a_group_without_stages_and_an_unknown_column_are_refused():
    with pytest.raises(ValidationError, match="stage = "):
        parsed(["pretrain", []], "memory")
    with pytest.raises(ValidationError, match="memory"):
        parsed(["pretrain"], "minutes")


def seconds_of(folder, where, **processes):
    """Write runs of two stages with two seeds, of each model on the machines of `where`, by stage and seed."""
    return [
        write_run(
            folder, stage, model, "imdb", seed, hardware=machine, seconds=100.0, processes=processes.get(model, 1)
        )
        for model, machines in where.items()
        for (stage, seed), machine in zip(itertools.product(("tapt", "finetune"), (0, 1)), machines, strict=True)
    ]


def time_against(folders):
    scope = scope_of(folders, {"tapt": ["imdb"], "finetune": ["imdb"]}, ["lsh"], reference="sdpa")
    return parsed([["tapt", "finetune"]], "total_minutes").make(scope).to_csv().splitlines()[1]


@pytest.mark.parametrize("machines", [("A100", "H200", "H200", "H200"), ("H200", "H200", "A100", "A100")])
def test_times_on_several_machines_are_compared_where_the_same_runs_were_on_each(tmp_path, machines):
    where = {"sdpa": ("A100", "A100", "H200", "H200")}
    assert time_against(seconds_of(tmp_path / "other", where | {"lsh": machines})) == "lsh,"
    assert time_against(seconds_of(tmp_path / "same", where | {"lsh": where["sdpa"]})) == "lsh,0.0"


def test_times_of_several_gpus_are_not_compared_with_those_of_one(tmp_path):
    where = dict.fromkeys(("sdpa", "lsh"), ("A100",) * 4)
    assert time_against(seconds_of(tmp_path / "other", where, lsh=2)) == "lsh,"
    assert time_against(seconds_of(tmp_path / "same", where, sdpa=2, lsh=2)) == "lsh,0.0"
