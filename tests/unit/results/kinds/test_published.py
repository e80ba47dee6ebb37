"""What the study printed beside what runs give."""

import pytest
from run_records import write_baseline, write_predictions, write_run

from lib.results.scope import Scope
from lib.results.settings import TABLES

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


def test_ours_stand_beside_the_printed_ones(grid):
    table = frame(grid)
    ours = numbers(table, table="4.10", model="sdpa")
    assert ours.loc["f1_macro_percent", ["published", "page", "agrees"]].tolist() == ["92.86", 69, "yes"]
    assert ours.loc["minutes_per_epoch", ["published", "agrees"]].tolist() == ["0.64", "yes"]
    assert ours.loc["peak_memory_gib", ["published", "ours", "agrees"]].tolist() == ["3.32", 1.0, "no"]
    assert ours.loc["peak_memory_gib", "difference"] == pytest.approx(-2.32)
    assert ours.loc["peak_memory_gib", "ratio"] == pytest.approx(1 / 3.32)
    assert not numbers(table, model="favor-m64").size


def test_costs_are_compared_over_both_stages(grid):
    ours = numbers(frame(grid), stage="tapt+finetune", model="lsh-h2-c64")
    assert ours.loc["memory_delta_percent", "ours"] == pytest.approx(50)  # the larger peak: 3 GiB against 2
    assert ours.loc["time_delta_percent", "ours"] == pytest.approx(50)
    assert ours.loc["on_front", ["published", "ours"]].tolist() == ["0", 0]


def test_costs_of_two_stages_are_those_of_the_runs_that_belong_together(tmp_path):
    """The second adaptation of the mechanism belongs to no finetuning: seed 0 alone goes on."""
    folders = []
    for model, memories in (("sdpa", (2048, 2048)), ("lsh-h2-c64", (1024, 9216))):
        for seed, memory in enumerate(memories):
            values = {"peak_memory_mb": memory, "seconds": memory / 10, **A100}
            folders.append(write_run(tmp_path, "tapt", model, "imdb", seed, **values))
        folders.append(write_run(tmp_path, "finetune", model, "imdb", seconds=0.0, peak_memory_mb=512, **A100))
    ours = numbers(frame(scope(folders, ["sdpa", "lsh-h2-c64"], reference="sdpa")), stage="tapt+finetune")
    assert ours.loc["memory_delta_percent", "ours"] == pytest.approx(-50)
    assert ours.loc["time_delta_percent", "ours"] == pytest.approx(-50)


def test_scores_are_compared_with_both(grid):
    ours = numbers(frame(grid), table="4.14", model="lsh-h2-c64")
    assert ours.loc["f1_delta_reference", "ours"] == pytest.approx(92 - 92.857)
    assert ours.loc["f1_delta_baseline", "ours"] == pytest.approx(2.5)
    assert numbers(frame(grid), table="4.14", model="sdpa").index.tolist() == ["f1_delta_baseline"]


def test_a_time_on_another_machine_reproduces_nothing(tmp_path):
    folder = write_run(tmp_path, "finetune", "sdpa", "imdb", seconds_per_epoch=38.4, test_f1_macro=0.92857)
    table = frame(scope([folder], ["sdpa"], {"finetune": ["imdb"]}, reference="sdpa"))
    ours = numbers(table)
    assert ours.loc["minutes_per_epoch", ["ours", "agrees", "hardware"]].tolist() == [0.64, "-", "a laptop"]
    assert ours.loc["minutes_per_epoch", ["difference", "ratio"]].isna().all()
    assert ours.loc["f1_macro_percent", "agrees"] == "yes"
    assert table.note.startswith("1 of 1 numbers agree to the last printed digit. The 2 without an answer depend on")


def test_classes_of_the_baseline(tmp_path):
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


def test_a_class_called_macro_average_is_not_the_mean_over_classes(tmp_path):
    folder = write_baseline(tmp_path, "imdb", 0.895, **{"test_f1_class_macro average": 0.1})
    ours = frame(scope([folder], ["tfidf"], {"finetune": ["imdb"]}, reference="sdpa", baseline="tfidf")).frame
    assert ours.loc[ours["item"] == "macro average", "ours"].tolist() == pytest.approx([89.5])


def test_the_spread_over_seeds_of_a_search(tmp_path):
    variant = {"recipe.freeze_layers": 2, "task.classifier_dropout": 0.2, "task.classifier_pooling": "mean"}
    folders = [
        write_run(tmp_path, "search", "sdpa", "imdb", seed, variant=variant, eval_f1_macro=f1)
        for seed, f1 in ((1, 0.9362), (2, 0.9388), (3, 0.937))
    ]
    ours = numbers(frame(scope(folders, ["sdpa"], {"search": ["imdb"]}, reference="sdpa")), table="C.1")
    assert ours["agrees"].to_dict() == dict.fromkeys(
        [f"validation_f1_macro_{name}" for name in ("highest", "lowest", "spread")], "yes"
    )


def test_of_variants_that_differ_by_rounding_alone_the_first_is_chosen_as_in_a_search(tmp_path):
    """0.844 + 0.758 + 0.421 and 0.421 + 0.758 + 0.844 differ in the last digit."""
    scores = {0.2: (0.844, 0.758, 0.421), 0.1: (0.421, 0.758, 0.844)}
    variants = [
        {"recipe.freeze_layers": 2, "task.classifier_dropout": dropout, "task.classifier_pooling": "mean"}
        for dropout in scores
    ]
    folders = [
        write_run(tmp_path, "search", "sdpa", "imdb", seed, variant=variant, eval_f1_macro=f1)
        for variant, of_seeds in zip(variants, scores.values(), strict=True)
        for seed, f1 in enumerate(of_seeds)
    ]
    for ordered in (folders, [*folders[3:], *folders[:3]]):
        ours = frame(scope(ordered, ["sdpa"], {"search": ["imdb"]}, reference="sdpa")).frame
        chosen = ours[ours["quantity"] == "chosen"].set_index("item")["ours"]
        assert chosen.sum() == 1
        assert chosen.idxmax() == ordered[0].parent.name


def test_published_columns_stand_where_something_was_published(tmp_path):
    folders = [write_run(tmp_path, "pretrain", model, "wikipedia") for model in ("sdpa", "favor-m1024")]
    given = scope(folders, ["sdpa", "favor-m1024"], {"pretrain": ["wikipedia"]})
    shown = TABLES.parse({"stage": "pretrain", "columns": ["loss", "parameters"]}).make(given)
    assert shown.to_csv() == (
        "model,wikipedia_loss,wikipedia_loss_published,wikipedia_parameters\n"
        "sdpa,3.000,2.157,100\nfavor-m1024,3.000,,100\n"
    )
    assert "dataset order" in shown.note
    assert TABLES.parse({"stage": "pretrain", "columns": ["parameters"]}).make(given).note is None


def test_published_classes_stand_beside_ours(tmp_path):
    folder = write_predictions(write_baseline(tmp_path, "imdb", 0.8), ["negative", "positive"], [0, 1], [0, 1])
    given = scope([folder], ["tfidf"], {"finetune": ["imdb"]})
    shown = TABLES.parse({"kind": "classes", "stage": "finetune", "models": ["tfidf"]}).make(given)
    assert shown.frame.set_index("label").loc["negative", ["recall", "recall_published"]].tolist() == [100, 89.16]
    assert shown.frame["precision_published"].tolist() == [89.77, 89.23, 89.50, 89.50]
    assert "| recall [%], published |" in shown.to_markdown().replace("  ", "")
