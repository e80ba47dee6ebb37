"""Measure the scan of a state-space layer, compared with flash-linear-attention where that package is installed.

Shapes: B batch, N tokens, H heads, P width of a head, S state size.

python benchmarks/scan_cost.py --lengths 2048 16384 --out FILE
"""

import itertools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import pandas as pd
import torch
from torch import Tensor

from benchmarks import options
from benchmarks.cost import machine, repeated, runs, spread
from benchmarks.tables import COLUMNS
from benchmarks.timing import host_seconds
from lib.backbones.settings import BACKBONES
from lib.backbones.ssm.scan import scan
from lib.backbones.ssm.settings import Settings

logger = logging.getLogger(__name__)

LENGTHS = (512, 2048, 8192, 16_384)
"""Tokens of a sequence, N."""

PEER = "flash-linear-attention"
PEER_KERNELS = ("chunk", "fused_chunk")
"""Its kernels for one decay per head and token: chunks side by side, or one after the other."""

Pass = Literal["forward", "forward_backward"]
PASSES: tuple[Pass, ...] = ("forward", "forward_backward")
Scan = Callable[..., Tensor]


@dataclass(frozen=True, kw_only=True)
class ScanCase:
    """A pass of a scan over sequences without padding.

    Args:
        implementation: `ours`, or `PEER`.
        kernels: `torch` or `triton`, or one of `PEER_KERNELS`.
        kind: forward pass alone, or with the backward pass.
        length: N.
        batch: B.
        heads: H.
        head_size: P.
        state_size: S.
        device: `cpu` or `cuda`.
        dtype: of inputs and directions; decays are float32.
    """

    implementation: str
    kernels: str
    kind: Pass
    length: int
    batch: int
    heads: int
    head_size: int
    state_size: int
    device: str
    dtype: str

    def prepare(self) -> "TimedScan":
        """Return the scan of random inputs."""
        return TimedScan(self)

    def arguments(self) -> list[Tensor]:
        """Return inputs [B, N, H, P], decays [B, N, H] and directions [B, N, S], as large as a new model has them."""
        torch.manual_seed(0)
        shape = (self.batch, self.length)
        options = {"device": self.device, "dtype": getattr(torch, self.dtype)}
        inputs = torch.randn(*shape, self.heads, self.head_size, **options)
        steps = torch.empty(*shape, self.heads, device=self.device).uniform_(0.001, 0.1)
        write, read = (torch.randn(*shape, self.state_size, **options) for _ in range(2))
        return [each.requires_grad_() for each in ((inputs * steps[..., None]).to(inputs.dtype), -steps, write, read)]

    def scan(self) -> Scan:
        """Return the function that computes the scan."""
        if self.implementation == PEER:
            return partial(by_peer, getattr(import_module("fla.ops.simple_gla"), f"{self.kernels}_simple_gla"))
        if self.kernels == "triton":
            kernels = BACKBONES.load("ssm", "kernels").ScanByTriton
            return lambda *arguments: kernels.apply(*arguments, False)
        return partial(scan, chunk_size=Settings().chunk_size)


class TimedScan:
    """A prepared scan; called, it runs once."""

    def __init__(self, case: ScanCase) -> None:
        self.case, self.scan, self.arguments = case, case.scan(), case.arguments()

    def __call__(self) -> None:
        """Run a pass."""
        if self.case.kind == "forward":
            with torch.no_grad():
                self.scan(*self.arguments)
        else:
            self.results()

    def results(self) -> list[Tensor]:
        """Return the output and, if the case has a backward pass, the gradients for a gradient of ones."""
        output = self.scan(*self.arguments)
        if self.case.kind == "forward":
            return [output]
        return [output, *torch.autograd.grad(output, self.arguments, torch.ones_like(output))]

    def error(self) -> float:
        """Return the largest relative error of output and gradients, as norms, compared with a scan in float64."""
        found = self.results()
        rounded = self.arguments
        self.arguments = [each.detach().double().requires_grad_() for each in rounded]
        self.scan, own = partial(scan, chunk_size=Settings().chunk_size), self.scan
        exact = self.results()
        self.scan, self.arguments = own, rounded
        pairs = zip(found, exact, strict=True)
        return max(((mine.double() - theirs).norm() / theirs.norm()).item() for mine, theirs in pairs)


