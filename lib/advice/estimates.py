"""From measured training steps and the lengths of texts to the time of an epoch and the memory of a run.

A micro-batch of B documents of N tokens takes `fixed + B * N * per_token(N)` seconds, and its memory grows with B * N;
the optimiser's step comes on top.
"""

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.stats import quantile_test

from lib.advice.cost import resident_mb
from lib.advice.preparing import OwnTexts
from lib.backbones.settings import BackboneSettings, Precision
from lib.core.errors import RunError
from lib.study.execution import Execution
from lib.study.recipe import Recipe
from lib.tokens.batches import LengthGroupedSampler, Share

RESERVE = 0.9
"""Share of a machine's memory that a run may take."""

SIMULATED = 20_000
"""Documents of an epoch whose batches are drawn up, at most; longer epochs are scaled."""

LONG = 16_384
"""Tokens beyond which the time per token of exact attention alone grows."""

START_UP = 15.0
"""Seconds that a run takes before its first step, for imports above all."""


def grows(backbone: BackboneSettings) -> bool:
    """Return whether time per token grows with the tokens of a document, in one layer at least."""
    return bool(backbone.held_mechanisms) and backbone.keys_per_query(2 * LONG) > backbone.keys_per_query(LONG)


@dataclass(frozen=True)
class Hardware:
    """The device that a model runs on, and its memory."""

    device: str
    """`cpu` or `cuda`."""
    precision: Precision
    """Arithmetic of the forward pass."""
    gibibytes: float
    """Memory of the GPU, or of the CPU as far as this process may take it."""
    in_use_mb: float
    """Memory in MiB of a process after the imports of training; 0 on a GPU."""
    micro_batch_tokens: int
    """Tokens that it may take at once."""


def this_hardware(execution: Execution, device: str, precision: Precision) -> Hardware:
    """Return what this process computes on; the CPU then has as many threads as a job of the study.

    Args:
        execution: of the study.
        device: `auto`, `cpu` or `cuda`.
        precision: of the study, for a GPU. CPUs compute in `fp32`: most have no instructions for half precision.

    Raises:
        RunError: there is no GPU, but it is asked for.
    """
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise RunError("--device is 'cuda', but torch sees no GPU. Expected one; use 'auto' or 'cpu'.")
    tokens = execution.training.micro_batch_tokens
    if has_gpu and device != "cpu":
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        return Hardware("cuda", precision, memory, in_use_mb=0.0, micro_batch_tokens=tokens)
    torch.set_num_threads(min(execution.job.cpus_per_task, torch.get_num_threads()))
    import psutil  # of no use on a GPU, whose machine may lack it

    limits = [psutil.virtual_memory().total]
    granted = Path("/sys/fs/cgroup/memory.max")  # of a container or a job, on Linux
    if granted.is_file() and (text := granted.read_text(encoding="utf-8").strip()).isdigit():
        limits.append(int(text))
    return Hardware("cpu", "fp32", min(limits) / 2**30, in_use_mb=resident_mb(), micro_batch_tokens=tokens)


@dataclass(frozen=True)
class StageCost:
    """Cost of a model at a stage, with a length limit."""

    seconds: float
    """Seconds of an epoch without evaluations, mean of epochs with and without frozen blocks."""
    mb: float
    """Peak memory in MiB."""
    fits: bool
    """Whether the memory suffices."""
    micro_batch_tokens: int
    """Tokens of the largest micro-batch; as the setting of this name, it gives these micro-batches."""
    reduced: bool
    """Whether the memory suffices for no larger ones, although the settings allow them."""


