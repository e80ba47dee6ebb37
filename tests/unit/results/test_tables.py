import json
import runpy
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from run_records import MODELS, write_baseline, write_group_predictions, write_predictions, write_run

from lib.core.errors import DataError
from lib.core.program import run as run_program
from lib.results.published import published
from lib.results.records import load_runs
from lib.results.tables import classes_table, groups_table, stage_table, token_lengths_table

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/table.py"
DATASETS = ["imdb", "arxiv"]
COSTS = ["memory", "minutes", "loss"]


def test_runs_are_one_tidy_row_each(tmp_path):
    runs = load_runs([write_run(tmp_path, "finetune", "sdpa", "imdb", seed=7, test_f1_macro=0.5)])
    row = runs.iloc[0]
    assert [row["stage"], row["model"], row["dataset"], row["seed"]] == ["finetune", "sdpa", "imdb", 7]
    assert row["test_f1_macro"] == 0.5
    assert row["parameters_total"] == 100
    assert row["peak_memory_kind"] == "resident"


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
    table = stage_table(runs, {"tapt": DATASETS}, COSTS, MODELS[::-1])
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
    frame = stage_table(load_runs(folders), {"pretrain": ["wikipedia"]}, COSTS, ["sdpa", "favor-m64"]).frame
    assert frame["memory_kind"].tolist() == ["gpu", "resident"]


def test_a_single_column_bears_the_names_of_the_datasets(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", model, dataset, test_f1_macro=0.9 + row / 1000 + column / 100)
        for row, model in enumerate(MODELS)
        for column, dataset in enumerate(DATASETS)
    ]
    folders += [write_baseline(tmp_path, dataset, 0.895) for dataset in DATASETS]
    table = stage_table(load_runs(folders), {"finetune": DATASETS}, ["f1"], ["tfidf", *MODELS])
    assert table.to_csv() == (
        "model,imdb,arxiv\n"
        "tfidf,89.50,89.50\n"
        "sdpa,90.00,91.00\n"
        "lsh-h2-c64,90.10,91.10\n"
        "lsh-h4-c64,90.20,91.20\n"
        "favor-m64,90.30,91.30\n"
    )


def cells_of(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.to_markdown().splitlines()]


def test_several_seeds_give_a_mean_and_a_deviation(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed=seed, test_f1_macro=score)
        for seed, score in enumerate((0.90, 0.92, 0.94))
    ]
    folders += [write_baseline(tmp_path, "imdb", 0.895, seed=seed) for seed in range(3)]
    table = stage_table(load_runs(folders), {"finetune": ["imdb"]}, ["f1"], ["tfidf", "sdpa"])
    assert table.to_csv() == "model,imdb,imdb_sd\ntfidf,89.50,0.00\nsdpa,92.00,2.00\n"
    cells = cells_of(table)
    assert cells[0] == ["model", "imdb F1 [%]"]
    assert cells[2:] == [["tfidf", "89.50 ± 0.00"], ["sdpa", "92.00 ± 2.00"]]


def test_a_run_that_does_not_train_has_no_minutes_and_no_loss(tmp_path):
    """Its row has a dash, and an empty cell in the CSV; a run that trains owes the value."""
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", train_loss=0.5), write_baseline(tmp_path, "imdb", 0.895)]
    columns = ["memory", "minutes", "loss", "f1"]
    table = stage_table(load_runs(folders), {"finetune": ["imdb"]}, columns, ["tfidf", "sdpa"])
    assert cells_of(table)[2:] == [
        ["tfidf", "1.00", "-", "-", "89.50", "resident"],
        ["sdpa", "1.00", "1.000", "0.500", "80.00", "resident"],
    ]
    assert table.to_csv().splitlines()[1:] == ["tfidf,1.00,,,89.50,resident", "sdpa,1.00,1.000,0.500,80.00,resident"]
    lacking = [folders[1], write_run(tmp_path, "finetune", "sdpa", "imdb", seconds_per_epoch=None)]
    with pytest.raises(DataError, match=r"^(?!.*tfidf).*finetune/sdpa/imdb/seed-0: no value of seconds_per_epoch"):
        stage_table(load_runs(lacking), {"finetune": ["imdb"]}, ["minutes"], ["tfidf", "sdpa"])


def test_any_metric_of_the_record_may_be_a_column(tmp_path):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", test_accuracy=0.87654321)]
    table = stage_table(load_runs(folders), {"finetune": ["imdb"]}, ["test_accuracy", "f1"], ["sdpa"])
    assert table.to_csv() == "model,imdb_test_accuracy,imdb_f1_macro_percent\nsdpa,0.8765,80.00\n"
    assert cells_of(table)[0] == ["model", "imdb test accuracy", "imdb F1 [%]"]
    with pytest.raises(DataError, match="finetune/sdpa/imdb/seed-0: no value of test_accurcy"):
        stage_table(load_runs(folders), {"finetune": ["imdb"]}, ["test_accurcy"], ["sdpa"])


def test_stages_of_one_dataset_each_stand_side_by_side(tmp_path):
    folders = [
        write_run(tmp_path, "reverse", model, "words", test_accuracy=score)
        for model, score in (("sdpa", 1), ("gru", 0.5))
    ]
    folders += [
        write_run(tmp_path, "brackets", model, "pairs", test_accuracy=score)
        for model, score in (("sdpa", 0.75), ("gru", 0.625))
    ]
    stages = {"brackets": ["pairs"], "reverse": ["words"]}
    table = stage_table(load_runs(folders), stages, ["accuracy"], ["sdpa", "gru"])
    assert table.to_csv() == "model,brackets,reverse\nsdpa,75.00,100.00\ngru,62.50,50.00\n"
    assert cells_of(table)[0] == ["model", "brackets accuracy [%]", "reverse accuracy [%]"]


def test_stages_of_several_datasets_are_told_apart(tmp_path):
    folders = [write_run(tmp_path, "tapt", "sdpa", dataset, train_loss=2.5) for dataset in DATASETS]
    folders += [write_run(tmp_path, "pretrain", "sdpa", "wikipedia", train_loss=3.5, peak_memory_kind="gpu")]
    stages = {"pretrain": ["wikipedia"], "tapt": DATASETS}
    table = stage_table(load_runs(folders), stages, ["loss"], ["sdpa"])
    assert table.to_csv() == "model,pretrain_wikipedia,tapt_imdb,tapt_arxiv\nsdpa,3.500,2.500,2.500\n"
    assert cells_of(table)[0] == ["model", "pretrain/wikipedia loss", "tapt/imdb loss", "tapt/arxiv loss"]
    costs = stage_table(load_runs(folders), stages, ["memory", "loss"], ["sdpa"])
    assert costs.to_csv().splitlines()[0].split(",")[3:5] == ["tapt_imdb_peak_memory_gib", "tapt_imdb_loss"]
    assert costs.frame["memory_kind"].tolist() == ["gpu, resident"]


def test_each_stage_finds_the_run_that_a_model_shares(tmp_path):
    folders = [
        write_run(tmp_path, "pretrain", model, "wikipedia", train_loss=loss) for model, loss in (("a", 1), ("c", 3))
    ]
    folders += [write_run(tmp_path, "tapt", model, "imdb", train_loss=loss) for model, loss in (("a", 4), ("b", 5))]
    owners = {"pretrain": {"c": "c", "b": "a", "a": "a"}, "tapt": {"c": "b", "b": "b", "a": "a"}}
    stages = {"pretrain": ["wikipedia"], "tapt": ["imdb"]}
    table = stage_table(load_runs(folders), stages, ["loss"], ["c", "b", "a"], owners=owners)
    assert table.to_csv() == "model,pretrain,tapt\nc,3.000,5.000\nb,1.000,5.000\na,1.000,4.000\n"
    owners["pretrain"]["c"] = "d"
    with pytest.raises(DataError, match="pretrain/d/wikipedia/seed-0: no record"):
        stage_table(load_runs(folders), stages, ["loss"], ["c", "b", "a"], owners=owners)


def test_a_quantity_is_owed_by_every_stage(tmp_path):
    folders = [write_run(tmp_path, "pretrain", "sdpa", "wikipedia"), write_run(tmp_path, "finetune", "sdpa", "imdb")]
    with pytest.raises(DataError, match="pretrain/sdpa/wikipedia/seed-0: no value of test_f1_macro"):
        stage_table(load_runs(folders), {"finetune": ["imdb"], "pretrain": ["wikipedia"]}, ["f1"], ["sdpa"])


