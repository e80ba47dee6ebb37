"""The transformers Trainer with keyed data order, learning-rate multipliers and the evaluation of its task."""

import functools
import importlib
import inspect
import itertools
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate.utils import send_to_device
from datasets import Dataset
from safetensors import SafetensorError
from torch.utils.data import DataLoader, Sampler
from transformers import PreTrainedModel, Trainer, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import EvalLoopOutput, TrainOutput, set_seed
from transformers.training_args import OptimizerNames, ParallelMode

from lib.backbones.parameters import Precision
from lib.core.attempts import remove
from lib.core.errors import RunError, UnpicklingError
from lib.core.packages import require
from lib.core.randomness import derive_seed
from lib.data.padding import known_beforehand
from lib.data.samplers import LengthGroupedSampler, Share, micro_batch_size
from lib.study.recipe import Recipe
from lib.study.run import RunSettings
from lib.tasks.contract import Collator, Task
from lib.training import ranks
from lib.training.callbacks import HistoryRecorder, KeyedDraws
from lib.training.checkpoints import checkpoint_folder, rotate, seal
from lib.training.interruptions import died_of_worker
from lib.training.trackers import run_name

SPLITS = {"eval": "validation", "test": "test"}
"""Splits by what their scores begin with."""
BESIDE = ".partial"
"""Folder, in that of the checkpoints, in which one is being written."""
NON_FINITE_STEPS = 20
"""Steps in a row whose loss or gradients are no finite numbers, after which a training stops: more than the scale of
fp16 takes from its first value, 2^16, to 1."""
ONE_CYCLE_RISE = 25.0
"""By how much a one-cycle learning rate rises to its peak; torch's default."""


class Arguments(TrainingArguments):
    """Arguments of a Trainer that works on one device, and knows of other processes for the sake of what it writes."""

    @property
    def n_gpu(self) -> int:
        """Return the GPUs of this process: one at most, since the Trainer would give each a batch of its own."""
        return min(super().n_gpu, 1)

    @property
    def parallel_mode(self) -> ParallelMode:
        """Return whether there are other processes."""
        return ParallelMode.DISTRIBUTED if dist.is_initialized() else ParallelMode.NOT_PARALLEL

    @property
    def world_size(self) -> int:
        """Return the number of processes."""
        return ranks.count()

    @property
    def process_index(self) -> int:
        """Return the number of this process."""
        return ranks.index()

    @property
    def local_process_index(self) -> int:
        """Return the number of this process; all are on one machine."""
        return ranks.index()


class Results(list[Any]):
    """What has been predicted for the batches of a dataset, in the place of a loader of them.

    Args:
        batches: what a `prediction_step` returned for each.
        dataset: their documents.
    """

    def __init__(self, batches: Sequence[Any], dataset: torch.utils.data.Dataset[Any]) -> None:
        super().__init__(batches)
        self.dataset = dataset


