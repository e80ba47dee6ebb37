import pandas as pd
import pytest
from run_records import MODELS, write_baseline, write_geometry, write_run

from lib.core.errors import DataError
from lib.core.record import GEOMETRY, HISTORY, RUN
from lib.results.records import load_runs, load_tables, select_grid, shared_note


def test_runs_are_one_tidy_row_each(tmp_path):
    runs = load_runs([write_run(tmp_path, "finetune", "sdpa", "imdb", seed=7, test_f1_macro=0.5)])
    row = runs.iloc[0]
    assert [row["stage"], row["model"], row["dataset"], row["seed"]] == ["finetune", "sdpa", "imdb", 7]
    assert row["test_f1_macro"] == 0.5
    assert row["parameters_total"] == 100
    assert row["peak_memory_kind"] == "resident"
    assert row["training_seconds"] == row["seconds"] == 120


def test_a_run_without_a_training_loop_has_no_time_of_training(tmp_path):
    row = load_runs([write_baseline(tmp_path, "imdb", 0.8)]).iloc[0]
    assert (row["seconds"], row["training_seconds"]) == (120, None)


def test_every_missing_or_broken_record_is_named(tmp_path):
    good = write_run(tmp_path, "finetune", "sdpa", "imdb")
    broken = write_run(tmp_path, "finetune", "lsh-h2-c64", "imdb")
    (broken / "run.json").write_text("{")
    with pytest.raises(DataError) as error:
        load_runs([good, tmp_path / "absent", broken])
    assert "absent" in str(error.value)
    assert "lsh-h2-c64" in str(error.value)
    assert "sdpa" not in str(error.value)


def test_the_same_run_twice_is_refused(tmp_path):
    folder = write_run(tmp_path, "finetune", "sdpa", "imdb")
    with pytest.raises(DataError, match="seed-"):
        load_runs([folder, folder])


# Histories


def test_histories_are_one_row_per_epoch_of_what_trained(tmp_path):
    folders = [write_run(tmp_path, "tapt", "sdpa", "imdb", seed=seed) for seed in (1, 2)]
    folders.append(write_baseline(tmp_path, "imdb", 0.8))
    (folders[1] / "history.csv").write_text("epoch,train_loss,eval_loss\n1,2.5,2.25\n2,1.5,1.75\n")
    histories = load_tables(load_runs(folders), HISTORY)
    assert histories[["stage", "model", "dataset"]].drop_duplicates().to_numpy().tolist() == [["tapt", "sdpa", "imdb"]]
    shown = histories[["seed", "epoch", "train_loss"]].to_numpy().tolist()
    assert shown == [[1, 1, 3.5], [1, 2, 3.0], [2, 1, 2.5], [2, 2, 1.5]]
    assert histories["eval_loss"].isna().tolist() == [True, True, False, False]


def test_tables_of_geometry_are_those_of_what_trained(tmp_path):
    folders = [
        write_geometry(write_run(tmp_path, "tapt", "sdpa", "imdb", seed=seed), {"symmetry": seed}, {"head": 0})
        for seed in (1, 2)
    ]
    geometries = load_tables(load_runs([*folders, write_baseline(tmp_path, "imdb", 0.8)]), GEOMETRY, {"head": str})
    assert geometries[["seed", "head"]].to_numpy().tolist() == [[1, "all"], [1, "0"], [2, "all"], [2, "0"]]
    (folders[1] / "geometry.csv").unlink()
    with pytest.raises(DataError, match=r"seed-2/geometry.csv"):
        load_tables(load_runs(folders), GEOMETRY, {"head": str})


def test_every_missing_or_empty_history_is_named(tmp_path):
    folders = [write_run(tmp_path, "tapt", model, "imdb") for model in MODELS[:3]]
    (folders[0] / "history.csv").unlink()
    (folders[1] / "history.csv").write_text("")
    with pytest.raises(DataError) as error:
        load_tables(load_runs(folders), HISTORY)
    for folder in folders[:2]:
        assert f"{folder / 'history.csv'}: not a table" in str(error.value)
    assert MODELS[2] not in str(error.value)


def test_where_nothing_trained_there_is_no_history(tmp_path):
    histories = load_tables(load_runs([write_baseline(tmp_path, "imdb", 0.8)]), HISTORY)
    assert histories.empty
    assert list(histories) == ["stage", "model", "dataset", "variant", "seed", "epoch"]


