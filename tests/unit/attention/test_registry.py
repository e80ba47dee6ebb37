import sys

import pytest
import torch

import lib.attention
import lib.core.mechanisms
from lib.attention import registry
from lib.core.errors import ConfigError
from lib.core.mechanisms import MechanismParameters, parse

SHAPE = {"num_heads": 2, "head_size": 4, "layer": 0, "seed": 0}

PARAMETERS = """
from typing import Literal
from lib.core.mechanisms import MechanismParameters
class Parameters(MechanismParameters):
    kind: Literal["passing"]
"""
MECHANISM = """
from lib.attention.contract import Attention
class Mechanism(Attention):
    def attend(self, query, key, value, real):
        return value
"""


def test_build_passes_everything_on():
    mechanism = registry.build(parse({"kind": "sdpa"}), num_heads=2, head_size=4, layer=3, seed=7, dropout=0.25)
    assert (mechanism.num_heads, mechanism.head_size, mechanism.layer, mechanism.seed) == (2, 4, 3, 7)
    assert mechanism.dropout == 0.25
    assert mechanism.settings == parse({"kind": "sdpa"})


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"'linformer'.*favor.*lsh.*sdpa"):
        registry.build(MechanismParameters(kind="linformer"), **SHAPE)


@pytest.mark.parametrize("kind", ["contract", "registry", "reference"])
def test_other_modules_of_the_room_are_no_mechanisms(kind):
    with pytest.raises(ConfigError):
        registry.build(MechanismParameters(kind=kind), **SHAPE)


def test_two_new_files_make_a_mechanism(tmp_path, monkeypatch):
    for package, source in ((lib.attention, MECHANISM), (lib.core.mechanisms, PARAMETERS)):
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / "passing.py").write_text(source)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        monkeypatch.delitem(sys.modules, f"{package.__name__}.passing", raising=False)
    assert "passing" in registry.kinds()
    value = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(registry.build(parse({"kind": "passing"}), **SHAPE)(value, value, value), value)
    for package in (lib.attention, lib.core.mechanisms):
        monkeypatch.delitem(sys.modules, f"{package.__name__}.passing")