class KeyedTrainer(Trainer):
    """A Trainer whose data order, masks and random features depend on their keys alone.

    Several processes may share a training, see `lib.training.ranks`: each takes its part of every batch, and of the
    batches that are evaluated.

    Args:
        task: what is learnt; it scores what the model predicts.
        data_collator: makes a batch of examples.
        recipe: how it trains; not needed to predict, nor is the next.
        lengths: tokens of each training document.
        model: what trains.
        **options: those of the Trainer.
    """

    optimizer: torch.optim.Optimizer | None
    lr_scheduler: torch.optim.lr_scheduler.LRScheduler | None

    def __init__(
        self,
        *,
        task: Task,
        data_collator: Collator,
        recipe: Recipe | None = None,
        lengths: Sequence[int] = (),
        model: PreTrainedModel,
        **options,
    ):
        scored = "scored" in inspect.signature(model.forward).parameters
        collator = functools.partial(_collated, data_collator, scored)
        super().__init__(compute_metrics=task.metrics, data_collator=collator, model=model, **options)
        if ranks.index():  # the dropout of every process is another
            set_seed(derive_seed("dropout", self.args.seed, ranks.index()) % 2**32)
        self.task = task
        self.lengths = lengths
        self.recipe = recipe
        self.multipliers = {
            "backbone": recipe.backbone_lr_multiplier if recipe else 1.0,
            "head": recipe.head_lr_multiplier if recipe else 1.0,
        }
        self.saves = False
        self.step_loss: float | torch.Tensor = 0.0
        self.non_finite = 0
        self.remove_callback(PrinterCallback)
        self.add_callback(KeyedDraws())
        self.add_callback(HistoryRecorder(self.multipliers))

    @property
    def gpu(self) -> str | None:
        """Name of the GPU that it trains on; None = it trains on a CPU."""
        return torch.cuda.get_device_name() if self.args.device.type == "cuda" else None

    @property
    def threads(self) -> int:
        """Threads of a computation on a CPU."""
        return torch.get_num_threads()

    @property
    def recorder(self) -> HistoryRecorder:
        """The record of the evaluations; another object after a resume, hence looked up."""
        return next(callback for callback in self.callback_handler.callbacks if isinstance(callback, HistoryRecorder))

    @property
    def kept_row(self) -> dict[str, Any]:
        """The row of the history whose weights the model has after the training."""
        rows = self.recorder.rows
        if not self.args.load_best_model_at_end:
            return rows[-1]
        return next(row for row in rows if row["step"] == self.state.best_global_step)

    def train(self, resume_from_checkpoint: Path | None = None, **options) -> TrainOutput:
        """Train, and make sure of what a training that selects a best model ends with.

        Args:
            resume_from_checkpoint: whole working checkpoint to go on from; None = from the beginning.
            **options: those of the Trainer.

        Raises:
            RunError: no evaluation was the best.
        """
        checkpoint = None if resume_from_checkpoint is None else str(resume_from_checkpoint)
        try:
            output = super().train(resume_from_checkpoint=checkpoint, **options)
        except UnpicklingError as error:
            raise RunError(
                f"{checkpoint}: holds more than tensors and numbers, which is not loaded, since it could run code "
                f"({str(error).splitlines()[0]}). Expected the training state of this project; take another, "
                "or delete this one."
            ) from error
        if self.args.load_best_model_at_end and self.state.best_model_checkpoint is None:
            raise RunError(
                f"{self.args.output_dir}: no evaluation had a finite {self.args.metric_for_best_model}. Expected one, "
                "whose model is to be kept; lower recipe.learning_rate, or use precision bf16 or fp32."
            )
        return output

    def set_initial_training_values(self, args: TrainingArguments, dataloader: DataLoader) -> tuple[Any, ...]:
        """Return what the Trainer counts by, the number of optimiser steps last: at most those of the recipe."""
        *values, steps = super().set_initial_training_values(args, dataloader)
        return *values, min(steps, self.recipe.steps or steps) if self.recipe else steps

    def _init_training_state(self, max_steps: int, *arguments: Any) -> tuple[int, int]:
        """Take up a checkpoint with the intervals of this run, and do nothing more if it had all of its steps."""
        begun = super()._init_training_state(max_steps, *arguments)
        self.state.compute_steps(self.args, max_steps)
        return (self.state.num_train_epochs, 0) if self.state.global_step >= max_steps else begun

    def _get_output_dir(self, trial: Any) -> str:
        """Return where checkpoints go: while one is being written, beside its place."""
        return str(Path(self.args.output_dir) / BESIDE) if self.saves else self.args.output_dir

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        """Write a checkpoint beside its place, seal it, put it there, and remove those that it supersedes.

        Raises:
            RunError: it cannot be written, or the weights are no finite numbers.
        """
        if self.non_finite and not self.args.fp16:  # there, such a step is passed over; else no weights are left
            self._refuse_non_finite()
        work, step, best = Path(self.args.output_dir), self.state.global_step, self.state.best_global_step
        place = checkpoint_folder(work, step)
        self.saves = True
        try:
            super()._save_checkpoint(model, trial)
            ranks.wait()
            self.state.best_model_checkpoint = str(checkpoint_folder(work, best)) if best else None
            if self.args.should_save:
                self.state.save_to_json(str(work / BESIDE / place.name / TRAINER_STATE_NAME))
                seal(work / BESIDE / place.name)
                remove(place)
                (work / BESIDE / place.name).rename(place)
                rotate(work, best)
        except (OSError, RuntimeError, SafetensorError) as error:
            if died_of_worker(error):  # says so whatever is under way
                raise
            raise RunError(
                f"{place}: cannot be written ({error}). Expected a folder with write permission and free space. The "
                "next start of this run goes on from the checkpoint before."
            ) from error
        finally:
            self.saves = False
            if self.args.should_save:
                shutil.rmtree(work / BESIDE, ignore_errors=True)
        ranks.wait()

    def _save(self, output_dir: str | None = None, state_dict: dict[str, torch.Tensor] | None = None) -> None:
        """Save a checkpoint: with adapters, without the weights beside them, which the run's start holds."""
        if self.recipe and self.recipe.lora:
            state_dict = {name: parameter.detach() for name, parameter in trained(self.model).items()}
        super()._save(output_dir, state_dict)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Warn of weights that a checkpoint should hold, see `_save`, and does not."""
        if self.recipe and self.recipe.lora:
            missing = [name for name in load_result.missing_keys if name in trained(self.model)]
            load_result = load_result._replace(missing_keys=missing)
        super()._issue_warnings_after_load(load_result)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Report `logs`; of the training the last row, so that trackers and CSV agree even after a resume."""
        if "loss" in logs:
            row = self.recorder.rows[-1]
            logs = logs | {"loss": row["train_loss"]}
            logs |= {name: value for name, value in row.items() if name not in ("epoch", "step", "train_loss")}
        super().log(logs, start_time)

    def _get_train_sampler(self, train_dataset=None) -> Sampler:
        if self.recipe is None:
            raise TypeError("a Trainer without a recipe trains nothing")
        order = LengthGroupedSampler(self.lengths, batch_size=self.recipe.batch_size, seed=self.args.seed)
        return Share(order, self.recipe.batch_size, self.args.train_batch_size, ranks.index(), ranks.count())

    def _get_eval_sampler(self, eval_dataset) -> Sequence[int]:
        """Return the documents of every so many-th batch."""
        size = self.args.eval_batch_size
        return [i for i in range(len(eval_dataset)) if i // size % ranks.count() == ranks.index()]

    def create_optimizer(self, model=None) -> torch.optim.Optimizer:
        """Build AdamW over all weights that train, with weight decay where it belongs and each one's learning rate.

        Raises:
            RunError: a part that has a learning rate of its own has no weights that train.
        """
        if self.optimizer is None:
            model = self.model if model is None else model
            decayed = set(self.get_decay_parameter_names(model))
            backbone = f"{model.base_model_prefix}."
            groups: dict[tuple[str, float], list[torch.nn.Parameter]] = {}
            for name, parameter in trained(model).items():
                decay = self.args.weight_decay if name in decayed else 0.0
                groups.setdefault(("backbone" if name.startswith(backbone) else "head", decay), []).append(parameter)
            for part, multiplier in self.multipliers.items():
                if multiplier != 1 and part not in {found for found, _ in groups}:
                    raise RunError(
                        f"recipe.{part}_lr_multiplier: {multiplier:g} does nothing, since the {part} has no weights of "
                        "its own that train. Leave it out."
                    )
            optimizer, options = self.get_optimizer_cls_and_kwargs(self.args, model)
            if self.args.optim == OptimizerNames.ADAMW_8BIT:
                _keep_embeddings_in_32_bits(model)
            self.optimizer = optimizer(
                [
                    {
                        "params": parameters,
                        "weight_decay": decay,
                        "lr": self.args.learning_rate * self.multipliers[part],
                        "part": part,
                    }
                    for (part, decay), parameters in groups.items()
                ],
                **options,
            )
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer=None) -> torch.optim.lr_scheduler.LRScheduler:
        """Build the schedule of the recipe.

        Source:
            Smith and Topin 2018, "Super-Convergence", for `one_cycle`; torch's own, with its defaults.
        """
        if self.lr_scheduler is None and self.recipe and self.recipe.schedule == "one_cycle":
            optimizer = self.optimizer if optimizer is None else optimizer
            lowest = self.recipe.min_lr_ratio * ONE_CYCLE_RISE  # as a share of the first rate
            self.lr_scheduler = torch.optim.lr_scheduler.OneCycleLR(
                optimizer,
                max_lr=[group["lr"] for group in optimizer.param_groups],
                total_steps=num_training_steps,
                pct_start=self.recipe.warmup_ratio,
                div_factor=ONE_CYCLE_RISE,
                final_div_factor=1 / lowest if lowest else math.inf,
            )
        return super().create_scheduler(num_training_steps, optimizer)

    def evaluation_loop(self, dataloader, *arguments, metric_key_prefix: str = "eval", **options) -> EvalLoopOutput:
        """Evaluate a split, which the task hears of first; each process predicts its batches and scores all of them."""
        self.task.begin(SPLITS[metric_key_prefix], dataloader.dataset.tokens)
        if ranks.count() > 1:
            self.model.eval()
            own = [send_to_device(self.prediction_step(self.model, batch, False), "cpu") for batch in dataloader]
            dataloader = Results(ranks.in_turns(own), dataloader.dataset)
            self.gather_function = self.accelerator.gather  # the usual one cuts what a loader has filled up
        return super().evaluation_loop(dataloader, *arguments, metric_key_prefix=metric_key_prefix, **options)

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        """Evaluate a batch as the task says; what has been predicted for one is taken as it is."""
        if isinstance(inputs, tuple):
            return inputs
        found = self.task.prediction_step(model, self._prepare_inputs(inputs))
        return found or super().prediction_step(model, inputs, prediction_loss_only, ignore_keys)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """Compute the loss of a batch: that of the model, or of the task if it has something beside."""
        beside = inputs.get(self.task.beside) if self.task.beside else None
        inputs = {name: value for name, value in inputs.items() if name != self.task.beside}
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        if beside is not None:
            loss = self.task.loss(loss, outputs["logits"], beside, num_items_in_batch)
        return (loss, outputs) if return_outputs else loss

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """Return this process's micro-batches of an optimiser step, and the number of items in those of all."""
        batches = list(itertools.islice(epoch_iterator, num_batches))
        filled = [batch for batch in batches if batch]
        items = self._get_num_items_in_batch(filled, device)
        if items is None and filled and ranks.count() > 1:
            raise RunError(
                f"{type(self.model).__name__} takes the mean over the documents that a process has, which is not that "
                "over all. Set execution.gpus_per_run to 1."
            )
        if ranks.count() > 1:
            items = ranks.total(torch.zeros((), device=device) if items is None else items)
        tokens = sum(map(_real_tokens, filled), torch.zeros((), dtype=int, device=device))
        self.state.num_input_tokens_seen += int(ranks.total(tokens))
        return batches, items

    def _track_num_input_tokens(self, inputs) -> None:
        """Do nothing: the tokens of all processes have been counted with their items."""

    def training_step(self, model, inputs, *arguments, **options) -> torch.Tensor:
        """Train on a micro-batch, which may be empty; record the loss of all processes, and sum up their gradients."""
        if inputs:
            loss = super().training_step(model, inputs, *arguments, **options)
        else:
            loss = torch.zeros((), device=self.args.device)
        loss_of_all = ranks.total(loss)
        self.recorder.add_loss(loss_of_all)
        self.step_loss = self.step_loss + loss_of_all
        if self.accelerator.sync_gradients:
            ranks.add_gradients(model.parameters())
        return loss

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: torch.Tensor | None = None) -> Any:
        """Return the norm of a step's gradients, and stop where neither it nor the loss has been a number for long.

        Raises:
            RunError: it has not in the last steps.
        """
        norm = super()._get_grad_norm(model, grad_norm)
        is_finite = math.isfinite(norm + self.step_loss)
        self.step_loss = 0.0
        self.non_finite = 0 if is_finite else self.non_finite + 1
        if self.non_finite == NON_FINITE_STEPS:
            self._refuse_non_finite(last=self.state.global_step + 1)
        return norm

    def _refuse_non_finite(self, last: int | None = None) -> None:
        """Raise an error that says since which step loss or gradients are no finite numbers, and on which documents.

        Args:
            last: step under way; None = the one that was finished last.
        """
        recipe, first = self.recipe, (last or self.state.global_step) - self.non_finite + 1
        assert recipe is not None  # it trains
        order = LengthGroupedSampler(self.lengths, batch_size=recipe.batch_size, seed=self.args.seed)
        epoch, step = divmod(first - 1, math.ceil(len(order) / recipe.batch_size))
        order.set_epoch(epoch)
        start = step * recipe.batch_size
        rows = [row for _, row in itertools.islice(order, start, start + recipe.batch_size)]
        names = ", ".join(map(str, self.train_dataset.tokens.select(rows)["id"]))
        raise RunError(
            f"loss or gradients are no finite numbers since step {first}, {self.non_finite} in a row. Expected finite "
            "ones: lower recipe.learning_rate or recipe.max_grad_norm, or use precision bf16 or fp32. The last "
            f"checkpoint is older than that. If nothing helps, look at the documents of step {first}: {names}",
            diverged=True,
        )


