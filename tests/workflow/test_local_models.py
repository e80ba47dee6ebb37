"""A model in a folder of the user is an input like any file: its contents count, not its times or its neighbours."""

import itertools
import os

import pytest
import torch
from small_studies import changed
from transformers import BertConfig, BertModel

from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import train_words

pytestmark = pytest.mark.study

CONFIG = "config.test.yaml"
WORDS = ["good", "bad", "film", "plot", "actor", "scene"]
STUDY = {
    "experiment": {
        "seeds": [1],
        "precision": "fp32",
        "published": {"tiny": {"folder": "data/tiny"}},
        "datasets": {
            "posts": {
                "source": "local",
                "local": {"files": {"all": ["data/posts.csv"]}},
                "labels": ["no", "yes"],
                "max_tokens": 8,
            }
        },
        "stages": {
            "classify": {
                "task": {"kind": "sequence_classification"},
                "recipe": {"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.1, "batch_size": 16},
                "data": {"posts": {}},
            }
        },
        "models": {"tiny": {"backbone": "tiny"}},
    },
    "report": {"tables": {"f1": {"stage": "classify", "columns": ["f1"]}}},
    "execution": {"results": "results/tiny", "training": {"device": "cpu", "workers": 0}},
}


def save_model(folder, seed):
    """Leave a model as transformers saves it, with its tokeniser."""
    folder.mkdir(parents=True)
    train_words(folder, [" ".join(WORDS)])
    torch.manual_seed(seed)
    size = len(TextTokenizer.load(folder).backend)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertModel(BertConfig(**sizes, vocab_size=size, max_position_embeddings=16)).save_pretrained(folder)


def flip_last_byte(path):
    """Change a weight in place, which leaves the time of its folder."""
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))


def test_the_contents_of_a_local_model_make_its_runs_stale_and_nothing_else_does(copy_of_repository):
    project = copy_of_repository("local")
    folder = project.folder / "data/tiny"
    weights = folder / "model.safetensors"
    save_model(folder, seed=1)
    posts = [f"{' '.join(words)},{number % 2}" for number, words in enumerate(itertools.permutations(WORDS, 4))]
    (folder.parent / "posts.csv").write_text("\n".join(["text,label", *posts]))
    project.configure(STUDY)
    run = ("--cores", 2, "--configfile", CONFIG)
    project.snakemake(*run)
    assert project.stale(CONFIG) == {}

    weights.touch()
    (folder / "README.md").write_text("A page about the model.")
    (folder / "checkpoint-5").mkdir()
    (folder / "checkpoint-5/optimizer.pt").touch()
    assert project.stale(CONFIG) == {}

    flip_last_byte(weights)
    assert project.stale(CONFIG).keys() >= {"train", "table_f1"}
    project.snakemake(*run)
    assert project.program("verify", "--configfile", CONFIG).returncode == 0
    flip_last_byte(weights)
    assert "model.safetensors has changed" in project.program("verify", "--configfile", CONFIG).stdout

    # A model that the study does not read any more may change.
    save_model(project.folder / "data/other", seed=2)
    project.configure(changed(STUDY, ("experiment/published/tiny/folder", "data/other")))
    project.snakemake(*run)
    process = project.program("verify", "--configfile", CONFIG)
    assert process.returncode == 0, process.stdout
