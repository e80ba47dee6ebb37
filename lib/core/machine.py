"""The machine that computes."""

import platform
from pathlib import Path


def cpu_name() -> str:
    """Return the name of the CPU as its maker writes it."""
    return _listed("model name") or platform.processor() or platform.machine()


def cpu_maker() -> str:
    """Return the maker of the CPU as the CPU names it, such as GenuineIntel; "" where that is unknown."""
    return _listed("vendor_id")


def _listed(name: str) -> str:
    """Return an entry of Linux' list of CPUs; "" if there is none."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), "")
