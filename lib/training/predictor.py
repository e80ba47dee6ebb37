"""From the settings of a run to its model, and a predictor, which runs it on its device and scores its predictions."""

import functools
import logging
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import send_to_device
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import EvalPrediction, PreTrainedModel, PreTrainedTokenizerBase, set_seed
from transformers.trainer_pt_utils import EvalLoopContainer
from transformers.trainer_utils import PredictionOutput, denumpify_detensorize

from lib.attention.kernels import computing_by_kernels, set_kernels
from lib.backbones.contract import TokenBackbone
from lib.backbones.faster import check_compiler, compile_blocks, use_onednn
from lib.backbones.settings import BACKBONES, Precision
from lib.core.errors import RunError
from lib.core.labels import IGNORED
from lib.core.machine import SLOW_BF16, multiplies_bf16
from lib.core.model_folder import TOKENIZER, read_core
from lib.core.randomness import derive_seed
from lib.study.reader import ReaderSettings
from lib.study.run import RunSettings
from lib.tasks.contract import Collator, Task
from lib.tasks.settings import TASKS
from lib.tokens.batches import known_beforehand, rounded, within_budget
from lib.tokens.stored import TokenDataset, has_labels, load_tokens, sorted_by_length
from lib.tokens.tokenizer import TextTokenizer
from lib.training import distributed
from lib.training.history import peak_memory_mb
from lib.training.interruptions import explained_memory, explained_size
from lib.training.record import Environment

logger = logging.getLogger(__name__)

Batch = dict[str, torch.Tensor]

PACKAGES = ("torch", "transformers", "datasets", "tokenizers", "accelerate")
CACHED = 2_048
"""Most tokens of a batch that is evaluated on a CPU, unless a document has more: larger ones leave the cache."""
SPLITS = {"eval": "validation", "test": "test"}
"""Splits by the prefix of their scores."""


class Components(NamedTuple):
    """The components of a run on tokens."""

    task: Task
    backbone: TokenBackbone
    tokenizer: PreTrainedTokenizerBase
    model: PreTrainedModel
    """The model with random weights; others are loaded later."""


@explained_size()
def assemble(run: RunSettings) -> Components:
    """Build the components of a run on tokens; the same run gives the same initial weights.

    Raises:
        ProjectError: a component cannot be built from the settings.
    """
    assert run.tokenizer is not None  # its settings say so
    task = TASKS.load(run.task.kind, "task").Task(run.task, labels=run.labels, seed=run.seed)
    backbone = BACKBONES.load(run.backbone.kind, "backbone").Backbone(run.backbone, seed=run.seed)
    tokenizer = TextTokenizer.load(run.tokenizer).backend
    # Initial weights and dropout draw from torch's global state.
    set_seed(derive_seed("weights", run.seed) % 2**32)
    model = task.model(backbone.config(tokenizer, task.model_options()))
    backbone.check(model)
    set_kernels(model, run.execution.kernels)
    if run.execution.kernels == "auto":
        use_onednn(model)
    if run.execution.compile:
        compile_blocks(model)
    return Components(task, backbone, tokenizer, model)


def check_vocabulary(tokenizer: PreTrainedTokenizerBase, folder: str | Path) -> None:
    """Refuse weights whose embeddings belong to another vocabulary than that of the run.

    Args:
        tokenizer: tokeniser of the run; may have additional tokens.
        folder: folder of the weights; without a tokeniser in it, nothing is checked.

    Raises:
        RunError: a token id has another token there.
    """
    if not (Path(folder) / TOKENIZER).is_file():
        return
    theirs = {number: token for token, number in read_core(Path(folder)).get_vocab().items()}
    ours = {number: token for token, number in tokenizer.get_vocab().items()}
    if differing := sorted(number for number in ours.keys() & theirs.keys() if ours[number] != theirs[number]):
        first = differing[0]
        raise RunError(
            f"{folder}: has another vocabulary: token {first} is {theirs[first]!r} there and {ours[first]!r} here, and "
            f"so are {len(differing):,} of {len(theirs):,}. Give the model the tokeniser in that folder."
        )


class Observer:
    """Base class of callbacks of a training run; its methods do nothing. No callback changes a number.

    Heartbeats, trackers, measurements and searches derive from it.
    """

    def began(self, trainer: Any) -> None:
        """Handle the beginning or resumption of the training, after its weights and progress are loaded."""

    def has_gradients(self, trainer: Any) -> None:
        """Handle the clipped gradients of a step, before the optimiser uses them."""

    def stepped(self, trainer: Any) -> None:
        """Handle the end of an optimiser step."""

    def predicted_batch(self, trainer: Any) -> None:
        """Handle a predicted batch of an evaluation."""

    def evaluated(self, trainer: Any) -> None:
        """Handle an evaluation, which has completed the last row of the history."""

    def saved(self, trainer: Any) -> None:
        """Handle a written checkpoint."""

    def state(self) -> Any:
        """Return the state for a checkpoint, as JSON values; None = no state."""
        return None

    def restore(self, state: Any) -> None:
        """Restore the result of `state`."""


