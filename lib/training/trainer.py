"""The transformers Trainer with keyed data order, learning-rate multipliers and exact evaluation losses."""

import sys
from collections.abc import Callable, Sequence

import torch
from torch.utils.data import Sampler
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from lib.core.errors import RunError
from lib.core.settings.execution import Training
from lib.core.settings.training import Optimisation, Precision
from lib.data.samplers import LengthGroupedSampler
from lib.evaluation.perplexity import perplexity
from lib.training.callbacks import EpochRecorder, KeyedDraws


class KeyedTrainer(Trainer):
    """A Trainer whose data order, masks and random features depend on their keys alone.

    Args:
        lengths: tokens of each training document.
        learning_rate_multiplier: factor on a weight's learning rate, by the weight's name.
        **options: those of the Trainer.
    """

    def __init__(
        self,
        *,
        lengths: Sequence[int],
        learning_rate_multiplier: Callable[[str], float] = lambda name: 1.0,
        **options,
    ):
        super().__init__(**options)
        self.lengths = lengths
        self.learning_rate_multiplier = learning_rate_multiplier
        self.remove_callback(PrinterCallback)
        self.add_callback(KeyedDraws())
        self.add_callback(EpochRecorder())

    @property
    def recorder(self) -> EpochRecorder:
        """The record of the epochs; another object after a resume, hence looked up."""
        return next(callback for callback in self.callback_handler.callbacks if isinstance(callback, EpochRecorder))

    def _get_train_sampler(self, train_dataset=None) -> Sampler:
        batch_size = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        return LengthGroupedSampler(self.lengths, batch_size=batch_size, seed=self.args.seed)

    def create_optimizer(self, model=None) -> torch.optim.Optimizer:
        """Build AdamW over all weights, with weight decay where it belongs and each weight's own learning rate."""
        if self.optimizer is None:
            model = self.model if model is None else model
            decayed = set(self.get_decay_parameter_names(model))
            groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
            for name, parameter in model.named_parameters():
                decay = self.args.weight_decay if name in decayed else 0.0
                groups.setdefault((decay, self.learning_rate_multiplier(name)), []).append(parameter)
            optimizer, options = self.get_optimizer_cls_and_kwargs(self.args, model)
            self.optimizer = optimizer(
                [
                    {"params": parameters, "weight_decay": decay, "lr": self.args.learning_rate * multiplier}
                    for (decay, multiplier), parameters in groups.items()
                ],
                **options,
            )
        return self.optimizer

    def training_step(self, *arguments, **options) -> torch.Tensor:
        """Train on a micro-batch, and record its loss."""
        loss = super().training_step(*arguments, **options)
        self.recorder.add_loss(loss)
        return loss


class MlmTrainer(KeyedTrainer):
    """Evaluates the mean loss of a predicted token, not the mean over batches of unequal size."""

    def __init__(self, **options):
        super().__init__(compute_metrics=self._token_loss, **options)

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        """Return, in place of logits and labels, the batch's summed loss and number of predicted tokens."""
        inputs = self._prepare_inputs(inputs)
        predicted = inputs["labels"].ne(-100).sum().view(1)
        with torch.no_grad():
            loss = self.compute_loss(model, inputs)
        return None, loss.float().view(1) * predicted, predicted

    @staticmethod
    def _token_loss(prediction) -> dict[str, float]:
        loss = float(prediction.predictions.sum() / max(prediction.label_ids.sum(), 1))
        return {"loss": loss, "perplexity": perplexity(loss)}


def training_arguments(
    *,
    work: str,
    name: str,
    seed: int,
    precision: Precision,
    optimisation: Optimisation,
    execution: Training,
    longest: int,
    **options,
) -> TrainingArguments:
    """Return the Trainer's arguments for a stage.

    Args:
        work: folder of the working checkpoints.
        name: the run's name for trackers.
        seed: seed of the run.
        precision: arithmetic of the forward pass.
        optimisation: the stage's recipe.
        execution: how it is executed.
        longest: the longest training document, in tokens.
        **options: further arguments of the stage.

    Raises:
        RunError: the device or the precision is not to be had here.
    """
    _check_device(execution.device, precision)
    micro_batch = micro_batch_size(optimisation.batch_size, longest, execution.micro_batch_tokens)
    return TrainingArguments(
        output_dir=work,
        run_name=name,
        num_train_epochs=optimisation.epochs,
        learning_rate=optimisation.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": optimisation.min_lr_ratio},
        warmup_steps=optimisation.warmup_ratio,
        weight_decay=optimisation.weight_decay,
        max_grad_norm=optimisation.max_grad_norm,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=optimisation.batch_size // micro_batch,
        per_device_eval_batch_size=max(1, execution.micro_batch_tokens // longest),
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        seed=seed,
        use_cpu=execution.device == "cpu",
        dataloader_num_workers=execution.workers,
        dataloader_pin_memory=execution.device != "cpu" and torch.cuda.is_available(),
        remove_unused_columns=False,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_strategy="epoch",
        logging_nan_inf_filter=False,
        include_num_input_tokens_seen="non_padding",
        restore_callback_states_from_checkpoint=True,
        report_to=list(execution.report_to),
        disable_tqdm=not sys.stderr.isatty(),
        **options,
    )


def _check_device(device: str, precision: Precision) -> None:
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise RunError(
            "execution.training.device is 'cuda', but torch sees no GPU. Expected one; use 'auto' or 'cpu', or ask "
            "for a GPU (execution.job.gpu)."
        )
    if precision == "fp16" and (device == "cpu" or not has_gpu):
        raise RunError("experiment.precision is 'fp16', which needs a GPU. Use 'bf16' or 'fp32' on a CPU.")


def micro_batch_size(batch_size: int, longest: int, micro_batch_tokens: int) -> int:
    """Return the largest divisor of `batch_size` whose documents fit into `micro_batch_tokens`, at least 1."""
    fitting = max(1, micro_batch_tokens // longest)
    return max(size for size in range(1, batch_size + 1) if batch_size % size == 0 and size <= fitting)
