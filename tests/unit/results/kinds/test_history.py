"""A number of each epoch, beside those of other models."""

import pytest
from run_records import write_run

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


def test_history_with_a_gap(tmp_path):
    folders = [
        history(tmp_path, "sdpa", "epoch,train_loss\n1,3.5\n2,3.0\n"),
        history(tmp_path, "favor-m64", "epoch,train_loss\n1,4.25\n"),
    ]
    assert table(folders, ["favor-m64", "sdpa"]).to_csv() == "epoch,favor-m64,sdpa\n1,4.2500,3.5000\n2,,3.0000\n"


@pytest.mark.parametrize("lacking", [(), (1,), (0, 1, 2)])
def test_history_with_lacking_seeds(tmp_path, lacking):
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