class Predictor:
    """A model that predicts. The processes of one training run share its batches.

    Args:
        run: settings of the run, or how its model reads.
        task: task of the run, which scores the predictions.
        model: model with the head of its task.
        tokenizer: tokeniser of the run.
        observers: callbacks.

    Raises:
        RunError: the device or the precision is not available.
    """

    def __init__(
        self,
        run: RunSettings | ReaderSettings,
        task: Task,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        observers: Iterable[Observer] = (),
    ) -> None:
        check_device(run.execution.device, run.precision)
        if run.execution.compile:
            check_compiler("cuda" if run.execution.device != "cpu" and torch.cuda.is_available() else "cpu")
        self.run, self.task = run, task
        self.observers = list(observers)
        scored = getattr(model, "labels_tokens", False)
        typed = getattr(model.config, "token_types", 0) > 1
        self._collator = functools.partial(_collated, task.collator(tokenizer), scored, typed)
        # accelerate keeps its state in the process, and an earlier run may have had another precision.
        AcceleratorState._reset_state(reset_partial_state=True)
        self.accelerator = Accelerator(
            cpu=run.execution.device == "cpu" or not torch.accelerator.is_available(),
            mixed_precision=run.precision if run.precision in ("bf16", "fp16") else "no",
        )
        self.model: PreTrainedModel = self.accelerator.prepare_model(model)
        self.model.config.use_cache = False  # only generation needs the cache
        # Dropout draws from torch's global state, which differs between processes.
        set_seed(derive_seed("dropout", run.seed, distributed.index()) % 2**32 if distributed.index() else run.seed)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    @property
    def environment(self) -> Environment:
        """Hardware and packages of the run."""
        gpu = torch.cuda.get_device_name() if self.device.type == "cuda" else None
        used = {module.computed_by for module in computing_by_kernels(self.model)}
        kernels = next((each for each in ("triton", "torch") if each in used), None)
        return Environment(
            device=str(self.device),
            hardware=gpu or f"{platform.machine()}, {torch.get_num_threads()} threads",
            packages=[*PACKAGES, *(["triton"] if kernels == "triton" else [])],
            peak_memory_mb=peak_memory_mb(),
            instruction_set=torch.backends.cpu.get_cpu_capability(),
            gpu=gpu,
            kernels=kernels,
        )

    def notify(self, event: str) -> None:
        """Call a method of every observer."""
        for observer in self.observers:
            getattr(observer, event)(self)

    def loader(
        self, tokens: TokenDataset, batches: Iterable[list[Any]], *, of_few_shapes: bool = False
    ) -> DataLoader[Batch]:
        """Return the batches of a split, on the host.

        Args:
            tokens: the split.
            batches: keys of the documents of each.
            of_few_shapes: whether batches are padded so that few shapes occur.
        """
        return DataLoader(
            tokens,
            batch_sampler=batches,
            collate_fn=functools.partial(self._collator, of_few_shapes=of_few_shapes),
            num_workers=self.run.execution.workers,
            pin_memory=self.device.type == "cuda",
        )

    def evaluation_batches(self, tokens: TokenDataset) -> list[list[int]]:
        """Return the places of the documents of each batch that an evaluation takes at once, in order."""
        lengths, most = tokens.tokens["length"][:], self.run.execution.micro_batch_tokens
        if self.device.type == "cpu":
            most = min(most, max([CACHED, *lengths]))
        return [list(places) for places in within_budget(lengths, most)]

    def predict(self, tokens: TokenDataset, prefix: str) -> PredictionOutput:
        """Return predictions and labels of all documents of a split, and its scores if there are labels.

        With P processes, each predicts every P-th batch, and all of them score all documents.

        Args:
            tokens: the split.
            prefix: prefix of the names of its scores: `eval` (validation) or `test`.

        Raises:
            OutOfMemoryError: the device's memory ran out.
        """
        self.task.begin(SPLITS[prefix], tokens.tokens)
        self.model.eval()
        own = self.evaluation_batches(tokens)[distributed.index() :: distributed.count()]
        longest = max(tokens.tokens["length"][:], default=0)
        found = []
        with explained_memory(self.run.execution, len(tokens), longest, evaluating=True):
            for batch in self.loader(tokens, own):
                found.append(self.prediction_step(send_to_device(batch, self.accelerator.device)))
                self.notify("predicted_batch")
        if distributed.count() > 1:
            found = distributed.in_turns(send_to_device(found, "cpu"))
        losses: list[torch.Tensor] = []
        predictions, labels = (EvalLoopContainer(do_nested_concat=True, padding_index=IGNORED) for _ in range(2))
        for loss, predicted, label in found:
            if loss is not None:
                losses.append(loss.repeat(len(label)))  # the mean is over documents
            predictions.add(predicted)
            labels.add(label)
        scored = EvalPrediction(predictions=predictions.get_arrays(), label_ids=labels.get_arrays())
        if not has_labels(tokens.tokens):
            return PredictionOutput(scored.predictions, scored.label_ids, {})
        scores = {"loss": torch.cat(losses).float().cpu().numpy().mean().item()} if losses else {}
        scores |= denumpify_detensorize(self.task.metrics(scored))
        metrics = {f"{prefix}_{name}": value for name, value in scores.items()}
        return PredictionOutput(scored.predictions, scored.label_ids, metrics)

    @torch.no_grad()
    def prediction_step(self, batch: Batch) -> tuple[torch.Tensor | None, Any, torch.Tensor]:
        """Return the loss of a batch, and the outputs and labels that its task keeps."""
        found = self.task.prediction_step(self.model, batch)
        if found is not None:
            return found
        outputs = self.model(**batch, num_items_in_batch=items([batch]))
        return outputs.loss, outputs.logits, batch["labels"]


