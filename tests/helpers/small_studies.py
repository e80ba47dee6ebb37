"""Small studies to test on: a complete one, and changes of it."""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lib.core.extensions import shipped
from lib.study.configuration import load_study
from lib.study.study import Study

RECIPE = {"epochs": 2, "learning_rate": 1e-3, "min_lr_ratio": 0.5, "batch_size": 8}
DATASET = {
    "source": "generated",
    "generated": {"documents": 110, "generator": "imdb"},
    "labels": ["no", "yes"],
    "max_tokens": 128,
}


def reviews(documents: int, max_tokens: int) -> dict[str, Any]:
    """Return a dataset of generated reviews of two classes."""
    return {
        "source": "generated",
        "generated": {"documents": documents},
        "labels": ["negative", "positive"],
        "max_tokens": max_tokens,
    }


def executed_in(results: str) -> dict[str, Any]:
    """Return how a study is executed on the CPU alone, with its results in a folder."""
    job = {"gpu": 0, "cpus_per_task": 1, "mem_mb": 1000}
    return {"results": results, "training": {"device": "cpu"}, "job": job}


SMALL: dict[str, Any] = {
    "extensions": shipped(),
    "experiment": {
        "seeds": [1, 2],
        "precision": "fp32",
        "mechanisms": {
            "sdpa": {"kind": "sdpa"},
            "lsh-h2-c64": {"kind": "lsh", "num_hashes": 2, "chunk_size": 64},
            "favor-m64": {"kind": "favor", "nb_features": 64},
        },
        "backbones": {
            "encoder": {"kind": "encoder", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2},
            "tfidf": {"kind": "tfidf"},
        },
        "tokenizers": {"wordpiece": {"source": "trained", "vocab_size": 500}},
        "corpora": {
            "wikipedia": {"source": "generated", "generated": {"documents": 110, "generator": "wikipedia"}}
            | {part: {"articles": 4, "max_tokens": 64} for part in ("short", "long", "held_out")}
        },
        "datasets": {"imdb": DATASET, "arxiv": DATASET},
        "stages": {
            "pretrain": {"task": {"kind": "masked_lm"}, "recipe": RECIPE, "data": {"wikipedia": {}}},
            "tapt": {
                "start": "pretrain",
                "task": {"kind": "masked_lm"},
                "recipe": RECIPE,
                "data": {"imdb": {}, "arxiv": {}},
            },
            "finetune": {
                "start": "tapt",
                "task": {"kind": "sequence_classification"},
                "recipe": RECIPE,
                "data": {"imdb": {}, "arxiv": {}},
            },
        },
        "models": {
            "tfidf": {"backbone": "tfidf", "skip": ["pretrain", "tapt"]},
            "sdpa": {"backbone": "encoder", "mechanism": "sdpa"},
            "lsh-h2-c64": {"backbone": "encoder", "mechanism": "lsh-h2-c64"},
            "favor-m64": {"backbone": "encoder", "mechanism": "favor-m64"},
        },
    },
}
"""Three stages, four models, one corpus and two datasets: the shape of the grid. A change may name any shipped kind."""

UNUSED = ("lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128", "favor-m128", "favor-m256", "favor-m512")
# Figures of a kind that another one is of.
ALIKE = ("cost_tapt", "cost_finetune", "loss_tapt", "loss_finetune", "loss_pretrain_time")
MINIATURE: dict[str, Any] = {
    "extends": "config/demo.yaml",
    "experiment": {
        "mechanisms": dict.fromkeys(UNUSED),
        "backbones": {
            "encoder": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        },
        "corpora": {
            "wikipedia": {
                "generated": {"documents": 300},
                "short": {"articles": 80, "max_tokens": 32},
                "long": {"articles": 20, "max_tokens": 64},
                "held_out": {"articles": 10, "max_tokens": 64},
            }
        },
        "datasets": {"imdb": {"generated": {"documents": 200}, "max_tokens": 48}, "hyperpartisan": None, "arxiv": None},
        "stages": {
            "pretrain": {"recipe": {"epochs": 1}},
            "tapt": {"data": {"imdb": {"recipe": {"epochs": 1}}}},
            "finetune": {"data": {"imdb": {"recipe": {"epochs": 2}}}},
        },
    },
    "report": {"figures": dict.fromkeys(ALIKE)},
    "execution": {"results": "results/demo"},
}
"""As small as a workflow can be and still go through every kind of rule: one dataset, one mechanism of each kind."""

