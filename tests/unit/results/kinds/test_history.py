"""A number of each epoch, beside those of other models."""

import pytest
from run_records import write_run

from lib.core.errors import DataError
from lib.results.scope import Scope
from lib.results.settings import TABLES


def table(folders, models, **settings):
    parsed = TABLES.parse({"kind": "history", "stage": "pretrain", **settings})
    owners = {"pretrain": {model: {"wikipedia": model} for model in models}}
    scope = Scope(models, {"pretrain": ["wikipedia"]}, owners, files=[folder / "run.json" for folder in folders])
    return parsed.make(scope)


def history(tmp_path, model, text, seed=1):
    folder = write_run(tmp_path, "pretrain", model, "wikipedia", seed)
    (folder / "history.csv").write_text(text)
    return folder


def test_one_column_per_model_and_a_gap_where_one_stopped_earlier(tmp_path):
    folders = [
        history(tmp_path, "sdpa", "epoch,train_loss\n1,3.5\n2,3.0\n"),
        history(tmp_path, "favor-m64", "epoch,train_loss\n1,4.25\n"),
    ]
    assert table(folders, ["favor-m64", "sdpa"]).to_csv() == "epoch,favor-m64,sdpa\n1,4.2500,3.5000\n2,,3.0000\n"


def test_evaluations_within_epochs_have_rows_of_their_own(tmp_path):
    folders = [
        history(tmp_path, "sdpa", "epoch,train_loss\n0.5,3.5\n1,3.0\n1.25,2.5\n"),
        history(tmp_path, "favor-m64", "epoch,train_loss\n1,4.25\n"),
    ]
    text = "epoch,sdpa,favor-m64\n0.50,3.5000,\n1.00,3.0000,4.2500\n1.25,2.5000,\n"
    assert table(folders, ["sdpa", "favor-m64"]).to_csv() == text


def test_several_seeds_give_means_and_deviations(tmp_path):
    folders = [
        history(tmp_path, "sdpa", f"epoch,train_loss,eval_loss\n1,3,{loss}\n", seed)
        for seed, loss in ((1, 2.0), (2, 4.0))
    ]
    assert table(folders, ["sdpa"], column="eval_loss").to_csv() == "epoch,sdpa,sdpa_sd\n1,3.0000,1.4142\n"


@pytest.mark.parametrize("lacking", [(), (1,), (2,), (1, 2), (0, 1, 2)])
def test_an_epoch_that_some_seeds_lack_is_a_gap(tmp_path, lacking):
    """The value is missing, or the seed had stopped. Means over fewer seeds would be of other models."""
    folders = []
    for seed in range(3):
        value = "" if seed in lacking else 2.0 + seed
        last = "" if seed in lacking else f"3,1,{3.0 + seed}\n"
        folders.append(history(tmp_path, "sdpa", f"epoch,train_loss,eval_loss\n1,3,1\n2,2,{value}\n{last}", seed))
    shown = table(folders, ["sdpa"], column="eval_loss").to_csv().splitlines()
    assert shown[:2] == ["epoch,sdpa,sdpa_sd", "1,1.0000,0.0000"]
    ends = [] if len(lacking) == 3 else ["3,,"] if lacking else ["3,4.0000,1.0000"]
    assert shown[2:] == ["2,,", *ends] if lacking else ["2,3.0000,1.0000", *ends]


def test_a_column_that_no_history_has_is_refused(tmp_path):
    folders = [history(tmp_path, "sdpa", "epoch,train_loss,eval_loss\n1,3.5,\n")]
    with pytest.raises(DataError, match=r"'eval_loss'.*epoch, train_loss"):
        table(folders, ["sdpa"], column="eval_loss")
