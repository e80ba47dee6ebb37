import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from lib.backbones.positions import Phases, alibi_slopes, rotate, sinusoids

CPU = torch.device("cpu")


def rotation(phases, length):
    return torch.stack(phases(length, CPU), dim=-1)


def rotation_matrix(position, width, base, scale):
    """The block-diagonal matrix of equation 2.7."""
    matrix = torch.zeros(width, width, dtype=torch.float64)
    for pair in range(width // 2):
        angle = scale * position * base ** (-2 * pair / width)
        rows = slice(2 * pair, 2 * pair + 2)
        matrix[rows, rows] = torch.tensor(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64
        )
    return matrix


@pytest.mark.parametrize(("base", "scale"), [(10_000.0, 1.0), (500.0, 0.25)])
def test_rotation_is_the_pairwise_matrix(base, scale):
    width, length = 6, 40
    states = torch.randn(2, 3, length, width, generator=torch.Generator().manual_seed(0))
    (rotated,) = rotate([states], rotation(Phases(width, base, scale), length))
    for position in range(length):
        expected = states[:, :, position].double() @ rotation_matrix(position, width, base, scale).T
        torch.testing.assert_close(rotated[:, :, position].double(), expected, atol=2e-5, rtol=0)


def test_sinusoids():
    width = 5
    table = sinusoids(*Phases(width, 10_000.0)(30, CPU), width)
    assert table.shape == (30, width)
    for position in range(30):
        for dimension in range(width):
            angle = position / 10_000 ** (2 * (dimension // 2) / width)
            expected = math.cos(angle) if dimension % 2 else math.sin(angle)
            assert table[position, dimension].item() == pytest.approx(expected, abs=1e-5)


def test_tables_after_shorter_ones():
    phases = Phases(8, 10_000.0)
    phases(7, CPU)
    long = phases(300, CPU)[0].clone()
    torch.testing.assert_close(phases(7, CPU)[0], long[:7], atol=0, rtol=0)
    torch.testing.assert_close(Phases(8, 10_000.0)(300, CPU)[0], long, atol=0, rtol=0)


def test_rotation_in_half_precision():
    states = torch.randn(1, 1, 3000, 8, generator=torch.Generator().manual_seed(2)).bfloat16()
    table = rotation(Phases(8, 10_000.0), 3000)
    assert table.dtype == torch.float32
    (rotated,) = rotate([states], table)
    assert rotated.dtype == torch.bfloat16
    torch.testing.assert_close(rotated, rotate([states.float()], table)[0].bfloat16(), atol=0, rtol=0)


def of_transformers(kind, width, base, factor, original_length):
    """Frequencies and factor of the tables as transformers computes them."""
    parameters = {
        "rope_type": kind,
        "rope_theta": base,
        "factor": factor,
        "original_max_position_embeddings": original_length,
    }
    config = LlamaConfig(hidden_size=2 * width, num_attention_heads=2, rope_parameters=parameters)
    return ROPE_INIT_FUNCTIONS[kind](config, CPU)


@pytest.mark.parametrize("kind", ["linear", "yarn"])
@pytest.mark.parametrize(
    ("width", "base", "factor", "original_length"),
    [(64, 10_000.0, 4.0, 512), (32, 10_000.0, 2.5, 64), (2, 10_000.0, 2.0, 128)],
)
def test_stretched_rotations(kind, width, base, factor, original_length):
    phases = Phases(width, base, kind=kind, factor=factor, original_length=original_length)
    frequencies, magnitude = of_transformers(kind, width, base, factor, original_length)
    torch.testing.assert_close(phases.frequencies(CPU), frequencies, atol=1e-6, rtol=1e-6)
    angles = torch.arange(50)[:, None] * frequencies
    for table, expected in zip(phases(50, CPU), (angles.cos(), angles.sin()), strict=True):
        torch.testing.assert_close(table, magnitude * expected, atol=2e-5, rtol=0)


def test_yarn_counts_turns_as_scaled():
    halved = Phases(64, 10_000.0, 0.5, kind="yarn", factor=4.0, original_length=512).frequencies(CPU)
    shorter = Phases(64, 10_000.0, kind="yarn", factor=4.0, original_length=256).frequencies(CPU)
    assert torch.equal(halved, shorter)


def test_slopes():
    assert alibi_slopes(1) == [1 / 256]
    assert alibi_slopes(4) == [1 / 4, 1 / 16, 1 / 64, 1 / 256]
    assert alibi_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert alibi_slopes(12) == pytest.approx([*alibi_slopes(8), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])
