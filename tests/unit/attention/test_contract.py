import shutil

import pytest
import torch
from encoder_cases import masks as encoder_masks
from encoder_cases import tiny_config, token_ids
from small_studies import study
from torch import nn

from lib.attention import kernels as kernels_of_attention
from lib.attention.contract import Attention, build, mechanisms
from lib.attention.kernels import set_kernels
from lib.attention.settings import MECHANISMS
from lib.backbones.encoder.model import EncoderModel
from lib.core.errors import ConfigError, RunError
from lib.core.extensions import ROOT


def test_copied_folder_in_a_study(own_extension):
    """Of a mechanism that declares what the others do not, nothing stands outside its folder."""
    values = {"kind": "linformer", "rank": 3, "length": 64}
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
    with pytest.raises(ConfigError, match="64 .*max_tokens = 128"):
        study(*row)

    models = []
    for parameters in (own, copied):
        torch.manual_seed(0)
        models.append(EncoderModel(tiny_config(mechanism=parameters.model_dump())).eval())
    assert type(next(mechanisms(models[1]))).__module__ == f"{package}.mechanism"
    first, second = (model(token_ids(2, 30), encoder_masks(30, 12)).last_hidden_state for model in models)
    torch.testing.assert_close(first, second)


def favor(kernels):
    """Return FAVOR+ in a tree that was told what to compute with, and rows to attend to."""
    mechanism = build(MECHANISMS.parse({"kind": "favor", "nb_features": 8}), num_heads=1, head_size=4, layer=0, seed=0)
    set_kernels(nn.Sequential(nn.Identity(), mechanism), kernels)
    return mechanism, torch.zeros(1, 1, 5, 4)


def test_kernels_that_are_asked_for(monkeypatch):
    for kernels in ("auto", "torch"):
        mechanism, rows = favor(kernels)
        assert mechanism.computed_by is None
        mechanism(rows, rows, rows)
        assert mechanism.computed_by == "torch"
    monkeypatch.setattr(kernels_of_attention, "_triton_is_there", lambda: False)
    mechanism, rows = favor("triton")
    with pytest.raises(RunError, match="package triton"):
        mechanism(rows, rows, rows)


def test_biases_that_a_mechanism_cannot_take():
    with pytest.raises(ConfigError, match="cosformer"):
        build(MECHANISMS.parse({"kind": "cosformer"}), num_heads=2, head_size=4, layer=0, seed=0, slopes=(0.5, 0.25))


def test_arguments_of_another_shape():
    rows = torch.zeros(2, 1, 5, 4)
    sdpa, lsh = ({"kind": "sdpa"}, {"kind": "lsh", "num_hashes": 1, "chunk_size": 2})
    sdpa, lsh = (build(MECHANISMS.parse(each), num_heads=1, head_size=4, layer=0, seed=0) for each in (sdpa, lsh))
    for shape in ((2, 4), (2, 1, 1, 5), (5,)):
        with pytest.raises(ValueError, match="attention_mask"):
            sdpa(rows, rows, rows, torch.ones(shape))
    with pytest.raises(ValueError, match="attention_mask"):
        sdpa.weights(rows, rows, torch.ones(2, 4))
    for call in (lambda: lsh(rows, rows.clone(), rows), lambda: lsh.weights(rows, rows.clone())):
        with pytest.raises(ValueError, match="same tensor"):
            call()


NAMES = {
    "favor-elu": {"kind": "favor", "phi": "elu"},
    "favor-m25": {"kind": "favor", "nb_features": 25, "phi": "relu"},
    "favor-saderf-m24": {"kind": "favor", "nb_features": 24, "features": "saderf"},
    "linformer-k128": {"kind": "linformer", "rank": 128, "length": 512},
    "nystrom-m64": {"kind": "nystrom", "landmarks": 64},
    "topk-k64": {"kind": "topk", "keys": 64},
    "topk_blocks-b64-k4": {"kind": "topk_blocks", "block_size": 64, "blocks": 4},
}


def test_names_and_fields_that_are_left_out():
    """What is usual stands in no settings, so that runs of before stay the same."""
    assert [MECHANISMS.parse(values).name() for values in NAMES.values()] == list(NAMES)
    lsh, favor = {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}, {"kind": "favor", "nb_features": 8}
    for usual, name, other in ((lsh | {"join": "mean"}, "join", "union"), (favor, "features", "saderf")):
        assert name not in MECHANISMS.parse(usual).model_dump()
        assert MECHANISMS.parse(usual | {name: other}).model_dump()[name] == other


class Mean(Attention):
    """Gives every token the mean of its row, and nothing but `attend`."""

    def attend(self, query, key, value, real):
        assert value.shape == query.shape
        count = value.shape[2] if real is None else real.sum(-1)[:, None, None, None].clamp(min=1)
        return (value.sum(2, keepdim=True) / count).expand_as(value)


@pytest.mark.parametrize("length", [1, 7])
def test_weights_of_a_mechanism_that_has_only_attend(length):
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