QUICK = {"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.5, "batch_size": 16}
TINY: dict[str, Any] = {
    "experiment": {
        "seeds": [1],
        "precision": "fp32",
        "mechanisms": {"sdpa": {"kind": "sdpa"}, "lsh-h1-c16": {"kind": "lsh", "num_hashes": 1, "chunk_size": 16}},
        "backbones": {
            "encoder": {
                "kind": "encoder",
                "hidden_size": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "intermediate_size": 16,
            },
            "tfidf": {"kind": "tfidf"},
        },
        "tokenizers": {"wordpiece": {"source": "trained", "corpus": "imdb", "vocab_size": 150}},
        "datasets": {"imdb": reviews(110, 32)},
        "stages": {
            "adapt": {"task": {"kind": "masked_lm"}, "recipe": QUICK, "data": {"imdb": {}}},
            "score": {
                "start": "adapt",
                "task": {"kind": "sequence_classification"},
                "recipe": QUICK,
                "data": {"imdb": {}},
            },
        },
        "models": {
            "tfidf": {"backbone": "tfidf", "skip": ["adapt"]},
            "sdpa": {"backbone": "encoder", "mechanism": "sdpa"},
            "lsh-h1-c16": {"backbone": "encoder", "mechanism": "lsh-h1-c16"},
        },
    },
    "report": {
        "tables": {
            "lengths": {"kind": "token_lengths"},
            "adapt": {"stage": "adapt", "columns": ["minutes", "loss"]},
            "f1": {"stage": "score", "columns": ["f1"]},
            "classes": {"kind": "classes", "stage": "score", "models": ["tfidf"]},
        },
        "figures": {"f1_time": {"kind": "score_time", "stage": "score", "time": ["adapt", "score"]}},
        "baseline": "tfidf",
    },
    "execution": executed_in("results/tiny"),
}
"""A whole study in half a minute: data, a tokeniser, two stages of two mechanisms, a baseline, tables and a figure."""

Change = tuple[str, Any]
"""A place (names separated by `/`, since names may hold dots) and its new value; `DELETE` takes the key away."""

DELETE = object()


def changed(values: Mapping[str, Any], *changes: Change) -> dict[str, Any]:
    """Return a copy of `values` with each of the changes made."""
    result = json.loads(json.dumps(values))  # which also parts what the study shares with itself
    for place, value in changes:
        *path, last = place.split("/")
        target = result
        for key in path:
            target = target.setdefault(key, {})
        if value is DELETE:
            del target[last]
        else:
            target[last] = copy.deepcopy(value)
    return result


def study(*changes: Change, layers: Sequence[tuple[str, dict[str, Any]]] = ()) -> Study:
    """Return the small study with changes below `experiment`, and then `layers` over it."""
    values = changed(SMALL, *((f"experiment/{place}", value) for place, value in changes))
    return load_study([("small.yaml", values), *layers])


def searching(search, *, seeds, mechanisms, documents, epochs, report, **encoder):
    """Return a study that stands alone: a stage that searches for settings, and a fine-tuning that takes the best.

    Args:
        search: the stage that searches, by its name, without its task and data.
        seeds: of all stages that name none.
        mechanisms: of the models, besides TF-IDF.
        documents: of the generated dataset.
        epochs: of the fine-tuning, and of the search if it says nothing else.
        report: tables and figures.
        encoder: further settings of the encoder.
    """
    recipe = {"epochs": epochs, "learning_rate": 1e-3, "min_lr_ratio": 0.5, "batch_size": 16}
    common = {"task": {"kind": "sequence_classification"}, "recipe": recipe, "data": {"imdb": {}}}
    (name, stage), *_ = search.items()
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return {
        "experiment": {
            "seeds": seeds,
            "precision": "fp32",
            "mechanisms": mechanisms,
            "backbones": {"encoder": {"kind": "encoder", **sizes, **encoder}, "tfidf": {"kind": "tfidf"}},
            "tokenizers": {"wordpiece": {"source": "trained", "corpus": "imdb", "vocab_size": 300}},
            "datasets": {"imdb": reviews(documents, 48)},
            "stages": {
                name: common | stage | {"recipe": recipe | stage.get("recipe", {})},
                "finetune": common | {"settings_from": name},
            },
            "models": {
                "tfidf": {"backbone": "tfidf"},
                **{mechanism: {"backbone": "encoder", "mechanism": mechanism} for mechanism in mechanisms},
            },
        },
        "report": report,
        "execution": {
            "results": "results/demo",
            "training": {"device": "cpu", "workers": 0},
            "job": {"gpu": 0, "cpus_per_task": 1, "mem_mb": 2_000},
        },
    }
