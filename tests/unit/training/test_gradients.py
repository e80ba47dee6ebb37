"""64 documents at once and 8 times 8 accumulated are one and the same optimiser step."""

import pytest
import torch

from lib.core.settings.finetune_run import FinetuneRun
from lib.core.settings.run import MlmRun
from lib.training import finetune as finetuning
from lib.training import masked_lm
from lib.training.trainer import micro_batch_size


def gradients_of_first_step(module, train, run, monkeypatch, tmp_path):
    """Return the gradients of the first optimiser step, by weight, and the micro-batches it took."""
    seen, micro_batches = {}, []

    def stop_before_the_step(trainer, run, folders):
        model = trainer.model
        step = trainer.training_step

        def count(*arguments, **options):
            micro_batches.append(1)
            return step(*arguments, **options)

        trainer.training_step = count

        class Stop(Exception):
            pass

        def grab(args, state, control, **kwargs):
            seen.update({name: weight.grad.clone() for name, weight in model.named_parameters()})
            raise Stop

        trainer.callback_handler.callbacks[0].on_pre_optimizer_step = grab
        with pytest.raises(Stop):
            trainer.train()
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "train", stop_before_the_step)
    with pytest.raises(KeyboardInterrupt):
        train(run, tmp_path / "out")
    return seen, len(micro_batches)


DROPOUTS = {"embedding_dropout": 0.0, "mlp_dropout": 0.0, "attention_output_dropout": 0.0}


@pytest.mark.parametrize("mechanism", [{"kind": "sdpa"}, {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}])
@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_accumulated_micro_batches_give_the_gradients_of_the_batch(stage, mechanism, settings, monkeypatch, tmp_path):
    found = {}
    for tokens in (64 * 32, 8 * 32):
        optimisation = {"batch_size": 64, "max_grad_norm": 0}
        if stage == "finetune":
            optimisation["head"] = {"classifier_dropout": 0.0}
        values = settings(
            stage,
            mechanism=mechanism,
            encoder=DROPOUTS,
            optimisation=optimisation,
            execution={"micro_batch_tokens": tokens},
        )
        values["mechanism"] = mechanism
        module, train, kind = (
            (finetuning, finetuning.finetune, FinetuneRun)
            if stage == "finetune"
            else (masked_lm, masked_lm.train_masked_lm, MlmRun)
        )
        found[tokens] = gradients_of_first_step(
            module, train, kind.model_validate(values), monkeypatch, tmp_path / str(tokens)
        )
    (whole, one), (accumulated, eight) = found.values()
    assert (one, eight) == (1, 8)
    assert whole.keys() == accumulated.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(accumulated[name], gradient, rtol=1e-4, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize(
    ("batch_size", "longest", "tokens", "expected"),
    [(64, 512, 32_768, 64), (64, 4096, 32_768, 8), (16, 16_384, 32_768, 2), (10, 100, 750, 5), (8, 512, 100, 1)],
)
def test_the_micro_batch_is_the_largest_divisor_that_fits(batch_size, longest, tokens, expected):
    assert micro_batch_size(batch_size, longest, tokens) == expected
