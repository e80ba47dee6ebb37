"""Small models and batches that the encoder's tests share."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from ready import TRAINING, ready

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.model import EncoderModel
from lib.backbones.heads.masked_lm import MaskedLM
from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.backbones.heads.token_classification import TokenClassification

EncoderForMaskedLM = MaskedLM.on(EncoderModel)
EncoderForSequenceClassification = SequenceClassification.on(EncoderModel)
EncoderForTokenClassification = TokenClassification.on(EncoderModel)
EXAMPLES = {
    "sdpa": {"kind": "sdpa"},
    "sdpa-naive": {"kind": "sdpa", "use_native_sdpa": False},
    "lsh": {"kind": "lsh", "num_hashes": 2, "chunk_size": 4},
    "favor": {"kind": "favor", "nb_features": 8},
    "favor-relu": {"kind": "favor", "nb_features": 8, "phi": "relu"},
    "favor-elu": {"kind": "favor", "phi": "elu"},
    "window": {"kind": "window", "width": 4, "global_tokens": 1},
    "bigbird": {"kind": "bigbird", "block_size": 3, "random_blocks": 1},
}
MIXES = [
    *(("sdpa", position) for position in ("learned", "sinusoidal", "rope", "alibi")),
    *(("lsh", position) for position in ("rope", "alibi")),
    *(("favor", position) for position in ("learned", "rope")),
    *(("window", position) for position in ("sinusoidal", "alibi")),
    ("sdpa-naive", "alibi"),
    ("favor-relu", "sinusoidal"),
    ("favor-elu", "rope"),
    ("bigbird", "rope"),
]
"""Mechanisms with position encodings: rotations, biases and added positions, each with each kind of computation."""
VOCABULARY = 50


def tiny_config(**changes):
    values = {
        "vocab_size": VOCABULARY,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    if changes.get("position_embedding_type") == "learned":
        values["max_position_embeddings"] = 64
    return EncoderConfig(**{**values, **changes})


def build(model_class, seed=0, **changes):
    torch.manual_seed(seed)
    return model_class(tiny_config(**changes))


def token_ids(*shape, seed=0):
    return torch.randint(5, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def masks(*lengths):
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()


def masked_labels(input_ids, share=0.3, seed=1):
    chosen = torch.rand(input_ids.shape, generator=torch.Generator().manual_seed(seed)) < share
    return torch.where(chosen, input_ids, -100)


def labelled(model, *lengths):
    """A batch of documents of `lengths` tokens with labels for the task of `model`."""
    input_ids, attention_mask = token_ids(len(lengths), max(lengths)), masks(*lengths)
    labels = torch.arange(len(lengths)) % 2
    if isinstance(model, EncoderForMaskedLM):
        labels = masked_labels(input_ids).masked_fill(attention_mask == 0, -100)
    return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}


def fresh_python(program, *arguments, bare=False):
    """Run `program` in a process that has not imported the project, and return what it printed.

    Args:
        program: its text.
        arguments: its arguments.
        bare: in an interpreter that has imported nothing, for a program to which the order of imports matters.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(program)
        command, environment = [sys.executable, str(file), *map(str, arguments)], os.environ.copy()
        if not bare:
            command, environment = ready(command, environment, TRAINING)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout
