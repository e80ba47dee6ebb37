"""A parameter that a model has on one dataset only: its runs there are made with it, and no others are made again."""

import json

import pytest
from safetensors.torch import load_file

pytestmark = pytest.mark.study

DATASET = {
    "source": "generated",
    "generated": {"generator": "imdb", "documents": 120},
    "labels": ["negative", "positive"],
    "max_tokens": 32,
}
RECIPE = {"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.5, "batch_size": 32}
STUDY = {
    "experiment": {
        "seeds": [1],
        "precision": "fp32",
        "mechanisms": {f"favor-m{size}": {"kind": "favor", "nb_features": size} for size in (8, 16)},
        "backbones": {
            "small": {
                "kind": "encoder",
                "hidden_size": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "intermediate_size": 16,
            }
        },
        "tokenizers": {"words": {"source": "trained", "vocab_size": 120, "corpus": "short"}},
        "datasets": {"short": DATASET, "long": DATASET | {"max_tokens": 48}},
        "stages": {
            "adapt": {"task": {"kind": "masked_lm"}, "recipe": RECIPE, "data": {"short": {}, "long": {}}},
            "classify": {
                "start": "adapt",
                "task": {"kind": "sequence_classification"},
                "recipe": RECIPE,
                "data": {"short": {}, "long": {}},
            },
        },
        "models": {"favor": {"backbone": "small", "mechanism": "favor-m8"}},
    },
    "report": {"tables": {"f1": {"stage": "classify", "columns": ["f1", "parameters"]}}},
    "execution": {
        "results": "results/one",
        "training": {"device": "cpu", "workers": 0},
        "job": {"gpu": 0, "cpus_per_task": 1, "mem_mb": 1000},
    },
}
CHANGE = {"changes": {"classify": {"data": {"long": {"mechanism": "favor-m16"}}}}}


def features(folder):
    """Return the number of features that a model's configuration names, and how many its weights are random for."""
    weights = load_file(folder / "model/model.safetensors")
    (drawn,) = (tensor for name, tensor in weights.items() if name.endswith(".mechanism.features"))  # [H, D, d]
    named = json.loads((folder / "model/config.json").read_text())["mechanism"]["nb_features"]
    return named, 2 * drawn.shape[1]  # each draw makes two features


def test_only_the_runs_on_that_dataset_change(copy_of_repository):
    project = copy_of_repository("one")
    before = project.configure(STUDY, "before.yaml")
    project.snakemake("--cores", 2, "--configfile", before)
    runs = project.folder / "results/one/runs"
    weights = {path: path.read_bytes() for path in runs.glob("**/model.safetensors")}
    assert len(weights) == 4

    after = project.configure({"extends": "before.yaml", "experiment": {"models": {"favor": CHANGE}}}, "after.yaml")
    assert project.stale(after) == {"train": 1, "table_f1": 1, "all": 1, "total": 3}
    project.snakemake("--cores", 2, "--configfile", after)
    changed = runs / "classify/favor/long/seed-1"
    assert features(changed) == (16, 16)
    others = [runs / f"{place}/seed-1" for place in ("adapt/favor/long", "adapt/favor/short", "classify/favor/short")]
    assert [features(folder) for folder in others] == [(8, 8)] * 3
    different = [path for path, content in weights.items() if path.read_bytes() != content]
    assert different == [changed / "model/model.safetensors"]
    assert json.loads((changed / "run.json").read_text())["parents"]["start"]["path"].endswith(
        "adapt/favor/long/seed-1/model"
    )
