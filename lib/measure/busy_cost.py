"""Slowdown of waiting threads on a busy machine, by the time that OpenMP lets them spin."""

import itertools
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

import pandas as pd
import torch

from lib.measure.attention_cost import PEERS
from lib.measure.cost import interleaved, machine, spread
from lib.measure.implementations import AttentionCase
from lib.measure.options import of_the_grid

SPINS = "GOMP_SPINCOUNT"
"""Environment variable that GNU's OpenMP, which torch's packages contain, reads when it is loaded: how often a thread
checks whether it may continue before it sleeps. Unset, 300,000 times, which takes milliseconds."""


def busy_cost(
    *, spins: Sequence[int], busy: Sequence[int], mechanism: str, length: int, tokens: int, turns: int
) -> pd.DataFrame:
    """Return the time of a pass of our mechanism and of its peers with all threads, while other processes compute.

    Every turn starts a process per number of spins, since OpenMP reads it once.

    Args:
        spins: values of `GOMP_SPINCOUNT` to compare.
        busy: numbers of other processes that compute all the time.
        mechanism: of the grid; LSH has a peer of any parameters, `reformer-pytorch`.
        length: N.
        tokens: of a batch.
        turns: processes per value; each measures one pass of each implementation, after one that warms up.

    Returns:
        A row per implementation and pair of `spins` and `busy`, with the columns of `spread` and `machine`.
    """
    parameters = of_the_grid()[mechanism]
    names = ["ours", *(["reformer-pytorch"] if parameters["kind"] == "lsh" else PEERS.get(mechanism, []))]
    cases = [
        AttentionCase(
            implementation=name,
            mechanism=mechanism,
            parameters=parameters,
            length=length,
            batch=max(1, tokens // length),
            heads=8,
            head_size=64,
            device="cpu",
            dtype="float32",
        )
        for name in names
    ]
    seconds: dict[tuple[int, int, str], list[float]] = {}
    for number in busy:
        with _busy(number):
            for _, spin in itertools.product(range(turns), spins):
                for name, taken in _in_new_process(spin, cases).items():
                    seconds.setdefault((number, spin, name), []).append(taken)
    return pd.DataFrame(
        {"busy": number, "spins": spin, "implementation": name, **spread(taken), **machine("cpu", "float32")}
        for (number, spin, name), taken in seconds.items()
    )


def _in_new_process(spin: int, cases: Sequence[AttentionCase]) -> dict[str, float]:
    before = os.environ.get(SPINS)
    os.environ[SPINS] = str(spin)
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            return process.submit(_one_pass_of_each, cases).result()
    finally:
        if before is None:
            del os.environ[SPINS]
        else:
            os.environ[SPINS] = before


def _one_pass_of_each(cases: Sequence[AttentionCase]) -> dict[str, float]:
    passes = {case.implementation: case.prepare() for case in cases}
    for each in passes.values():
        each()
    taken = interleaved(passes, dict.fromkeys(passes, 1), torch.device("cpu"))
    return {name: seconds for name, (seconds,) in taken.items()}


@contextmanager
def _busy(number: int) -> Iterator[None]:
    processes = [multiprocessing.get_context("spawn").Process(target=_spin, daemon=True) for _ in range(number)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _spin() -> None:
    parent = os.getppid()
    while os.getppid() == parent:  # ends with the program, however that ends
        pass
