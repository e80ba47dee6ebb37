"""Segments of pairs reach published architectures that have embeddings of them, and no others."""

import functools

import pytest
import torch
from transformers import AutoModel

from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.tokens.batches import ClassificationCollator
from lib.training.predictor import _collated

SIZES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
TYPES = torch.tensor([[0, 0, 0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1, 1]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 0, 0], [1] * 8])


def made(kind, **fields):
    torch.manual_seed(0)
    architecture = {"model_type": kind, "max_position_embeddings": 32, "initializer_range": 0.3, **SIZES, **fields}
    config = PretrainedBackboneConfig(architecture=architecture, vocab_size=40)
    return AutoModel.from_config(config).eval()


def states(model, types, mask=MASK):
    ids = torch.randint(1, 40, mask.shape, generator=torch.Generator().manual_seed(1))
    return model(ids, mask, token_type_ids=types).last_hidden_state


@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_states_of_the_second_segment(kind):
    model = made(kind, **({"embedding_size": 32} if kind == "electra" else {}))
    assert model.config.token_types == 2
    found, without = states(model, TYPES), states(model, torch.zeros_like(TYPES))
    assert not torch.allclose(found[0, :6], without[0, :6], atol=1e-3)
    alone = model(
        torch.randint(1, 40, MASK.shape, generator=torch.Generator().manual_seed(1))[:1, :6],
        token_type_ids=TYPES[:1, :6],
    ).last_hidden_state
    assert torch.allclose(found[0, :6], alone[0], atol=1e-4)


def test_models_without_segments():
    example = {"id": "a", "input_ids": [1, 2, 3], "token_type_ids": [0, 1, 1], "label": 0}
    collate = functools.partial(_collated, ClassificationCollator(0), False)
    assert collate(True, [example])["token_type_ids"].tolist() == [[0, 1, 1]]
    assert "token_type_ids" not in collate(False, [example])
