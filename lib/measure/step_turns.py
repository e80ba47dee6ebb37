"""What training steps of several models cost, measured in turns in one process, within a given time.

All models take a step in every turn, so whatever else the machine does hits all of them alike, and the ratio of two
models within a turn holds on a busy machine; its absolute seconds do not. `lib.measure.steps` measures one model at a
time in its own process, which reports its peak memory; here memory is that kept by a forward pass for the backward
pass, in addition to weights, gradients and the optimiser's state.
"""

import logging
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import psutil
import torch

from lib.measure.cost import Computation, KeptBytes, interleaved, timed
from lib.measure.estimates import ModelSteps
from lib.measure.steps import STATES_MB, RandomTraining, Steps, StepsCase, grows

logger = logging.getLogger(__name__)

TURNS = 15
"""Most turns."""

FEWEST = 6
"""Turns before time goes to anything else: with fewer there is no interval of 95 %."""

_LONGEST = (2048, 1024, 512)
"""Tokens of the longest documents that are measured, the first that time allows; costs beyond are extrapolated."""

_ALIKE = 128
"""Lengths up to this number of tokens are measured as one."""

_FEW, _MANY = 2, 4
"""Documents of the batch that gives the fixed cost; the minimum of any other batch."""

Sizes = Sequence[tuple[int, int]]
"""B and N of batches, as `Steps.batches` orders them."""


@dataclass
class Load:
    """How busy other programs keep the machine's cores, from its creation on."""

    _start: float = field(default_factory=time.monotonic)
    _others: float = field(default_factory=lambda: _others_seconds())

    def cores(self) -> float:
        """Return the cores that other programs have kept busy, on average."""
        return max(0.0, _others_seconds() - self._others) / max(time.monotonic() - self._start, 1e-9)


@dataclass(frozen=True)
class Turns:
    """Measurements of a turn."""

    steps: Mapping[str, Sequence[ModelSteps]]
    """Measured steps of each model, one per turn. Equal positions are of the same turn; a model may have fewer."""
    busy: float
    """Cores that other programs kept busy meanwhile, on average."""


class _Model:
    """A model in training, and a batch of random tokens of each size.

    Args:
        case: the model, and its task.
        sizes: B and N of the batches, N as far as the model reads.
    """

    def __init__(self, case: StepsCase, sizes: Sizes) -> None:
        self.case = case
        self.training = RandomTraining(case)
        self.take(sizes)

    def take(self, sizes: Sizes) -> None:
        """Take other batches, of `sizes`, and warm up on the first two, which tell the memory, too."""
        reach = self.case.backbone.longest()
        self.sizes = [(size, min(length, reach or length)) for size, length in sizes]
        self.batches = [self.training.examples(size, length) for size, length in self.sizes]
        low, high = (self._kept_mb(batch) for batch in self.batches[:2])
        few, many, *_ = tokens = [size * length for size, length in self.sizes]
        states = self.training.weights * STATES_MB
        growth = max(0.0, high - low) / (many - few)
        self.peaks = (states + low, states + low + growth * (max(tokens) - few))

    def step(self, number: int) -> None:
        """Train on a batch up to the gradients, which are dropped, as after every update."""
        self.training.step(self.batches[number])
        self.training.optimiser.zero_grad()

    def _kept_mb(self, batch: Sequence[Mapping[str, Any]]) -> float:
        with KeptBytes(self.training.model.parameters()) as kept:
            self.training.step(batch)
        self.training.optimiser.zero_grad()
        return kept.total / 2**20

    def steps(self, seconds: Sequence[float], common: "_Common", head: float = 0.0) -> Steps:
        """Return the measurements of a turn; `head` are seconds per token of another head."""
        backbone, longest = self.case.backbone, self.sizes[-1][1]
        products = [backbone.products_per_token(tokens, 0.0) for tokens in (longest, longest + 1)]
        return Steps(
            [
                (size, length, taken + head * size * length)
                for (size, length), taken in zip(self.sizes, seconds, strict=True)
            ],
            forward_share=common.forward_share,
            optimiser_seconds=common.optimiser_seconds * self.training.weights / common.weights,
            weights=self.training.weights,
            grows=grows(backbone),
            peaks=self.peaks,
            least_growth=products[1] / products[0] - 1,
        )


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


