import pandas as pd
import pytest
from run_records import scope_of, write_baseline, write_predictions

from lib.results.kinds.classes import ClassesTable
from lib.results.printed_values import published_classes

NAMES = ["negative", "positive"]


def table(*folders):
    settings = ClassesTable(kind="classes", stage="finetune", models=["tfidf"])
    return settings.make(scope_of(folders, {"finetune": ["imdb"]}, ["tfidf"]))


def test_rows_of_classes(tmp_path):
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


def test_classes_called_as_rows(tmp_path):
    """Worked out by hand: 1 of 2 documents of `accuracy` is found, and all 4 of the other class."""
    folder = write_baseline(tmp_path, "imdb", 0.8)
    write_predictions(folder, ["accuracy", "macro average"], [0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1])
    frame = table(folder).frame.set_index("label")
    assert frame.index.tolist() == ["class accuracy", "class macro average", "accuracy", "macro average"]
    assert frame["recall"].tolist() == pytest.approx([50, 100, 500 / 6, 75])
    assert frame["support"].tolist() == [2, 4, 6, 6]


def test_printed_classes(tmp_path):
    folder = write_baseline(tmp_path, "imdb", 0.8)
    write_predictions(folder, ["accuracy", "negative", "positive"], [0, 1, 2], [0, 1, 2])
    settings = ClassesTable(kind="classes", stage="finetune", models=["tfidf"])
    made = settings.make(scope_of([folder], {"finetune": ["imdb"]}, ["tfidf"], published="grid"))
    printed = published_classes("grid", "finetune", "imdb", "tfidf")["f1_percent"]
    found = made.frame.set_index("label")["f1_published"]
    assert pd.isna(found["class accuracy"])
    shared = ["negative", "positive", "accuracy", "macro average"]
    assert found[shared].tolist() == printed[shared].tolist()
