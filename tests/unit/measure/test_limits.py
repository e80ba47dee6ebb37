import pytest

from lib.measure.limits import Limits, growth, matrix_mb


def test_a_limit_that_is_exceeded_is_named():
    limits = Limits(minutes=3, gibibytes=8)
    assert limits.exceeded(seconds=180, mb=8 * 1024) == ""
    assert limits.exceeded(seconds=181, mb=0) == "more than 3 min"
    assert limits.exceeded(seconds=181, mb=8 * 1024 + 1) == "more than 8 GiB"
    assert Limits(minutes=0.5, gibibytes=8).exceeded(seconds=31, mb=0) == "more than 30 s"


def test_time_of_exact_attention_grows_as_the_square():
    assert [growth({"kind": kind}) for kind in ("sdpa", "lsh", "favor")] == [2, 1, 1]


@pytest.mark.parametrize(("dtype", "mb"), [("float32", 2 * 4), ("bfloat16", 2 * 2)])
def test_a_matrix_has_an_entry_for_each_pair_and_head(dtype, mb):
    assert matrix_mb(1024, 2, dtype) == mb
