"""What training steps of several models cost, measured in turns in one process, within a given time.

All models take a step in every turn, on batches of random tokens, so whatever else the machine does hits all of them
alike, and the ratio of two models within a turn holds on a busy machine; its absolute seconds do not. Memory is that
kept by a forward pass for the backward pass, in addition to weights, gradients and the optimiser's state.
"""

import inspect
import itertools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import BertPreTrainedModel

from lib.advice.estimates import RESERVE, Hardware, Steps, grows
from lib.attention.contract import set_step
from lib.attention.kept_bytes import KeptBytes
from lib.attention.kernels import set_kernels
from lib.attention.settings import Kernels
from lib.backbones.faster import Graphs, compile_blocks, use_onednn
from lib.backbones.settings import BACKBONES, BackboneSettings, Precision
from lib.tasks.settings import TASKS, TaskSettings
from lib.tokens.batches import known_beforehand, rounded
from lib.tokens.tokenizer import TextTokenizer

TURNS = 15
"""Most turns."""

DTYPES: Mapping[Precision, str] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
STATES_MB = 4 * 4 / 2**20
"""MiB kept per weight: itself, its gradient and AdamW's two moments, in single precision."""

SPARE = 4
"""How many times the memory of exact attention's activations a batch may take: those of others may be larger."""

Sizes = Sequence[tuple[int, int]]
"""B and N of batches, as `Steps.batches` orders them."""

Turns = dict[str, list[Steps]]
"""Measured steps by model, one entry per turn."""


@dataclass(frozen=True)
class StepsCase:
    """A model and a task whose steps are measured.

    Args:
        backbone: parameters, its mechanism included.
        task: parameters.
        tokenizer: folder.
        hardware: of this machine.
        kernels: what attention computes with.
        compiled: whether torch compiles the blocks.
    """

    backbone: BackboneSettings
    task: TaskSettings
    tokenizer: str
    hardware: Hardware
    kernels: Kernels = "auto"
    compiled: bool = False


class TrainedModel:
    """A model in training on a device, and AdamW over those of its weights that train.

    Args:
        model: to train.
        device: `cpu` or `cuda`.
        dtype: of the forward pass, such as `float32`.
        kernels: what our attention computes with.
        fused: whether AdamW is a single kernel; None = torch chooses.
        compiled: whether torch compiles the blocks.
    """

    def __init__(
        self,
        model: nn.Module,
        device: str,
        dtype: str,
        kernels: Kernels = "torch",
        *,
        fused: bool | None = None,
        compiled: bool = False,
    ) -> None:
        self.model = model.to(device).train()
        set_kernels(self.model, kernels)
        self.graphs = None
        if compiled:
            compile_blocks(self.model)
            if device == "cuda" and not isinstance(model, BertPreTrainedModel):
                self.graphs = Graphs(model, self._add_gradients)  # as the Trainer has them
        self.device, self.dtype = torch.device(device), getattr(torch, dtype)
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.weights = sum(weight.numel() for weight in trained)
        self.optimiser = torch.optim.AdamW(trained, lr=1e-5, fused=fused)

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the loss of a batch."""
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            return self.model(**batch).loss

    def gradients(self, batch: dict[str, Tensor]) -> None:
        """Add the gradients of a batch."""
        (self.graphs or self._add_gradients)(batch)

    def update(self) -> None:
        """Do the optimiser's step."""
        self.optimiser.step()
        self.drop_gradients()

    def drop_gradients(self) -> None:
        """Let the next gradients be the first."""
        self.optimiser.zero_grad(set_to_none=self.graphs is None)

    def _add_gradients(self, batch: dict[str, Tensor]) -> Tensor:
        loss = self.loss(batch)
        loss.backward()
        return loss.detach()