def test_sizes_and_whole_trainings_have_no_deviation_and_scores_of_sequences_do(tmp_path):
    """A run that does not train has no time of training, though its record has seconds."""
    folders = [
        write_run(
            tmp_path,
            "finetune",
            "sdpa",
            "imdb",
            seed=seed,
            parameters={"total": 28_512_345},
            seconds=90.0 + 60 * seed,
            test_sequence_accuracy=0.5 + seed / 10,
        )
        for seed in (0, 1)
    ]
    folders += [write_baseline(tmp_path, "imdb", 0.9, seed=seed, test_sequence_accuracy=0.25) for seed in (0, 1)]
    columns = ["parameters", "total_minutes", "sequence_accuracy"]
    table = stage_table(load_runs(folders), {"finetune": ["imdb"]}, columns, ["sdpa", "tfidf"])
    assert table.to_csv() == (
        "model,imdb_parameters,imdb_minutes,imdb_sequence_accuracy_percent,imdb_sequence_accuracy_percent_sd\n"
        "sdpa,28512345,2.00,55.00,7.07\n"
        "tfidf,10,,25.00,0.00\n"
    )
    assert cells_of(table)[0] == ["model", "imdb parameters", "imdb time [min]", "imdb sequence accuracy [%]"]


def test_published_values_stand_beside_ours_where_there_are_any(tmp_path):
    folders = [write_run(tmp_path, "pretrain", model, "wikipedia") for model in ("sdpa", "favor-m1024")]
    table = stage_table(
        load_runs(folders), {"pretrain": ["wikipedia"]}, COSTS, ["sdpa", "favor-m1024"], show_published=True
    )
    assert table.frame["wikipedia_loss_published"].tolist()[0] == 2.157
    assert pd.isna(table.frame["wikipedia_loss_published"].tolist()[1])
    assert "NVIDIA A100" in table.to_markdown()
    parameters = stage_table(
        load_runs(folders), {"pretrain": ["wikipedia"]}, ["parameters"], ["sdpa"], show_published=True
    )
    assert parameters.to_csv() == "model,wikipedia\nsdpa,100\n"
    assert "published" not in stage_table(load_runs(folders), {"pretrain": ["wikipedia"]}, COSTS, ["sdpa"]).to_csv()


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
        stage_table(load_runs(folders), {"finetune": ["imdb"]}, ["f1"], ["sdpa", "lsh-h2-c64", "favor-m64"])
    for hole in (
        "finetune/lsh-h2-c64/imdb/seed-1",
        "finetune/lsh-h2-c64/imdb/seed-2",
        "finetune/favor-m64/imdb/seed-2",
    ):
        assert f"{hole}: no record" in str(error.value)
    assert "sdpa" not in str(error.value)
    with pytest.raises(DataError, match="pretrain/sdpa/wikipedia/seed-any: no record"):
        stage_table(load_runs([]), {"pretrain": ["wikipedia"]}, COSTS, ["sdpa"])


def test_a_record_without_the_figure_is_a_hole(tmp_path):
    runs = load_runs([write_run(tmp_path, "tapt", "sdpa", "imdb", train_loss=None)])
    with pytest.raises(DataError, match="tapt/sdpa/imdb/seed-0: no value of train_loss"):
        stage_table(runs, {"tapt": ["imdb"]}, COSTS, ["sdpa"])


def test_groups_table(tmp_path):
    """Worked out by hand: one row per model as asked for, one column per group, ascending as numbers."""
    documents = {
        ("sdpa", 1): [(8, 1, 1), (8, 0, 0), (64, 1, 1), (64, 0, 1)],
        ("sdpa", 2): [(8, 1, 1), (8, 0, 0), (64, 1, 1), (64, 0, 0)],
        ("gru", 1): [(8, 1, 1), (8, 0, 1), (64, 1, 0), (64, 0, 1)],
        ("gru", 2): [(8, 1, 0), (8, 0, 0), (64, 1, 0), (64, 0, 1)],
    }
    folders = [
        write_group_predictions(write_run(tmp_path, "finetune", model, "recall", seed=seed), rows)
        for (model, seed), rows in documents.items()
    ]
    table = groups_table(load_runs(folders), "finetune", ["sdpa", "gru"], "recall", "distance")
    assert table.to_csv() == (
        "model,distance_8,distance_8_sd,distance_64,distance_64_sd\n"
        "sdpa,100.00,0.00,75.00,35.36\n"
        "gru,50.00,0.00,0.00,0.00\n"
    )
    assert cells_of(table)[0] == ["model", "distance 8 [%]", "distance 64 [%]"]
    assert cells_of(table)[2] == ["sdpa", "100.00 ± 0.00", "75.00 ± 35.36"]
    single = groups_table(load_runs([folders[0]]), "finetune", ["sdpa"], "recall", "distance")
    assert single.to_csv() == "model,distance_8,distance_64\nsdpa,100.00,50.00\n"