@dataclass(frozen=True)
class Steps:
    """Measurements of a model with a task."""

    batches: list[tuple[int, int, float]]
    """B, N and seconds of a step without the optimiser's; the first batch is small, to find the fixed cost."""
    forward_share: float
    """Share of that time that a forward pass without gradients takes."""
    optimiser_seconds: float
    grows: bool
    """Whether time per token grows with N."""
    mb: float
    """Memory in MiB that micro-batches of any size take."""
    mb_per_token: float
    """Memory in MiB that each token of a micro-batch takes."""
    head_seconds: float = 0.0
    """Seconds per token, at every N, of a head that the batches were measured without."""
    blocks: int = 0
    """Blocks that can be frozen."""
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
            seen = (costs[-1] - costs[0]) / (measured[-1] - measured[0]) if measured[-1] > measured[0] else 0.0
            growth = max(seen, self.least_growth * costs[-1])
        beyond = growth * np.maximum(lengths - measured[-1], 0)
        return np.interp(lengths, measured, costs) + beyond + self.head_seconds

    def seconds(self, sizes: np.ndarray | int, lengths: np.ndarray) -> np.ndarray:
        """Return the seconds of micro-batches of B documents [n] of N tokens [n], without the optimiser's steps [n]."""
        return self.fixed + sizes * lengths * self.per_token(lengths)

    def cost(self, machine: Hardware, recipe: Recipe, lengths: np.ndarray, documents: int) -> StageCost:
        """Return the cost of a stage, with the largest micro-batches that fit into memory.

        Args:
            machine: of the run.
            recipe: of the stage.
            lengths: tokens of documents like those of the stage, cut to the limit [n].
            documents: number of training documents.
        """
        longest = int(lengths.max())
        wanted = max(longest, min(machine.micro_batch_tokens, recipe.batch_size * longest))
        left = max(0.0, RESERVE * 1024 * machine.gibibytes - machine.in_use_mb - self.mb)
        allowed = int(left / self.mb_per_token) if self.mb_per_token > 0 else sys.maxsize
        budget = max(longest, min(wanted, allowed))

        simulated = min(documents, SIMULATED)
        batch_sizes, batch_lengths = _drawn_up(tuple(np.sort(lengths).tolist()), simulated, recipe.batch_size, budget)
        # Only below embeddings that are frozen, too, there is no backward pass.
        idle = recipe.freeze_layers / self.blocks if recipe.freezes_embeddings and self.blocks else 0.0
        frozen_epochs = min(1.0, recipe.frozen_epochs / recipe.epochs_over(documents))
        computing = float(self.seconds(batch_sizes, batch_lengths).sum())
        computing *= 1 - (1 - self.forward_share) * idle * frozen_epochs
        updating = -(-simulated // recipe.batch_size) * self.optimiser_seconds
        seconds = (computing + updating) * documents / simulated
        mb = machine.in_use_mb + self.mb + self.mb_per_token * budget
        return StageCost(seconds, mb, fits=budget <= allowed, micro_batch_tokens=budget, reduced=budget < wanted)


@functools.lru_cache(64)
def _drawn_up(lengths: tuple[int, ...], documents: int, batch_size: int, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `micro_batches` of so many documents like those of `lengths`; every measured turn asks for them."""
    like = np.quantile(lengths, spread_evenly(documents)).round().astype(int).tolist()
    return micro_batches(like, batch_size, budget)


def micro_batches(lengths: Sequence[int], batch_size: int, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """Return B and N of every micro-batch of an epoch, as a training draws them up [n], [n].

    Args:
        lengths: tokens of each document.
        batch_size: documents of an optimiser step.
        budget: tokens at once, padding included.
    """
    share = Share(LengthGroupedSampler(lengths, batch_size, seed=0), lengths, batch_size, budget)
    chosen = [[lengths[index] for _, index in keys] for keys in share]
    return np.array([len(each) for each in chosen]), np.array([max(each) for each in chosen])


def spread_evenly(documents: int) -> np.ndarray:
    """Return the quantiles of a distribution that a number of documents represents [documents]."""
    return (np.arange(documents) + 0.5) / documents


def ratio(seconds: np.ndarray, exact: np.ndarray) -> str:
    """Return the median ratio of times that were measured in the same turns, with its 95 % interval from six turns on.

    Args:
        seconds: seconds of a model, by turn [n].
        exact: seconds of exact attention, by turn [n].

    Source: the interval is that of the sign test, which assumes nothing about how ratios are distributed: Conover
    (1999), Practical Nonparametric Statistics, section 3.2.
    """
    ratios = seconds / exact
    low, high = quantile_test(ratios, q=1.0, p=0.5).confidence_interval(0.95)
    turns = f"({len(ratios)} turn{'s' * (len(ratios) > 1)})"
    return f"{np.median(ratios):.2f} {turns if np.isnan(low) else f'[{low:.2f}, {high:.2f}]'}"


@dataclass(frozen=True)
class Row:
    """A model that trains on texts of a user."""

    model: str
    training: np.ndarray
    """Seconds of a run without the start of its program, by turn [n]."""
    cost: StageCost
    """Cost of an epoch."""

    @property
    def seconds(self) -> float:
        """Seconds of a run."""
        return float(np.median(self.training)) + START_UP


def row(
    model: str,
    turns: Sequence[Steps],
    recipe: Recipe,
    lengths: np.ndarray,
    own: OwnTexts,
    hardware: Hardware,
    *,
    pieces: float = 1.0,
) -> Row:
    """Return the row of a model.

    Args:
        model: its name.
        turns: its measured steps.
        recipe: of its training: of classification, or of masked language modelling for texts without labels.
        lengths: tokens of documents that are read at once, or of their segments [n].
        own: the texts.
        hardware: of this machine.
        pieces: segments per document.
    """
    documents, epochs = own.splits["train"], recipe.epochs_over(own.splits["train"])
    read = round(pieces * documents)
    costs = [each.cost(hardware, recipe, lengths, read) for each in turns]
    # Each epoch has an evaluation; with labels, validation and test are predicted in the end.
    evaluated = epochs * own.splits["validation" if own.labelled else "held_out"]
    evaluated += own.documents - documents if own.labelled else 0
    passes = turns[0].forward_share * evaluated / documents
    training = np.array([cost.seconds for cost in costs]) * (epochs + passes)
    return Row(model, training, costs[0])
