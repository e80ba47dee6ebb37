"""What training steps of several models cost, measured in turns in one process, within a given time.

All models take a step in every turn, on batches of random tokens, so whatever else the machine does hits all of them
alike, and the ratio of two models within a turn holds on a busy machine; its absolute seconds do not. Memory is that
kept by a forward pass for the backward pass, in addition to weights, gradients and the optimiser's state.
"""

import inspect
import logging
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from lib.advice.cost import Computation, KeptBytes, interleaved, timed
from lib.advice.estimates import Hardware, ModelSteps, Steps, grows
from lib.advice.trained_model import TrainedModel
from lib.attention.contract import set_step
from lib.attention.settings import Kernels
from lib.backbones.faster import use_onednn
from lib.backbones.settings import BACKBONES, BackboneSettings, Precision
from lib.tasks.settings import TASKS, TaskSettings
from lib.tokens.batches import known_beforehand, rounded
from lib.tokens.tokenizer import TextTokenizer

logger = logging.getLogger(__name__)

TURNS = 15
"""Most turns."""

_OF_PREDICTIONS = 0.4
"""Time of the predictions of all batches relative to that of steps in the same threads, at most."""

FEWEST = 6
"""Turns before time goes to anything else: with fewer there is no interval of 95 %."""

DTYPES: Mapping[Precision, str] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
STATES_MB = 4 * 4 / 2**20
"""MiB kept per weight: itself, its gradient and AdamW's two moments, in single precision."""

SPARE = 4
"""How many times the memory of exact attention's activations a batch may take: those of others may be larger."""

_LONGEST = (2048, 1024, 512)
"""Tokens of the longest documents of a user that are measured, the first that time allows."""

_ALIKE = 128
"""Lengths up to this number of tokens are measured as one."""

_FEW, _MANY = 2, 4
"""Documents of the batch that gives the fixed cost; the minimum of any other batch."""

Sizes = Sequence[tuple[int, int]]
"""B and N of batches, as `Steps.batches` orders them."""

Turns = dict[str, list[ModelSteps]]
"""Measured steps by model, one entry per turn. Equal positions are of the same turn; a model may have fewer."""


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


@dataclass
class Load:
    """How busy other programs keep the machine's cores, from its creation on."""

    _start: float = field(default_factory=time.monotonic)
    _others: float = field(default_factory=lambda: _others_seconds())

    def cores(self) -> float:
        """Return the cores that other programs have kept busy, on average."""
        return max(0.0, _others_seconds() - self._others) / max(time.monotonic() - self._start, 1e-9)


@dataclass(frozen=True)
class _Common:
    """Measurements of one model that serve all, since mechanisms hardly differ in them."""

    forward_share: float
    optimiser_seconds: float
    weights: int
    head_seconds: float
    """Per token: what masked language modelling costs beyond classification."""
    head_mb: tuple[float, float]
    """Memory in MiB of the same, of the smallest and of the largest batch."""


