"""The processor and the memory of this process."""

import torch

from lib.core.machine import cpu_name


def processor(device: torch.device) -> str:
    """Return the name of what computes on `device`: that of the GPU, or of the CPU as its maker writes it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()


def resident_mb() -> float:
    """Return the resident memory of this process, in MiB."""
    import psutil  # of no use on a GPU, whose machine may lack it

    return psutil.Process().memory_info().rss / 2**20