# Grids


def test_holes_are_all_named(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed=1),
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed=2),
        write_run(tmp_path, "finetune", "favor-m64", "imdb", seed=1),
        write_run(tmp_path, "tapt", "favor-m64", "imdb", seed=2),
    ]
    with pytest.raises(DataError) as error:
        select_grid(load_runs(folders), "finetune", {"imdb": ["sdpa", "lsh-h2-c64", "favor-m64"]}, ["test_f1_macro"])
    for hole in (
        "finetune/lsh-h2-c64/imdb/seed-1",
        "finetune/lsh-h2-c64/imdb/seed-2",
        "finetune/favor-m64/imdb/seed-2",
    ):
        assert f"{hole}: no record" in str(error.value)
    assert "sdpa" not in str(error.value)
    with pytest.raises(DataError, match="pretrain/sdpa/wikipedia/seed-any"):
        select_grid(load_runs([]), "pretrain", {"wikipedia": ["sdpa"]}, ["train_loss"])


def test_a_record_without_the_figure_is_a_hole_unless_nothing_is_trained(tmp_path):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", seconds_per_epoch=None)]
    folders.append(write_baseline(tmp_path, "imdb", 0.8))
    arguments = load_runs(folders), "finetune", {"imdb": ["sdpa", "tfidf"]}
    with pytest.raises(DataError, match=r"^(?!.*tfidf).*finetune/sdpa/imdb/seed-0.*seconds_per_epoch"):
        select_grid(*arguments, ["seconds_per_epoch"])
    assert len(select_grid(*arguments, ["seconds"])) == 2


@pytest.mark.parametrize("column", ["f11", "test_f1_makro", "second", "f1"])
def test_a_column_that_no_run_has_is_named_with_those_that_they_have(column, tmp_path):
    runs = load_runs([write_run(tmp_path, "finetune", model, "imdb") for model in ("sdpa", "favor-m64")])
    cells = "finetune", {"imdb": ["sdpa", "favor-m64"]}
    with pytest.raises(DataError, match=f"No run has {column}: name a quantity such as f1, or of .*test_f1_macro"):
        select_grid(runs, *cells, ["seconds", column])
    with pytest.raises(DataError, match=r"leave their models or datasets out\.$"):
        select_grid(runs, "finetune", {"imdb": ["sdpa", "lsh-h2-c64"]}, ["seconds"])


def test_a_cell_of_two_runs_is_named():
    """As foreign records may have it; our own are refused before."""
    row = {"stage": "finetune", "model": "sdpa", "dataset": "imdb", "variant": "", "seed": 1}
    with pytest.raises(DataError, match="finetune/sdpa/imdb/seed-1: 2 "):
        select_grid(pd.DataFrame([row, row]), "finetune", {"imdb": ["sdpa"]}, [])


def test_the_score_of_a_run_bears_the_name_of_its_metric(tmp_path):
    runs = load_runs(
        [
            write_run(tmp_path, "find", "sdpa", "posts", test_f1=0.5, eval_f1=0.6),
            write_run(tmp_path, "finetune", "sdpa", "imdb", test_f1_macro=0.7),
        ]
    )
    assert runs["score"].tolist() == ["f1", "f1_macro"]
    assert runs["test_score"].tolist() == [0.5, 0.7]
    assert runs["eval_score"].tolist() == [0.6, 0.8]
    assert runs["test_f1_macro"].isna().tolist() == [True, False], "no metric stands under the name of another"


def test_texts_of_training_in_test_are_said_below_tables(tmp_path):
    shares = {"posts": {"test": 0.374, "validation": 0.1}, "films": {"test": 0.0}, "tweets": {}}
    files = [write_run(tmp_path, "finetune", "sdpa", name, shared=share) / RUN for name, share in shares.items()]
    assert shared_note(files) == "Test documents whose text is in training, too: posts 37.4 %."
    assert shared_note(files[1:]) is None


def test_a_single_text_of_training_in_many_of_test_is_no_zero(tmp_path):
    file = write_run(tmp_path, "finetune", "sdpa", "posts", shared={"test": 0.0003}) / RUN
    assert shared_note([file]) == "Test documents whose text is in training, too: posts less than 0.1 %."
