import sys
from functools import partial

import pytest
import torch
from torch import nn

from lib.attention import verdict as verdicts
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
from lib.attention.verdict import verdict
from lib.workflow.commands import trying

NAMED = "torch.nn.MultiheadAttention"


class Ignoring(nn.MultiheadAttention):
    def forward(self, query, key, value, key_padding_mask=None):
        return super().forward(query, key, value, need_weights=False)


class Gates(nn.Module):
    """Reads from left to right, draws in training and in evaluation, and changes with the batch, as it is built."""

    def __init__(self, dim, *, rows=9_999, draws=False, mixes=False, cuts=False, steps=True):
        super().__init__()
        self.table, self.draws, self.mixes, self.cuts, self.steps = (
            nn.Parameter(torch.ones(rows)),
            draws,
            mixes,
            cuts,
            steps,
        )

    def forward(self, x):
        x = x * self.table[: x.shape[1], None] * (torch.rand(()) if self.draws else 1)
        x = (x.cumsum(1) if self.steps else x) + (x.mean() if self.mixes else 0)
        return x[:, :1] if self.cuts else x


class Wanting(nn.Module):
    def __init__(self, dim, rotation):
        super().__init__()


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(verdicts, "LENGTHS", (1, 65))
    monkeypatch.setattr(verdicts, "TIMED", (16, 32, 64))


def run(name, tmp_path, *arguments):
    """Return the exit status of the program, the cells of its table by the first, and its summary."""
    file = tmp_path / "verdict.md"
    status = trying.main([*name, "--markdown", str(file), *arguments])
    lines = file.read_text().splitlines()
    rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:-2])
    return status, {row[0]: row[1:] for row in rows}, lines[-1]


@pytest.mark.extended
@pytest.mark.parametrize(
    "name",
    [
        (NAMED,),
        ("--mechanism", "{kind: favor, nb_features: 16}"),
        ("--mechanism", "{kind: lsh, num_hashes: 1, chunk_size: 16}"),
    ],
)
def test_usable_layers(name, tmp_path, capsys):
    status, rows, summary = run(name, tmp_path)
    assert status == 0
    assert {row[1] for row in rows.values()} == {""}
    for phrase in ("exact under padding with its mask", "bidirectional", "any length to 65", "repeatable"):
        assert f", {phrase}" in f", {summary.partition(': ')[2]}"
    assert summary in capsys.readouterr().out
    assert {"cost of 16", "cost of 64", "size"} <= set(rows)


@pytest.mark.parametrize(
    ("name", "subject", "found", "remedy"),
    [
        ("Ignoring", "padding", "not exact under padding with its mask", "padding: apart"),
        ("Gates", "direction", "causal", "two_directions: true"),
        ("Gates --option rows=200 --option steps=false", "lengths", "fails at 300 tokens", "longer"),
        ("Gates --option draws=true", "draws", "not repeatable", "torch's generator"),
        ("Gates --option mixes=true", "other texts", "change an output by", "by itself"),
        ("Gates --option cuts=true", "fails", "[3, 128, 64] to [3, 1, 64]", "keeps the shape"),
        ("Gates --mask real", "fails", "'mask'", "options"),
        ("Wanting", "fails", "needs rotation", "Add a value"),
        ("Absent", "fails", "no attribute", "Correct"),
    ],
)
def test_layers_to_change(name, subject, found, remedy, tmp_path, monkeypatch):
    monkeypatch.setattr(verdicts, "LENGTHS", (1, 300))
    name, *options = name.split()
    status, rows, _ = run([f"{__name__}.{name}"], tmp_path, "--quick", *options)
    assert status == (2 if subject == "fails" else 1)
    assert found in rows[subject][0]
    assert remedy in rows[subject][1]
    assert subject == "fails" or "padding" in rows


def doubled(module, states):
    return 2 * module(states, states, states, need_weights=False)[0]


def test_reference_of_a_layer():
    make = partial(
        build, MECHANISMS.parse({"kind": "module", "class": NAMED}), num_heads=4, head_size=8, layer=0, seed=0
    )
    for reference, fine in ((lambda module, states: doubled(module, states) / 2, True), (doubled, False)):
        findings = {each.subject: each for each in verdict(lambda: make().eval(), reference, quick=True)}
        assert findings["reference"].is_fine == fine


def test_wrong_arguments():
    for wrong in ([], [NAMED, "--mechanism", "{kind: sdpa}"], [NAMED, "--reference", "no.such"]):
        with pytest.raises(SystemExit):
            trying.main(wrong)
    assert trying.main(["--mechanism", "{kind: none}"]) == 2
