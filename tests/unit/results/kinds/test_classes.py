import pandas as pd
import pytest
from run_records import scope_of, write_baseline, write_predictions

from lib.core.errors import ConfigError, DataError
from lib.results.kinds.classes import ClassesTable
from lib.results.predictions import printed_classes
from lib.results.printed_values import published_classes

NAMES = ["negative", "positive"]


def table(*folders):
    settings = ClassesTable(kind="classes", stage="finetune", models=["tfidf"])
    return settings.make(scope_of(folders, {"finetune": ["imdb"]}, ["tfidf"]))


def test_a_row_per_class_then_accuracy_and_macro_average(tmp_path):
    """Worked out by hand: of 4 negative documents 3 are found, of 6 positive ones 5."""
    folder = write_baseline(tmp_path, "imdb", 0.8)
    write_predictions(folder, NAMES, [0] * 4 + [1] * 6, [0, 0, 0, 1, 1, 1, 1, 1, 1, 0])
    assert table(folder).to_csv() == (
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
    frame = table(*folders).frame
    assert frame["label"].tolist() == [*names, "accuracy", "macro average"]
    assert frame["recall"].tolist() == pytest.approx([75, 100, 50, 75, 75])
    assert frame["precision"].tolist() == pytest.approx([75, 75, 50, 75, 100 * (1 + 1 / 3) / 2])
    assert frame["support"].tolist() == [2, 1, 1, 4, 4]


def test_a_class_that_is_never_predicted_counts_as_zero(tmp_path):
    folder = write_predictions(write_baseline(tmp_path, "imdb", 0.8), NAMES, [0, 1], [0, 0])
    assert table(folder).to_csv().splitlines()[2] == "positive,0.00,0.00,0.00,1"


def test_a_class_called_as_a_row_of_the_table_has_a_row_of_its_own(tmp_path):
    """Worked out by hand: 1 of 2 documents of `accuracy` is found, and all 4 of the other class."""
    folder = write_baseline(tmp_path, "imdb", 0.8)
    write_predictions(folder, ["accuracy", "macro average"], [0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1])
    frame = table(folder).frame.set_index("label")
    assert frame.index.tolist() == ["class accuracy", "class macro average", "accuracy", "macro average"]
    assert frame["recall"].tolist() == pytest.approx([50, 100, 500 / 6, 75])
    assert frame["support"].tolist() == [2, 4, 6, 6]


def test_printed_values_stand_in_the_rows_of_the_same_meaning(tmp_path):
    folder = write_baseline(tmp_path, "imdb", 0.8)
    write_predictions(folder, ["accuracy", "negative", "positive"], [0, 1, 2], [0, 1, 2])
    settings = ClassesTable(kind="classes", stage="finetune", models=["tfidf"])
    made = settings.make(scope_of([folder], {"finetune": ["imdb"]}, ["tfidf"], published="grid"))
    printed = published_classes("grid", "finetune", "imdb", "tfidf")["f1_percent"]
    found = made.frame.set_index("label")["f1_published"]
    assert pd.isna(found["class accuracy"])
    assert (
        found[["negative", "positive", "accuracy", "macro average"]].tolist()
        == printed[["negative", "positive", "accuracy", "macro average"]].tolist()
    )


@pytest.mark.parametrize(
    ("names", "printed"),
    [
        (["yes", "no"], ["yes", "no"]),
        (["none", "class none"], ["class class none", "class none"]),
        (["class none", "none"], ["class none", "class class none"]),
    ],
)
def test_classes_have_distinct_names_that_no_made_row_has(names, printed):
    assert printed_classes(names, ["none"]) == printed


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        ("predictions.parquet", "lacks predictions .*Repeat the run"),
        ("config.yaml", "config.yaml"),
        ("labels", "names no classes .*Repeat the run"),
    ],
)
def test_a_run_without_predictions_of_classes_is_named(tmp_path, damage, match):
    folder = write_predictions(write_baseline(tmp_path, "imdb", 0.8), NAMES, [0, 1], [0, 0])
    if damage == "labels":
        (folder / "config.yaml").write_text("labels: null\n")
    else:
        (folder / damage).unlink()
    with pytest.raises((DataError, ConfigError), match=rf"finetune/tfidf/imdb/seed-0.*{match}"):
        table(folder)