def scan_cost(*, lengths: Sequence[int], tokens: int, seconds: float, **setting: Any) -> pd.DataFrame:
    """Return the cost of a scan, one row per implementation, kind of pass and length; on a GPU, what fails is left out.

    All take turns, and compute the same: the directions are the same for all heads. `PEER` has directions of its own
    for every head, so it copies them; that is measured with it.

    Args:
        lengths: N.
        tokens: of a batch, unless one sequence has more.
        seconds: time for the repetitions of a row.
        setting: `heads`, `head_size`, `state_size`, `device` and `dtype` of the cases, see `ScanCase`.

    Returns:
        Table `scan_cost` of `benchmarks.tables`; `error` is that of `TimedScan.error`, and `host_ms` the time after
        which the host has launched all of it on a GPU.
    """
    place, rows = torch.device(setting["device"]), []
    for length, kind in itertools.product(lengths, PASSES):
        cases = list(scan_cases(length=length, batch=max(1, tokens // length), kind=kind, **setting))
        prepared = {case.kernels: case.prepare() for case in cases}
        prepared = {case.kernels: prepared[case.kernels] for case in cases if runs(prepared[case.kernels], case, place)}
        taken = repeated(prepared, {}, seconds, place, "filled")
        for kernels, timed in prepared.items():
            measured = {"host_ms": 1000 * host_seconds(timed, place), "error": timed.error()}
            row = {**asdict(timed.case), **measured, **machine(timed.case.device, timed.case.dtype)}
            rows.append(row | {"pass": kind} | spread(taken[kernels]))
            found = (kernels, length, kind, rows[-1]["median_ms"], rows[-1]["error"])
            logger.info("%s, %d tokens, %s: %.3g ms, error %.2g", *found)
    return pd.DataFrame(rows, columns=COLUMNS["scan_cost"])


def scan_cases(**setting: Any) -> Iterator[ScanCase]:
    """Yield the scans that there are: by torch's operations and, on a GPU, by our kernels and by those of `PEER`."""
    yield ScanCase(implementation="ours", kernels="torch", **setting)
    if setting["device"] == "cuda":
        if BACKBONES.has("ssm", "kernels"):
            yield ScanCase(implementation="ours", kernels="triton", **setting)
        if find_spec("fla") is None:
            logger.warning("the package %s is not installed: its rows are left out", PEER)
            return
        for kernels in PEER_KERNELS:
            yield ScanCase(implementation=PEER, kernels=kernels, **setting)


def by_peer(kernels: Callable[..., Any], inputs: Tensor, log_decay: Tensor, write: Tensor, read: Tensor) -> Tensor:
    """Return the scan [B, N, H, P] by a function of `PEER`, which has directions for each head.

    Args:
        kernels: of the package.
        inputs: [B, N, H, P].
        log_decay: [B, N, H].
        write: [B, N, S].
        read: [B, N, S].
    """
    heads = inputs.shape[2]
    read, write = (each[:, :, None].expand(-1, -1, heads, -1) for each in (read, write))
    return kernels(q=read, k=write, v=inputs, g=log_decay, scale=1.0)[0]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    on_gpu = torch.cuda.is_available()
    parser = options.parser(
        __doc__,
        on_device=True,
        lengths=LENGTHS,
        tokens=16_384,
        heads=16,
        head_size=64,
        state_size=64,
        seconds=0.25 if on_gpu else 1.0,
    )
    options.measure(parser, scan_cost, argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
