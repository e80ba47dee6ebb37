"""Keyed seeds: every random draw of the project is a pure function of a key.

A draw gives its key, for instance `derive_seed("mlm", seed, epoch, example)`, and seeds its own generator with the
result. No code draws from, or seeds, a global generator (dropout uses torch's own).
"""

import hashlib


def derive_seed(purpose: str, *key: int | str) -> int:
    """Return a seed in [0, 2**63) that is a pure function of `purpose` and `key`.

    Different purposes or keys give independent seeds, on every platform and in every process.
    """
    digest = hashlib.blake2b("\x1f".join([purpose, *map(repr, key)]).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
