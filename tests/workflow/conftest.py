"""A small workflow, run once for all tests here."""

import shutil

import pytest

# As small as it can be and still go through every rule: one dataset, one mechanism of each kind, an epoch each.
UNUSED = ("lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128", "favor-m128", "favor-m256", "favor-m512")
SMALL = {
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
            },
        },
        "datasets": {
            "imdb": {"generated": {"documents": 200}, "max_tokens": 48},
            "hyperpartisan": None,
            "arxiv": None,
        },
        "stages": {
            "pretrain": {"recipe": {"epochs": 1}},
            "tapt": {"data": {"imdb": {"recipe": {"epochs": 1}}}},
            "finetune": {"data": {"imdb": {"recipe": {"epochs": 2}}}},
        },
    },
}


# A study without training, backbones of tokens or anything of the grid.
ALONE = {
    "experiment": {
        "seeds": [1, 2],
        "backbones": {"tfidf": {"kind": "tfidf"}},
        "datasets": {
            "imdb": {
                "source": "generated",
                "generated": {"documents": 200},
                "labels": ["negative", "positive"],
                "max_tokens": 48,
            }
        },
        "stages": {"score": {"task": {"kind": "sequence_classification"}, "data": {"imdb": {}}}},
        "models": {"words": {"backbone": "tfidf"}},
    },
    "report": {
        "tables": {
            "scores": {"stage": "score", "columns": ["minutes", "f1"]},
            "classes": {"kind": "classes", "stage": "score", "models": ["words"]},
        }
    },
    "execution": {"results": "results/alone"},
}


@pytest.fixture(scope="session")
def alone():
    """Settings of a study that stands alone."""
    return ALONE


@pytest.fixture(scope="session")
def made(copy_of_repository):
    """A project whose small workflow has run to its end, for copies alone."""
    project = copy_of_repository("made")
    project.configure(SMALL)
    project.snakemake("--cores", 2, "--configfile", "config.test.yaml")
    return project


@pytest.fixture(scope="session")
def clone(made, copy_of_repository):
    """Make a fresh copy of the repository, with parts of what the small workflow left, their times kept."""

    def make(name, *parts):
        project = copy_of_repository(name)
        project.configure(SMALL)
        for part in parts:
            shutil.copytree(made.folder / part, project.folder / part)
        return project

    return make


@pytest.fixture(scope="module")
def finished(clone):
    """A project whose small workflow has run to its end, for one module."""
    return clone("finished", "results", ".snakemake")
