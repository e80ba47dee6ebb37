"""Repeated measurements of computations: in turns, warmed up, and of the host's part alone."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

import torch

Computation = Callable[[], object]

Key = TypeVar("Key")

Queue = Literal["shared", "filled", "own"]
"""What a computation finds in a GPU's queue: what other computations have left there; so much that the GPU never waits
for a launch of its own; or nothing, so that no other's work hides its launches."""

HIGHEST_CLOCK = 2e9
"""Hz that a GPU's clock does not exceed by much, to count off seconds in its queue."""

GPU_WARM_UPS = 3
"""Runs of a computation on a GPU before it counts: the first compiles and chooses kernels, and fills the allocator."""


def timed(computation: Computation, device: torch.device) -> float:
    """Return the seconds that `computation` takes by itself, including work that still runs on a GPU."""
    wait(device)
    seconds = lap(computation, device)
    wait(device)
    return seconds()


def wait(device: torch.device) -> None:
    """Wait until a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def lap(computation: Computation, device: torch.device) -> Callable[[], float]:
    """Run a computation, and return what tells its seconds once the device has finished it.

    On a GPU they pass between two events in its queue. Where the queue runs empty, the GPU waits for the next launch,
    and that counts.
    """
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        computation()
        end.record()
        return lambda: start.elapsed_time(end) / 1000
    begun = time.perf_counter()
    computation()
    seconds = time.perf_counter() - begun
    return lambda: seconds


def host_seconds(computation: Computation, device: torch.device, repetitions: int = 5) -> float:
    """Return the seconds that the host takes to launch a computation on a GPU; nan on a CPU, or without repetitions."""
    if device.type != "cuda" or not repetitions:
        return math.nan
    seconds = []
    for _ in range(repetitions):
        wait(device)
        begun = time.perf_counter()
        computation()
        seconds.append(time.perf_counter() - begun)
    wait(device)
    return statistics.median(seconds)


def warm_up(computation: Computation, device: torch.device) -> float:
    """Run a computation before it counts, on a GPU several times, and return the seconds of the last time."""
    return [timed(computation, device) for _ in range(GPU_WARM_UPS if device.type == "cuda" else 1)][-1]


def interleaved(
    computations: Mapping[Key, Computation],
    repetitions: int | Mapping[Key, int],
    device: torch.device,
    queue: Queue = "shared",
    *,
    warm: bool = False,
) -> dict[Key, list[float]]:
    """Return the seconds of every repetition of every computation.

    They take turns, so that what slows the machine down for a while slows all of them down. The cache of a GPU is not
    emptied: it holds data of the computation before.

    Args:
        computations: what to measure.
        repetitions: of each.
        device: where they run.
        queue: that of a GPU.
        warm: whether each runs once before it counts.
    """
    on_gpu = device.type == "cuda"
    if isinstance(repetitions, int):
        repetitions = dict.fromkeys(computations, repetitions)
    for computation in computations.values() if warm else ():
        warm_up(computation, device)
    busy = {key: host_seconds(each, device, 2) if queue == "filled" else 0.0 for key, each in computations.items()}
    laps: dict[Key, list[Callable[[], float]]] = {key: [] for key in computations}
    wait(device)
    for turn in range(max(repetitions.values(), default=0)):
        for key, computation in computations.items():
            if turn < repetitions[key]:
                if on_gpu and queue == "filled":
                    torch.cuda._sleep(int((2 * busy[key] + 1e-4) * HIGHEST_CLOCK))
                elif queue == "own":
                    wait(device)
                laps[key].append(lap(computation, device))
    wait(device)
    return {key: [seconds() for seconds in each] for key, each in laps.items()}
