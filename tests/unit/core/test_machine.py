"""The list of CPUs, as Linux writes it on x86 and ARM, names the instructions of a CPU; without it none is known."""

import pytest

from lib.core import machine
from lib.core.machine import multiplies_bf16


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("flags\t\t: fpu avx avx2 avx512f avx512_bf16", True),
        ("flags\t\t: fpu avx avx2 fma avx512f avx512_vnni", False),
        ("Features\t: fp asimd sve bf16 i8mm", True),
        ("model name\t: without a list", None),
        (None, None),
    ],
)
def test_instructions_for_bf16_are_read_from_the_system(tmp_path, monkeypatch, listed, expected):
    path = tmp_path / "cpuinfo"
    if listed is not None:
        path.write_text(f"processor\t: 0\n{listed}\nbugs\t\t: \n\nprocessor\t: 1\n{listed}\n")
    monkeypatch.setattr(machine, "LIST", path)
    assert multiplies_bf16() is expected