def batches_of_a_turn(usual: int, longest: int, *, affordable: int, most: int) -> Sizes:
    """Return B and N of the batches of a turn.

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


def measure_turns(
    exact: str,
    cases: Mapping[str, StepsCase],
    masked: StepsCase,
    first: Iterable[str],
    *,
    usual: int,
    longest: int,
    seconds: float,
) -> Turns:
    """Return what steps of every model cost, measured in turns.

    Exact attention and the models of `first` take most turns; the others take one if there is time. A model of `first`
    that takes far longer than exact attention in two turns takes no more.

    Args:
        exact: model that the others are compared with.
        cases: by model, `exact` included; of classification.
        masked: the same of `exact` with masked language modelling.
        first: models that may be advised.
        usual: tokens of the usual document.
        longest: tokens of a long document.
        seconds: time for all of it; at least one turn of the models of `first` is made.
    """
    end, load = time.monotonic() + seconds, Load()
    device = torch.device(cases[exact].device)
    chosen = [exact, *(name for name in first if name != exact)]
    others = [name for name in cases if name not in chosen]
    few = min(usual, 256)
    models = {exact: _Model(cases[exact], [(1, few), (2, few)])}
    per_token = timed(partial(models[exact].step, 1), device) / (2 * few)
    products = {name: cases[name].backbone.products_per_token(few, 0.0) for name in chosen}
    slowest = per_token * max(products.values()) / products[exact]  # of exact attention's size, unless one is larger
    sizes = batches_of_a_turn(
        usual, longest, affordable=int(seconds / (8 * len(chosen)) / slowest), most=masked.most_tokens
    )
    models[exact].take(sizes)
    models |= {name: _Model(cases[name], sizes) for name in chosen[1:]}
    common = _common(models[exact], _Model(masked, sizes[:2]), device)
    # Time of the others for one turn: their first passes, and their turn.
    tokens = sum(size * length for size, length in sizes)
    reserve = min(len(others) * 3 * tokens * per_token, 0.4 * (end - time.monotonic())) if others else 0.0
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
        if 2 * time.monotonic() - begun > end - reserve * (turn + 1 >= FEWEST):
            break
    for name in others:
        if 2 * time.monotonic() - begun > end:
            break
        begun = time.monotonic()
        found = _turn({exact: models[exact], name: (other := _Model(cases[name], sizes))}, device)
        models[name] = other
        # Seconds as of the first turn of exact attention, so that the n-th of all models are of the same turn.
        taken[name].append([s * a / b for s, a, b in zip(found[name], taken[exact][0], found[exact], strict=True)])
    for name, each in taken.items():
        logger.info("%s: milliseconds of %s", name, [[round(1000 * s, 1) for s in turn] for turn in each])
    steps = {
        name: [_model_steps(models[name], found, common) for found in turns] for name, turns in taken.items() if turns
    }
    return Turns(steps, load.cores())


def _turn(models: Mapping[str, _Model], device: torch.device, *, backwards: bool = False) -> dict[str, list[float]]:
    """Return the seconds of a step of every model on every batch; models alternate batch by batch."""
    names = list(models)[::-1] if backwards else list(models)
    numbers = range(len(next(iter(models.values())).sizes))
    steps: dict[tuple[int, str], Computation] = {
        (number, name): partial(models[name].step, number) for number in numbers for name in names
    }
    found = interleaved(steps, dict.fromkeys(steps, 1), device, "own")
    return {name: [found[number, name][0] for number in numbers] for name in models}


def _slow(seconds: Sequence[float], exact: Sequence[float]) -> bool:
    """Whether a turn says that a model takes far longer on the long documents."""
    return seconds[-1] > 1.5 * exact[-1]


def _common(model: _Model, masked: _Model, device: torch.device) -> _Common:
    """Return the measurements that are the same for all models, from three turns."""
    training = model.training
    pieces: dict[str, Computation] = {
        "step": partial(model.step, 1),
        "forward": partial(training.forward, model.batches[1]),
        "masked": partial(masked.step, 1),
    }
    times = interleaved(pieces, dict.fromkeys(pieces, 3), device, "own")
    found = {name: statistics.median(seconds) for name, seconds in times.items()}
    training.step(model.batches[0])
    training.optimiser.step()  # the optimiser's state is there from now on
    updates = []
    for _ in range(2):
        training.optimiser.zero_grad()
        training.step(model.batches[0])
        updates.append(timed(training.update, device))
    size, length = model.sizes[1]
    low, high = (theirs - ours for theirs, ours in zip(masked.peaks, model.peaks, strict=True))
    few, many, most = *(size * length for size, length in model.sizes[:2]), max(n * m for n, m in model.sizes)
    return _Common(
        forward_share=min(1.0, found["forward"] / found["step"]),
        optimiser_seconds=min(updates),
        weights=training.weights,
        head_seconds=max(0.0, found["masked"] - found["step"]) / (size * length),
        head_mb=(max(0.0, low), max(0.0, low + (high - low) * (most - few) / (many - few))),
    )


def _model_steps(model: _Model, seconds: Sequence[float], common: _Common) -> ModelSteps:
    classification = model.steps(seconds, common)
    masked = model.steps(seconds, common, common.head_seconds)
    peaks = (model.peaks[0] + common.head_mb[0], model.peaks[1] + common.head_mb[1])
    return ModelSteps(classification, replace(masked, peaks=peaks), model.case.backbone.blocks() or 0)


def _others_seconds() -> float:
    """Return the seconds of computing that cores have spent on other programs so far."""
    cores, own = psutil.cpu_times(), psutil.Process().cpu_times()
    idle = cores.idle + getattr(cores, "iowait", 0.0)
    guests = getattr(cores, "guest", 0.0) + getattr(cores, "guest_nice", 0.0)  # counted among user's already
    return sum(cores) - idle - guests - own.user - own.system
