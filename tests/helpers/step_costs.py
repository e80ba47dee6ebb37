"""Measurements of training steps with made costs."""

from lib.measure.estimates import Steps


def made_steps(*, fixed=0.0, per_token=1e-3, growth=0.0, lengths=(128, 512, 2048), **changes):
    """Return what would be measured of steps that cost `fixed + B * N * (per_token + growth * N)` seconds."""

    def seconds(size, length):
        return fixed + size * length * (per_token + growth * length)

    sizes = [(2, lengths[0]), *((max(2, 4096 // length), length) for length in lengths)]
    made = {
        "batches": [(size, length, seconds(size, length)) for size, length in sizes],
        "forward_share": 0.25,
        "optimiser_seconds": 0.0,
        "weights": 0,
        "grows": growth > 0,
        "peaks": (0.0, 1000.0),
    }
    return Steps(**made | changes)