def _collated(collator: Collator, scored: bool, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """Return the batch of a process's examples, of which there may be none, see `known_beforehand`."""
    return known_beforehand(collator(examples), scored=scored) if examples else {}


def _real_tokens(batch: Mapping[str, torch.Tensor]) -> torch.Tensor | int:
    """Return the tokens of a batch that are no padding."""
    return batch["attention_mask"].sum() if "attention_mask" in batch else batch["input_ids"].numel()


def trained(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """Return the weights of `model` that train, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _keep_embeddings_in_32_bits(model: torch.nn.Module) -> None:
    """Tell bitsandbytes to keep the moments of embeddings whole, as the Trainer's own optimiser does."""
    manager = importlib.import_module("bitsandbytes").optim.GlobalOptimManager.get_instance()
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            manager.register_module_override(module, "weight", {"optim_bits": 32})


def training_arguments(
    *, work: str, run: RunSettings, recipe: Recipe, longest: int, longest_evaluated: int, best: tuple[str, bool] | None
) -> TrainingArguments:
    """Return the Trainer's arguments for a run that trains.

    Args:
        work: folder of the working checkpoints.
        run: the run's settings.
        recipe: how it trains.
        longest: the longest training document, in tokens.
        longest_evaluated: the longest of the other documents, in tokens.
        best: metric on validation by which the best evaluation is chosen, and whether greater is better; None = the
            last one is kept.

    Raises:
        RunError: the device, the precision or the optimiser is not to be had here, or a batch has too few documents for
            all processes.
    """
    execution = run.execution
    if recipe.batch_size < ranks.count():
        raise RunError(
            f"recipe.batch_size: {recipe.batch_size} documents cannot be shared by {ranks.count()} processes. Expected "
            "one for each at least; lower execution.gpus_per_run."
        )
    share = math.ceil(recipe.batch_size / ranks.count())
    if recipe.optimizer == "adamw_8bit":
        require("bitsandbytes", "recipe.optimizer: adamw_8bit")
    micro_batch = micro_batch_size(share, longest, execution.micro_batch_tokens)
    metric, greater_is_better = best or (None, None)
    return Arguments(
        **_common_arguments(work, run, longest_evaluated),
        run_name=run_name(run),
        num_train_epochs=recipe.epochs,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": recipe.min_lr_ratio},
        # Below 1 it is a share of the steps, from 1 on a number of them: all steps are the largest share below 1.
        warmup_steps=min(recipe.warmup_ratio, math.nextafter(1.0, 0.0)),
        weight_decay=recipe.weight_decay,
        max_grad_norm=recipe.max_grad_norm,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=share // micro_batch,
        **({"optim": recipe.optimizer} if recipe.optimizer != "adamw" else {}),
        eval_strategy="steps" if recipe.evaluate_every else "epoch",
        save_strategy="steps" if recipe.evaluate_every else "epoch",
        **({"eval_steps": recipe.evaluate_every, "save_steps": recipe.evaluate_every} if recipe.evaluate_every else {}),
        logging_strategy="no",  # the history's recorder asks for it
        logging_nan_inf_filter=False,
        include_num_input_tokens_seen="non_padding",
        restore_callback_states_from_checkpoint=True,
        report_to=list(execution.report_to),
        load_best_model_at_end=best is not None,
        metric_for_best_model=metric,
        greater_is_better=greater_is_better,
    )


def evaluation_arguments(*, work: str, run: RunSettings, longest: int) -> TrainingArguments:
    """Return the Trainer's arguments for a run that only predicts, as it would after a training.

    Args:
        work: folder that the Trainer may write to.
        run: the run's settings.
        longest: the longest document, in tokens.

    Raises:
        RunError: the device or the precision is not to be had here.
    """
    return Arguments(**_common_arguments(work, run, longest), report_to=[])


def _common_arguments(work: str, run: RunSettings, longest_evaluated: int) -> dict[str, Any]:
    execution = run.execution
    _check_device(execution.device, run.precision)
    return {
        "output_dir": work,
        "per_device_eval_batch_size": max(1, execution.micro_batch_tokens // longest_evaluated),
        "bf16": run.precision == "bf16",
        "fp16": run.precision == "fp16",
        "seed": run.seed,
        "use_cpu": execution.device == "cpu" or not torch.accelerator.is_available(),
        "dataloader_num_workers": execution.workers,
        "dataloader_pin_memory": execution.device != "cpu" and torch.cuda.is_available(),
        "remove_unused_columns": False,
        "disable_tqdm": not sys.stderr.isatty(),
    }


def longest_evaluated(splits: Mapping[str, Dataset]) -> int:
    """Return the tokens of the longest document in `splits`."""
    return max(max(split["length"][:]) for split in splits.values())


def _check_device(device: str, precision: Precision) -> None:
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise RunError(
            "execution.training.device is 'cuda', but torch sees no GPU. Expected one; use 'auto' or 'cpu', or ask "
            "for a GPU (execution.job.gpu)."
        )
    if precision == "fp16" and (device == "cpu" or not has_gpu):
        raise RunError("experiment.precision is 'fp16', which needs a GPU. Use 'bf16' or 'fp32' on a CPU.")
    if precision == "bf16" and device != "cpu" and has_gpu and not torch.cuda.is_bf16_supported():
        raise RunError(
            f"experiment.precision is 'bf16', which {torch.cuda.get_device_name()} cannot do. Expected a GPU with "
            "bf16; use 'fp16' or 'fp32' on this one, or execution.training.device 'cpu'."
        )
