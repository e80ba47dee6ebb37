import json
import runpy
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from run_records import MODELS, write_baseline, write_run

from lib.core.errors import DataError
from lib.core.program import run as run_program
from lib.results.published import published
from lib.results.records import load_baselines, load_histories, load_runs
from lib.results.tables import baseline_table, f1_table, stage_table, token_lengths_table

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/table.py"
DATASETS = ["imdb", "arxiv"]


def test_runs_are_one_tidy_row_each(tmp_path):
    runs = load_runs([write_run(tmp_path, "finetune", "sdpa", "imdb", seed=7, test_f1_macro=0.5)])
    row = runs.iloc[0]
    assert [row["stage"], row["model"], row["dataset"], row["seed"]] == ["finetune", "sdpa", "imdb", 7]
    assert row["test_f1_macro"] == 0.5
    assert row["parameters_total"] == 100
    assert row["peak_memory_kind"] == "resident"


def test_histories_carry_the_key_of_their_run(tmp_path):
    folders = [write_run(tmp_path, "tapt", model, "imdb") for model in ("sdpa", "favor-m64")]
    histories = load_histories(folders)
    assert histories["model"].tolist() == ["sdpa", "sdpa", "favor-m64", "favor-m64"]
    assert histories["epoch"].tolist() == [1, 2, 1, 2]
    (folders[0] / "history.csv").unlink()
    with pytest.raises(DataError, match=r"history\.csv: cannot be read"):
        load_histories(folders)


def test_every_missing_or_broken_record_is_named(tmp_path):
    good = write_run(tmp_path, "finetune", "sdpa", "imdb")
    broken = write_run(tmp_path, "finetune", "lsh-h2-c64", "imdb")
    (broken / "run.json").write_text("{")
    with pytest.raises(DataError) as error:
        load_runs([good, tmp_path / "absent", broken])
    assert "absent" in str(error.value)
    assert "lsh-h2-c64" in str(error.value)


def test_the_same_run_twice_is_refused(tmp_path):
    folder = write_run(tmp_path, "finetune", "sdpa", "imdb")
    with pytest.raises(DataError, match="records of the same run"):
        load_runs([folder, folder])


def test_stage_table(tmp_path):
    figures = {"peak_memory_mb": 2048.0, "seconds_per_epoch": 90.0, "train_loss": 2.34567}
    runs = load_runs(
        [write_run(tmp_path, "tapt", model, dataset, **figures) for model in MODELS for dataset in DATASETS]
    )
    table = stage_table(runs, "tapt", MODELS[::-1], DATASETS)
    read = pd.read_csv(StringIO(table.to_csv()))
    assert read["model"].tolist() == MODELS[::-1]
    assert read.columns.tolist() == [
        "model",
        "imdb_peak_memory_gib",
        "imdb_minutes_per_epoch",
        "imdb_loss",
        "arxiv_peak_memory_gib",
        "arxiv_minutes_per_epoch",
        "arxiv_loss",
        "memory_kind",
    ]
    assert read.iloc[0, 1:].tolist() == [2.0, 1.5, 2.346, 2.0, 1.5, 2.346, "resident"]
    assert "| imdb loss |" in " ".join(table.to_markdown().splitlines()[0].split())


def test_kinds_of_memory_are_told_apart(tmp_path):
    folders = [
        write_run(tmp_path, "pretrain", "sdpa", "wikipedia", peak_memory_kind="gpu"),
        write_run(tmp_path, "pretrain", "favor-m64", "wikipedia"),
    ]
    frame = stage_table(load_runs(folders), "pretrain", ["sdpa", "favor-m64"], ["wikipedia"]).frame
    assert frame["memory_kind"].tolist() == ["gpu", "resident"]


def test_f1_table_with_one_seed(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", model, dataset, test_f1_macro=0.9 + row / 1000 + column / 100)
        for row, model in enumerate(MODELS)
        for column, dataset in enumerate(DATASETS)
    ]
    baselines = load_baselines([write_baseline(tmp_path, dataset, 0.895) for dataset in DATASETS])
    table = f1_table(load_runs(folders), baselines, MODELS, DATASETS)
    assert table.to_csv() == (
        "model,imdb,arxiv\n"
        "tfidf,89.50,89.50\n"
        "sdpa,90.00,91.00\n"
        "lsh-h2-c64,90.10,91.10\n"
        "lsh-h4-c64,90.20,91.20\n"
        "favor-m64,90.30,91.30\n"
    )


def test_f1_table_with_several_seeds(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed=seed, test_f1_macro=score)
        for seed, score in enumerate((0.90, 0.92, 0.94))
    ]
    table = f1_table(load_runs(folders), {"imdb": {"metrics": {"test_f1_macro": 0.895}}}, ["sdpa"], ["imdb"])
    assert table.to_csv() == "model,imdb,imdb_sd\ntfidf,89.50,\nsdpa,92.00,2.00\n"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.to_markdown().splitlines()]
    assert cells[0] == ["model", "imdb F1 [%]"]
    assert cells[2:] == [["tfidf", "89.50"], ["sdpa", "92.00 ± 2.00"]]


