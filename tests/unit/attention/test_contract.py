import shutil

import pytest
import torch
from encoder_cases import masks as encoder_masks
from encoder_cases import tiny_config, token_ids
from small_studies import study
from torch import nn

from lib.attention import kernels as kernels_of_attention
from lib.attention.contract import Attention, build, mechanisms, set_step
from lib.attention.kernels import set_kernels
from lib.attention.settings import MECHANISMS, MechanismSettings
from lib.backbones.encoder.model import EncoderModel
from lib.core.errors import ConfigError, RunError
from lib.core.extensions import ROOT

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
    mechanism = build(parameters, num_heads=2, head_size=4, layer=3, seed=7, dropout=0.25, slopes=(1, 2))
    assert (mechanism.num_heads, mechanism.head_size, mechanism.layer, mechanism.seed) == (2, 4, 3, 7)
    assert mechanism.dropout == 0.25
    assert mechanism.slopes(torch.device("cpu")).tolist() == [1, 2]
    assert mechanism.settings == MECHANISMS.parse({"kind": "sdpa"})


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"'synthesizer'.*favor.*lsh.*sdpa"):
        build(MechanismSettings(kind="synthesizer"), **SHAPE)


@pytest.mark.parametrize("kind", ["contract", "kernels", "interface", "reference"])
def test_other_modules_of_the_room_are_no_mechanisms(kind):
    with pytest.raises(ConfigError):
        build(MechanismSettings(kind=kind), **SHAPE)


def means_of_pairs(value):
    return torch.cat([pair.mean(dim=2, keepdim=True).expand_as(pair) for pair in value.split(2, dim=2)], dim=2)


@pytest.mark.parametrize(
    ("kind", "mechanism", "expected"),
    [("passing", MECHANISM, lambda value: value), ("windowed", WINDOWED, means_of_pairs)],
)
def test_a_new_folder_makes_a_mechanism(kind, mechanism, expected, own_extension):
    folder = own_extension / "attention" / kind
    folder.mkdir(parents=True)
    for name, source in (("__init__", ""), ("settings", SETTINGS), ("mechanism", mechanism)):
        (folder / f"{name}.py").write_text(source.replace("KIND", kind))
    assert kind in MECHANISMS.kinds()
    value = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    built = build(MECHANISMS.parse({"kind": kind}), **SHAPE)
    alike = torch.ones_like(value)  # all weights of what is seen are equal
    torch.testing.assert_close(built(alike, alike, value), expected(value))


LINFORMER = {"kind": "linformer", "rank": 3, "length": 64}


@pytest.mark.parametrize("values", [LINFORMER], ids=lambda values: values["kind"])
def test_a_copied_folder_with_a_line_of_configuration_is_a_row_of_a_study(values, own_extension):
    """Of a mechanism that declares what the others do not, nothing stands outside its folder."""
    kind, copy = values["kind"], f"{values['kind']}_copied"
    folder, package = own_extension / "attention" / copy, f"{own_extension.name}.attention.{copy}"
    shutil.copytree(ROOT / "lib/attention" / kind, folder)
    for path in folder.glob("*.py"):
        text = path.read_text().replace(f"lib.attention.{kind}.", f"{package}.")
        path.write_text(text.replace(f'Literal["{kind}"]', f'Literal["{copy}"]'))

    own, copied = (MECHANISMS.parse(values | {"kind": each}) for each in (kind, copy))
    shorter = [(f"datasets/{name}/max_tokens", 64) for name in ("imdb", "arxiv")]
    row = [(f"mechanisms/{copied.name()}", values | {"kind": copy})]
    row += [("models/copied", {"backbone": "encoder", "mechanism": copied.name()})]
    assert study(*shorter, *row).experiment.models["copied"].mechanism == copied.name()
    if copied.longest():
        with pytest.raises(ConfigError, match="reads 64 tokens at most.*imdb has max_tokens = 128"):
            study(*row)

    models = []
    for parameters in (own, copied):
        torch.manual_seed(0)
        models.append(EncoderModel(tiny_config(mechanism=parameters.model_dump())).eval())
    assert type(next(mechanisms(models[1]))).__module__ == f"{package}.mechanism"
    first, second = (model(token_ids(2, 30), encoder_masks(30, 12)).last_hidden_state for model in models)
    torch.testing.assert_close(first, second)


def test_set_step_reaches_every_mechanism_of_a_tree():
    sdpa = MECHANISMS.parse({"kind": "sdpa"})
    mechanisms = [build(sdpa, num_heads=1, head_size=4, layer=layer, seed=0) for layer in range(3)]
    set_step(nn.ModuleDict({"a": mechanisms[0], "b": nn.Sequential(nn.Identity(), nn.ModuleList(mechanisms[1:]))}), 5)
    assert [mechanism.step for mechanism in mechanisms] == [5, 5, 5]