def items(batches: Iterable[Batch], class_weights: torch.Tensor | None = None) -> torch.Tensor | int:
    """Return the number of labels in batches, or the sum of their weights; the loss is a mean over them.

    Where documents have several classes, each class of each document counts, whatever its weight.

    Args:
        batches: with labels.
        class_weights: weight of each class [C]; None = all weigh alike.
    """
    found = [batch["labels"] for batch in batches]
    if class_weights is not None and not any(each.is_floating_point() for each in found):
        return sum(class_weights[each].sum() for each in found)
    # Those of numbers may have any value.
    return sum(each.numel() if each.is_floating_point() else each.ne(IGNORED).sum() for each in found)


def _collated(
    collator: Collator, scored: bool, typed: bool, examples: Sequence[Mapping[str, Any]], *, of_few_shapes: bool = False
) -> Batch:
    """Return the batch of a process's examples; there may be none, see `known_beforehand` and `rounded`.

    Only a model with segment embeddings (`typed`) gets the segments of pairs.
    """
    if not examples:
        return {}
    batch = collator(examples)
    if not typed:
        batch.pop("token_type_ids", None)
    batch = known_beforehand(batch, scored=scored)
    return rounded(batch) if of_few_shapes else batch


def check_device(device: str, precision: Precision | None) -> None:
    """Raise an error if the device or the precision is not available, and warn if it is slow.

    Args:
        device: `cpu`, `cuda` or `auto`.
        precision: precision of the run.

    Raises:
        RunError: the device or the precision is not available.
    """
    on_gpu = device != "cpu" and torch.cuda.is_available()
    if device == "cuda" and not on_gpu:
        raise RunError("execution.training.device is 'cuda', but torch sees no GPU. Use 'auto', or ask for a GPU.")
    if precision == "fp16" and not on_gpu:
        raise RunError("experiment.precision is 'fp16', which needs a GPU. Use 'bf16' or 'fp32' on a CPU.")
    if precision == "bf16" and on_gpu and not torch.cuda.is_bf16_supported():
        name = torch.cuda.get_device_name()
        raise RunError(f"experiment.precision is 'bf16', which {name} cannot do. Expected 'fp16' or 'fp32' on it.")
    if precision == "bf16" and not on_gpu and multiplies_bf16() is False:
        logger.warning("%s", SLOW_BF16)


def load_split(folder: str, *, sort: bool = False) -> Dataset:
    """Return a tokenised split; `sort` puts the longest documents first."""
    return sorted_by_length(load_tokens(folder)) if sort else load_tokens(folder)


def predict_splits(predictor: Predictor, splits: Mapping[str, Dataset]) -> tuple[dict[str, float | None], pd.DataFrame]:
    """Return the scores (`eval_*` of validation, `test_*`) and the predictions, one row per document.

    Args:
        predictor: predictor with the model and its task.
        splits: `validation` and `test`.

    Raises:
        RunError: a prediction is NaN or inf.
    """
    metrics: dict[str, float | None] = {}
    frames = []
    for split, prefix in (("validation", "eval"), ("test", "test")):
        output = predictor.predict(TokenDataset(splits[split]), prefix)
        require_finite(output, splits[split]["id"], split)
        frames.append(predictor.task.predictions(splits[split], output).assign(split=split))
        metrics |= output.metrics
    return metrics, pd.concat(frames, ignore_index=True)


def require_finite(output: PredictionOutput, ids: Sequence[str], where: object) -> None:
    """Refuse predictions that are NaN or inf, whose maximum would still be a class.

    Raises:
        RunError: a document, one of `ids`, has such ones; `where` names all of them.
    """
    arrays = output.predictions if isinstance(output.predictions, tuple) else (output.predictions,)
    for array in arrays:
        rows = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
        if len(rows):
            raise RunError(
                f"{where}: the scores of {len(rows)} of {len(array)} documents are NaN or inf, the first of them of "
                f"{ids[int(rows[0])]}. Train in fp32 or bf16, or with a lower learning rate."
            )
