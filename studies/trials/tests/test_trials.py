from io import StringIO

import pandas as pd
import pytest
from run_records import scope_of, write_run, write_trials

from studies.trials.results.kinds.trials import TrialsTable

pytestmark = pytest.mark.extended

SPACE = {"recipe.learning_rate": {"low": 1e-5, "high": 1e-3}, "task.classifier_pooling": {"values": ["cls", "mean"]}}
ROWS = [
    {"recipe.learning_rate": 0.000123456, "task.classifier_pooling": "cls", "eval_f1_macro": 0.8},
    {
        "recipe.learning_rate": 0.0005,
        "task.classifier_pooling": "mean",
        "eval_f1_macro": 0.5,
        "state": "pruned",
        "epochs": 1,
    },
    {"recipe.learning_rate": 0.001, "task.classifier_pooling": "mean", "eval_f1_macro": None, "state": "diverged"},
]


def table(root, datasets=("imdb",), models=("sdpa",), rows=ROWS):
    folders = [
        write_trials(write_run(root, "tune", model, dataset, best_trial=0), SPACE, *rows)
        for dataset in datasets
        for model in models
    ]
    return TrialsTable(kind="trials", stage="tune").make(scope_of(folders, {"tune": datasets}, models))


def test_rows_of_trials(tmp_path):
    read = pd.read_csv(StringIO(table(tmp_path).to_csv()))
    assert read.columns.tolist() == [
        "trial", "learning_rate", "classifier_pooling", "validation_f1_macro_percent", "state", "epochs", "minutes",
    ]  # fmt: skip
    assert read.iloc[0].tolist() == [0, 0.0001235, "cls", 80, "complete", 2, 1]
    assert read.iloc[1].tolist() == [1, 0.0005, "mean", 50, "pruned", 1, 1]
    assert pd.isna(read["validation_f1_macro_percent"][2])


def test_rows_of_datasets_and_models(tmp_path):
    frame = table(tmp_path, ("imdb", "arxiv"), ("sdpa", "favor-m64"), ROWS[:1]).frame
    assert frame[["dataset", "model"]].to_numpy().tolist() == [
        ["imdb", "sdpa"], ["imdb", "favor-m64"], ["arxiv", "sdpa"], ["arxiv", "favor-m64"],
    ]  # fmt: skip


def test_columns_of_searched_settings(tmp_path):
    names = ["recipe.epochs", "task.state", "task.trial", "task.minutes", "task.validation_f1_macro_percent"]
    space = {name: {"low": 1, "high": 9} for name in names}
    row = dict(zip(names, range(4, 9), strict=True)) | {"eval_f1_macro": 0.8, "epochs": 2}
    folder = write_trials(write_run(tmp_path, "tune", "sdpa", "imdb", best_trial=0), space, row)
    made = TrialsTable(kind="trials", stage="tune").make(scope_of([folder], {"tune": ["imdb"]}, ["sdpa"]))
    found = pd.read_csv(StringIO(made.to_csv())).iloc[0].to_dict()
    made_by_trial = {"trial": 0, "validation_f1_macro_percent": 80, "state": "complete", "epochs": 2, "minutes": 1}
    assert found == dict(zip(names, range(4, 9), strict=True)) | made_by_trial
