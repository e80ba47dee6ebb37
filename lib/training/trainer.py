"""The training loop: epochs, steps, evaluations and checkpoints, in the order of execution.

Order, masks and random features depend only on their keys, and all other random state is in every checkpoint; so an
interrupted training resumes exactly. Several processes may share a training (`lib.training.distributed`): each takes
its share of every batch, in training and in evaluation.
"""

import itertools
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import send_to_device
from datasets import Dataset
from safetensors.torch import load_model
from tqdm import tqdm
from transformers.trainer_utils import PredictionOutput
from transformers.utils import SAFE_WEIGHTS_NAME

from lib.attention.contract import set_step
from lib.backbones.faster import CompiledAtFixedSizes, Graphs
from lib.backbones.stored import refuse
from lib.core.errors import RunError
from lib.core.record import Stretch, with_stretch
from lib.study.run import RunSettings
from lib.tokens.batches import LengthGroupedSampler, Share
from lib.tokens.stored import TokenDataset
from lib.training import checkpoints, distributed, optimisation
from lib.training.checkpoints import Progress, checkpoint_folder
from lib.training.history import History
from lib.training.interruptions import Interruption
from lib.training.predictor import Batch, Components, Observer, Predictor, items
from lib.training.record import Environment, stretch

logger = logging.getLogger(__name__)

NON_FINITE_STEPS = 20
"""Consecutive steps with NaN or inf in loss or gradients after which training stops: more than the loss scale of fp16
needs to fall from its initial value, 2^16, to 1."""
LEAVE = 2
"""Request to write a checkpoint and stop; a request for only a checkpoint is 1."""


