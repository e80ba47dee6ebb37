"""Measured cost of a training step on this machine: steps of the real model on batches of random tokens.

A micro-batch of B documents of N tokens takes `fixed + B * N * per_token(N)` seconds, and its memory grows with B * N;
the optimiser's step comes on top. `lib.measure.step_turns` measures several models in turns.
"""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from lib.attention.contract import set_step
from lib.attention.settings import MECHANISMS, Kernels
from lib.backbones.settings import BACKBONES, BackboneSettings, Precision
from lib.data.padding import known_beforehand
from lib.data.tokenizer import TextTokenizer
from lib.measure.cost import highest_mb, repeated, resident_mb, timed, with_peak_mb
from lib.measure.trained_model import TrainedModel
from lib.tasks.settings import TASKS, TaskSettings

logger = logging.getLogger(__name__)

SHORT = (128, 192, 256, 320, 512)
"""Tokens of the documents, N, that steps are measured with: many, since chunks that N does not fill cost most there."""

LENGTHS = (*SHORT, 2048, 8192, 16_384)
"""Lengths with long documents, as far as time and memory allow."""

DTYPES: Mapping[Precision, str] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_FEWEST = 2
"""Documents of a batch at least, so that there is padding, as nearly always in training."""
STATES_MB = 4 * 4 / 2**20
"""MiB kept per weight: itself, its gradient and AdamW's two moments, in single precision."""


@dataclass(frozen=True)
class StepsCase:
    """A model and a task whose steps are measured.

    Args:
        backbone: parameters, its mechanism included.
        task: parameters.
        tokenizer: folder.
        device: `cpu` or `cuda`.
        precision: of the forward pass.
        lengths: N of the documents, ascending; the first two are always measured.
        most_tokens: of a batch, unless `_FEWEST` documents have more.
        seconds: about as long as it may take.
        most_mb: memory in MiB that it may take.
        kernels: what attention computes with.
    """

    backbone: BackboneSettings
    task: TaskSettings
    tokenizer: str
    device: str
    precision: Precision
    lengths: tuple[int, ...]
    most_tokens: int
    seconds: float
    most_mb: float
    kernels: Kernels = "auto"


@dataclass(frozen=True)
class Steps:
    """Measurements of a case."""

    batches: list[tuple[int, int, float]]
    """B, N and seconds of a step without the optimiser's; the first batch is small, to find the fixed cost."""
    forward_share: float
    """Share of that time that a forward pass without gradients takes."""
    optimiser_seconds: float
    weights: int
    grows: bool
    """Whether time per token grows with N."""
    peaks: tuple[float, float]
    """Peak memory in MiB, that in use before left out: of the first batch, and of all."""
    least_growth: float = 0.0
    """Growth of the time per token with each token more, at least, where it grows: a share of that at the longest
    documents measured."""

    @property
    def fixed(self) -> float:
        """Seconds of a micro-batch that its tokens do not cost."""
        (few, _, short), (many, _, long) = self.batches[:2]
        fixed = short - (long - short) / (many / few - 1)
        return max(0.0, min(fixed, 0.9 * min(seconds for *_, seconds in self.batches)))  # noise may say more

    @property
    def longest(self) -> int:
        """N of the longest documents that were measured."""
        return self.batches[-1][1]

    def per_token(self, lengths: np.ndarray) -> np.ndarray:
        """Return the seconds per token, padding included, of micro-batches of N tokens [n].

        Between the lengths that were measured, it is interpolated. Beyond them, exact attention grows by what it grew
        by before, and everything else stays as it is.
        """
        measured = np.array([length for _, length, _ in self.batches[1:]])
        costs = np.array([(seconds - self.fixed) / (size * length) for size, length, seconds in self.batches[1:]])
        growth = 0.0
        if self.grows:
            seen = (costs[-1] - costs[0]) / (measured[-1] - measured[0]) if len(measured) > 1 else 0.0
            growth = max(seen, self.least_growth * costs[-1])
        return np.interp(lengths, measured, costs) + growth * np.maximum(lengths - measured[-1], 0)

    def peak(self, tokens: int) -> float:
        """Return the peak memory in MiB of training on micro-batches of this size, without the memory used before."""
        sizes = [size * length for size, length, _ in self.batches]
        growth = (self.peaks[1] - self.peaks[0]) / (max(sizes) - sizes[0])
        return self.peaks[0] + growth * (tokens - sizes[0])