class RandomTraining(TrainedModel):
    """A model in training, and a batch of random tokens of each size.

    It is warmed up on the first two, whose memory counts, and on all on a GPU or if blocks are compiled.

    Args:
        case: the model, and its task.
        sizes: B and N of the batches, N as far as the model reads.
    """

    def __init__(self, case: StepsCase, sizes: Sizes) -> None:
        torch.manual_seed(0)
        labels = ["no", "yes"] if case.task.labelled else None
        self.case, self.tokenizer = case, TextTokenizer.load(case.tokenizer).backend
        task = TASKS.load(case.task.kind, "task").Task(case.task, labels=labels, seed=0)
        backbone = BACKBONES.load(case.backbone.kind, "backbone").Backbone(case.backbone, seed=0)
        model = task.model(backbone.config(self.tokenizer, task.model_options()))
        use_onednn(model)
        dtype = DTYPES[case.hardware.precision]
        # As in a training.
        super().__init__(model, case.hardware.device, dtype, case.kernels, fused=True, compiled=case.compiled)
        self.collate = task.collator(self.tokenizer)
        self.scored = "scored" in inspect.signature(self.model.forward).parameters
        self.generator = np.random.default_rng(0)
        self.steps_taken = 0
        self.sizes = [(size, min(length, case.backbone.longest() or length)) for size, length in sizes]
        self.batches = [self._documents(size, length) for size, length in self.sizes]
        low, high = (self._kept_mb(number) for number in range(2))
        few, many, *_ = (size * length for size, length in self.sizes)
        self.mb_per_token = max(0.0, high - low) / (many - few)
        self.mb = self.weights * STATES_MB + low - few * self.mb_per_token
        for number in range(len(sizes)) if self.device.type == "cuda" or case.compiled else ():
            self.step(number)

    def step(self, number: int) -> None:
        """Train on a batch, its collation included, up to the gradients, which are dropped as after every update."""
        self._gradients(number)
        self.drop_gradients()

    def forward(self, number: int) -> None:
        """Compute the loss of a batch, and keep nothing."""
        with torch.no_grad():
            self.loss(self._batch(number))

    def update_seconds(self) -> float:
        """Return the seconds of clipping the gradients and of the optimiser's step."""
        clip = partial(nn.utils.clip_grad_norm_, [*self.model.parameters()], 1.0)
        seconds = []
        for _ in range(3):  # the optimiser's state exists from the second time on
            self._gradients(0)
            seconds.append(_timed(clip, self.device) + _timed(self.optimiser.step, self.device))
            self.drop_gradients()
        return min(seconds)

    def steps(self, seconds: Sequence[float], forward_share: float, optimiser_seconds: float) -> Steps:
        """Return the measurements of a turn.

        Args:
            seconds: of its batches.
            forward_share: share of a step that a forward pass takes.
            optimiser_seconds: of a weight.
        """
        backbone, longest = self.case.backbone, self.sizes[-1][1]
        products = [backbone.products_per_token(tokens, 0.0) for tokens in (longest, longest + 1)]
        return Steps(
            [(size, length, taken) for (size, length), taken in zip(self.sizes, seconds, strict=True)],
            forward_share=forward_share,
            optimiser_seconds=optimiser_seconds * self.weights,
            grows=grows(backbone),
            mb=self.mb,
            mb_per_token=self.mb_per_token,
            blocks=backbone.blocks() or 0,
            least_growth=products[1] / products[0] - 1,
        )

    def _documents(self, size: int, length: int) -> list[dict[str, Any]]:
        """Return documents of random tokens; all but the first are a little shorter than `length`."""
        first = min(1000, len(self.tokenizer) // 2)  # the special tokens stand before
        found = []
        for index in range(size):
            ids = self.generator.integers(first, len(self.tokenizer), length - bool(index) * (length // 50))
            found.append({"id": str(index), "input_ids": ids, "label": index % 2, "epoch": 0, "index": index})
        return found

    def _batch(self, number: int) -> dict[str, Tensor]:
        batch = known_beforehand(self.collate(self.batches[number]), scored=self.scored)  # as in a training
        if self.graphs is not None:
            batch = rounded(batch)
        return {name: tensor.to(self.device) for name, tensor in batch.items()}

    def _gradients(self, number: int) -> None:
        self.steps_taken += 1
        set_step(self.model, self.steps_taken)  # LSH draws other rotations at every step
        self.gradients(self._batch(number))

    def _kept_mb(self, number: int) -> float:
        with KeptBytes(self.model.parameters()) as kept:
            self.step(number)
        return kept.total / 2**20


def batches(lengths: Sequence[int], *, affordable: int, most: int) -> Sizes:
    """Return B and N of the batches of a turn, for ascending lengths as far as time allows, the first one twice.

    The first batch is a single document, which tells the fixed cost.

    Args:
        lengths: tokens of documents.
        affordable: tokens of a model in a turn that time allows.
        most: tokens that may be taken at once.
    """
    tokens = min(most, affordable // len(lengths))
    sizes = [(1, lengths[0])]
    for length in lengths:
        sizes.append((max(2 if len(sizes) == 1 else 1, tokens // length), length))
        if sum(size * n for size, n in sizes) > affordable and len(sizes) > 3:
            return sizes[:-1]
    return sizes


def measure_turns(
    exact: str,
    cases: Mapping[str, StepsCase],
    lengths: Sequence[int],
    seconds: float,
    *,
    turns: int = 8,
) -> Turns:
    """Return what steps of every model cost, measured in turns.

    Args:
        exact: model that the others are compared with.
        cases: by model, `exact` included.
        lengths: tokens of documents, ascending; the longer ones are measured as far as time allows.
        seconds: time for all of it; at least one turn is made.
        turns: number of turns that time allows, about.
    """
    end, device = time.monotonic() + seconds, torch.device(cases[exact].hardware.device)
    per_token, most = _allowed(cases[exact], lengths[0], len(cases))
    products = {name: case.backbone.products_per_token(lengths[0], 0.0) for name, case in cases.items()}
    slowest = per_token * max(products.values()) / products[exact]  # of exact attention's size, unless one is larger
    sizes = batches(lengths, affordable=int(seconds / (turns * len(cases)) / slowest), most=most)
    models = {name: RandomTraining(case, sizes) for name, case in cases.items()}
    common = _common(models[exact])
    taken: list[dict[str, list[float]]] = []
    lap = 0.0
    while not taken or (len(taken) < TURNS and time.monotonic() + lap < end):
        begun = time.monotonic()
        order = list(models)[:: -1 if len(taken) % 2 else 1]
        taken.append({name: [] for name in order})
        for number, name in itertools.product(range(len(sizes)), order):
            taken[-1][name].append(_timed(partial(models[name].step, number), device))
        lap = time.monotonic() - begun
    return {name: [one.steps(turn[name], *common) for turn in taken] for name, one in models.items()}


def _allowed(exact: StepsCase, length: int, models: int) -> tuple[float, int]:
    """Return the seconds of exact attention per token, and the tokens that so many models may take at once."""
    hardware = exact.hardware
    many = max(2, hardware.micro_batch_tokens // length if hardware.device == "cuda" else 2)  # few are slow there
    model = RandomTraining(exact, [(1, length), (many, length)])
    per_token, growth = _timed(partial(model.step, 1), model.device) / math.prod(model.sizes[1]), model.mb_per_token
    left = RESERVE * 1024 * hardware.gibibytes - hardware.in_use_mb - models * model.weights * STATES_MB
    fitting = int(left / (SPARE * growth)) if growth else hardware.micro_batch_tokens
    return per_token, max(0, min(hardware.micro_batch_tokens, fitting))


def _common(model: RandomTraining) -> tuple[float, float]:
    """Return what hardly differs between models: the share of a forward pass in a step, and seconds per weight."""
    turns = [[_timed(partial(each, 1), model.device) for each in (model.forward, model.step)] for _ in range(3)]
    forward, step = (statistics.median(each) for each in zip(*turns, strict=True))
    return min(1.0, forward / step), model.update_seconds() / model.weights


def _timed(computation: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of a computation, including work that still runs on a GPU."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    begun = time.perf_counter()
    computation()
    wait()
    return time.perf_counter() - begun
