"""The printed values of the reproduced study."""

import json
from pathlib import Path

import pandas as pd
import pytest

import lib.results.printed_values as results_published
from lib.results.printed_values import note, published, published_classes, published_runs
from lib.study.configuration import SHIPPED, load_study, read_layers
from lib.study.report import ReportSettings


def test_every_table_is_complete():
    mechanisms, datasets, settings = 9, 3, 12
    assert published("grid").groupby("table", sort=False).size().to_dict() == {
        "4.1": (2 + datasets * 3) * 5,
        "4.5": mechanisms * 3,
        "4.6": mechanisms * datasets * 3,
        "4.10": mechanisms * datasets * 3 + datasets,
        "4.8": settings * datasets,
        "4.9": settings * datasets,
        "4.11": mechanisms * datasets,
        "4.12": (mechanisms - 1) * (1 + datasets),
        "4.13": (mechanisms - 1) * (1 + datasets),
        "4.14": (mechanisms - 1) * datasets * 2 + datasets,
        "4.15": 3 * 4,
        "B.1": 3 * 3 + 1,
        "B.2": 12 * 3 + 1,
        "B.3": 3 * 3 + 1,
        "C.1": settings * 3,
    }
    twice = published("grid").duplicated(["table", "stage", "dataset", "model", "item", "quantity"])
    assert not twice.any()
    assert published("grid").query("quantity == 'chosen'")["value"].sum() == 3


def test_every_study_is_known_by_its_notes_and_to_the_report():
    folder = Path(results_published.__file__).with_name("printed")
    named = ReportSettings.model_fields["published"].annotation.__args__[0].__args__
    for suffix in (".csv", ".yaml"):
        assert {path.stem for path in folder.glob(f"*{suffix}")} == set(named)


def test_the_decoders_of_the_study_are_the_rows_of_its_configuration():
    rows = load_study(read_layers([SHIPPED["decoders.yaml"]])).experiment.models
    assert published("decoders").groupby("table").size().to_dict() == {"4.1": 13}
    assert set(published("decoders")["model"]) == set(rows) - {"everything", "tfidf"}


def test_the_ways_to_find_hate_speech_are_rows_of_its_configuration():
    study = load_study(read_layers([SHIPPED["hate_speech.yaml"]]))
    assert published("hate_speech").groupby("table").size().to_dict() == {"1": 3, "2": 11}
    assert set(published("hate_speech")["model"]) < set(study.experiment.models)
    runs = published_runs("hate_speech").loc["classify", :, "comments"]
    assert runs.loc["roberta-lora", "minutes"] == 26 * 60


def test_values_agree_among_tables():
    """What the study derives from its own numbers follows from the numbers here, so that a slip of typing shows."""
    facts = published("grid").set_index(["table", "quantity", "dataset", "model"])["value"].sort_index()
    f1 = facts["4.10", "f1_macro_percent"]
    for (dataset, model), delta in facts["4.14", "f1_delta_reference"].items():
        assert f1[dataset, model] - f1[dataset, "sdpa"] == pytest.approx(delta, abs=0.051)
    for (dataset, model), delta in facts["4.14", "f1_delta_baseline"].items():
        assert f1[dataset, model] - f1[dataset, "tfidf"] == pytest.approx(delta, abs=0.051)
    adapted, tuned = facts["4.6", "peak_memory_gib"], facts["4.10", "peak_memory_gib"]
    epochs = {"imdb": (15, 8), "hyperpartisan": (6, 7), "arxiv": (2, 4)}
    minutes = {
        key: epochs[key[0]][0] * facts["4.6", "minutes_per_epoch"][key] + epochs[key[0]][1] * value
        for key, value in facts["4.10", "minutes_per_epoch"].items()
    }
    for dataset, model in tuned.dropna().index:
        if model in ("sdpa", "tfidf"):
            continue
        memory = max(adapted[dataset, model], tuned[dataset, model]) / adapted[dataset, "sdpa"]
        assert 100 * (memory - 1) == pytest.approx(facts["4.12", "memory_delta_percent", dataset, model], abs=0.11)
        time = minutes[dataset, model] / minutes[dataset, "sdpa"]
        assert 100 * (time - 1) == pytest.approx(facts["4.13", "time_delta_percent", dataset, model], abs=0.8)
    spread = published("grid").query("table == 'C.1'").pivot(index="item", columns="quantity", values="value")
    highest, lowest, difference = (spread[f"validation_f1_macro_{name}"] for name in ("highest", "lowest", "spread"))
    assert (highest - lowest).tolist() == pytest.approx(difference.tolist(), abs=0.005)


