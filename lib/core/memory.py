"""The memory of a process."""

import resource
import sys

UNIT = 1 if sys.platform == "darwin" else 2**10
"""Unit of the system's memory counts, in bytes: 1 on macOS, 1024 elsewhere."""


def resident_peak_mb(usage: resource.struct_rusage | None = None) -> float:
    """Return the peak resident memory in MiB: of `usage`, by default of this process so far."""
    usage = usage or resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_maxrss * UNIT / 2**20
