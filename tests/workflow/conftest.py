"""A small workflow, run once for all tests here."""

import pytest

# As small as it can be and still go through every rule: one dataset, one mechanism of each kind, an epoch each.
SMALL = {
    "experiment": {
        "models": ["sdpa", "lsh-h2-c64", "favor-m64"],
        "encoder": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32},
        "wikipedia": {
            "generated": {"documents": 300},
            "short": {"articles": 80, "max_tokens": 32},
            "long": {"articles": 20, "max_tokens": 64},
            "held_out": {"articles": 10, "max_tokens": 64},
        },
        "datasets": {
            "imdb": {"generated": {"documents": 200}, "max_tokens": 48},
            "hyperpartisan": None,
            "arxiv": None,
        },
        "pretrain": {"epochs": 1},
        "tapt": {"imdb": {"epochs": 1}},
        "finetune": {"imdb": {"epochs": 2}},
    }
}


@pytest.fixture(scope="session")
def finished(copy_of_repository):
    """A project whose small workflow has run to its end."""
    project = copy_of_repository("finished")
    project.configure(SMALL)
    project.snakemake("--cores", 2, "--configfile", "config/demo.yaml", "config.test.yaml")
    return project