class RandomTraining(TrainedModel):
    """A model that trains on batches of random tokens."""

    def __init__(self, case: StepsCase) -> None:
        torch.manual_seed(0)
        labels = ["no", "yes"] if case.task.labelled else None
        self.tokenizer = TextTokenizer.load(case.tokenizer).backend
        task = TASKS.load(case.task.kind, "task").Task(case.task, labels=labels, seed=0)
        backbone = BACKBONES.load(case.backbone.kind, "backbone").Backbone(case.backbone, seed=0)
        model = task.model(backbone.config(self.tokenizer, task.model_options()))
        super().__init__(model, case.device, DTYPES[case.precision], case.kernels, fused=True)  # as in a training
        self.collate = task.collator(self.tokenizer)
        self.scored = "scored" in inspect.signature(self.model.forward).parameters
        self.generator = np.random.default_rng(0)
        self.steps = 0

    def examples(self, size: int, length: int) -> list[dict[str, Any]]:
        """Return documents of random tokens; all but the first are a little shorter than `length`."""
        first = min(1000, len(self.tokenizer) // 2)  # the special tokens stand before
        return [
            {
                "id": str(index),
                "input_ids": self.generator.integers(first, len(self.tokenizer), length - bool(index) * (length // 50)),
                "label": index % 2,
                "epoch": 0,
                "index": index,
            }
            for index in range(size)
        ]

    def step(self, examples: Sequence[Mapping[str, Any]]) -> None:
        """Train on a micro-batch, its collation included, up to the gradients."""
        self.steps += 1
        set_step(self.model, self.steps)  # LSH draws other rotations at every step
        self.loss(self._batch(examples)).backward()

    def forward(self, examples: Sequence[Mapping[str, Any]]) -> None:
        """Compute the loss of a micro-batch, and keep nothing."""
        with torch.no_grad():
            self.loss(self._batch(examples))

    def update(self) -> None:
        """Clip the gradients, and do the optimiser's step."""
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        super().update()

    def _batch(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        batch = known_beforehand(self.collate(examples), scored=self.scored)  # as in a training
        return {name: tensor.to(self.device) for name, tensor in batch.items()}


def measure(case: StepsCase) -> Steps:
    """Return what training steps of a case cost; on a CPU, memory is that of the process, so it needs one of its own.

    Times are the shortest of a few repetitions, since whatever else a machine does only adds to them. Lengths after the
    second are left out where they are expected to take more time than is left, or more memory than the machine has.
    """
    place = torch.device(case.device)
    on_gpu = place.type == "cuda"
    before = torch.cuda.memory_allocated(place) / 2**20 if on_gpu else resident_mb()
    training = RandomTraining(case)
    spent, slot = 0.0, case.seconds / (2 * len(case.lengths) + 2)

    def quickest(computation: Callable[[], object], expected: float | None = None) -> float:
        nonlocal spent
        times = repeated({0: computation}, {} if expected is None else {0: expected}, slot, place)[0]
        spent += sum(times)
        return min(times)

    def peak() -> float:
        return highest_mb(place) - before

    few, fewest = training.examples(_FEWEST, case.lengths[0]), _FEWEST * case.lengths[0]
    training.step(few)
    training.update()  # the optimiser's state is there from now on
    batches = [(_FEWEST, case.lengths[0], quickest(partial(training.step, few)))]
    first_peak, states = peak(), training.weights * STATES_MB
    activations = max(0.0, first_peak - states)

    def fits(tokens: int) -> bool:
        return states + activations * tokens / fewest < case.most_mb

    # A GPU is slow on small batches; on a CPU, as many tokens as a slot has time for.
    affordable = int(slot / 2 / batches[0][-1] * fewest)
    tokens = max(4 * fewest, case.most_tokens if on_gpu else min(affordable, case.most_tokens))
    while tokens > 4 * fewest and not fits(tokens):
        tokens //= 2
    found = Steps(batches, 1.0, 0.0, training.weights, grows(case.backbone), (first_peak, first_peak))
    for number, length in enumerate(case.lengths):
        size = max(_FEWEST, tokens // length)
        cost = batches[0][-1] / fewest if number < 2 else float(found.per_token(np.array([length]))[0])
        expected = size * length * cost
        if number > 1 and (expected > case.seconds - spent or not fits(size * length)):
            break
        examples = training.examples(size, length)
        batches.append((size, length, quickest(partial(training.step, examples), expected)))
        if number == 1:
            forward = quickest(partial(training.forward, examples), expected)
            found = replace(found, forward_share=min(1.0, forward / batches[-1][-1]))
    updates = []
    for _ in range(3):
        training.step(few)
        updates.append(timed(training.update, place))
    return replace(found, optimiser_seconds=min(updates), peaks=(first_peak, peak()))


def measured_now(cases: Mapping[str, StepsCase]) -> dict[str, Steps]:
    """Return what training steps cost, by the names of `cases`, measured now and kept nowhere.

    Raises:
        RunError: memory did not suffice.
    """
    preloaded = sorted({module for case in cases.values() for module in _modules(case)})
    found = {}
    for name, case in tqdm(cases.items(), "measuring", disable=None):
        found[name], _ = with_peak_mb(measure, case, device=torch.device(case.device), preloaded=preloaded)
        # Logged at once, so that measurements are not lost if the program is stopped.
        times = (f"{size} x {length} tokens {1000 * seconds:.1f}" for size, length, seconds in found[name].batches)
        logger.info("%s: milliseconds of %s", name, ", ".join(times))
    return found


def grows(backbone: BackboneSettings) -> bool:
    """Return whether time per token grows with the tokens of a document."""
    mechanism = backbone.held_mechanism
    return mechanism is not None and mechanism.keys_per_query(2 * LENGTHS[-1]) > mechanism.keys_per_query(LENGTHS[-1])


def _modules(case: StepsCase) -> list[str]:
    """Return the modules that define a case's task, backbone and mechanism, which are imported by name."""
    modules = [TASKS.module(case.task.kind, "task"), BACKBONES.module(case.backbone.kind, "backbone")]
    if mechanism := case.backbone.held_mechanism:
        modules.append(MECHANISMS.module(mechanism.kind, "mechanism"))
    return modules
