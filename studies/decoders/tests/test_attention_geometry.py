"""Measures of forms equal those of the dense matrix, however the factors lie, and the bound is one."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from studies.decoders.evaluation.attention_geometry import Form, largest_move, measure, upper_triangle_share

pytestmark = pytest.mark.extended

seeds = st.integers(0, 2**31)


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def symmetry_of(matrix):
    symmetric, antisymmetric = (matrix + matrix.T) / 2, (matrix - matrix.T) / 2
    return float((symmetric.square().sum() - antisymmetric.square().sum()) / matrix.square().sum())


def directionality_of(matrix):
    heavy = []
    for norms in (matrix.norm(dim=1), matrix.norm(dim=0)):
        threshold = norms.mean() + 2 * (norms - norms.mean()).square().mean().sqrt()
        heavy.append(float(norms[norms > threshold].sum()))
    rows, columns = heavy
    return (rows - columns) / (rows + columns) if rows + columns else 0.0


def form_of(matrix):
    """A dense matrix as a form."""
    return Form(torch.eye(len(matrix), dtype=torch.float64)[None], matrix[None])


@given(seed=seeds, heads=st.integers(1, 3), rank=st.integers(1, 40), width=st.integers(2, 30))
def test_measures_by_the_dense_matrix(seed, heads, rank, width):
    left, right = normal(seed, heads, rank, width), normal(seed + 1, heads, rank, width)
    left[:, :, 0] *= 5  # a heavy row in most draws
    found = measure(Form(left, right))
    for head, matrix in enumerate(left.mT @ right):
        assert float(found.symmetry[head]) == pytest.approx(symmetry_of(matrix), abs=1e-9)
        assert float(found.directionality[head]) == pytest.approx(directionality_of(matrix), abs=1e-6)
        assert float(found.norm[head]) == pytest.approx(float(matrix.norm()))


@given(seed=seeds, rank=st.integers(1, 12), width=st.integers(2, 10))
def test_measures_with_a_mirrored_form(seed, rank, width):
    forward = Form(normal(seed, 1, rank, width), normal(seed + 1, 1, rank, width))
    back = Form(normal(seed + 2, 1, rank, width), normal(seed + 3, 1, rank, width))
    matrix, other = ((form.left.mT @ form.right)[0] for form in (forward, back))
    zero = torch.zeros(width, width, dtype=torch.float64)
    block = torch.cat((torch.cat((zero, matrix), 1), torch.cat((other, zero), 1)))
    found = measure(forward, back)
    assert float(found.symmetry[0]) == pytest.approx(symmetry_of(block), abs=1e-9)
    assert float(found.norm[0]) == pytest.approx(float(block.norm()) / math.sqrt(2))
    assert float(found.directionality[0]) == pytest.approx(directionality_of(matrix), abs=1e-6)


def test_measures_of_known_matrices():
    rank = 3
    factor = normal(1, 1, rank, 8)
    assert float(measure(Form(factor, factor)).symmetry) == pytest.approx(1)
    half = rank // 2 or 1
    turned = torch.cat((factor[:, half : 2 * half], -factor[:, :half]), dim=1)
    assert float(measure(Form(factor[:, : 2 * half], turned)).symmetry) == pytest.approx(-1)
    columns = normal(2, 1, rank, 40)
    columns[:, :, 3] *= 30
    assert float(measure(Form(normal(3, 1, rank, 40) ** 0, columns)).directionality) == -1
    assert float(measure(Form(columns, normal(3, 1, rank, 40) ** 0)).directionality) == 1


def test_measures_of_zero():
    found = measure(Form(torch.zeros(1, 2, 5).double(), normal(1, 1, 2, 5)))
    assert math.isnan(found.symmetry)
    assert math.isnan(found.directionality)
    assert found.norm == 0


@pytest.mark.parametrize(("rank", "width"), [(4, 16), (40, 16)])
def test_measures_of_random_factors(rank, width):
    """tr(W O W O) of a random rotation O of the keys has the mean |W|^2 / D; W and W' are equally likely."""
    draws = 4000
    found = measure(Form(normal(1, draws, rank, width), normal(2, draws, rank, width)))
    for values, expected in ((found.symmetry, 1 / width), (found.directionality, 0.0)):
        assert abs(float(values.mean()) - expected) < 4 * float(values.std()) / math.sqrt(draws)


