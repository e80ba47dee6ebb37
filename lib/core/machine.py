"""The machine that computes."""

import platform
from pathlib import Path

LIST = Path("/proc/cpuinfo")
"""Linux' list of CPUs."""

BF16 = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
"""Linux' names of the instructions that multiply bfloat16, the last one on ARM."""

SLOW_BF16 = (
    "experiment.precision is 'bf16', but this CPU has no instructions that multiply bfloat16 (avx512_bf16, amx_bf16), "
    "so that trainings take several times as long as in fp32. To train in fp32, whose scores differ a little, stop and "
    "start again with --config 'experiment={precision: fp32}'."
)
"""The warning where `multiplies_bf16` is False."""


def cpu_name() -> str:
    """Return the name of the CPU as its maker writes it."""
    return _listed("model name") or platform.processor() or platform.machine()


def cpu_maker() -> str:
    """Return the maker of the CPU as the CPU names it, such as GenuineIntel; "" where that is unknown."""
    return _listed("vendor_id")


def multiplies_bf16() -> bool | None:
    """Return whether the CPU has instructions that multiply bfloat16; None where that is unknown."""
    instructions = (_listed("flags") or _listed("Features")).split()
    return not BF16.isdisjoint(instructions) if instructions else None


def _listed(name: str) -> str:
    """Return an entry of the list of CPUs; "" if there is none."""
    lines = LIST.read_text(encoding="utf-8").splitlines() if LIST.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), "")