def test_published_values_stand_beside_ours_where_there_are_any(tmp_path):
    folders = [write_run(tmp_path, "pretrain", model, "wikipedia") for model in ("sdpa", "favor-m1024")]
    table = stage_table(load_runs(folders), "pretrain", ["sdpa", "favor-m1024"], ["wikipedia"], show_published=True)
    assert table.frame["wikipedia_loss_published"].tolist()[0] == 2.157
    assert pd.isna(table.frame["wikipedia_loss_published"].tolist()[1])
    assert "NVIDIA A100" in table.to_markdown()
    assert "published" not in stage_table(load_runs(folders), "pretrain", ["sdpa"], ["wikipedia"]).to_csv()


def test_published_grid_is_complete():
    counts = published().groupby("stage").size()
    assert counts.to_dict() == {"pretrain": 9, "tapt": 27, "finetune": 30}
    trained = published().query("model != 'tfidf'")
    assert trained[["peak_memory_gib", "minutes_per_epoch"]].notna().all(axis=None)
    assert (trained["loss"].notna() ^ trained["f1_macro_percent"].notna()).all()


def test_holes_are_all_named(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed=1),
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed=2),
        write_run(tmp_path, "finetune", "favor-m64", "imdb", seed=1),
        write_run(tmp_path, "tapt", "favor-m64", "imdb", seed=2),
    ]
    with pytest.raises(DataError) as error:
        stage_table(load_runs(folders), "finetune", ["sdpa", "lsh-h2-c64", "favor-m64"], ["imdb"])
    for hole in (
        "finetune/lsh-h2-c64/imdb/seed-1",
        "finetune/lsh-h2-c64/imdb/seed-2",
        "finetune/favor-m64/imdb/seed-2",
    ):
        assert f"{hole}: no record" in str(error.value)
    assert "sdpa" not in str(error.value)
    with pytest.raises(DataError, match="pretrain/sdpa/wikipedia/seed-any: no record"):
        stage_table(load_runs([]), "pretrain", ["sdpa"], ["wikipedia"])


def test_a_record_without_the_figure_is_a_hole(tmp_path):
    runs = load_runs([write_run(tmp_path, "tapt", "sdpa", "imdb", train_loss=None)])
    with pytest.raises(DataError, match="tapt/sdpa/imdb/seed-0: no value of train_loss"):
        stage_table(runs, "tapt", ["sdpa"], ["imdb"])


def test_a_missing_baseline_is_named(tmp_path):
    runs = load_runs([write_run(tmp_path, "finetune", "sdpa", dataset) for dataset in DATASETS])
    baselines = load_baselines([write_baseline(tmp_path, "imdb", 0.8)])
    with pytest.raises(DataError, match="no baseline of arxiv"):
        f1_table(runs, baselines, ["sdpa"], DATASETS)
    with pytest.raises(DataError, match=r"report\.json: not a baseline's report"):
        load_baselines([tmp_path])


def test_baseline_table(tmp_path):
    (report,) = load_baselines([write_baseline(tmp_path, "imdb", 0.895)]).values()
    assert baseline_table(report).to_csv() == (
        "label,precision,recall,f1,support\n"
        "negative,90.00,88.00,88.99,50\n"
        "positive,89.00,91.00,89.99,50\n"
        "accuracy,89.60,89.60,89.60,100\n"
        "macro average,89.40,89.30,89.50,100\n"
    )


def test_token_lengths_table(tmp_path):
    entry = {"documents": 3, "mean": 12.25, "std": 1.5, "median": 12.0, "min": 10, "max": 16}
    nothing = {"documents": 0} | dict.fromkeys(("mean", "std", "median", "min", "max"))
    path = tmp_path / "token_lengths.json"
    path.write_text(json.dumps({"train_short": entry, "test": nothing}))
    assert token_lengths_table({"wikipedia": path}).to_csv() == (
        "corpus,split,documents,mean,std,median,min,max\n"
        "wikipedia,train_short,3,12.2,1.5,12.0,10,16\n"
        "wikipedia,test,0,,,,,\n"
    )
    path.write_text(json.dumps({"train": {}}))
    with pytest.raises(DataError, match="not token lengths"):
        token_lengths_table({"wikipedia": path})


def test_program_writes_both_forms_or_nothing(tmp_path):
    main = runpy.run_path(str(PROGRAM))["main"]
    folder = write_run(tmp_path, "finetune", "sdpa", "imdb", test_f1_macro=0.9)
    baseline = write_baseline(tmp_path, "imdb", 0.895)
    out = ["--csv", str(tmp_path / "t/f1.csv"), "--markdown", str(tmp_path / "t/f1.md")]
    inputs = ["--runs", str(folder), "--baselines", str(baseline), "--datasets", "imdb", "--models"]
    assert run_program(main, ["f1", *inputs, "sdpa", "favor-m64", *out]) == 1
    assert not (tmp_path / "t").exists()
    assert run_program(main, ["f1", *inputs, "sdpa", *out]) == 0
    assert (tmp_path / "t/f1.csv").read_text() == "model,imdb\ntfidf,89.50\nsdpa,90.00\n"
    assert (tmp_path / "t/f1.md").read_text().startswith("| model")

    out = ["--csv", str(tmp_path / "t/b.csv"), "--markdown", str(tmp_path / "t/b.md")]
    assert run_program(main, ["baseline", "--baselines", str(baseline), *out]) == 0
    assert (tmp_path / "t/b.csv").read_text().startswith("label,")
