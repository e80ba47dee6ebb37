import pandas as pd
import pytest
from run_records import scope_of, write_group_predictions, write_run

from lib.core.errors import DataError
from lib.results.predictions import accuracy_by_group

pytestmark = pytest.mark.extended


def accuracies(folders, models=("sdpa",), datasets=("recall",), **fields):
    return accuracy_by_group(scope_of(folders, {"finetune": datasets}, models, **fields).grid("finetune"))


def run(tmp_path, documents, model="sdpa", seed=0, dataset="recall"):
    return write_group_predictions(write_run(tmp_path, "finetune", model, dataset, seed=seed), documents)


def test_groups_scored_apart(tmp_path):
    folder = run(tmp_path, [(16, 1, 1), (128, 0, 1), (8, 0, 0), (8, 1, 0), (8, 1, 1), (8, 0, 1)])
    found = accuracies([folder]).loc[("recall", "sdpa")]
    assert found["mean"].to_dict() == {8: 50.0, 16: 100.0, 128: 0.0}
    assert found.index.tolist() == [8, 16, 128]
    assert found["std"].isna().all()


def test_tokens_scored_once(tmp_path):
    """Of a group's four tokens three are right, though of its documents one and two thirds; one has no tokens."""
    folder = run(tmp_path, [(4, [1, 2, 3], [1, 2, 0]), (4, [5], [5]), (4, [], []), (9, [2, 2], [2, 1])])
    assert accuracies([folder]).loc[("recall", "sdpa"), "mean"].to_dict() == {4: 75.0, 9: 50.0}


def test_mean_over_seeds(tmp_path):
    first = run(tmp_path, [(4, 0, 0), (4, 1, 1), (9, 0, 0)], seed=1)
    second = run(tmp_path, [(4, 0, 0), (4, 1, 0), (9, 0, 0)], seed=2)
    found = accuracies([first, second])
    assert found.loc[("recall", "sdpa"), "mean"].to_dict() == {4: 75.0, 9: 100.0}
    assert found.loc[("recall", "sdpa"), "std"].to_dict() == {4: pytest.approx(35.3553, abs=1e-4), 9: 0.0}


def test_rows_that_share_a_run(tmp_path):
    folders = [run(tmp_path, [(4, 0, 0), (4, 0, 1)]), run(tmp_path, [(7, 0, 0)], dataset="copy")]
    owners = {"finetune": {"sdpa": "sdpa", "twin": "sdpa"}}
    found = accuracies(folders, ["sdpa", "twin"], ["copy", "recall"], owners=owners)
    assert found.index.names == ["dataset", "row", "group"]
    assert found["mean"].to_dict() == {
        ("copy", "sdpa", 7): 100, ("copy", "twin", 7): 100, ("recall", "sdpa", 4): 50, ("recall", "twin", 4): 50,
    }  # fmt: skip


def no_groups(path):
    pd.read_parquet(path).drop(columns="group").to_parquet(path)


def test_predictions_without_groups(tmp_path):
    folder = run(tmp_path, [(4, 0, 0)])
    no_groups(folder / "predictions.parquet")
    with pytest.raises(DataError, match=r"recall/seed-0/predictions.parquet.*predictions.*Repeat the run"):
        accuracies([folder])
