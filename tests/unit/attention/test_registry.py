import sys

import pytest
import torch

import lib.attention
from lib.attention import registry
from lib.attention.parameters import MECHANISMS, MechanismParameters
from lib.core.errors import ConfigError

SHAPE = {"num_heads": 2, "head_size": 4, "layer": 0, "seed": 0}

PARAMETERS = """
from typing import Literal
from lib.attention.parameters import MechanismParameters
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
    parameters = MECHANISMS.parse({"kind": "sdpa"})
    mechanism = registry.build(parameters, num_heads=2, head_size=4, layer=3, seed=7, dropout=0.25, slopes=(1, 2))
    assert (mechanism.num_heads, mechanism.head_size, mechanism.layer, mechanism.seed) == (2, 4, 3, 7)
    assert mechanism.dropout == 0.25
    assert mechanism.slopes(torch.device("cpu")).tolist() == [1, 2]
    assert mechanism.settings == MECHANISMS.parse({"kind": "sdpa"})


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"'linformer'.*favor.*lsh.*sdpa"):
        registry.build(MechanismParameters(kind="linformer"), **SHAPE)


@pytest.mark.parametrize("kind", ["contract", "kernels", "registry", "reference"])
def test_other_modules_of_the_room_are_no_mechanisms(kind):
    with pytest.raises(ConfigError):
        registry.build(MechanismParameters(kind=kind), **SHAPE)


def test_a_new_folder_makes_a_mechanism(tmp_path, monkeypatch):
    folder = tmp_path / "passing"
    folder.mkdir()
    for name, source in (("__init__", ""), ("parameters", PARAMETERS), ("mechanism", MECHANISM)):
        (folder / f"{name}.py").write_text(source)
    monkeypatch.setattr(lib.attention, "__path__", [*lib.attention.__path__, str(tmp_path)])
    assert "passing" in MECHANISMS.kinds()
    value = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    built = registry.build(MECHANISMS.parse({"kind": "passing"}), **SHAPE)
    assert torch.equal(built(value, value, value), value)
    for name in [name for name in sys.modules if name.startswith("lib.attention.passing")]:
        monkeypatch.delitem(sys.modules, name)
