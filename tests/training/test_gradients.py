"""64 documents at once and 8 times 8 accumulated are one and the same optimiser step."""

import pyarrow as pa
import pytest
import torch
from datasets import Dataset

from lib.preparing.parts import LABELS
from lib.study.run import RunSettings
from lib.tokens.stored import load_tokens
from lib.training.predictor import assemble
from lib.training.trainer import Trainer

DROPOUTS = {"embedding_dropout": 0.0, "mlp_dropout": 0.0, "attention_output_dropout": 0.0}
LSTM = {"kind": "recurrent", "hidden_size": 32, "embedding_dropout": 0.0, "layer_dropout": 0.0}
LSH = DROPOUTS | {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}}


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_gradients_of_accumulated_batches(stage, run_of, assert_accumulates):
    task = {} if stage == "pretrain" else {"classifier_dropout": 0.0}
    assert_accumulates(run_of, stage, task=task, backbone=DROPOUTS)


@pytest.mark.parametrize(("precision", "error"), [("fp32", 1e-5), ("bf16", 3e-2)])
def test_gradients_of_weighted_classes(precision, error, run_of, gradients_of_first_step, monkeypatch):
    """Those of the weighted mean over all micro-batches of the step, as own code computes it in float64."""
    batches, step = [], Trainer.training_step

    def note(self, batch, labels):
        batches.append(batch)
        return step(self, batch, labels)

    monkeypatch.setattr(Trainer, "training_step", note)
    recipe = {"batch_size": 64, "max_grad_norm": 0, "class_weights": {"high": 7.0}}
    changes = {"precision": precision, "backbone": DROPOUTS, "execution": {"micro_batch_tokens": 8 * 32}}
    run = run_of("finetune", task={"classifier_dropout": 0.0}, recipe=recipe, **changes)
    found, count = gradients_of_first_step(run)
    assert count > 1
    model = assemble(run).model.double()
    weights = [torch.tensor([1.0, 7.0]).double()[batch["labels"]] for batch in batches]
    logarithms = [model(batch["input_ids"], batch.get("attention_mask")).logits.log_softmax(1) for batch in batches]
    losses = [-each.gather(1, batch["labels"][:, None])[:, 0] for each, batch in zip(logarithms, batches, strict=True)]
    (torch.cat(weights) @ torch.cat(losses) / torch.cat(weights).sum()).backward()
    expected = torch.cat([weight.grad.flatten() for weight in model.parameters()])
    gradients = torch.cat([found[name].flatten() for name, _ in model.named_parameters()])
    assert (gradients - expected).norm() < error * expected.norm()


@pytest.mark.extended
def test_gradients_of_accumulated_batches_of_weighted_classes(run_of, assert_accumulates):
    recipe, task = {"class_weights": {"low": 0.01, "high": 0.04}}, {"classifier_dropout": 0.0}
    assert_accumulates(run_of, "finetune", task=task, backbone=DROPOUTS, recipe=recipe)


@pytest.mark.extended
@pytest.mark.parametrize(("stage", "backbone"), [("tag", LSTM), ("finetune", LSH)], ids=["tag-lstm", "finetune-lsh"])
def test_gradients_of_accumulated_batches_of_others(stage, backbone, run_of, assert_accumulates):
    assert_accumulates(run_of, stage, task={"classifier_dropout": 0.0}, backbone=backbone)


@pytest.mark.extended
def test_gradients_of_accumulated_batches_of_states(imitation, assert_accumulates):
    def run_of(stage, **changes):
        return RunSettings.model_validate(imitation(**changes))

    assert_accumulates(run_of, "imitate", task={"layers": "all"}, backbone=DROPOUTS)


@pytest.mark.parametrize("weights", [None, {"high": 7.0}, "balanced"])
def test_gradients_of_several_labels(weights, run_of, corpus, gradients_of_first_step, tmp_path, monkeypatch):
    """Those of the mean binary cross-entropy over all micro-batches, as own code computes it in float64."""
    data, step, batches = {}, Trainer.training_step, []
    for split in ("train", "validation", "test"):
        tokens = load_tokens(corpus / "tokens" / split)
        sets = pa.array([[[], [0], [1], [0, 1]][number % 4] for number in range(len(tokens))], LABELS["set"])
        Dataset(tokens.data.table.drop(["label"]).append_column("label", sets)).save_to_disk(tmp_path / split)
        data[split] = str(tmp_path / split)

    def note(self, batch, labels):
        batches.append(batch)
        return step(self, batch, labels)

    monkeypatch.setattr(Trainer, "training_step", note)
    task = {"kind": "multi_label_classification", "classifier_dropout": 0.0}
    recipe = {"batch_size": 64, "max_grad_norm": 0} | ({"class_weights": weights} if weights else {})
    run = run_of(
        "finetune", task=task, data=data, backbone=DROPOUTS, recipe=recipe, execution={"micro_batch_tokens": 256}
    )
    found, count = gradients_of_first_step(run)
    assert count > 1
    model = assemble(run).model.double()
    of_classes = torch.tensor([1.0, 7.0 if isinstance(weights, dict) else 1.0]).double()
    scores = torch.cat([model(batch["input_ids"], batch.get("attention_mask")).logits for batch in batches])
    true = torch.cat([batch["labels"] for batch in batches]).double()
    likely = torch.sigmoid(scores)
    (-(of_classes * true * likely.log() + (1 - true) * (1 - likely).log()).mean()).backward()
    expected = torch.cat([weight.grad.flatten() for weight in model.parameters()])
    gradients = torch.cat([found[name].flatten() for name, _ in model.named_parameters()])
    assert (gradients - expected).norm() < 1e-5 * expected.norm()
