import math
import runpy
from pathlib import Path

import pandas as pd
import pytest
import torch

from lib.attention.approximation_error import chunk_numbers, relative_error
from lib.attention.contract import build
from lib.attention.lsh.reference import reference
from lib.attention.settings import MECHANISMS
from lib.core.program import run as run_program
from lib.measure.approximation import (
    INPUTS,
    clustered,
    favor_draws,
    favor_error,
    favor_output,
    lsh_codes,
    lsh_mass,
    lsh_recall,
)

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
WIDTH = 16


def rows(length, norm, seed):
    tensor = torch.randn(length, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return norm * torch.nn.functional.normalize(tensor, dim=-1)


def mechanism(**values):
    return build(MECHANISMS.parse(values), num_heads=1, head_size=WIDTH, layer=0, seed=5).eval()


@pytest.mark.parametrize(("estimator", "settings"), [("cosh", {}), ("saderf", {"features": "saderf"})])
@pytest.mark.parametrize("norm", [1, 4, 10])
def test_dense_estimators_are_the_mechanisms_output(norm, estimator, settings):
    query, key, value = (rows(50, norm, seed) for seed in range(3))
    mine = favor_output(estimator, query, key, value, favor_draws(estimator, 64, WIDTH, seed=5))
    favor = mechanism(kind="favor", nb_features=64, **settings)
    theirs = favor(*(tensor.float()[None, None] for tensor in (query, key, value)))[0, 0]
    torch.testing.assert_close(mine, theirs.double(), atol=3e-5 * norm, rtol=3e-5)


def test_the_exp_estimator_is_the_mean_over_its_draws():
    query, key, value = (rows(20, 3, seed) for seed in range(3))
    draws = favor_draws("exp", 24, WIDTH, seed=5)
    assert draws.shape == (24, WIDTH)  # as many columns as draws; cosh has half as many draws
    assert favor_draws("cosh", 24, WIDTH, seed=5).shape == (12, WIDTH)
    q, k = query / 2, key / 2  # 16^(1/4) = 2
    exponents = (q[:, None] + k) @ draws.T - (q.square().sum(-1)[:, None] + k.square().sum(-1))[..., None] / 2
    kernel = exponents.exp().mean(-1)
    expected = kernel @ value / kernel.sum(-1, keepdim=True)
    torch.testing.assert_close(favor_output("exp", query, key, value, draws), expected)


@pytest.mark.parametrize("estimator", ["cosh", "exp", "saderf"])
def test_large_norms_do_not_overflow(estimator):
    query, key, value = (rows(20, 200, seed) for seed in range(3))
    assert favor_output(estimator, query, key, value, favor_draws(estimator, 16, WIDTH, seed=5)).isfinite().all()


def test_the_error_of_the_output_is_that_of_the_attention_matrix_on_average_over_values():
    query, key = rows(200, 3, seed=0), rows(200, 3, seed=1)
    value = torch.randn(200, 10_000, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    draws = favor_draws("cosh", 64, WIDTH, seed=5)
    exact = (query @ key.T / math.sqrt(WIDTH)).softmax(-1)
    matrix = favor_output("cosh", query, key, torch.eye(200, dtype=torch.float64), draws)
    output = favor_output("cosh", query, key, value, draws)
    expected = relative_error(matrix, exact).item()
    assert relative_error(output, exact @ value).item() == pytest.approx(expected, rel=0.02)


def test_favor_error_falls_with_the_features_and_grows_with_the_norm():
    sizes = {"lengths": [64, 128], "features": [16, 128], "head_size": WIDTH, "base_length": 128, "base_features": 16}
    table = favor_error(norms=[0.5, 1, 2], seeds=INPUTS["seeds"], **sizes)
    keys = ["estimator", "features", "norm", "length", "seed"]
    assert not table.duplicated(keys).any()
    assert len(table) == 3 * 3 * 5 * (2 + 1)  # the base stands once
    means = table.groupby(keys[:4])["relative_error"].mean()
    for estimator in ("cosh", "exp", "saderf"):
        for norm in (0.5, 1, 2):
            assert means[estimator, 128, norm, 128] < 0.6 * means[estimator, 16, norm, 128]
        assert means[estimator, 16, 0.5, 64] < means[estimator, 16, 1, 64] < means[estimator, 16, 2, 64]
    # The mean of all values misses by about what the scores spread, norm^2 / d.
    averages = table.groupby("norm")["average_relative_error"].mean()
    assert averages[1] == pytest.approx(1 / WIDTH, rel=0.15)


@pytest.mark.parametrize(("length", "chunk_size", "num_hashes"), [(40, 4, 1), (41, 4, 3), (30, 8, 2), (7, 8, 2)])
def test_what_windows_catch_is_what_the_mechanisms_reference_sees(length, chunk_size, num_hashes):
    query = clustered(length, WIDTH, norm=4, cosine=0.5, seed=3)
    lsh = mechanism(kind="lsh", num_hashes=num_hashes, chunk_size=chunk_size)
    wide, real = query.double()[None, None], torch.ones(1, length)
    seen = reference(lsh, wide, wide, torch.eye(length, dtype=torch.float64)[None, None], real)[0, 0] > 0
    scores = (query.double() @ query.double().T / math.sqrt(WIDTH)).fill_diagonal_(-math.inf)
    weights = scores.softmax(-1)
    chunks = chunk_numbers(lsh_codes(query, num_hashes, chunk_size, seed=5), chunk_size)
    keys, ((caught,),) = lsh_mass(query, [chunks], [num_hashes])
    assert caught == pytest.approx((weights * seen).sum().item() / length, abs=1e-6)
    assert keys == pytest.approx(torch.special.entr(weights).sum(-1).exp().mean().item(), rel=1e-5)


def test_all_blocks_of_queries_count(monkeypatch):
    query = clustered(100, WIDTH, norm=4, cosine=0.5, seed=3)
    chunks = chunk_numbers(lsh_codes(query, 2, 8, seed=5), 8)
    whole = lsh_mass(query, [chunks], [1, 2])
    monkeypatch.setattr("lib.measure.approximation.ROWS", 30)
    keys, caught = lsh_mass(query, [chunks], [1, 2])
    assert keys == pytest.approx(whole[0], rel=1e-5)
    assert caught[0] == pytest.approx(whole[1][0], rel=1e-5)


def test_clusters_have_their_norm_their_size_and_their_cosine():
    query = clustered(640, WIDTH * 16, norm=3, cosine=0.8, seed=0)
    torch.testing.assert_close(query.norm(dim=-1), torch.full((640,), 3.0))
    cosines = query @ query.T / 9
    close = cosines > 0.5
    assert (close.sum(-1) == 64).all()
    assert cosines[close & ~torch.eye(640).bool()].mean().item() == pytest.approx(0.8, abs=0.02)
    assert cosines[~close].mean().item() == pytest.approx(0, abs=0.05)  # ten centres leave some chance
    assert not close[0, :64].all()  # in random order
    alone = clustered(640, WIDTH * 16, norm=3, cosine=0, seed=0)
    assert (alone @ alone.T / 9).fill_diagonal_(0).max() < 0.7


def test_lsh_beats_random_order_where_tokens_cluster():
    sizes = {"length": 512, "chunk_sizes": [16, 32], "hashes": [1, 2, 4], "head_size": 64}
    table = lsh_recall(inputs=[(1, 0.0), (8, 0.9)], seeds=[0, 1], **sizes)
    keys = ["norm", "chunk_size", "hashes", "sorting"]
    assert len(table) == 2 * 2 * 3 * 2 * 2
    means = table.groupby(keys)["recall"].mean()
    for size in (16, 32):
        for sorting in ("lsh", "random"):
            shares = means.loc[8, size, :, sorting]
            assert shares.is_monotonic_increasing
        # One round: a window has 3 C - 1 other keys, 2 C - 1 at the two ends.
        share = (3 * size - 1 - 2 * size * size / 512) / 511
        assert means[1, size, 1, "random"] == pytest.approx(share, rel=0.05)
        assert means[1, size, 1, "lsh"] == pytest.approx(share, rel=0.1)  # nothing to find
        assert means[8, size, 2, "lsh"] > 2 * means[8, size, 2, "random"]
    assert means[8, 32, 4, "lsh"] > 0.8
    spread = table.groupby("norm")["effective_keys"].mean()
    assert spread[1] > 500
    assert spread[8] < 150


@pytest.mark.parametrize(
    ("program", "options", "rows"),
    [
        ("favor_error.py", "--norms 1 --lengths 32 --features 8 16 --head-size 8 --seeds 0", 3 * (2 + 1)),
        ("lsh_recall.py", "--length 64 --chunk-sizes 8 --hashes 1 2 --head-size 8 --seeds 0 1", 6 * 2 * 2 * 2),
    ],
)
def test_programs_repeat_to_the_byte(program, options, rows, tmp_path):
    main = runpy.run_path(str(SCRIPTS / program))["main"]
    for name in ("one.csv", "two.csv"):
        assert run_program(main, [*options.split(), "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    assert len(pd.read_csv(tmp_path / "one.csv")) == rows


def test_odd_features_are_refused(tmp_path, capsys):
    main = runpy.run_path(str(SCRIPTS / "favor_error.py"))["main"]
    with pytest.raises(SystemExit):
        main(["--features", "15", "--out", str(tmp_path / "out.csv")])
    assert "nb_features = 15 is odd" in capsys.readouterr().err
