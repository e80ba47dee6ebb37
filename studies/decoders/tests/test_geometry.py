"""Measuring geometry during a training: what is written, and that the training knows nothing of it."""

import json

import pandas as pd
import pytest
import torch
from comparing import weights
from killing import attempt, killed_at
from peft import LoraConfig, inject_adapter_in_model

from lib.training import run as training_run
from lib.training.run import train
from studies.decoders.evaluation.attention_geometry import Form, measure
from studies.decoders.training.geometry import COLUMNS

pytestmark = pytest.mark.extended

LLAMA = {
    "kind": "pretrained",
    "attention": "causal",
    "architecture": {
        "model_type": "llama",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
    },
}
LSH = {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 8}}
FAVOR = {"mechanism": {"kind": "favor", "nb_features": 16, "redraw_interval": 3}}
GEOMETRY = {"every": 4, "positions": [0, 2], "documents": 3, "length": 16}
RECIPE = {"epochs": 2, "batch_size": 32}
LAST = 2 * 192 // 32


@pytest.fixture
def measured(run_of, tmp_path):
    """Train with these settings and return the table."""

    def make(name="out", **changes):
        changes = {"backbone": LLAMA, "recipe": RECIPE, "geometry": GEOMETRY} | changes
        train(run_of("pretrain", **changes), tmp_path / name)
        return pd.read_csv(tmp_path / name / "geometry.csv", dtype={"head": str})

    return make


@pytest.mark.parametrize("backbone", [LLAMA, FAVOR], ids=["llama", "favor"])
def test_training_with_geometry_and_without(backbone, measured, tmp_path):
    measured("with", backbone=backbone)
    train_without = {"geometry": None, "backbone": backbone}
    with pytest.raises(FileNotFoundError):
        measured("without", **train_without)
    first, second = weights(tmp_path / "with" / "model"), weights(tmp_path / "without" / "model")
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())
    losses = [pd.read_csv(tmp_path / name / "history.csv")[["train_loss", "eval_loss"]] for name in ("with", "without")]
    pd.testing.assert_frame_equal(*losses, check_exact=True)


def test_rows_of_geometry(measured):
    table = measured()
    assert tuple(table.columns) == COLUMNS
    model = table[table["source"] == "model"]
    assert list(model["step"].unique()) == [0, 4, 8, LAST]
    assert set(model["weights"]) == {"merged"}
    keys = model[["step", "position", "layer", "head"]]
    assert len(keys) == len(keys.drop_duplicates()) == 4 * 2 * 2 * 5
    assert set(model["head"]) == {"0", "1", "2", "3", "all"}
    assert model["symmetry"].between(-1, 1).all()
    assert model["bound"].isna().all()
    random = table[table["source"] == "random"]
    assert set(random["step"]) == {0}
    assert len(random) == 2 * 32 * 5
    assert set(random["layer"]) == set(range(32))

    at_first = model[model["position"] == 0].set_index(["step", "layer", "head"])
    assert (at_first["upper_triangle"] == 0).all()  # it attends causally
    assert model.loc[model["position"] == 2, ["upper_triangle", "gradient_norm"]].isna().all(axis=None)
    gradients = at_first.xs("all", level="head")["gradient_norm"]
    assert gradients[0].isna().all()
    assert (gradients[4:] > 0).all()
    assert at_first.drop(index="all", level="head")["gradient_norm"].isna().all()


def test_last_rows_by_the_model_left(measured, tmp_path):
    table = measured(geometry=GEOMETRY | {"every": 5})
    last = table[(table["step"] == LAST) & (table["position"] == 0)].set_index(["layer", "head"])
    left = weights(tmp_path / "out" / "model")
    for layer in range(2):
        query, key = (
            left[f"pretrained.inner.layers.{layer}.self_attn.{name}.weight"].double().view(-1, 8, 32)
            for name in ("q_proj", "k_proj")
        )
        found = measure(Form(query, key.repeat_interleave(2, 0)))
        matrix = (query.mT @ key.repeat_interleave(2, 0)).sum(0)
        for head in range(4):
            assert last.loc[(layer, str(head)), "symmetry"] == pytest.approx(float(found.symmetry[head]))
        whole = last.loc[(layer, "all")]
        assert whole["symmetry"] == pytest.approx(float((matrix * matrix.T).sum() / matrix.square().sum()))
        assert whole["norm"] == pytest.approx(float(matrix.norm()))


def test_geometry_of_opened_and_of_shared_attention(measured):
    opened = measured("opened", backbone=LLAMA | {"attention": "bidirectional"})
    assert opened.loc[opened["upper_triangle"].notna(), "upper_triangle"].between(0.2, 0.6).all()
    shared = measured("shared", backbone=LSH)
    assert shared["symmetry"].tolist() == pytest.approx([1.0] * len(shared))


def with_lora(monkeypatch):
    """Let runs train LoRA on queries and keys alone."""
    assemble = training_run.assemble

    def adapted(run):
        components = assemble(run)
        torch.manual_seed(3)
        inject_adapter_in_model(LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "k_proj"]), components.model)
        return components

    monkeypatch.setattr(training_run, "assemble", adapted)


def test_geometry_of_updates(measured, monkeypatch):
    with_lora(monkeypatch)
    table = measured().set_index(["source", "weights", "step", "position", "layer", "head"]).sort_index()
    deltas = table.loc[("model", "delta")]
    assert deltas.loc[0, ["symmetry", "directionality"]].isna().all(axis=None)
    assert (deltas.loc[0, "norm"] == 0).all()
    assert deltas.loc[4:, ["symmetry", "directionality", "norm", "bound"]].notna().all(axis=None)
    assert set(table.index.unique("weights")) == {"merged", "delta", "adapter"}
    merged = table.loc[("model", "merged")]
    moved = (merged["symmetry"].loc[LAST] - merged["symmetry"].loc[0]).abs()
    assert (moved > 0).any()
    assert (moved <= deltas["bound"].loc[LAST] + 1e-6).all()
    gradients = merged.loc[LAST, "gradient_norm"].dropna()
    assert (gradients > 0).all()


def test_rows_after_a_kill(measured, tmp_path):
    step = 5
    changes = {"execution": {"checkpoint_minutes": 1e-6}}
    expected = measured("whole", **changes)
    with killed_at(step):
        measured("killed", **changes)
    state = json.loads((attempt(tmp_path / "killed") / f"checkpoint-{step}" / "state.json").read_text())
    assert state["GeometryRecorder"]
    pd.testing.assert_frame_equal(measured("killed", **changes), expected, check_exact=True)
    assert (tmp_path / "killed" / "geometry.csv").read_bytes() == (tmp_path / "whole" / "geometry.csv").read_bytes()
