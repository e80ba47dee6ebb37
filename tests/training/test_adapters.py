"""Runs with low-rank adapters: what they train, keep and leave to later stages."""

import pandas as pd
import pytest
import torch
from comparing import weights
from killing import attempt, killed_at
from peft import PeftModel
from safetensors.torch import load_file
from training_fixtures import LLAMA

from lib.core.errors import RunError
from lib.core.record import read_record
from lib.training.evaluate import evaluate
from lib.training.predictor import assemble
from lib.training.run import train

pytestmark = pytest.mark.extended

DECODER = {"kind": "pretrained", "attention": "bidirectional", "architecture": LLAMA}
LORA = {"r": 4, "alpha": 8}
RECIPE = {"epochs": 3, "learning_rate": 2e-2, "lora": LORA}


@pytest.fixture(scope="module")
def start(run_of, tmp_path_factory):
    """The model folder of a run that the others start from."""
    out = tmp_path_factory.mktemp("start") / "out"
    train(run_of("pretrain", model="llama", backbone=DECODER), out)
    return out / "model"


@pytest.fixture(scope="module")
def with_adapters(run_of, start):
    """Return settings of a run with adapters on that start."""

    def make(stage, **changes):
        recipe = RECIPE | changes.pop("recipe", {})
        beginning = {"checkpoint": str(start)}
        return run_of(stage, **{"model": "llama", "backbone": DECODER, "recipe": recipe, "start": beginning} | changes)

    return make


@pytest.fixture(scope="module")
def classifying(with_adapters, tmp_path_factory):
    """A run of classification that keeps its best and last epoch, and its folder."""
    run = with_adapters("finetune", recipe={"keep": ["best", "last"], "epochs": 4, "min_lr_ratio": 1.0})
    out = tmp_path_factory.mktemp("classifying") / "out"
    train(run, out)
    return run, out


def test_weights_that_stand_still(classifying, start):
    _, out = classifying
    before, after = weights(start), weights(out / "model")
    backbone = {name for name in before if name.startswith("pretrained.")}
    assert {name for name in after if name.startswith("pretrained.")} == backbone
    moved = {name for name in backbone if not torch.equal(before[name], after[name])}
    assert moved == {name for name in backbone if name.endswith("_proj.weight")}
    parameters = read_record(out).parameters
    assert parameters["total"] == sum(tensor.numel() for tensor in after.values())
    width, wide, rank = 32, 64, LORA["r"]
    assert parameters["trainable"] == 2 * rank * (4 * 2 * width + 3 * (width + wide)) + parameters["head"]
    assert "trainable" not in read_record(start.parent).parameters


def test_models_kept_evaluated_and_with_their_adapters(classifying, tmp_path):
    run, out = classifying
    record, history = read_record(out), pd.read_csv(out / "history.csv")
    kept = {"best": record.metrics["best_epoch"], "last": len(history)}
    folders = {"best": out / "model", "last": out / "model" / "last"}
    assert len(set(kept.values())) == 2, "this training shows nothing"
    for name, folder in folders.items():
        settings = run.model_dump(exclude={"recipe"}) | {"start": {"checkpoint": str(folder)}}
        evaluate(type(run).model_validate(settings), tmp_path / name)
        found = read_record(tmp_path / name).metrics
        row = history.set_index("epoch").loc[kept[name]]
        assert found["eval_loss"] == pytest.approx(row["eval_loss"], abs=1e-5)
        if name == "best":  # whose figures are those of the model that is saved, not of the one with adapters
            assert {key: value for key, value in record.metrics.items() if key in found} == found
        start, merged = (assemble(run) for _ in range(2))
        start.backbone.load_weights(start.model, run.start.checkpoint)
        merged.backbone.load_weights(merged.model, folder, with_head=True)
        adapted = PeftModel.from_pretrained(start.model, folder / "adapter").eval()
        ids = torch.arange(10, 20)[None]
        torch.testing.assert_close(adapted(ids).logits, merged.model.eval()(ids).logits, rtol=0, atol=1e-5)
    best, last = (load_file(folder / "adapter" / "adapter_model.safetensors") for folder in folders.values())
    assert any(not torch.equal(tensor, last[name]) for name, tensor in best.items())


def test_adapters_kept_without_a_merge(with_adapters, run_of, tmp_path):
    run = with_adapters("finetune", recipe={"lora": LORA | {"merge": False}, "epochs": 1})
    train(run, tmp_path / "out")
    model = tmp_path / "out" / "model"
    assert not list(model.glob("**/model.safetensors"))
    assert len(pd.read_parquet(tmp_path / "out" / "predictions.parquet")) == 80
    beginning = {"checkpoint": str(model)}
    with pytest.raises(RunError, match="holds adapters"):
        train(run_of("finetune", model="llama", backbone=DECODER, start=beginning), tmp_path / "next")


@pytest.mark.parametrize("quantized", [False, True])
def test_killed_run_from_its_adapters(quantized, with_adapters, tmp_path, caplog):
    """Working checkpoints hold no more than what trains, whatever bits the other weights have."""
    backbone = DECODER | {"quantization": "nf4"} if quantized else DECODER
    if quantized:
        pytest.importorskip("bitsandbytes")
    optimizer = "adamw_8bit" if quantized else "adamw"
    recipe = {"lora": LORA | {"merge": not quantized}, "optimizer": optimizer}
    run = with_adapters("finetune", recipe=recipe, backbone=backbone)
    often = run.model_copy(update={"execution": run.execution.model_copy(update={"checkpoint_minutes": 1e-6})})
    with killed_at(9):
        train(often, tmp_path / "out")
    names = weights(attempt(tmp_path / "out") / "checkpoint-9").keys()
    assert all(".lora_" in name or name.startswith("head.") for name in names)
    assert len(names) == 2 * 7 * 2 + 4
    train(often, tmp_path / "out")
    assert "missing keys" not in caplog.text
    train(run, tmp_path / "whole")
    file = "model/adapter/adapter_model.safetensors"
    found, expected = (load_file(tmp_path / name / file) for name in ("out", "whole"))
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
    metrics = [read_record(tmp_path / name).metrics for name in ("out", "whole")]
    assert metrics[0] == metrics[1]
