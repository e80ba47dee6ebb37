"""The harness of the tables that compare implementations: cases take turns, and each is then counted by itself."""

import logging
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import torch

from benchmarks.cost import clock_mhz, machine, matrix_rate, runs, spread, with_peak_mb
from benchmarks.timing import Computation, host_seconds
from lib.attention.kernels import has_kernels
from lib.attention.settings import Kernels, Mechanisms, each_of

logger = logging.getLogger(__name__)

Name = tuple[str, ...]


@dataclass(frozen=True)
class Counted:
    """Counts of a computation; cases may add others."""

    operations: float = math.nan
    """Floating-point operations; those of Triton kernels are not seen."""


@dataclass(frozen=True, kw_only=True)
class Case(ABC):
    """The case that one row of a table measures.

    Args:
        device: `cpu` or `cuda`.
        dtype: of the inputs, or of a model's forward pass, such as `float32`.
        batch: sequences that are held at a time.
        kernels: what our attention computes with.
    """

    NAMED_BY: ClassVar[tuple[str, ...]]
    """Fields that identify a case in a comparison, in addition to `kernels`."""

    device: str
    dtype: str
    batch: int
    kernels: Kernels = "torch"

    @property
    def name(self) -> Name:
        """The fields that it is named by."""
        return *(str(getattr(self, field)) for field in self.NAMED_BY), self.kernels

    @property
    def counted_as(self) -> Name:
        """The name of the same case by torch's operations, which are counted: those of kernels are not seen."""
        return replace(self, kernels="torch").name

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Tokens that are computed."""

    @abstractmethod
    def prepare(self) -> Computation:
        """Return the computation that is timed."""

    @abstractmethod
    def count(self) -> Counted:
        """Compute for the peak memory, and return the counts."""

    def small(self) -> Self | None:
        """Return a case that sets up what libraries need at first, so that its memory does not count; None = none."""
        return None

    def with_kernels(self, mechanism: Mechanisms) -> Iterator[Self]:
        """Yield the case by torch's operations, and by Triton kernels on a GPU if a mechanism of it has some."""
        yield from self.by_kernels(any(has_kernels(each.kind) for each in each_of(mechanism)))

    def by_kernels(self, there: bool) -> Iterator[Self]:
        """Yield the case by torch's operations, and by Triton kernels on a GPU if these are there."""
        yield replace(self, kernels="torch")
        if self.device == "cuda" and there:
            yield replace(self, kernels="triton")


def compare(
    cases: Sequence[Case],
    times: Callable[[dict[Name, Computation]], dict[Name, list[float]]],
    *,
    host_repetitions: int = 5,
) -> Iterator[dict[str, Any]]:
    """Yield a row for every case; on a GPU, one that fails is left out with a warning.

    Args:
        cases: on one device; one whose operations are not seen comes after the one that it is `counted_as`.
        times: returns the seconds of every repetition of each computation, see `benchmarks.cost`.
        host_repetitions: of `host_ms`, their median; 0 = it is not measured.

    Returns:
        The fields of the case and its counts, `machine` and `spread` of `benchmarks.cost`, and: `gemm_share`,
        operations a second over those of large matrix products, the operations being those of torch's way to compute;
        `peak_mb`, the peak memory in MiB; `host_ms`, the time after which the host has launched all of it on a GPU;
        `clock_mhz`, the clock of the GPU just after the repetitions; `tokens_per_s` of the real tokens.

    Raises:
        RunError: memory did not suffice.
    """
    place = torch.device(cases[0].device)
    by_name = {case.name: case for case in cases}
    prepared = {name: case.prepare() for name, case in by_name.items()}
    prepared = {name: each for name, each in prepared.items() if runs(each, by_name[name], place)}
    seconds = times(prepared)
    clock = clock_mhz(place)
    on_host = {name: host_seconds(each, place, host_repetitions) for name, each in prepared.items()}
    prepared.clear()
    operations: dict[Name, float] = {}
    for name, taken in seconds.items():
        case, median = by_name[name], statistics.median(taken)
        small = case.small()
        counted, peak = with_peak_mb(type(case).count, case, device=place, warm_up=None if small is None else (small,))
        if name == case.counted_as:
            operations[name] = counted.operations
        done = operations.get(case.counted_as, math.nan)
        yield {
            **vars(case),
            **asdict(counted),
            **machine(case.device, case.dtype),
            **spread(taken),
            "gemm_share": math.nan
            if math.isnan(done)
            else done / median / matrix_rate(place, getattr(torch, case.dtype)),
            "peak_mb": peak,
            "host_ms": 1000 * on_host[name],
            "clock_mhz": clock,
            "tokens": case.tokens,
            "tokens_per_s": case.tokens / median,
        }
        logger.info("%s: %.3g ms", " ".join(name), 1000 * median)
