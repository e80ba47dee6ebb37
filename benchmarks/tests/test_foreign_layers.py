"""Layers of other packages under padding: one exact, one that reads it, and one by hand."""

import pytest
import torch

from benchmarks import foreign_layers
from benchmarks.foreign_layers import HF, main
from benchmarks.foreign_layers_by_hand import show
from lib.attention import verdict

pytestmark = pytest.mark.extended


class Mean(torch.nn.Module):
    def forward(self, states):
        return states + states.mean(1, keepdim=True)


def test_table_of_layers(tmp_path, monkeypatch):
    monkeypatch.setattr(verdict, "LENGTHS", (1, 65))
    names = ["torch.nn.MultiheadAttention", f"{HF}.fnet.modeling_fnet.FNetBasicFourierTransform"]
    names.append(f"{HF}.longformer.modeling_longformer.LongformerSelfAttention")
    monkeypatch.setitem(foreign_layers.PLAIN, "no_such.Layer", {})
    main(["--out", str(tmp_path / "layers.md"), "--names", *names, "no_such.Layer"])
    rows = [line.strip("|").split("|") for line in (tmp_path / "layers.md").read_text().splitlines()[2:]]
    assert [row[-1].strip() for row in rows] == ["yes", "no", "right, left"]


def test_padding_by_hand(capsys):
    show("mean", Mean(), "alone")
    show("none", torch.nn.Identity(), "alone")
    mean, none = capsys.readouterr().out.splitlines()
    assert "tokens 96" in mean
    assert none.split()[2::2][:3] == ["0e+00"] * 3
