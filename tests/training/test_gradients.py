"""64 documents at once and 8 times 8 accumulated are one and the same optimiser step."""

import pytest
import torch

from lib.study.run import RunSettings
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import add_sentinels
from lib.training.predictor import Observer
from lib.training.run import train
from lib.training.trainer import Trainer

pytestmark = pytest.mark.extensions("studies/hate_speech")

T5 = {
    "model_type": "t5",
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 64,
    "num_layers": 1,
    "num_heads": 2,
    "dropout_rate": 0.0,
}
DROPOUTS = {"embedding_dropout": 0.0, "mlp_dropout": 0.0, "attention_output_dropout": 0.0}


class Stopped(BaseException):
    pass


@pytest.fixture
def gradients_of_first_step(monkeypatch, tmp_path):
    """Return the gradients of a run's first optimiser step, by weight, and the micro-batches it took."""

    def gradients(run):
        found, micro_batches = {}, []
        step = Trainer.training_step

        def count(self, *arguments):
            micro_batches.append(1)
            return step(self, *arguments)

        class Stop(Observer):
            def has_gradients(self, trainer):
                found.update({name: weight.grad.clone() for name, weight in trainer.model.named_parameters()})
                raise Stopped

        with monkeypatch.context() as context:
            context.setattr(Trainer, "training_step", count)
            with pytest.raises(Stopped):
                train(run, tmp_path / "out", observers=[Stop()])
        return found, len(micro_batches)

    return gradients


@pytest.mark.parametrize(
    "backbone",
    [
        DROPOUTS | {"mechanism": {"kind": "sdpa"}},
        DROPOUTS | {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}},
        {"kind": "recurrent", "hidden_size": 32, "embedding_dropout": 0.0, "layer_dropout": 0.0},
    ],
    ids=["sdpa", "lsh", "lstm"],
)
@pytest.mark.parametrize("stage", ["pretrain", "finetune", "tag"])
def test_accumulated_micro_batches_give_the_gradients_of_the_batch(stage, backbone, run_of, gradients_of_first_step):
    task = {} if stage == "pretrain" else {"classifier_dropout": 0.0}
    assert_alike(gradients_of_first_step, run_of, stage, task=task, backbone=backbone)


def test_so_they_do_where_texts_of_unequal_length_are_written(run_of, gradients_of_first_step):
    backbone = {"kind": "encoder_decoder", "architecture": T5}
    task = {"kind": "text_to_text", "targets": ["bal", "kut kit kal"]}
    assert_alike(gradients_of_first_step, run_of, "finetune", task=task, backbone=backbone)


def test_so_they_do_where_dropped_spans_are_written(run_of, corpus, tmp_path, gradients_of_first_step):
    """Of documents that lose unequal numbers of tokens."""
    TextTokenizer.load(corpus / "tokenizer").backend.save_pretrained(tmp_path / "tokenizer")
    add_sentinels(tmp_path / "tokenizer", 4)
    backbone = {"kind": "encoder_decoder", "architecture": T5}
    task = {"kind": "span_corruption"}
    tokenizer = str(tmp_path / "tokenizer")
    assert_alike(gradients_of_first_step, run_of, "tapt", task=task, backbone=backbone, tokenizer=tokenizer)


@pytest.mark.parametrize("layers", ["last", "all"])
def test_so_they_do_where_states_are_learnt(layers, imitation, gradients_of_first_step):
    def run_of(stage, **changes):
        return RunSettings.model_validate(imitation(**changes))

    assert_alike(gradients_of_first_step, run_of, "imitate", task={"layers": layers}, backbone=DROPOUTS)


def assert_alike(gradients_of_first_step, run_of, stage, **changes):
    found = {}
    for tokens in (64 * 32, 8 * 32):
        run = run_of(
            stage,
            **changes,
            recipe={"batch_size": 64, "max_grad_norm": 0},
            execution={"micro_batch_tokens": tokens},
        )
        found[tokens] = gradients_of_first_step(run)
    (whole, one), (accumulated, several) = found.values()
    assert one == 1 < several
    assert whole.keys() == accumulated.keys()
    for name, gradient in whole.items():
        assert gradient.any() or name.endswith("key.bias"), f"{name} has no gradient"
        torch.testing.assert_close(accumulated[name], gradient, rtol=1e-4, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}")
