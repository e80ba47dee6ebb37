"""The demo tells its user something: every model learns, whatever the seed. About half an hour on 2 cores."""

import pandas as pd
import pytest
import yaml

pytestmark = pytest.mark.slow

SEEDS = [1, 2, 3]
POINTS_ABOVE_CHANCE = 10


def test_demo_model_learns(copy_of_repository):
    project = copy_of_repository("seeds")
    config = project.configure({"extends": "config/demo.yaml", "experiment": {"seeds": SEEDS}})
    project.snakemake("--cores", 2, "--configfile", config)

    experiment = yaml.safe_load((project.folder / "config/config.yaml").read_text())["experiment"]
    chance = {name: 100 / len(dataset["labels"]) for name, dataset in experiment["datasets"].items()}
    rows = []
    for path in sorted((project.results / "runs" / "finetune").rglob("run.json")):
        record = yaml.safe_load(path.read_text())
        f1 = 100 * record["metrics"]["test_f1_macro"]
        rows.append((record["dataset"], record["model"], record["seed"], f1, f1 - chance[record["dataset"]]))
    runs = pd.DataFrame(rows, columns=["dataset", "model", "seed", "f1", "above"])
    runs = runs[runs["model"] != "tfidf"]
    assert len(runs) == 9 * 3 * len(SEEDS)
    table = runs.pivot_table(index="model", columns="dataset", values="f1", aggfunc=["min", "mean"]).round(1)
    print(table.to_string())
    assert runs.groupby(["model", "dataset"])["above"].mean().min() >= POINTS_ABOVE_CHANCE, f"\n{table}"

    f1 = pd.read_csv(project.results / "tables" / "f1.csv").set_index("model")["imdb"]
    assert f1["sdpa"] > f1["tfidf"] + POINTS_ABOVE_CHANCE, "n-grams should not tell who said it in every review"
