"""From measured steps and the lengths of texts to the time of an epoch and the memory of a run."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from lib.backbones.settings import Precision
from lib.core.errors import RunError
from lib.data.samplers import LengthGroupedSampler, micro_batch_size
from lib.measure.cost import resident_mb
from lib.measure.steps import Steps
from lib.measure.token_lengths import spread_evenly
from lib.study.execution import Execution
from lib.study.recipe import Recipe

RESERVE = 0.9
"""Share of a machine's memory that a run may take."""

SIMULATED = 20_000
"""Documents of an epoch whose batches are drawn up, at most; longer epochs are scaled."""


@dataclass(frozen=True)
class Machine:
    """What computes."""

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

    @property
    def most_mb(self) -> float:
        """Memory in MiB that a run may take."""
        return RESERVE * 1024 * self.gibibytes


def this_machine(execution: Execution, device: str, precision: Precision) -> Machine:
    """Return the machine that this process runs on; its CPU then has as many threads as a job of the study.

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
        return Machine("cuda", precision, memory, in_use_mb=0.0, micro_batch_tokens=tokens)
    torch.set_num_threads(min(execution.job.cpus_per_task, torch.get_num_threads()))
    import psutil  # of no use on a GPU, whose machine may lack it

    limits = [psutil.virtual_memory().total]
    granted = Path("/sys/fs/cgroup/memory.max")  # of a container or a job, on Linux
    if granted.is_file() and (text := granted.read_text(encoding="utf-8").strip()).isdigit():
        limits.append(int(text))
    return Machine("cpu", "fp32", min(limits) / 2**30, in_use_mb=resident_mb(), micro_batch_tokens=tokens)


@dataclass(frozen=True)
class Cost:
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
class ModelSteps:
    """Measurements of a model: steps of classification at all lengths, and of masked language modelling at few.

    The two differ in the head, which costs the same per token at every length.
    """

    classification: Steps
    masked_lm: Steps
    blocks: int
    """Blocks that can be frozen."""

    def seconds(self, sizes: np.ndarray, lengths: np.ndarray, *, masked: bool) -> float:
        """Return the seconds of micro-batches of B documents [n] of N tokens [n], without the optimiser's steps."""
        steps = self.masked_lm if masked else self.classification
        per_token = self.classification.per_token(lengths)
        if masked:
            common = np.array([self.masked_lm.longest])
            head = self.masked_lm.per_token(common) - self.classification.per_token(common)
            per_token = per_token + np.maximum(head, 0)  # noise apart, it never costs less
        return float((steps.fixed + sizes * lengths * per_token).sum())

    def cost(self, machine: Machine, recipe: Recipe, lengths: np.ndarray, documents: int, *, masked: bool) -> Cost:
        """Return the cost of a stage, with the largest micro-batches that fit into memory.

        Args:
            machine: where it runs.
            recipe: of the stage.
            lengths: tokens of documents like those of the stage, cut to the limit [n].
            documents: number of training documents.
            masked: whether the stage learns masked language modelling, and not classification.
        """
        steps, longest = self.masked_lm if masked else self.classification, int(lengths.max())
        most = micro_batch_size(recipe.batch_size, longest, machine.micro_batch_tokens)
        sizes = [size for size in range(most, 0, -1) if recipe.batch_size % size == 0]
        peaks = {size: machine.in_use_mb + steps.peak(size * longest) for size in sizes}
        fitting = [size for size in sizes if peaks[size] <= machine.most_mb]
        micro_batch = (fitting or sizes[-1:])[0]

        simulated = min(documents, SIMULATED)
        batch_sizes, batch_lengths = _drawn_up(
            tuple(np.sort(lengths).tolist()), simulated, recipe.batch_size, micro_batch
        )
        computing = self.seconds(batch_sizes, batch_lengths, masked=masked) * self._share_of_work(
            steps, recipe, documents
        )
        updating = -(-simulated // recipe.batch_size) * steps.optimiser_seconds
        return Cost(
            seconds=(computing + updating) * documents / simulated,
            mb=peaks[micro_batch],
            fits=bool(fitting),
            micro_batch_tokens=micro_batch * longest,
            reduced=micro_batch < most,
        )

    def _share_of_work(self, steps: Steps, recipe: Recipe, documents: int) -> float:
        """Return the time of a step relative to one without freezing, the mean over all epochs."""
        # Only below embeddings that are frozen, too, there is no backward pass.
        idle = recipe.freeze_layers / self.blocks if recipe.freezes_embeddings and self.blocks else 0.0
        frozen = 1 - (1 - steps.forward_share) * idle
        return 1 - (1 - frozen) * min(1.0, recipe.frozen_epochs / recipe.passes(documents))


@functools.lru_cache(64)
def _drawn_up(
    lengths: tuple[int, ...], documents: int, batch_size: int, micro_batch: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return `micro_batches` of so many documents like those of `lengths`; every measured turn asks for them."""
    like = np.quantile(lengths, spread_evenly(documents)).round().astype(int).tolist()
    return micro_batches(like, batch_size, micro_batch)


def micro_batches(lengths: Sequence[int], batch_size: int, micro_batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Return B and N of every micro-batch of an epoch, as a training draws them up [n], [n].

    Args:
        lengths: tokens of each document.
        batch_size: documents of an optimiser step.
        micro_batch: documents that are held at a time.
    """
    ordered = np.asarray(lengths)[[index for _, index in LengthGroupedSampler(lengths, batch_size, seed=0)]]
    chosen = [ordered[start : start + micro_batch] for start in range(0, len(ordered), micro_batch)]
    return np.array([len(each) for each in chosen]), np.array([each.max() for each in chosen])