class RandomTraining(TrainedModel):
    """A model in training, and a batch of random tokens of each size.

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
        self.take(sizes)

    def take(self, sizes: Sizes) -> None:
        """Take other batches, of `sizes`, and warm up.

        That is on the first two, whose memory counts, and on all on a GPU or if blocks are compiled.
        """
        reach = self.case.backbone.longest()
        self.sizes = [(size, min(length, reach or length)) for size, length in sizes]
        self.batches = [self._documents(size, length) for size, length in self.sizes]
        low, high = (self._kept_mb(number) for number in range(2))
        few, many, *_ = tokens = [size * length for size, length in self.sizes]
        states = self.weights * STATES_MB
        growth = max(0.0, high - low) / (many - few)
        self.peaks = (states + low, states + low + growth * (max(tokens) - few))
        for number in range(len(sizes)) if self.device.type == "cuda" or self.case.compiled else ():
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

        def update() -> None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimiser.step()

        seconds = []
        for _ in range(3):  # the optimiser's state exists from the second time on
            self._gradients(0)
            seconds.append(timed(update, self.device))
            self.drop_gradients()
        return min(seconds)

    def steps(self, seconds: Sequence[float], common: _Common, forward: Sequence[float] | None) -> ModelSteps:
        """Return the measurements of a turn.

        Args:
            seconds: of its batches.
            common: measurements that serve all models.
            forward: seconds of predictions of the batches; None = not measured.
        """
        backbone, longest = self.case.backbone, self.sizes[-1][1]
        products = [backbone.products_per_token(tokens, 0.0) for tokens in (longest, longest + 1)]
        classification = Steps(
            self._of_sizes(seconds),
            forward_share=common.forward_share,
            optimiser_seconds=common.optimiser_seconds * self.weights / common.weights,
            weights=self.weights,
            grows=grows(backbone),
            peaks=self.peaks,
            least_growth=products[1] / products[0] - 1,
        )
        masked = replace(
            classification,
            batches=[(size, n, taken + common.head_seconds * size * n) for size, n, taken in classification.batches],
            peaks=(self.peaks[0] + common.head_mb[0], self.peaks[1] + common.head_mb[1]),
        )
        prediction = None if forward is None else replace(classification, batches=self._of_sizes(forward))
        return ModelSteps(classification, masked, backbone.blocks() or 0, prediction)

    def _of_sizes(self, seconds: Sequence[float]) -> list[tuple[int, int, float]]:
        """Return B, N and seconds of every batch."""
        return [(size, length, taken) for (size, length), taken in zip(self.sizes, seconds, strict=True)]

    def _documents(self, size: int, length: int) -> list[dict[str, Any]]:
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

    def _batch(self, number: int) -> dict[str, torch.Tensor]:
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


def batches_of_texts(usual: int, longest: int, *, affordable: int, most: int) -> Sizes:
    """Return B and N of the batches of a turn, for texts of a user.

    Args:
        usual: tokens of the usual document.
        longest: tokens of a long document.
        affordable: tokens of a model in a turn that time allows.
        most: tokens that may be taken at once.
    """
    if longest > _LONGEST[-1]:
        long = next((length for length in _LONGEST if length <= longest and 1.75 * length < affordable), _LONGEST[-1])
        few = min(usual, long // 4)
        return [(1, few), (2, few), (1, long)]
    if longest <= _ALIKE:
        usual = longest  # one length tells all: attention is a small part at any of them
    tokens = min(most, affordable // 2)
    sizes = [(_FEW, usual), (max(_MANY, tokens // usual), usual)]
    return sizes if longest <= usual else [*sizes, (max(_FEW, tokens // longest), longest)]


def batches_of_lengths(lengths: Sequence[int], *, affordable: int, most: int) -> Sizes:
    """Return B and N of the batches of a turn, for the given lengths as far as time allows, the first one twice.

    Arguments are those of `batches_of_texts`.
    """
    tokens = min(most, affordable // len(lengths))
    sizes = [(_FEW, lengths[0]), (max(2 * _MANY, tokens // lengths[0]), lengths[0])]
    for length in lengths[1:]:
        sizes.append((max(_FEW, tokens // length), length))
        if sum(size * n for size, n in sizes) > affordable and len(sizes) > 3:
            return sizes[:-1]
    return sizes


def measure_turns(
    exact: str,
    cases: Mapping[str, StepsCase],
    masked: StepsCase,
    first: Iterable[str],
    *,
    trial: Sizes,
    sizes: Callable[[int, int], Sizes],
    seconds: float,
    turns: int = 8,
    predictions: bool = False,
) -> Turns:
    """Return what steps of every model cost, measured in turns.

    Exact attention and the models of `first` take most turns; the others take one if there is time. A model of `first`
    that takes far longer than exact attention in two turns takes no more.

    Args:
        exact: model that the others are compared with.
        cases: by model, `exact` included; of classification.
        masked: the same of `exact` with masked language modelling.
        first: models that take turns.
        trial: sizes of two batches, which tell how much time and memory allow.
        sizes: returns B and N of the batches of a turn: of a number of tokens that a model takes in a turn, with at
            most another number at once.
        seconds: time for all of it; at least one turn of the models of `first` is made.
        turns: number of turns that time allows, about.
        predictions: whether predictions of exact attention and of the models of `first` are measured, too.
    """
    end, device = time.monotonic() + seconds, torch.device(cases[exact].hardware.device)
    chosen = [exact, *(name for name in first if name != exact)]
    others = [name for name in cases if name not in chosen]
    models = {exact: RandomTraining(cases[exact], trial)}
    per_token, most = _allowed(models[exact], len(chosen))
    products = {name: cases[name].backbone.products_per_token(trial[-1][1], 0.0) for name in chosen}
    slowest = per_token * max(products.values()) / products[exact]  # of exact attention's size, unless one is larger
    batches = sizes(int(seconds / (turns * len(chosen)) / slowest), most)
    models[exact].take(batches)
    models |= {name: RandomTraining(cases[name], batches) for name in chosen[1:]}
    common = _common(models[exact], RandomTraining(masked, batches[:2]))
    # Time of the others for one turn: their first passes, and their turn.
    tokens = sum(size * length for size, length in batches)
    reserve = min(len(others) * 3 * tokens * per_token, 0.4 * (end - time.monotonic())) if others else 0.0
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    predicting = _OF_PREDICTIONS * threads if predictions else 0.0  # in turns
    taken: dict[str, list[list[float]]] = {name: [] for name in cases}
    slow: set[str] = set()
    for turn in range(TURNS):
        begun = time.monotonic()
        active = [name for name in chosen if name not in slow]
        laps = _turn({name: models[name] for name in active}, device, backwards=bool(turn % 2))
        for name, seconds_of in laps.items():
            taken[name].append(seconds_of)
        if turn == 1:
            slow = {name for name in active if all(_slow(taken[name][n], taken[exact][n]) for n in range(2))} - {exact}
        lap = time.monotonic() - begun
        if time.monotonic() + lap * (1 + predicting) > end - reserve * (turn + 1 >= FEWEST):
            break
    forward = _predictions({name: models[name] for name in chosen}, device) if predictions else {}
    for name in others:
        if 2 * time.monotonic() - begun > end:
            break
        begun = time.monotonic()
        found = _turn({exact: models[exact], name: (other := RandomTraining(cases[name], batches))}, device)
        models[name] = other
        # Seconds as of the first turn of exact attention, so that the n-th of all models are of the same turn.
        taken[name].append([s * a / b for s, a, b in zip(found[name], taken[exact][0], found[exact], strict=True)])
    for name, each in taken.items():
        logger.info("%s: milliseconds of %s", name, [[round(1000 * s, 1) for s in turn] for turn in each])
    return {
        name: [models[name].steps(each, common, forward.get(name)) for each in found]
        for name, found in taken.items()
        if found
    }


def _allowed(exact: RandomTraining, models: int) -> tuple[float, int]:
    """Return the seconds of exact attention per token, and the tokens that so many models may take at once."""
    hardware, (few, many) = exact.case.hardware, (size * length for size, length in exact.sizes)
    per_token = timed(partial(exact.step, 1), exact.device) / many
    growth = (exact.peaks[1] - exact.peaks[0]) / (many - few)
    left = hardware.most_mb - hardware.in_use_mb - models * exact.weights * STATES_MB
    fitting = int(left / (SPARE * growth)) if growth else hardware.micro_batch_tokens
    return per_token, max(0, min(hardware.micro_batch_tokens, fitting))


def _turn(
    models: Mapping[str, RandomTraining], device: torch.device, *, backwards: bool = False
) -> dict[str, list[float]]:
    """Return the seconds of a step of every model on every batch; models alternate batch by batch."""
    names = list(models)[::-1] if backwards else list(models)
    numbers = range(len(next(iter(models.values())).sizes))
    steps: dict[tuple[int, str], Computation] = {
        (number, name): partial(models[name].step, number) for number in numbers for name in names
    }
    found = interleaved(steps, 1, device, "own")
    return {name: [found[number, name][0] for number in numbers] for name in models}


def _predictions(models: Mapping[str, RandomTraining], device: torch.device) -> dict[str, list[float]]:
    """Return the seconds of a prediction of every model on every batch, on a CPU in one thread."""
    numbers = range(len(next(iter(models.values())).sizes))
    passes: dict[tuple[int, str], Computation] = {
        (number, name): partial(model.forward, number) for number in numbers for name, model in models.items()
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for model in models.values():
        model.model.eval()
        model.forward(0)
    found = interleaved(passes, 1, device, "own", warm=device.type == "cuda")
    for model in models.values():
        model.model.train()
    torch.set_num_threads(threads)
    return {name: [found[number, name][0] for number in numbers] for name in models}


def _slow(seconds: Sequence[float], exact: Sequence[float]) -> bool:
    """Whether a turn says that a model takes far longer on the long documents."""
    return seconds[-1] > 1.5 * exact[-1]


def _common(model: RandomTraining, masked: RandomTraining) -> _Common:
    """Return the measurements that are the same for all models, from three turns."""
    pieces: dict[str, Computation] = {
        "step": partial(model.step, 1),
        "forward": partial(model.forward, 1),
        "masked": partial(masked.step, 1),
    }
    times = interleaved(pieces, 3, model.device, "own")
    found = {name: statistics.median(seconds) for name, seconds in times.items()}
    size, length = model.sizes[1]
    low, high = (theirs - ours for theirs, ours in zip(masked.peaks, model.peaks, strict=True))
    few, many, most = *(size * length for size, length in model.sizes[:2]), max(n * m for n, m in model.sizes)
    return _Common(
        forward_share=min(1.0, found["forward"] / found["step"]),
        optimiser_seconds=model.update_seconds(),
        weights=model.weights,
        head_seconds=max(0.0, found["masked"] - found["step"]) / (size * length),
        head_mb=(max(0.0, low), max(0.0, low + (high - low) * (most - few) / (many - few))),
    )


def _others_seconds() -> float:
    """Return the seconds of computing that cores have spent on other programs so far."""
    import psutil  # of no use to the hours of the grid, whose machine may lack it

    cores, own = psutil.cpu_times(), psutil.Process().cpu_times()
    idle = cores.idle + getattr(cores, "iowait", 0.0)
    guests = getattr(cores, "guest", 0.0) + getattr(cores, "guest_nice", 0.0)  # counted among user's already
    return sum(cores) - idle - guests - own.user - own.system
