import pytest

from lib.measure.compared import NAIVE
from lib.measure.implementations import AttentionCase
from lib.measure.length_cost import Limits, growth, matrix_mb, memory_cost, one_pass
from lib.measure.tables import COLUMNS

SDPA, LSH = {"kind": "sdpa"}, {"kind": "lsh", "num_hashes": 2, "chunk_size": 16}
FAVOR = {"kind": "favor", "nb_features": 16}
SIZES = {"heads": 2, "head_size": 16, "device": "cpu", "dtype": "float32", "minutes": 1, "gibibytes": 1}


def test_a_table_of_every_mechanism_and_length():
    table = memory_cost({"sdpa": SDPA, "lsh": LSH}, lengths=[64, 32], **SIZES)
    assert list(table) == COLUMNS["memory_cost"]
    rows = list(table[["mechanism", "length"]].itertuples(index=False, name=None))
    assert rows == [(name, length) for length in (32, 64) for name in ("sdpa", "lsh", *NAIVE)]
    assert (table[["kept_mb", "seconds"]] > 0).all(axis=None)
    assert table["peak_mb"].notna().all()
    assert table["skipped"].isna().all()
    naive = table[table["mechanism"].isin(NAIVE)]
    assert naive["matrix_mb"].tolist() == [2 * n * n * 4 / 2**20 for n in (32, 64)]
    assert naive["computed_mb"].tolist() == [3 * 2 * n * n * 4 / 2**20 for n in (32, 64)]
    assert table.drop(naive.index)["matrix_mb"].isna().all()


def test_plain_operations_keep_one_matrix_and_hold_three():
    """What is computed for lengths that do not fit is what torch allocates where they do."""
    length, heads, width = 1024, 4, 16
    table = memory_cost({}, lengths=[length], **(SIZES | {"heads": heads, "head_size": width}))
    (row,) = table.to_dict("records")
    inputs = 4 * heads * length * width / 2**20  # MiB of the queries; as many are kept of the keys and the values
    assert row["kept_mb"] == row["matrix_mb"] + 3 * inputs == 16 + 3 * 0.25
    assert row["computed_mb"] == 48
    assert row["computed_mb"] < row["peak_mb"] < row["computed_mb"] + row["matrix_mb"] / 2


def test_what_exceeds_the_limit_of_memory_has_one_head_or_no_measurement():
    # One matrix of a head is 0.25 MiB at 256 tokens and 1 MiB at 512; three are held.
    table = memory_cost({}, lengths=[256, 512, 2048], **(SIZES | {"heads": 4, "gibibytes": 3.5 / 1024}))
    assert table["heads"].tolist() == [4, 1, 4]
    assert table["computed_mb"].tolist() == [3, 3, 192]
    assert table["skipped"].isna().tolist() == [True, True, False]
    assert table["skipped"][2] == "more than 0.00341797 GiB"
    assert table["peak_mb"].isna().tolist() == [False, False, True]


def test_what_is_expected_to_exceed_the_limit_of_time_is_not_measured(monkeypatch):
    """By the last measurement: exact attention's time grows as the square of the length, LSH's as the length."""
    monkeypatch.setattr("lib.measure.length_cost.with_peak_mb", lambda function, case, **_: ((1.0, 1), 1.0))
    table = memory_cost({"sdpa": SDPA, "lsh": LSH}, lengths=[16, 64], **(SIZES | {"minutes": 7.9 / 60}))
    rows = table.set_index(["mechanism", "length"])
    assert rows.loc[("sdpa", 64), "skipped"].startswith("more than 7.9 s")  # 16 s expected, and 8 s with one head
    assert rows["seconds"].isna().tolist() == rows["skipped"].notna().tolist()
    assert list(rows.index[rows["skipped"].isna()]) == [*((name, 16) for name in ("sdpa", "lsh", *NAIVE)), ("lsh", 64)]
    # Of LSH, a head takes more than its share: what works on one head at a time does not shrink.
    table = memory_cost({"lsh": LSH}, lengths=[16, 64], **(SIZES | {"minutes": 3 / 60}))
    assert table.set_index(["mechanism", "length"]).loc[("lsh", 64), ["heads", "skipped"]].tolist() == [
        2,
        "more than 3 s",
    ]
    table = memory_cost({"sdpa": SDPA}, lengths=[16, 64], **(SIZES | {"minutes": 8.1 / 60}))
    assert table.set_index(["mechanism", "length"]).loc[("sdpa", 64), "heads"] == 1


@pytest.mark.parametrize("parameters", [SDPA, LSH])
def test_one_pass_counts_what_the_forward_pass_keeps(parameters):
    case = AttentionCase(
        mechanism="some",
        parameters=parameters,
        length=64,
        batch=1,
        heads=2,
        head_size=16,
        device="cpu",
        dtype="float32",
    )
    seconds, kept = one_pass(case)
    assert seconds > 0
    assert kept >= 4 * 2 * 64 * 16 * 2
    if parameters is SDPA:
        assert kept == 4 * 2 * 64 * (4 * 16 + 1)  # arguments, output and one number per query


def test_a_limit_that_is_exceeded_is_named():
    limits = Limits(minutes=3, gibibytes=8)
    assert limits.exceeded(seconds=180, mb=8 * 1024) == ""
    assert limits.exceeded(seconds=181, mb=0) == "more than 3 min"
    assert limits.exceeded(seconds=181, mb=8 * 1024 + 1) == "more than 8 GiB"
    assert Limits(minutes=0.5, gibibytes=8).exceeded(seconds=31, mb=0) == "more than 30 s"


def test_time_of_exact_attention_grows_as_the_square():
    assert [growth(values) for values in (SDPA, LSH, FAVOR)] == [2, 1, 1]
    assert [growth(values) for values in ([LSH, SDPA], [LSH, FAVOR])] == [2, 1]


@pytest.mark.parametrize(("dtype", "mb"), [("float32", 2 * 4), ("bfloat16", 2 * 2)])
def test_a_matrix_has_an_entry_for_each_pair_and_head(dtype, mb):
    assert matrix_mb(1024, 2, dtype) == mb