@given(seed=seeds, width=st.integers(2, 12), rank=st.integers(1, 4), size=st.floats(1e-3, 3), skew=st.floats(-1, 1))
def test_bound_of_an_update(seed, width, rank, size, skew):
    matrix = normal(seed, width, width)
    matrix = matrix + skew * matrix.T
    update = normal(seed + 1, width, rank) @ normal(seed + 2, rank, width)
    update *= size * matrix.norm() / update.norm()
    before, after = (measure(form_of(each)) for each in (matrix, matrix + update))
    moved = abs(float(after.symmetry - before.symmetry))
    for end in (before, after):
        ratio = update.norm() / end.norm
        assert moved <= float(largest_move(end.symmetry, ratio)) + 1e-9
        assert float(largest_move(end.symmetry, ratio)) <= 2 * float(ratio) + 1e-9


@given(seed=seeds, width=st.integers(2, 12), size=st.floats(0.01, 0.5))
def test_bound_that_updates_reach(seed, width, size):
    """W of rank 1 turns away from the symmetric matrices, in the plane of W and W', or towards them."""
    first, second = normal(seed, width), normal(seed + 1, width)
    matrix = torch.outer(first, second)
    matrix /= matrix.norm()
    before = measure(form_of(matrix)).symmetry
    angle = float(torch.acos(before)) / 2
    parts = [part / part.norm() for part in ((matrix + matrix.T) / 2, (matrix - matrix.T) / 2)]
    moves = []
    for turn in (math.asin(size), -math.asin(size)):
        target = math.cos(angle + turn) * parts[0] + math.sin(angle + turn) * parts[1]
        update = math.cos(turn) * target - matrix
        assert float(update.norm()) == pytest.approx(size)
        assert int(torch.linalg.matrix_rank(update, rtol=1e-9)) <= 2
        moves.append(abs(float(measure(form_of(matrix + update)).symmetry - before)))
    assert max(moves) == pytest.approx(float(largest_move(before, torch.tensor([size]).double())), rel=1e-6)


def test_shares_of_later_tokens():
    causal = torch.ones(2, 5, 5).tril()
    causal /= causal.sum(-1, keepdim=True)
    equal = torch.full((2, 5, 5), 0.2)
    assert upper_triangle_share(causal).tolist() == [0, 0]
    assert upper_triangle_share(equal).tolist() == pytest.approx([4 / 10, 4 / 10])
    assert (
        upper_triangle_share(causal.mT).tolist()
        == [pytest.approx(1 - float(causal[0].diagonal().square().sum() / causal[0].square().sum()))] * 2
    )


def listed_directionality(matrix):
    """Return directionality of the thesis' listing: by the excess over the threshold, with unbiased deviations."""
    excess = []
    for norms in (matrix.norm(dim=1), matrix.norm(dim=0)):
        threshold = norms.mean() + 2 * norms.std()
        excess.append(float((norms[norms > threshold] - threshold).sum()))
    rows, columns = excess
    return (rows - columns) / (rows + columns) if rows + columns else 0.0


def listed_form(queries, keys, heads):
    """Return W of a layer with grouped keys by the thesis' listing, from weights [out, D] of both projections."""
    queries, keys = queries.T, keys.T
    width = queries.shape[0] // heads  # its width of a head: hidden size over heads
    keys = keys.view(keys.shape[0], width, keys.shape[1] // width)
    repeats = (queries.shape[0] // width) // keys.shape[-1]
    keys = keys.repeat_interleave(repeats, 0).view(queries.shape[0], queries.shape[0])
    return queries @ keys.T


def test_directionality_of_the_thesis_listing():
    """docs/fidelity.md: its directionality is another number than its text's, here of one matrix."""
    matrix = normal(12, 64, 64)
    form = Form(torch.eye(64, dtype=torch.float64)[None], matrix[None])
    assert listed_directionality(matrix) == pytest.approx(-0.536, abs=5e-4)
    assert float(measure(form).directionality) == pytest.approx(0.006, abs=5e-4)


@pytest.mark.parametrize(("heads", "groups", "share"), [(4, 2, 1 / 2), (24, 8, 1 / 6)])
def test_groups_of_the_thesis_listing(heads, groups, share):
    """Head h gets the keys of group h mod K instead of h div (H / K): few heads keep their own keys."""
    width = 16
    queries, keys = normal(1, heads * width, heads * width), normal(2, groups * width, heads * width)
    right = sum(
        queries[head * width :][:width].T @ keys[head // (heads // groups) * width :][:width] for head in range(heads)
    )
    tiled = sum(queries[head * width :][:width].T @ keys[head % groups * width :][:width] for head in range(heads))
    listed = listed_form(queries, keys, heads)
    assert listed == pytest.approx(tiled)
    correlation = float((listed * right).sum() / (listed.norm() * right.norm()))
    assert correlation == pytest.approx(share, abs=0.03)
