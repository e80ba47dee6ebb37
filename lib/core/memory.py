"""The memory of a process."""

import resource
import sys

UNIT = 1 if sys.platform == "darwin" else 2**10
"""Bytes in which the system counts: single ones on macOS, KiB elsewhere."""


def resident_peak_mb(usage: resource.struct_rusage | None = None) -> float:
    """Return the highest resident memory of `usage`, or else of this process so far, in MiB."""
    usage = usage or resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_maxrss * UNIT / 2**20
