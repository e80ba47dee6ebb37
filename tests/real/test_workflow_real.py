"""A cut of the four real corpora through all stages of the grid, by the `local` source; others make all results."""

import json

import pandas as pd
import pytest

pytestmark = [pytest.mark.real, pytest.mark.study]

MODELS = ["sdpa", "lsh-h2-c64", "favor-m64"]


def configuration(data):
    """Return what is laid over the full grid's configuration: own files, a small encoder, three mechanisms."""
    recipe = {"epochs": 1, "learning_rate": 1e-3, "batch_size": 16}
    few = {"train": 64, "validation": 16, "test": 16}
    names = ("imdb", "hyperpartisan", "arxiv")
    unused = ("lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128", "favor-m128", "favor-m256", "favor-m512")
    return {
        "extends": "config/config.yaml",
        "experiment": {
            "precision": "fp32",
            "mechanisms": dict.fromkeys(unused),
            "backbones": {
                "encoder": {
                    "hidden_size": 64,
                    "num_hidden_layers": 2,
                    "num_attention_heads": 4,
                    "intermediate_size": 128,
                }
            },
            "tokenizers": {"wordpiece": {"source": "local", "path": str(data / "vocab/bert-base-uncased/vocab.txt")}},
            "corpora": {
                "wikipedia": {
                    "source": "local",
                    "local": {"files": {"train": [str(data / "wikipedia/en-sample.parquet")]}},
                    "short": {"articles": 64, "max_tokens": 64},
                    "long": {"articles": 32, "max_tokens": 128},
                    "held_out": {"articles": 16, "max_tokens": 128},
                }
            },
            "datasets": {
                "imdb": {
                    "source": "local",
                    "local": {"files": {part: [str(data / f"imdb/{part}.parquet")] for part in ("test", "train")}},
                    "split": {"documents": few},
                    "max_tokens": 128,
                },
                "hyperpartisan": {
                    "source": "local",
                    "local": {
                        "files": {"train": [str(data / "hyperpartisan/articles-training-byarticle-20181122.xml.gz")]},
                        "ground_truth": {
                            "train": [str(data / "hyperpartisan/ground-truth-training-byarticle-20181122.xml.gz")]
                        },
                    },
                    "min_chars": 2000,
                    "split": {"documents": {"train": 64, "validation": 16, "test": 16}},
                    "max_tokens": 256,
                },
                "arxiv": {
                    "source": "local",
                    "local": {"files": {"train": [str(data / "arxiv/subjects11.parquet")]}},
                    "id": "id",
                    "split": {"documents": {"train": 64}},  # of 11 classes, some of them small
                    "max_tokens": 512,
                },
            },
            "stages": {
                "pretrain": {"recipe": recipe},
                "tapt": {"data": {name: {"recipe": recipe} for name in names}},
                "finetune": {
                    "data": {name: {"recipe": recipe | {"freeze_layers": 1, "freeze_epochs": 1}} for name in names}
                },
            },
        },
        "report": {"published": None},
        "execution": {
            "results": "results/demo",
            "training": {"device": "cpu", "workers": 0},
            "job": {"gpu": 0, "cpus_per_task": 1, "mem_mb": 2_000},
        },
    }


def test_grid_on_four_real_corpora(shared, copy_of_repository):
    project = copy_of_repository("real")
    config = project.configure(configuration(shared / "data"))
    targets = [f"results/demo/tables/{name}.csv" for name in ("f1", "token_lengths")]
    project.snakemake("--cores", 2, "--configfile", config, "--", *targets)

    f1 = pd.read_csv(project.results / "tables" / "f1.csv")
    assert f1["model"].tolist() == ["tfidf", *MODELS]
    assert f1.notna().all(axis=None)
    assert len(list((project.results / "runs").rglob("run.json"))) == 3 + 9 + 9 + 3

    lengths = pd.read_csv(project.results / "tables" / "token_lengths.csv").set_index(["corpus", "split"])
    assert lengths.loc[("imdb", "train"), "documents"] == 64
    assert lengths.loc[("arxiv", "train"), "median"] == 512
    summary = json.loads((project.results / "data/imdb/prepared/summary.json").read_text())
    assert summary
    assert all(project.stale(config, target=target) == {} for target in targets)