NAMES = ["negative", "positive"]


def test_classes_table(tmp_path):
    """Worked out by hand: of 4 negative documents 3 are found, of 6 positive ones 5."""
    folder = write_baseline(tmp_path, "imdb", 0.8)
    write_predictions(folder, NAMES, [0] * 4 + [1] * 6, [0, 0, 0, 1, 1, 1, 1, 1, 1, 0])
    assert classes_table([folder]).to_csv() == (
        "label,precision,recall,f1,support\n"
        "negative,75.00,75.00,75.00,4\n"
        "positive,83.33,83.33,83.33,6\n"
        "accuracy,80.00,80.00,80.00,10\n"
        "macro average,79.17,79.17,79.17,10\n"
    )


def test_classes_are_means_over_the_seeds_and_keep_their_order(tmp_path):
    names = ["zebra", "ant", "mole"]
    folders = [write_baseline(tmp_path, "imdb", 0.8, seed=seed) for seed in (0, 1)]
    write_predictions(folders[0], names, [0, 0, 1, 2], [0, 0, 1, 2])
    write_predictions(folders[1], names, [0, 0, 1, 2], [0, 1, 1, 0])
    frame = classes_table(folders).frame
    assert frame["label"].tolist() == [*names, "accuracy", "macro average"]
    assert frame["recall"].tolist() == pytest.approx([75, 100, 50, 75, 75])
    assert frame["precision"].tolist() == pytest.approx([75, 75, 50, 75, 100 * (1 + 1 / 3) / 2])
    assert frame["support"].tolist() == [2, 1, 1, 4, 4]


def test_a_class_that_is_never_predicted_counts_as_zero(tmp_path):
    folder = write_predictions(write_baseline(tmp_path, "imdb", 0.8), NAMES, [0, 1], [0, 0])
    assert classes_table([folder]).to_csv().splitlines()[2] == "positive,0.00,0.00,0.00,1"


@pytest.mark.parametrize("damage", ["predictions.parquet", "config.yaml", "labels"])
def test_a_run_without_predictions_of_classes_is_named(tmp_path, damage):
    folder = write_predictions(write_baseline(tmp_path, "imdb", 0.8), NAMES, [0, 1], [0, 0])
    if damage == "labels":
        (folder / "config.yaml").write_text("labels: null\n")
    else:
        (folder / damage).unlink()
    with pytest.raises(DataError, match=r"finetune/tfidf/imdb/seed-0.*: no predictions of classes.*Repeat the run"):
        classes_table([folder])


def test_token_lengths_table(tmp_path):
    entry = {"documents": 3, "mean": 12.25, "std": 1.5, "median": 12.0, "min": 10, "max": 16}
    nothing = {"documents": 0} | dict.fromkeys(("mean", "std", "median", "min", "max"))
    path = tmp_path / "token_lengths.json"
    path.write_text(json.dumps({"train_short": entry, "test": nothing}))
    assert token_lengths_table({("wikipedia", "wordpiece"): path}).to_csv() == (
        "corpus,split,documents,mean,std,median,min,max\n"
        "wikipedia,train_short,3,12.2,1.5,12.0,10,16\n"
        "wikipedia,test,0,,,,,\n"
    )
    path.write_text(json.dumps({"train": {}}))
    with pytest.raises(DataError, match="not token lengths"):
        token_lengths_table({("wikipedia", "wordpiece"): path})


