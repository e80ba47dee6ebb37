"""Measure how a busy machine slows waiting threads down: our implementation and another one, in turns.

python benchmarks/busy_cost.py --busy 0 8 --spins 300000 1000 --out FILE
"""

import itertools
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any
from unittest.mock import patch

import pandas as pd
import torch

from benchmarks import options
from benchmarks.compared import PEERS
from benchmarks.cost import machine, spread
from benchmarks.implementations import AttentionCase
from benchmarks.timing import interleaved

SPINS = "GOMP_SPINCOUNT"
"""Environment variable that GNU's OpenMP, which torch's packages contain, reads when it is loaded: how often a thread
checks whether it may continue before it sleeps. Unset, 300,000 times, which takes milliseconds."""

SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Program that computes until the process that started it ends, however that ends."""


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
    parameters = options.of_the_grid()[mechanism]
    names = ["ours", *(["reformer-pytorch"] if parameters["kind"] == "lsh" else PEERS.get(mechanism, []))]
    place: dict[str, Any] = {"device": "cpu", "dtype": "float32"}
    sizes = place | {"length": length, "batch": max(1, tokens // length), "heads": 8, "head_size": 64}
    cases = [AttentionCase(implementation=name, mechanism=mechanism, parameters=parameters, **sizes) for name in names]
    seconds: dict[tuple[int, int, str], list[float]] = {}
    for number in busy:
        others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(number)]
        try:
            for _, spin in itertools.product(range(turns), spins):
                with patch.dict(os.environ, {SPINS: str(spin)}), _new_process() as process:
                    for name, taken in process.submit(_one_pass_of_each, cases).result().items():
                        seconds.setdefault((number, spin, name), []).append(taken)
        finally:
            for other in others:
                other.kill()
                other.wait()
    return pd.DataFrame(
        {"busy": number, "spins": spin, "implementation": name, **spread(taken), **machine(**place)}
        for (number, spin, name), taken in seconds.items()
    )


def _new_process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def _one_pass_of_each(cases: Sequence[AttentionCase]) -> dict[str, float]:
    passes = {case.implementation: case.prepare() for case in cases}
    taken = interleaved(passes, 1, torch.device("cpu"), warm=True)
    return {name: seconds for name, (seconds,) in taken.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__, spins=(300_000, 1_000), busy=(0, 8), mechanism="lsh-h4-c128", length=512, tokens=1_024, turns=3
    )
    options.measure(parser, busy_cost, argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
