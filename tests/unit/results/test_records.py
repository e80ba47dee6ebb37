import pytest
from run_records import write_baseline, write_run

from lib.core.errors import DataError
from lib.core.record import HISTORY, RUN
from lib.results.records import conditions_note, load_runs, load_tables, select_grid, shared_note


def test_records_missing_or_broken(tmp_path):
    good = write_run(tmp_path, "finetune", "sdpa", "imdb")
    broken = write_run(tmp_path, "finetune", "lsh-h2-c64", "imdb")
    (broken / "run.json").write_text("{")
    with pytest.raises(DataError) as error:
        load_runs([good, tmp_path / "absent", broken])
    assert "absent" in str(error.value)
    assert "lsh-h2-c64" in str(error.value)
    assert "sdpa" not in str(error.value)


def test_run_named_twice(tmp_path):
    folder = write_run(tmp_path, "finetune", "sdpa", "imdb")
    with pytest.raises(DataError, match="seed-"):
        load_runs([folder, folder])


# Histories


def test_histories_as_rows(tmp_path):
    folders = [write_run(tmp_path, "tapt", "sdpa", "imdb", seed=seed) for seed in (1, 2)]
    folders.append(write_baseline(tmp_path, "imdb", 0.8))
    (folders[1] / "history.csv").write_text("epoch,train_loss,eval_loss\n1,2.5,2.25\n2,1.5,1.75\n")
    histories = load_tables(load_runs(folders), HISTORY)
    assert histories[["stage", "model", "dataset"]].drop_duplicates().to_numpy().tolist() == [["tapt", "sdpa", "imdb"]]
    shown = histories[["seed", "epoch", "train_loss"]].to_numpy().tolist()
    assert shown == [[1, 1, 3.5], [1, 2, 3.0], [2, 1, 2.5], [2, 2, 1.5]]
    assert histories["eval_loss"].isna().tolist() == [True, True, False, False]


# Grids


def test_values_missing_in_a_grid(tmp_path):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", seconds_per_epoch=None)]
    folders.append(write_baseline(tmp_path, "imdb", 0.8))
    arguments = load_runs(folders), "finetune", {"imdb": ["sdpa", "tfidf"]}
    with pytest.raises(DataError, match=r"^(?!.*tfidf).*finetune/sdpa/imdb/seed-0.*seconds_per_epoch"):
        select_grid(*arguments, ["seconds_per_epoch"])
    assert len(select_grid(*arguments, ["seconds"])) == 2


def test_score_by_its_metric(tmp_path):
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


def test_shared_texts_below_tables(tmp_path):
    shares = {"posts": {"test": 0.374, "validation": 0.1}, "films": {"test": 0.0}, "tweets": {}}
    files = [write_run(tmp_path, "finetune", "sdpa", name, shared=share) / RUN for name, share in shares.items()]
    assert shared_note(files) == "Test documents whose text is in training, too: posts 37.4 %."
    assert shared_note(files[1:]) is None


def test_note_on_conditions(tmp_path):
    """Machine and precision count among trainings of one stage on one dataset."""
    alike = {"hardware": "A100", "precision": "fp32", "instruction_set": "AVX2", "versions": {"torch": "2.9"}}

    def note(**changes):
        other_stage = alike | {"hardware": "H200", "precision": "bf16"}
        folders = [
            write_run(tmp_path, "finetune", "sdpa", "imdb", **alike),
            write_run(tmp_path, "finetune", "gru", "imdb", **alike | changes),
            write_run(tmp_path, "tapt", "sdpa", "imdb", **other_stage),
            write_baseline(tmp_path, "imdb", 0.5, **other_stage),
        ]
        return conditions_note([folder / RUN for folder in folders])

    assert note() is None
    assert "torch 2.9 (sdpa, tfidf), torch 2.10 (gru)" in note(versions={"torch": "2.10"})
    assert "AVX2 (sdpa, tfidf), AVX512 (gru)" in note(instruction_set="AVX512")
    assert "A100 (sdpa), A100, 2 processes (gru)" in note(processes=2)
    assert "fp32 (sdpa), bf16 (gru)" in note(precision="bf16")
    stretch = {"device": "cpu", "hardware": "A100", "threads": 4, "processes": 1, "instruction_set": "AVX2"}
    stretches = [stretch | {"step": step, "versions": {"torch": str(step)}, "execution": {}} for step in (0, 8)]
    assert "finetune/gru/imdb/seed-0 (from step 0: torch 0; from step 8: torch 8)" in note(stretches=stretches)