def test_several_tokenisers_are_told_apart(tmp_path):
    entry = {"documents": 3, "mean": 12.25, "std": 1.5, "median": 12.0, "min": 10, "max": 16}
    path = tmp_path / "token_lengths.json"
    path.write_text(json.dumps({"train": entry}))
    table = token_lengths_table({("imdb", "first"): path, ("imdb", "second"): path})
    assert table.to_csv() == (
        "corpus,tokenizer,split,documents,mean,std,median,min,max\n"
        "imdb,first,train,3,12.2,1.5,12.0,10,16\n"
        "imdb,second,train,3,12.2,1.5,12.0,10,16\n"
    )


@pytest.fixture
def make_table(tmp_path):
    """Run the program; return its status, and the two tables if it wrote them."""
    main = runpy.run_path(str(PROGRAM))["main"]

    def run(shown, *records):
        csv, markdown = tmp_path / "t" / "table.csv", tmp_path / "t" / "table.md"
        out = ["--csv", str(csv), "--markdown", str(markdown)]
        status = run_program(main, ["--table", json.dumps(shown), "--records", *map(str, records), *out])
        return status, *(path.read_text() if path.exists() else None for path in (csv, markdown))

    return run


def test_program_writes_both_forms_or_nothing(tmp_path, make_table):
    records = [
        write_run(tmp_path, "finetune", "sdpa", "imdb", test_f1_macro=0.9),
        write_baseline(tmp_path, "imdb", 0.8),
    ]
    records = [folder / "run.json" for folder in records]
    shown = {"kind": "stage", "stages": [["finetune", ["imdb"]]], "columns": ["f1"]}
    assert make_table(shown | {"models": ["tfidf", "sdpa", "favor-m64"]}, *records) == (1, None, None)
    assert not (tmp_path / "t").exists()
    status, csv, markdown = make_table(shown | {"models": ["tfidf", "sdpa"]}, *records)
    assert (status, csv) == (0, "model,imdb\ntfidf,80.00\nsdpa,90.00\n")
    assert markdown.startswith("| model")


def test_program_shows_published_values_if_told_to(tmp_path, make_table):
    record = write_run(tmp_path, "finetune", "sdpa", "imdb") / "run.json"
    shown = {"kind": "stage", "stages": [["finetune", ["imdb"]]], "columns": ["f1"], "models": ["sdpa"]}
    assert "imdb_published" not in make_table(shown, record)[1]
    assert "imdb_published" in make_table(shown | {"published": True}, record)[1]


def test_program_makes_the_other_kinds(tmp_path, make_table):
    folder = write_predictions(write_baseline(tmp_path, "imdb", 0.8), NAMES, [0, 1], [0, 1])
    status, csv, _ = make_table({"kind": "classes"}, folder / "run.json")
    assert (status, csv.splitlines()[1]) == (0, "negative,100.00,100.00,100.00,1")
    write_group_predictions(folder, [(4, 0, 0), (16, 0, 1)])
    shown = {"kind": "groups", "stages": [["finetune", ["imdb"]]], "models": ["tfidf"], "group": "length"}
    assert make_table(shown, folder / "run.json")[:2] == (0, "model,length_4,length_16\ntfidf,100.00,0.00\n")
    lengths = tmp_path / "token_lengths.json"
    lengths.write_text(json.dumps({"train": dict.fromkeys(("documents", "mean", "std", "median", "min", "max"), 1)}))
    status, csv, _ = make_table({"kind": "token_lengths", "corpora": [["imdb", "wordpiece"]]}, lengths)
    assert (status, csv.splitlines()[1]) == (0, "imdb,train,1,1.0,1.0,1.0,1,1")


def test_program_reads_shared_runs_and_keeps_the_order_of_stages(tmp_path, make_table):
    folders = [write_run(tmp_path, "b", "old", "imdb", train_loss=1.0), write_run(tmp_path, "a", "new", "imdb")]
    shown = {"kind": "stage", "stages": [["b", ["imdb"]], ["a", ["imdb"]]], "columns": ["loss"], "models": ["new"]}
    shown |= {"owners": {"a": {"new": "new"}, "b": {"new": "old"}}}
    status, csv, _ = make_table(shown, *(folder / "run.json" for folder in folders))
    assert (status, csv) == (0, "model,b,a\nnew,1.000,3.000\n")
