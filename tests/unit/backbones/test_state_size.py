"""State sizes of backbones, against the states that their layers hand on, and costs, against counted products."""

import importlib

import pytest
import torch
from plain_vocabulary import PlainVocabulary
from torch.utils.flop_counter import FlopCounterMode

from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.backbones.state_size import state_bytes

WIDTH = 16


def encoder(**values):
    sizes = {"kind": "encoder", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    mechanism = MECHANISMS.parse(values.pop("mechanism", {"kind": "sdpa"}))
    return BACKBONES.parse(sizes | values).with_mechanism(mechanism)


def model(parameters):
    """Return the model of these parameters, without a head."""
    backbone = BACKBONES.load(parameters.kind, "backbone").Backbone(parameters, seed=1)
    return backbone.model_class(backbone.config(PlainVocabulary(20), {})).eval()


def test_state_of_an_encoder():
    assert state_bytes(encoder(), 100) == 4 * 3 * 4 * 2 * 100 * 16
    assert state_bytes(encoder(mechanism={"kind": "favor", "nb_features": 32}), 100) == 4 * 3 * 4 * 32 * 17
    assert state_bytes(encoder(num_key_value_heads=1), 100) == 4 * 3 * 2 * 100 * 16


@pytest.mark.parametrize(("cell", "bidirectional"), [("gru", True), ("lstm", False)])
def test_state_of_a_recurrent_encoder(cell, bidirectional):
    values = {"cell": cell, "hidden_size": WIDTH, "num_hidden_layers": 2, "bidirectional": bidirectional}
    parameters = BACKBONES.parse({"kind": "recurrent", **values})
    kept = 0
    for layer in model(parameters).layers:
        _, states = layer(torch.zeros(1, 30, WIDTH))
        kept += sum(state.numel() for state in (states if isinstance(states, tuple) else (states,)))
    assert state_bytes(parameters, 30) == state_bytes(parameters, 3000) == 4 * kept


def test_state_of_a_state_space_encoder(monkeypatch):
    values = {"hidden_size": WIDTH, "num_hidden_layers": 2, "head_size": 8, "state_size": 5, "chunk_size": 4}
    parameters, kept, stack = BACKBONES.parse({"kind": "ssm", **values}), [], torch.stack
    module = importlib.import_module("lib.backbones.ssm.scan")

    def spy(states, dimension):
        kept.append(states[-1][0].numel())
        return stack(states, dimension)

    network = model(parameters)
    monkeypatch.setattr(module.torch, "stack", spy)
    network(torch.ones(1, 12, dtype=torch.long), torch.ones(1, 12, dtype=torch.long))
    assert len(kept) == 2 * 2  # layers and directions
    convolution = network.layers[0].mixer.conv1d if hasattr(network.layers[0], "mixer") else None
    width, reach = (32 + 4 * 5, 7) if convolution is None else (convolution.in_channels, *convolution.kernel_size)
    assert state_bytes(parameters, 12) == 4 * (sum(kept) + 2 * (reach - 1) * width)


SIZES = {"hidden_size": 64, "num_hidden_layers": 3}
ATTENDS = SIZES | {"num_attention_heads": 4, "intermediate_size": 96}
EXACT = {"mechanism": {"kind": "sdpa", "use_native_sdpa": False}, "attention_dropout": 0.0}
COUNTED = {
    "encoder": ATTENDS | EXACT | {"num_key_value_heads": 2},
    "pretrained": EXACT | {"architecture": ATTENDS | {"model_type": "bert", "max_position_embeddings": 256}},
    "ssm": SIZES | {"head_size": 16, "state_size": 32, "chunk_size": 16},
}


@pytest.mark.parametrize("kind", COUNTED)
def test_products_of_a_token(kind):
    parameters = BACKBONES.parse({"kind": kind, **COUNTED[kind]})
    network = model(parameters)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.ones(1, 256, dtype=torch.long))
    assert counter.get_total_flops() / 2 / 256 == pytest.approx(parameters.products_per_token(256, 0.0), rel=0.03)