class Trainer(Predictor):
    """Trains a model by the recipe of its run.

    Args:
        run: settings of a run with a recipe.
        components: task, backbone, tokeniser and model.
        splits: tokens of `train` and `validation`, and perhaps of others.
        work: folder of the checkpoints.
        interruption: received signals; they stop the training after a checkpoint.
        observers: callbacks.

    Attributes:
        progress: progress of the training.
        documents: documents of an optimiser step that a process has at most.
        history: one row per evaluation.
        stretches: parts of the training so far under different conditions.
        loss: loss of the last step.
        grad_norm: norm of the gradients of the last step, before they were clipped.
        rates: learning rate of the last step, by part of the model.
        class_weights: weight of each class in the loss [C]; None = all weigh alike.

    Raises:
        RunError: the device or the precision is not available, or a batch has too few documents for all processes.
    """

    run: RunSettings

    def __init__(
        self,
        run: RunSettings,
        components: Components,
        splits: Mapping[str, Dataset],
        work: Path,
        interruption: Interruption,
        observers: list[Observer],
    ) -> None:
        assert run.recipe is not None  # the caller checks this
        super().__init__(run, components.task, components.model, components.tokenizer, observers)
        self.recipe, self.backbone, self.work, self.interruption = run.recipe, components.backbone, work, interruption
        self.tokens, self.validation = TokenDataset(splits["train"]), TokenDataset(splits["validation"])
        self.lengths = splits["train"]["length"][:]
        size, processes = self.recipe.batch_size, distributed.count()
        if size < processes:
            raise RunError(f"recipe.batch_size: {size} for {processes} processes. Expected at least one for each.")
        self.documents = math.ceil(size / processes)
        self.steps_per_epoch = math.ceil(len(self.lengths) / size)
        epochs = self.recipe.epochs * self.steps_per_epoch
        self.steps = min(epochs, self.recipe.steps or epochs)
        self.keeps_best = "best" in (self.recipe.keep or [run.task.keeps])
        self.class_weights: torch.Tensor | None = None
        if self.recipe.class_weights:
            weights = optimisation.class_weights(self.recipe, splits["train"]["label"][:], self.task.labels)
            self.class_weights = weights.to(self.device)
        self.progress = Progress()
        self.history = History(optimisation.multipliers(self.recipe))
        self.stretches: list[Stretch] = []
        self.loss = self.grad_norm = 0.0
        self.add_gradients: Callable[[Batch], torch.Tensor] = self._add_gradients
        if run.execution.compile:
            self.add_gradients = CompiledAtFixedSizes(
                self.model, self._add_gradients, longest=max(self.lengths), most=run.execution.micro_batch_tokens
            )
        self.graphs = Graphs(self.model, self.add_gradients) if self._may_use_graphs() else None
        self.non_finite = 0
        self.saved_at = time.monotonic()

    @property
    def environment(self) -> Environment:
        """Hardware and packages of the run; its peak memory includes earlier attempts."""
        return super().environment._replace(peak_memory_mb=self.history.measured_peak())

    @property
    def is_over(self) -> bool:
        """Whether all steps are done, or `recipe.patience` evaluations since the best one.

        It follows from the history, so that a resumed training and all processes stop at the same step.
        """
        waited = sum(row["step"] > (self.progress.best_step or math.inf) for row in self.history.rows)
        return self.progress.step >= self.steps or waited >= (self.recipe.patience or math.inf)

    def train(self, checkpoint: Path | None = None) -> None:
        """Train until `is_over`, then load the best model if it is kept.

        Args:
            checkpoint: valid working checkpoint to resume from; None = from the beginning.

        Raises:
            RunError: no evaluation had a finite score, or the loss is NaN or inf.
        """
        self.optimizer = self.accelerator.prepare(optimisation.make_optimizer(self.model, self.recipe))
        self.schedule = optimisation.make_schedule(self.optimizer, self.recipe, self.steps)
        if checkpoint is not None:
            self.load_weights(checkpoint)
            self._restore(checkpoint)
        every = self.recipe.evaluate_every or self.steps_per_epoch
        conditions = stretch(self.run, self.environment, self.progress.step, torch.get_num_threads())
        self.stretches = with_stretch(self.stretches, conditions)
        self.model.zero_grad()
        self.notify("began")
        self.interruption.waits = True  # a signal stops the training only after a checkpoint
        is_silent = not sys.stderr.isatty() or distributed.index() > 0
        bar = tqdm(total=self.steps, initial=self.progress.step, disable=is_silent)
        while not self.is_over:
            epoch, begun = divmod(self.progress.step, self.steps_per_epoch)
            optimisation.freeze(self.model, self.recipe, epoch)
            if self.graphs is not None and self.recipe.frozen_epochs:
                self.graphs.clear()  # other weights may train now
            self.history.start_clock()
            steps = self._steps_of_epoch(epoch, begun, checkpoint)
            batches = next(steps, None)
            while batches is not None:
                figures = self._step(batches)
                batches = next(steps, None)  # while a GPU computes
                self._read(figures)
                bar.update()
                request = self._request()
                if is_due := self.progress.step % every == 0 or self.progress.step == self.steps:
                    self._evaluate()
                if is_due or request:
                    self.save()
                    self.saved_at = time.monotonic()
                    self.notify("saved")
                    if request == LEAVE:
                        self.interruption.leave()
                if self.is_over:
                    break
            checkpoint = None
        bar.close()
        if self.progress.step < self.steps:
            logger.info("stopped at step %d of %d: no evaluation was better", self.progress.step, self.steps)
        if self.keeps_best:
            if self.progress.best_step is None:
                raise RunError(f"{self.work}: no evaluation had a finite {self.task.best}. Lower recipe.learning_rate.")
            self.load_weights(checkpoint_folder(self.work, self.progress.best_step))
        self.interruption.waits = False

    def _steps_of_epoch(self, epoch: int, begun: int, checkpoint: Path | None) -> Iterator[list[Batch]]:
        """Yield the micro-batches of each remaining optimiser step of an epoch, on the device.

        A loader draws from torch's global state when its iteration begins. Within an epoch, that draw came before the
        checkpoint; at the beginning of an epoch, it comes after.
        """
        of_process = {"index": distributed.index(), "count": distributed.count(), "begun": begun}
        budget = self.run.execution.micro_batch_tokens
        share = Share(self._order(epoch), self.lengths, self.recipe.batch_size, budget, **of_process)
        loader = self.loader(self.tokens, share, of_few_shapes=self.graphs is not None)
        if checkpoint is not None and not begun:
            checkpoints.load_random_states(checkpoint)
        found = iter(loader)
        if checkpoint is not None and begun:
            checkpoints.load_random_states(checkpoint)
        for batches in share.batches():
            # Without waiting: it would be for all that the GPU has still to do.
            yield [send_to_device(next(found), self.accelerator.device, non_blocking=True) for _ in batches]

    def _order(self, epoch: int) -> LengthGroupedSampler:
        """Return the order of the training documents in an epoch."""
        order = LengthGroupedSampler(self.lengths, batch_size=self.recipe.batch_size, seed=self.run.seed)
        order.set_epoch(epoch)
        return order

    def _step(self, batches: list[Batch]) -> torch.Tensor:
        """Do one optimiser step, without waiting for a GPU, and return its figures.

        Args:
            batches: micro-batches of this process; may be empty.

        Returns:
            Loss, norm of the gradients and number of tokens [3], for `_read`.
        """
        progress = self.progress
        filled = [batch for batch in batches if batch]
        # In float32, which divides the loss anyway, so that a process without documents adds to sums of weights.
        labels = torch.as_tensor(items(filled, self.class_weights), dtype=torch.float32, device=self.accelerator.device)
        tokens = torch.as_tensor(sum(map(_real_tokens, filled)), device=self.accelerator.device)
        labels, tokens = distributed.total(labels), distributed.total(tokens)
        set_step(self.model, progress.step)
        self.backbone.set_step(self.model, progress.step)
        self.history.start_clock()
        step_loss: torch.Tensor | float = 0.0
        for batch in batches:
            loss = distributed.total(self.training_step(batch, labels))
            self.history.loss = self.history.loss + loss  # without a transfer from the device
            step_loss = step_loss + loss
        distributed.add_gradients(self.model.parameters())
        norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.recipe.max_grad_norm or math.inf)
        self.notify("has_gradients")
        self.rates = {group["part"]: group["lr"] for group in self.optimizer.param_groups}
        self.optimizer.step()
        if not self.accelerator.optimizer_step_was_skipped:  # fp16 skips steps until the scale of the loss fits
            self.schedule.step()
        self.model.zero_grad(set_to_none=self.graphs is None)
        progress.step += 1
        progress.epoch = progress.step / self.steps_per_epoch
        self.history.steps += 1
        return torch.stack([torch.as_tensor(each, device=norm.device).double() for each in (step_loss, norm, tokens)])

    def _read(self, figures: torch.Tensor) -> None:
        """Read the figures of the last step, which waits for a GPU until it has done the step."""
        self.loss, self.grad_norm, tokens = figures.tolist()
        self.progress.tokens += int(tokens)
        self.non_finite = 0 if math.isfinite(self.grad_norm + self.loss) else self.non_finite + 1
        if self.non_finite == NON_FINITE_STEPS:
            self._refuse_non_finite(last=self.progress.step)
        self.notify("stepped")

    def training_step(self, batch: Batch, labels: torch.Tensor) -> torch.Tensor:
        """Add the gradients of a micro-batch, and return its loss.

        Args:
            batch: micro-batch of this process; may be empty.
            labels: number of labels in the micro-batches of all processes, or the sum of their weights; the loss of the
                step is a mean over them.
        """
        if not batch:
            return torch.zeros((), device=self.accelerator.device)
        self.model.train()
        weights: Batch = {}
        if (of_classes := self.class_weights) is not None:
            known = batch["labels"]
            weights = {"label_weights": of_classes if known.is_floating_point() else of_classes[known]}
        return (self.graphs or self.add_gradients)({**batch, "num_items_in_batch": labels} | weights)

    def _add_gradients(self, batch: Batch) -> torch.Tensor:
        """Add the gradients of a micro-batch that is not empty, and return its loss; see `training_step`."""
        extra = batch.get(self.task.extra_input) if self.task.extra_input else None
        inputs = {name: value for name, value in batch.items() if name != self.task.extra_input}
        outputs = self.model(**inputs)
        loss = outputs.loss
        if extra is not None:
            loss = self.task.loss(loss, outputs.logits, extra, batch["num_items_in_batch"])
        self.accelerator.backward(loss)
        return loss.detach()

    def _may_use_graphs(self) -> bool:
        """Whether steps may be replayed as CUDA graphs: of the models of the grid, with nothing that asks the GPU."""
        return (
            self.run.execution.compile
            and self.device.type == "cuda"
            and getattr(self.model, "may_be_captured", False)
            and self.run.precision != "fp16"
            and self.recipe.lora is None
            and not self.model.is_gradient_checkpointing
            and self.task.extra_input is None
        )

    def _request(self) -> int:
        """Return the request of any process: 0 = none, 1 = a checkpoint (it is time), `LEAVE` = a stop (a signal)."""
        is_time = time.monotonic() - self.saved_at >= 60 * self.run.execution.checkpoint_minutes
        return int(distributed.largest(LEAVE if self.interruption.heard else int(is_time)))

    def _evaluate(self) -> None:
        """Evaluate on validation, add a row to the history, and note whether it is the best one."""
        progress = self.progress
        self.history.add_row(progress.step, progress.epoch, progress.tokens, self.rates)
        metrics = self.predict(self.validation, "eval").metrics
        self.history.complete_row(metrics)
        self.notify("evaluated")
        if self.keeps_best:
            progress.note(metrics[f"eval_{self.task.best}"], self.task.greater_is_better)

    def predict(self, tokens: TokenDataset, prefix: str) -> PredictionOutput:
        """See `Predictor.predict`; the scores are those of the model as it would be stored."""
        self.backbone.set_step(self.model, None)
        return super().predict(tokens, prefix)

    def _refuse_non_finite(self, last: int) -> None:
        """Raise an error that names the first step with NaN or inf in loss or gradients, and its documents."""
        first = last - self.non_finite + 1
        epoch, step = divmod(first - 1, self.steps_per_epoch)
        start = step * self.recipe.batch_size
        rows = [row for _, row in itertools.islice(self._order(epoch), start, start + self.recipe.batch_size)]
        names = ", ".join(map(str, self.tokens.tokens.select(rows)["id"]))
        raise RunError(
            f"loss or gradients have been NaN or inf since step {first}, {self.non_finite} in a row. Lower "
            "recipe.learning_rate or recipe.max_grad_norm, or use precision bf16 or fp32. Documents of the first step: "
            f"{names}",
            diverged=True,
        )

    def save(self) -> None:
        """Write a checkpoint.

        Raises:
            RunError: it cannot be written, or the weights are NaN or inf.
        """
        if self.non_finite and self.run.precision != "fp16":  # fp16 skips such a step; otherwise the weights are NaN
            self._refuse_non_finite(last=self.progress.step)
        with checkpoints.writing(self.work, self.progress) as folder:
            if not distributed.index():
                # With adapters, all other weights are frozen, so the start of the run has them.
                weights = {name: each.detach() for name, each in optimisation.trained(self.model).items()}
                self.model.save_pretrained(folder, state_dict=weights if self.recipe.lora else None)
                for name, part in self._stateful().items():
                    torch.save(part.state_dict(), folder / name)
                state = {
                    "optimizer": self.recipe.optimizer,
                    "history": self.history.state(),
                    "stretches": [each.model_dump(mode="json") for each in self.stretches],
                }
                states = {type(observer).__name__: observer.state() for observer in self.observers}
                state |= {name: found for name, found in states.items() if found is not None}
                checkpoints.write_state(folder, self.progress, state)
            checkpoints.save_random_states(folder)

    def _restore(self, checkpoint: Path) -> None:
        """Restore optimiser, schedule, progress, history and stretches.

        The checkpoint may be of a run with another recipe; nothing of that is restored.
        """
        saved = {
            name: checkpoints.load_tensors(checkpoint / name)
            for name in self._stateful()
            if (checkpoint / name).exists()  # a run in another precision has no scaler
        }
        optimisation.load_moments(self.optimizer, self.model, self.recipe, saved["optimizer.pt"])
        optimisation.advance(self.schedule, saved["scheduler.pt"]["last_epoch"])
        if self.accelerator.scaler and "scaler.pt" in saved:
            self.accelerator.scaler.load_state_dict(saved["scaler.pt"])
        state = checkpoints.read_state(checkpoint)
        self.progress = Progress(**state["progress"])
        self.history.restore(state["history"])
        self.stretches = [Stretch.model_validate(each) for each in state.get("stretches", [])]
        for observer in self.observers:
            if (found := state.get(type(observer).__name__)) is not None:
                observer.restore(found)

    def _stateful(self) -> dict[str, Any]:
        """Return the objects whose state holds tensors, by the name of their file in a checkpoint."""
        parts = {"optimizer.pt": self.optimizer, "scheduler.pt": self.schedule}
        return parts | ({"scaler.pt": self.accelerator.scaler} if self.accelerator.scaler else {})

    def load_weights(self, checkpoint: Path) -> None:
        """Load the weights of a checkpoint; one with adapters holds only the trainable weights.

        Raises:
            RunError: a weight is missing.
        """
        missing, _ = load_model(self.model, checkpoint / SAFE_WEIGHTS_NAME, strict=not self.recipe.lora)
        refuse(optimisation.trained(self.model).keys() & set(missing), checkpoint, "are missing")


def _real_tokens(batch: Mapping[str, torch.Tensor]) -> torch.Tensor | int:
    """Return the number of tokens of a batch without padding, second texts included."""
    sequences = (("attention_mask", "input_ids"), ("pair_mask", "pair_ids"))
    return sum(batch[mask].sum() if mask in batch else batch[ids].numel() for mask, ids in sequences if ids in batch)
