import math

import pytest
import torch

from lib.backbones.encoder.positions import Phases, rotate, sinusoids

CPU = torch.device("cpu")


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
    rotated = rotate(states, *Phases(width, base, scale)(length, CPU))
    for position in range(length):
        expected = states[:, :, position].double() @ rotation_matrix(position, width, base, scale).T
        torch.testing.assert_close(rotated[:, :, position].double(), expected, atol=2e-5, rtol=0)


def test_scores_depend_on_the_distance_alone():
    generator = torch.Generator().manual_seed(1)
    query, key = torch.randn(2, 1, 1, 1, 8, generator=generator)
    table = Phases(8, 10_000.0)(200, CPU)
    turned_query, turned_key = (rotate(x.expand(1, 1, 200, 8), *table)[0, 0] for x in (query, key))
    scores = turned_query @ turned_key.T
    for distance in (0, 1, 17):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4, rtol=0)
    assert (scores.diagonal(0)[0] - scores.diagonal(1)[0]).abs() > 1e-2


def test_sinusoids_are_those_of_the_definition():
    width = 5
    table = sinusoids(*Phases(width, 10_000.0)(30, CPU), width)
    assert table.shape == (30, width)
    for position in range(30):
        for dimension in range(width):
            angle = position / 10_000 ** (2 * (dimension // 2) / width)
            expected = math.cos(angle) if dimension % 2 else math.sin(angle)
            assert table[position, dimension].item() == pytest.approx(expected, abs=1e-5)


def test_tables_do_not_depend_on_what_was_asked_before():
    phases = Phases(8, 10_000.0)
    phases(7, CPU)
    long = phases(300, CPU)[0].clone()
    torch.testing.assert_close(phases(7, CPU)[0], long[:7], atol=0, rtol=0)
    torch.testing.assert_close(Phases(8, 10_000.0)(300, CPU)[0], long, atol=0, rtol=0)


def test_low_precision_is_rotated_in_float32():
    states = torch.randn(1, 1, 3000, 8, generator=torch.Generator().manual_seed(2)).bfloat16()
    table = Phases(8, 10_000.0)(3000, CPU)
    assert table[0].dtype == torch.float32
    rotated = rotate(states, *table)
    assert rotated.dtype == torch.bfloat16
    torch.testing.assert_close(rotated, rotate(states.float(), *table).bfloat16(), atol=0, rtol=0)


def test_tables_made_in_inference_mode_serve_training():
    phases = Phases(4, 10_000.0)
    with torch.inference_mode():
        phases(5, CPU)
    states = torch.ones(1, 1, 5, 4, requires_grad=True)
    rotate(states, *phases(5, CPU)).sum().backward()
    assert states.grad is not None
