import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from lib.data.tokenizer import WordPieceTokenizer
from lib.data.tokenizing import tokenize_dataset

# Several small trainings at once would otherwise fight for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

WORDS = [first + vowel + last for first in "bdfgk" for vowel in "aeiou" for last in "lmnrst"]
ENCODER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def document(number, label):
    """Return words that tell the label, as many as the number says."""
    vocabulary = WORDS[:90] if label else WORDS[60:]
    return " ".join(vocabulary[(7 * number + 11 * place) % len(vocabulary)] for place in range(6 + number % 19))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A tokeniser and a small labelled dataset, tokenised."""
    folder = tmp_path_factory.mktemp("corpus")
    WordPieceTokenizer.train(folder / "tokenizer", [" ".join(WORDS)] * 5, vocab_size=400)
    tokenizer = WordPieceTokenizer.load(folder / "tokenizer")
    sources = {}
    for split, size in (("train", 192), ("validation", 40), ("test", 40)):
        labels = [number % 2 for number in range(size)]
        texts = [document(3 * number + len(split), label) for number, label in enumerate(labels)]
        ids = [f"{split}-{number}" for number in range(size)]
        sources[split] = folder / f"{split}.parquet"
        pq.write_table(pa.table({"id": ids, "text": texts, "label": labels}), sources[split])
    tokenize_dataset(sources, tokenizer, max_tokens=32, folder=folder / "tokens", lengths=folder / "token_lengths.json")
    return folder


@pytest.fixture
def settings(corpus):
    """Return settings of a run, as a mapping, with `changes` laid over them."""

    def make(stage, **changes):
        splits = ("train", "validation", "test") if stage == "finetune" else ("train", "validation")
        values = {
            "stage": stage,
            "model": "sdpa",
            "dataset": "wikipedia" if stage == "pretrain" else "toy",
            "seed": 7,
            "precision": "fp32",
            "mechanism": {"kind": "sdpa"},
            "encoder": ENCODER,
            "tokenizer": str(corpus / "tokenizer"),
            "data": {split: str(corpus / "tokens" / split) for split in splits},
            "optimisation": {"epochs": 2, "learning_rate": 1e-3, "min_lr_ratio": 0.1, "batch_size": 32},
            "execution": {"device": "cpu"},
        }
        if stage == "finetune":
            values["labels"] = ["low", "high"]
        for key, value in changes.items():
            values[key] = {**values[key], **value} if isinstance(values.get(key), dict) else value
        return values

    return make


@pytest.fixture
def config_file(settings, tmp_path):
    """Write the settings of a run to a file and return its path."""

    def write(stage, name="config.yaml", **changes):
        path = tmp_path / name
        path.write_text(yaml.safe_dump(settings(stage, **changes)))
        return path

    return write