def favor(kernels):
    """Return FAVOR+ in a tree that was told what to compute with, and rows to attend to."""
    mechanism = build(MECHANISMS.parse({"kind": "favor", "nb_features": 8}), num_heads=1, head_size=4, layer=0, seed=0)
    set_kernels(nn.Sequential(nn.Identity(), mechanism), kernels)
    return mechanism, torch.zeros(1, 1, 5, 4)


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_a_mechanism_computes_with_torch_unless_it_is_told_otherwise(kernels):
    mechanism, rows = favor(kernels)
    assert mechanism.computed_by is None
    mechanism(rows, rows, rows)
    assert mechanism.computed_by == "torch"


def test_exact_attention_has_no_kernels_and_says_nothing_of_them():
    mechanism = build(MECHANISMS.parse({"kind": "sdpa"}), num_heads=1, head_size=4, layer=0, seed=0)
    set_kernels(mechanism, "triton")
    rows = torch.zeros(1, 1, 5, 4)
    mechanism(rows, rows, rows)
    assert mechanism.computed_by is None


def test_kernels_without_a_gpu_are_refused(monkeypatch):
    pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    mechanism, rows = favor("triton")
    with pytest.raises(
        RunError, match=r"kernels is 'triton', but the model is on cpu. Expected a GPU; .*use 'auto' or 'torch'"
    ):
        mechanism(rows, rows, rows)


def test_kernels_refuse_numbers_that_they_cannot_take():
    pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
    mechanism, rows = favor("triton")
    with pytest.raises(RunError, match="torch.float64. Expected float32, bfloat16, float16; use 'auto' or"):
        mechanism(*[rows.double()] * 3)


def test_kernels_without_triton_say_what_to_install(monkeypatch):
    monkeypatch.setattr(kernels_of_attention, "_triton_is_there", lambda: False)
    mechanism, rows = favor("triton")
    with pytest.raises(RunError, match="kernels is 'triton', but the package triton is not installed. Install it"):
        mechanism(rows, rows, rows)


@pytest.mark.parametrize("shape", [(2, 4), (2, 1, 1, 5), (5,)])
def test_a_mask_of_another_shape_is_refused(shape):
    rows = torch.zeros(2, 1, 5, 4)
    sdpa = MECHANISMS.parse({"kind": "sdpa"})
    with pytest.raises(ValueError, match=r"expected \[B, N\] = \(2, 5\)"):
        build(sdpa, num_heads=1, head_size=4, layer=0, seed=0)(rows, rows, rows, torch.ones(shape))


def test_a_key_of_its_own_is_refused_where_query_and_key_are_shared():
    parameters = MECHANISMS.parse({"kind": "lsh", "num_hashes": 1, "chunk_size": 2})
    rows = torch.zeros(2, 1, 5, 4)
    with pytest.raises(ValueError, match="same tensor"):
        build(parameters, num_heads=1, head_size=4, layer=0, seed=0)(rows, rows.clone(), rows)


class Mean(Attention):
    """Gives every token the mean of its row, and nothing but `attend`."""

    def attend(self, query, key, value, real):
        assert value.shape == query.shape
        count = value.shape[2] if real is None else real.sum(-1)[:, None, None, None].clamp(min=1)
        return (value.sum(2, keepdim=True) / count).expand_as(value)


@pytest.mark.parametrize("length", [1, 4, 7, 8])
def test_a_mechanism_need_not_know_of_weights(length):
    sdpa = MECHANISMS.parse({"kind": "sdpa"})
    mechanism = Mean(parameters=sdpa, num_heads=3, head_size=4, layer=0, seed=0)
    rows = torch.zeros(2, 3, length, 4)
    uniform = torch.full((2, 3, length, length), 1 / length)
    torch.testing.assert_close(mechanism.weights(rows, rows), uniform)
    mask = torch.ones(2, length)
    mask[1, 1:] = 0
    weights = mechanism.weights(rows, rows, mask)
    torch.testing.assert_close(weights[0], uniform[0])
    assert weights[1].sum(dim=(1, 2)).tolist() == [1, 1, 1]
    assert weights[1, :, 0, 0].tolist() == [1, 1, 1]


def test_weights_check_their_arguments():
    lsh = MECHANISMS.parse({"kind": "lsh", "num_hashes": 1, "chunk_size": 2})
    mechanism, rows = build(lsh, num_heads=1, head_size=4, layer=0, seed=0), torch.zeros(2, 1, 5, 4)
    with pytest.raises(ValueError, match="same tensor"):
        mechanism.weights(rows, rows.clone())
    with pytest.raises(ValueError, match=r"expected \[B, N\]"):
        mechanism.weights(rows, rows, torch.ones(2, 4))
