import math

import pytest
import torch
from encoder_cases import build, token_ids
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from lib.backbones.encoder.model import EncoderModel
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


def test_scores_depend_on_the_distance_alone():
    generator = torch.Generator().manual_seed(1)
    query, key = torch.randn(2, 1, 1, 1, 8, generator=generator)
    table = rotation(Phases(8, 10_000.0), 200)
    turned_query, turned_key = (each[0, 0] for each in rotate([x.expand(1, 1, 200, 8) for x in (query, key)], table))
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
    table = rotation(Phases(8, 10_000.0), 3000)
    assert table.dtype == torch.float32
    (rotated,) = rotate([states], table)
    assert rotated.dtype == torch.bfloat16
    torch.testing.assert_close(rotated, rotate([states.float()], table)[0].bfloat16(), atol=0, rtol=0)


def test_tables_made_in_inference_mode_serve_training():
    phases = Phases(4, 10_000.0)
    with torch.inference_mode():
        phases(5, CPU)
    states = torch.ones(1, 1, 5, 4, requires_grad=True)
    (rotated,) = rotate([states], rotation(phases, 5))
    rotated.sum().backward()
    assert states.grad is not None


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
    [
        (64, 10_000.0, 4.0, 512),
        (128, 500_000.0, 8.0, 8192),
        (32, 10_000.0, 2.5, 64),
        (8, 100.0, 16.0, 200),
        (2, 10_000.0, 2.0, 128),
    ],
)
def test_stretched_rotations_are_those_of_transformers(kind, width, base, factor, original_length):
    phases = Phases(width, base, kind=kind, factor=factor, original_length=original_length)
    frequencies, magnitude = of_transformers(kind, width, base, factor, original_length)
    torch.testing.assert_close(phases.frequencies(CPU), frequencies, atol=1e-6, rtol=1e-6)
    angles = torch.arange(50)[:, None] * frequencies
    for table, expected in zip(phases(50, CPU), (angles.cos(), angles.sin()), strict=True):
        torch.testing.assert_close(table, magnitude * expected, atol=2e-5, rtol=0)


def test_yarn_leaves_fast_rotations_and_divides_slow_ones():
    plain = Phases(64, 10_000.0).frequencies(CPU)
    ratio = Phases(64, 10_000.0, kind="yarn", factor=4.0, original_length=512).frequencies(CPU) / plain
    turns = 512 * plain / (2 * math.pi)
    assert (turns > 32).sum() == 4
    torch.testing.assert_close(ratio[turns > 32], torch.ones(4))
    torch.testing.assert_close(ratio[-15:], torch.full((15,), 0.25))  # 2 pi / 512 is passed between pairs 15 and 16
    assert (ratio.diff() <= 1e-6).all()


def test_yarn_counts_turns_as_scaled():
    halved = Phases(64, 10_000.0, 0.5, kind="yarn", factor=4.0, original_length=512).frequencies(CPU)
    shorter = Phases(64, 10_000.0, kind="yarn", factor=4.0, original_length=256).frequencies(CPU)
    assert torch.equal(halved, shorter)


def test_stretched_positions_do_not_depend_on_the_length_at_hand():
    stretch = {"kind": "yarn", "factor": 4.0, "original_length": 32}
    short, long = Phases(8, 10_000.0, **stretch)(7, CPU), Phases(8, 10_000.0, **stretch)(300, CPU)
    for one, other in zip(short, long, strict=True):
        torch.testing.assert_close(one, other[:7], atol=0, rtol=0)


def slopes_of_the_paper(heads):
    """As in the code of Press et al. (`get_slopes` of attention_with_linear_biases)."""
    if math.log2(heads).is_integer():
        start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
        return [start * start**i for i in range(heads)]
    closest = 2 ** math.floor(math.log2(heads))
    return slopes_of_the_paper(closest) + slopes_of_the_paper(2 * closest)[0::2][: heads - closest]


def test_slopes_are_those_of_the_paper():
    assert alibi_slopes(1) == [1 / 256]
    assert alibi_slopes(4) == [1 / 4, 1 / 16, 1 / 64, 1 / 256]
    assert alibi_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert alibi_slopes(12) == pytest.approx([*alibi_slopes(8), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])
    for heads in range(1, 40):
        assert alibi_slopes(heads) == pytest.approx(slopes_of_the_paper(heads))


def test_without_positions_the_order_of_the_tokens_is_lost():
    """The states of shuffled tokens are the shuffled states; with sinusoids they are not."""
    ids, order = token_ids(1, 9), torch.randperm(9, generator=torch.Generator().manual_seed(0))
    distances = {}
    for position in ("none", "sinusoidal"):
        model = build(EncoderModel, position_embedding_type=position).eval()
        moved = model(ids[:, order]).last_hidden_state - model(ids).last_hidden_state[:, order]
        distances[position] = moved.abs().max().item()
    assert distances["none"] < 1e-5 < 0.01 < distances["sinusoidal"]
