"""A tuning and the fine-tuning that takes its settings: what is run, what it leaves, and what makes it stale."""

import json

import pandas as pd
import pytest
import yaml
from small_studies import searching

from lib.core.record import read_record

pytestmark = pytest.mark.study

STUDY = {"extensions": ["studies/trials"]} | searching(
    {
        "tune": {
            "models": ["sdpa"],
            "tuning": {
                "trials": 3,
                "space": {
                    "recipe.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
                    "task.classifier_dropout": {"values": [0.0, 0.2]},
                },
            },
        }
    },
    seeds=[1, 2],
    mechanisms={"sdpa": {"kind": "sdpa"}},
    documents=200,
    epochs=1,
    report={
        "tables": {
            "trials": {"kind": "trials", "stage": "tune"},
            "hours": {"kind": "compute", "time": ["tune", "finetune"]},
            "f1": {"stage": "finetune", "columns": ["f1"]},
        },
        "figures": {"trials": {"kind": "trials", "stage": "tune"}},
    },
)
BEST = "results/demo/search/tune/sdpa/imdb.json"


@pytest.fixture(scope="module")
def tuned(copy_of_repository):
    project = copy_of_repository("tuned")
    project.configure(STUDY)
    project.snakemake("--cores", 2, "--configfile", "config.test.yaml")
    return project


def changed(**tuning):
    """Return the study with changes of its section `tuning`."""
    study = json.loads(json.dumps(STUDY))
    study["experiment"]["stages"]["tune"]["tuning"] |= tuning
    return study


def test_files_of_the_search(tuned):
    folder = tuned.results / "runs/tune/sdpa/imdb"
    assert [path.name for path in folder.iterdir()] == ["seed-1"]
    names = {path.name for path in (folder / "seed-1").iterdir()}
    assert names == {"config.yaml", "run.json", "trials.csv", "best.json"}
    assert len(pd.read_csv(folder / "seed-1" / "trials.csv")) == 3


def test_settings_of_what_trains(tuned):
    found = pd.read_csv(tuned.results / "runs/tune/sdpa/imdb/seed-1/trials.csv")
    best = found.loc[int(read_record(tuned.results / "runs/tune/sdpa/imdb/seed-1").metrics["best_trial"])]
    assert json.loads((tuned.folder / BEST).read_text()) == {
        "recipe.learning_rate": best["recipe.learning_rate"],
        "task.classifier_dropout": best["task.classifier_dropout"],
    }
    for seed in (1, 2):
        settings = yaml.safe_load((tuned.results / f"runs/finetune/sdpa/imdb/seed-{seed}/config.yaml").read_text())
        assert settings["recipe"]["learning_rate"] == best["recipe.learning_rate"]
        assert settings["task"]["classifier_dropout"] == best["task.classifier_dropout"]


def test_table_and_figure_of_the_search(tuned):
    assert pd.read_csv(tuned.results / "tables/trials.csv")["trial"].tolist() == [0, 1, 2]
    assert pd.read_csv(tuned.results / "tables/hours.csv")["tune_hours"].notna().any()
    assert (tuned.results / "figures/trials.svg").stat().st_size > 5_000


def test_second_start(tuned):
    assert "Nothing to be done" in tuned.snakemake("--cores", 1, "--configfile", "config.test.yaml").stdout


def test_stale_runs_of_another_space(tuned):
    space = STUDY["experiment"]["stages"]["tune"]["tuning"]["space"]
    name = tuned.configure(changed(space={"recipe.learning_rate": space["recipe.learning_rate"]}), "narrow.yaml")
    jobs = tuned.stale(name)
    runs = {rule: number for rule, number in jobs.items() if not rule.startswith(("table", "figure"))}
    assert runs == {"tune": 1, "best_trial": 1, "train": 2, "all": 1, "total": jobs["total"]}
    assert tuned.stale(name, target=BEST) == {"tune": 1, "best_trial": 1, "total": 2}
