"""64 documents at once and 8 times 8 accumulated are one and the same optimiser step."""

import pytest
import torch

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


@pytest.fixture
def relative_error(gradients_of_first_step, monkeypatch):
    """Return how far the gradients of a run's first step are from those of a loss in float64 over all micro-batches."""

    def compare(run, loss):
        batches, step = [], Trainer.training_step

        def note(self, batch, labels):
            batches.append(batch)
            return step(self, batch, labels)

        monkeypatch.setattr(Trainer, "training_step", note)
        found, count = gradients_of_first_step(run)
        assert count > 1
        model = assemble(run).model.double()
        scores = [model(batch["input_ids"], batch.get("attention_mask")).logits for batch in batches]
        loss(torch.cat(scores), torch.cat([batch["labels"] for batch in batches])).backward()
        expected = torch.cat([weight.grad.flatten() for weight in model.parameters()])
        gradients = torch.cat([found[name].flatten() for name, _ in model.named_parameters()])
        return (gradients - expected).norm() / expected.norm()

    return compare


IN_PARTS = {"backbone": DROPOUTS, "execution": {"micro_batch_tokens": 8 * 32}}


@pytest.mark.parametrize(("precision", "error"), [("fp32", 1e-5), ("bf16", 3e-2)])
def test_gradients_of_weighted_classes(precision, error, run_of, relative_error):
    """Those of the weighted mean over all micro-batches of the step, as own code computes it in float64."""
    recipe = {"batch_size": 64, "max_grad_norm": 0, "class_weights": {"high": 7.0}}
    run = run_of("finetune", task={"classifier_dropout": 0.0}, recipe=recipe, precision=precision, **IN_PARTS)

    def loss(scores, labels):
        weights = torch.tensor([1.0, 7.0]).double()[labels]
        return -(weights * scores.log_softmax(1).gather(1, labels[:, None])[:, 0]).sum() / weights.sum()

    assert relative_error(run, loss) < error


@pytest.mark.parametrize("weights", [None, {"high": 7.0}, "balanced"])
def test_gradients_of_several_labels(weights, run_of, sets, relative_error):
    """Those of the mean binary cross-entropy over all micro-batches, as own code computes it in float64."""
    recipe = {"batch_size": 64, "max_grad_norm": 0} | ({"class_weights": weights} if weights else {})
    task = sets["task"] | {"classifier_dropout": 0.0}
    run = run_of("finetune", task=task, data=sets["data"], recipe=recipe, **IN_PARTS)
    labels = load_tokens(sets["data"]["train"])["label"][:]
    share = torch.tensor([sum(each in row for row in labels) for each in (0, 1)]) / len(labels)
    of_classes = {"balanced": (1 - share) / share, "None": torch.ones(2)}.get(str(weights), torch.tensor([1.0, 7.0]))

    def loss(scores, true):
        likely, true = torch.sigmoid(scores), true.double()
        return -(of_classes.double() * true * likely.log() + (1 - true) * (1 - likely).log()).mean()

    assert relative_error(run, loss) < 1e-5


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
