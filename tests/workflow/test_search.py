"""A search and the fine-tuning that takes its best settings: what is run, what it leaves, and what makes it stale."""

import json

import pandas as pd
import pytest
import yaml
from small_studies import searching

from lib.core.record import read_record

pytestmark = pytest.mark.study

# No adaptation, and settings of which one learns and the others cannot.
STUDY = searching(
    {
        "search": {
            "models": ["sdpa"],
            "seeds": [3],
            "variants": {"recipe.learning_rate": [1e-7, 5e-3], "recipe.freeze_embeddings": [False]},
            "recipe": {"epochs": 4},
        }
    },
    seeds=[1],
    mechanisms={"sdpa": {"kind": "sdpa"}, "favor-m16": {"kind": "favor", "nb_features": 16}},
    documents=300,
    epochs=2,
    initializer_range=0.1,
    report={
        "tables": {
            "search": {"kind": "search", "stage": "search"},
            "search_best": {"kind": "search_best", "stage": "search"},
            "f1": {"stage": "finetune", "columns": ["f1"]},
        },
        "figures": {"search": {"kind": "search", "stage": "search"}},
    },
)
BEST = "results/demo/search/search/sdpa/imdb.json"


def varied(*rates):
    """Return the study with other learning rates to try."""
    study = json.loads(json.dumps(STUDY))
    study["experiment"]["stages"]["search"]["variants"]["recipe.learning_rate"] = rates
    return study


@pytest.fixture(scope="module")
def searched(copy_of_repository):
    project = copy_of_repository("searched")
    project.configure(STUDY)
    project.snakemake("--cores", 2, "--configfile", "config.test.yaml")
    return project


def test_best_settings_taken_and_shown(searched):
    folder = searched.results / "runs/search/sdpa/imdb"
    for rate in (1e-07, 0.005):
        record = read_record(folder / f"freeze_embeddings-false+learning_rate-{rate}" / "seed-3")
        assert record.variant == {"recipe.learning_rate": rate, "recipe.freeze_embeddings": False}
    best = {"recipe.learning_rate": 0.005, "recipe.freeze_embeddings": False}
    assert json.loads((searched.folder / BEST).read_text()) == best
    for model in ("sdpa", "favor-m16"):
        folder = searched.results / "runs/finetune" / model / "imdb/seed-1"
        recipe = yaml.safe_load((folder / "config.yaml").read_text())["recipe"]
        assert (recipe["learning_rate"], recipe["freeze_embeddings"], recipe["epochs"]) == (0.005, False, 2)
        assert read_record(folder).variant == {}
    tables = searched.results / "tables"
    assert pd.read_csv(tables / "search.csv")["learning_rate"].tolist() == [1e-7, 0.005]
    assert pd.read_csv(tables / "search_best.csv")["learning_rate"].tolist() == [0.005]
    assert searched.stale("config.test.yaml") == {}


def test_stale_after_another_value_is_best(searched):
    name = searched.configure(varied(1e-7, 5e-3, 1e-8), "more.yaml")
    assert searched.stale(name, target=BEST) == {"train": 1, "best": 1, "total": 2}
    searched.snakemake("--cores", 1, "--configfile", name, "--", BEST)
    assert "train" not in searched.stale(name)
    fewer = searched.configure(varied(1e-7, 1e-8), "fewer.yaml")
    searched.snakemake("--cores", 1, "--configfile", fewer, "--", BEST)
    assert searched.stale(fewer)["train"] == 2
