"""The machine that computes."""

import platform
from pathlib import Path


def cpu_name() -> str:
    """Return the name of the CPU as its maker writes it."""
    listed = Path("/proc/cpuinfo")  # Linux; elsewhere the system's own word has to do
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