def test_lengths_of_documents_are_of_every_split_and_within_its_limit():
    lengths = (
        published("grid").query("table == '4.1'").pivot(index=["dataset", "item"], columns="quantity", values="value")
    )
    limits = {"imdb": 512, "hyperpartisan": 4096, "arxiv": 16_384}
    for (corpus, split), row in lengths.iterrows():
        limit = limits.get(corpus) or {"train_short": 128, "train_long": 512}[split]
        assert row["tokens_max"] == limit
        assert row["tokens_min"] < row["tokens_mean"] < limit
        assert row["tokens_min"] < row["tokens_median"] <= limit
    assert lengths.loc[("arxiv", "train"), "tokens_std"] == 4261
    assert not published_runs("grid").columns.str.startswith("tokens").any()


def test_runs_have_the_values_of_the_table_of_all_models():
    runs = published_runs("grid")
    assert runs.loc[("finetune", "sdpa", "arxiv"), "f1_macro_percent"] == 88.38  # table 4.15 has 88.40
    assert runs.loc[("finetune", "sdpa-then-favor-m128", "arxiv"), "f1_macro_percent"] == 86.23
    assert runs.loc[("pretrain", "sdpa", "wikipedia"), "loss"] == 2.157


def test_classes_of_the_baseline():
    arxiv = published_classes("grid", "finetune", "arxiv", "tfidf")
    assert arxiv.loc["cs.AI"].to_dict() == {"precision_percent": 69.01, "recall_percent": 57.56, "f1_percent": 62.77}
    assert arxiv.loc["accuracy"].tolist() == [84.36] * 3
    assert arxiv.loc["macro average", "f1_percent"] == 83.62
    assert published_classes("grid", "finetune", "arxiv", "sdpa").empty


def test_a_note_says_what_concerns_the_numbers_shown():
    trained = pd.DataFrame({"imported": [None], "epochs": [2], "model": ["sdpa"]})
    assert "A100" not in note("grid", trained, ["f1_macro_percent"])
    assert "docs/fidelity.md" in note("grid", trained, ["f1_macro_percent"])
    assert "dataset order" in note("grid", trained, ["loss"])
    assert "A100" in note("grid", trained, ["loss", "minutes_per_epoch"])
    assert "fidelity" not in note("grid", trained.assign(epochs=0), ["f1"])
    assert note("grid", trained.assign(imported="theirs"), ["loss"]).startswith(
        "Both values come from runs of the study's own"
    )


def test_a_note_on_rows_of_a_study_says_which_comments_were_scored():
    """The seminar paper scored trained models on a fifth of the comments, and what never trains on all of them."""
    study = load_study(read_layers([SHIPPED["hate_speech.yaml"]]))
    tables = study.report.tables
    runs = [run for run in study.runs if run.id.stage == "classify" and run.id.seed == 42]
    recipes = [json.loads(run.settings).get("recipe") for run in runs]
    shown = pd.DataFrame(
        {"model": [run.id.model for run in runs], "epochs": [(each or {"epochs": 0})["epochs"] for each in recipes]}
    ).assign(imported=None)
    of_table_1 = note("hate_speech", shown[shown["model"].isin(tables["table_1"].models)], ["f1_macro_percent"])
    assert "of all comments" in of_table_1
    assert all(part not in of_table_1 for part in ("20 %", "near copies", "chose the epoch"))
    of_table_2 = note("hate_speech", shown, ["f1_macro_percent"])
    assert "20 % of the comments" in of_table_2
    assert "of all comments" in of_table_2
    trained_only = note("hate_speech", shown[shown["model"].isin(["tfidf", "roberta-lora"])], ["f1_macro_percent"])
    assert "of all comments" not in trained_only  # the paper has no TF-IDF
