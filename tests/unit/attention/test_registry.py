import shutil
import sys
from pathlib import Path

import pytest
import torch
from encoder_cases import masks as encoder_masks
from encoder_cases import tiny_config, token_ids
from studies import study

import lib.attention
from lib.attention import registry
from lib.attention.contract import mechanisms
from lib.attention.settings import MECHANISMS, MechanismSettings
from lib.backbones.encoder.model import EncoderModel
from lib.core.errors import ConfigError

SHAPE = {"num_heads": 2, "head_size": 4, "layer": 0, "seed": 0}

SETTINGS = """
from typing import Literal
from lib.attention.settings import MechanismSettings
class Settings(MechanismSettings):
    kind: Literal["KIND"]
"""
MECHANISM = """
from lib.attention.contract import Attention
class Mechanism(Attention):
    def attend(self, query, key, value, real):
        return value
"""

WINDOWED = """
import torch
from lib.attention.block_sparse.computation import BlockSparse, Part, in_blocks
class Mechanism(BlockSparse):
    def parts(self, query, key, real):
        pairs = in_blocks(torch.arange(query.shape[2]), 2)
        yield Part(queries=pairs, keys=pairs, meets=torch.arange(len(pairs))[:, None])
"""


def test_build_passes_everything_on():
    parameters = MECHANISMS.parse({"kind": "sdpa"})
    mechanism = registry.build(parameters, num_heads=2, head_size=4, layer=3, seed=7, dropout=0.25, slopes=(1, 2))
    assert (mechanism.num_heads, mechanism.head_size, mechanism.layer, mechanism.seed) == (2, 4, 3, 7)
    assert mechanism.dropout == 0.25
    assert mechanism.slopes(torch.device("cpu")).tolist() == [1, 2]
    assert mechanism.settings == MECHANISMS.parse({"kind": "sdpa"})


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"'synthesizer'.*favor.*lsh.*sdpa"):
        registry.build(MechanismSettings(kind="synthesizer"), **SHAPE)


@pytest.mark.parametrize("kind", ["contract", "kernels", "registry", "reference"])
def test_other_modules_of_the_room_are_no_mechanisms(kind):
    with pytest.raises(ConfigError):
        registry.build(MechanismSettings(kind=kind), **SHAPE)


def means_of_pairs(value):
    return torch.cat([pair.mean(dim=2, keepdim=True).expand_as(pair) for pair in value.split(2, dim=2)], dim=2)


@pytest.mark.parametrize(
    ("kind", "mechanism", "expected"),
    [("passing", MECHANISM, lambda value: value), ("windowed", WINDOWED, means_of_pairs)],
)
def test_a_new_folder_makes_a_mechanism(kind, mechanism, expected, tmp_path, monkeypatch):
    folder = tmp_path / kind
    folder.mkdir()
    for name, source in (("__init__", ""), ("settings", SETTINGS), ("mechanism", mechanism)):
        (folder / f"{name}.py").write_text(source.replace("KIND", kind))
    monkeypatch.setattr(lib.attention, "__path__", [*lib.attention.__path__, str(tmp_path)])
    assert kind in MECHANISMS.kinds()
    value = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    built = registry.build(MECHANISMS.parse({"kind": kind}), **SHAPE)
    alike = torch.ones_like(value)  # all weights of what is seen are equal
    torch.testing.assert_close(built(alike, alike, value), expected(value))
    for name in [name for name in sys.modules if name.startswith(f"lib.attention.{kind}")]:
        monkeypatch.delitem(sys.modules, name)


LINFORMER = {"kind": "linformer", "rank": 3, "length": 64}


@pytest.mark.parametrize("values", [LINFORMER], ids=lambda values: values["kind"])
def test_a_copied_folder_with_a_line_of_configuration_is_a_row_of_a_study(values, tmp_path, monkeypatch):
    """Of a mechanism that declares what the others do not, nothing stands outside its folder."""
    kind, copy = values["kind"], f"{values['kind']}_copied"
    shutil.copytree(Path(lib.attention.__file__).parent / kind, tmp_path / copy)
    for path in (tmp_path / copy).glob("*.py"):
        text = path.read_text().replace(f"lib.attention.{kind}.", f"lib.attention.{copy}.")
        path.write_text(text.replace(f'Literal["{kind}"]', f'Literal["{copy}"]'))
    monkeypatch.setattr(lib.attention, "__path__", [*lib.attention.__path__, str(tmp_path)])

    own, copied = (MECHANISMS.parse(values | {"kind": each}) for each in (kind, copy))
    shorter = [(f"datasets/{name}/max_tokens", 64) for name in ("imdb", "arxiv")]
    row = [(f"mechanisms/{copied.name()}", values | {"kind": copy})]
    row += [("models/copied", {"backbone": "encoder", "mechanism": copied.name()})]
    assert study(*shorter, *row).experiment.models["copied"].mechanism == copied.name()
    if copied.longest():
        with pytest.raises(ConfigError, match=r"reads 64 tokens at most in copied, but imdb has max_tokens = 128"):
            study(*row)

    models = []
    for parameters in (own, copied):
        torch.manual_seed(0)
        models.append(EncoderModel(tiny_config(mechanism=parameters.model_dump())).eval())
    assert type(next(mechanisms(models[1]))).__module__ == f"lib.attention.{copy}.mechanism"
    first, second = (model(token_ids(2, 30), encoder_masks(30, 12)).last_hidden_state for model in models)
    torch.testing.assert_close(first, second)
    for name in [name for name in sys.modules if name.startswith(f"lib.attention.{copy}")]:
        monkeypatch.delitem(sys.modules, name)
