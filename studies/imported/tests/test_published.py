"""What the study printed beside what runs give."""

import pytest
from run_records import write_baseline, write_predictions, write_run

from lib.results.scope import Scope
from lib.results.settings import TABLES

pytestmark = pytest.mark.extended

A100 = {"hardware": "NVIDIA A100-SXM4-40GB", "peak_memory_kind": "gpu"}
STAGES = {"tapt": ["imdb"], "finetune": ["imdb"]}


def scope(folders, models, stages=STAGES, **fields):
    rows = [*models, *filter(None, [fields.get("baseline")])]
    owners = {
        stage: {row: dict.fromkeys(datasets, row) for row in rows if (stage, row) != ("tapt", "tfidf")}
        for stage, datasets in stages.items()
    }
    return Scope(models, stages, owners, published="grid", files=[folder / "run.json" for folder in folders], **fields)


def frame(given, *stages):
    settings = TABLES.parse({"kind": "published", "stages": stages or list(given.stages)})
    return settings.make(given)


def numbers(made, **place):
    rows = made.frame
    for name, value in place.items():
        rows = rows[rows[name] == value]
    return rows.set_index("quantity")


@pytest.fixture
def grid(tmp_path):
    """SDPA and a mechanism that costs half as much again, with their baseline."""
    folders = [write_baseline(tmp_path, "imdb", 0.895)]
    for model, factor, f1 in (("sdpa", 1, 0.92857), ("lsh-h2-c64", 1.5, 0.92)):
        cost = {"seconds": 600 * factor, "seconds_per_epoch": 38.4, **A100}
        folders.append(write_run(tmp_path, "tapt", model, "imdb", peak_memory_mb=2048 * factor, **cost))
        folders.append(write_run(tmp_path, "finetune", model, "imdb", peak_memory_mb=1024, test_f1_macro=f1, **cost))
    return scope(folders, ["sdpa", "lsh-h2-c64"], reference="sdpa", baseline="tfidf")


def test_printed_numbers_beside_ours(grid):
    table = frame(grid)
    ours = numbers(table, table="4.10", model="sdpa")
    assert ours.loc["f1_macro_percent", ["published", "page", "agrees"]].tolist() == ["92.86", 69, "yes"]
    assert ours.loc["minutes_per_epoch", ["published", "agrees"]].tolist() == ["0.64", "yes"]
    assert ours.loc["peak_memory_gib", ["published", "ours", "agrees"]].tolist() == ["3.32", 1.0, "no"]
    assert ours.loc["peak_memory_gib", "difference"] == pytest.approx(-2.32)
    assert ours.loc["peak_memory_gib", "ratio"] == pytest.approx(1 / 3.32)
    assert not numbers(table, model="favor-m64").size


def test_printed_times_on_another_machine(tmp_path):
    folder = write_run(tmp_path, "finetune", "sdpa", "imdb", seconds_per_epoch=38.4, test_f1_macro=0.92857)
    table = frame(scope([folder], ["sdpa"], {"finetune": ["imdb"]}, reference="sdpa"))
    ours = numbers(table)
    assert ours.loc["minutes_per_epoch", ["ours", "agrees", "hardware"]].tolist() == [0.64, "-", "a laptop"]
    assert ours.loc["minutes_per_epoch", ["difference", "ratio"]].isna().all()
    assert ours.loc["f1_macro_percent", "agrees"] == "yes"
    assert table.note.startswith("1 of 1 numbers agree to the last printed digit. The 2 without an answer depend on")


def test_printed_classes_of_the_baseline(tmp_path):
    values = {"test_f1_class_negative": 0.8946, "test_precision_macro": 0.5, "test_accuracy": 0.895}
    folder = write_baseline(tmp_path, "imdb", 0.895, **values)
    ours = frame(scope([folder], ["tfidf"], {"finetune": ["imdb"]}, reference="sdpa", baseline="tfidf")).frame
    found = ours.set_index(["table", "item", "quantity"])["agrees"].to_dict()
    assert found == {
        ("4.10", "", "f1_macro_percent"): "yes",
        ("B.1", "negative", "f1_percent"): "yes",
        ("B.1", "macro average", "precision_percent"): "no",
        ("B.1", "macro average", "f1_percent"): "yes",
        ("B.1", "", "accuracy_percent"): "yes",
    }


def test_printed_columns_of_a_stage(tmp_path):
    folders = [write_run(tmp_path, "pretrain", model, "wikipedia") for model in ("sdpa", "favor-m1024")]
    given = scope(folders, ["sdpa", "favor-m1024"], {"pretrain": ["wikipedia"]})
    shown = TABLES.parse({"stage": "pretrain", "columns": ["loss", "parameters"]}).make(given)
    assert shown.to_csv() == (
        "model,wikipedia_loss,wikipedia_loss_published,wikipedia_parameters\n"
        "sdpa,3.000,2.157,100\nfavor-m1024,3.000,,100\n"
    )
    assert "dataset order" in shown.note
    assert TABLES.parse({"stage": "pretrain", "columns": ["parameters"]}).make(given).note is None


def test_printed_classes_beside_ours(tmp_path):
    folder = write_predictions(write_baseline(tmp_path, "imdb", 0.8), ["negative", "positive"], [0, 1], [0, 1])
    given = scope([folder], ["tfidf"], {"finetune": ["imdb"]})
    shown = TABLES.parse({"kind": "classes", "stage": "finetune", "models": ["tfidf"]}).make(given)
    assert shown.frame.set_index("label").loc["negative", ["recall", "recall_published"]].tolist() == [100, 89.16]
    assert shown.frame["precision_published"].tolist() == [89.77, 89.23, 89.50, 89.50]
    assert "| recall [%], published |" in shown.to_markdown().replace("  ", "")
