import pytest

from lib.advice.choices import Choice, Limit, choose
from lib.measure.estimates import Cost


def choice(model, limit, hours, f1=None, fits=True):
    cost = Cost(seconds=60.0, mb=100.0, fits=fits, micro_batch_tokens=limit, reduced=False)
    return Choice(model, limit, cost, cost, hours, f1)


def table(*limits):
    """A limit per entry: tokens, share of the text that is lost, choices."""
    return [
        Limit(tokens, lost, 0.5, None, [choice(name, tokens, *rest) for name, *rest in rows])
        for tokens, lost, rows in limits
    ]


def taken(*limits, points=1.0):
    found = choose(table(*limits), points)
    return found and (found.model, found.limit)


EXACT, FAST, POOR = ("exact", 10.0, 90.0), ("fast", 4.0, 89.1), ("poor", 1.0, 80.0)


def test_the_fastest_of_the_good_ones_is_taken():
    assert taken((512, 0.0, [EXACT, FAST, POOR])) == ("fast", 512)


def test_good_is_what_the_user_calls_so():
    assert taken((512, 0.0, [EXACT, FAST, POOR]), points=0.5) == ("exact", 512)
    assert taken((512, 0.0, [EXACT, FAST, POOR]), points=10) == ("poor", 512)


def test_the_shortest_limit_that_loses_little_is_taken():
    assert taken((512, 0.4, [EXACT]), (1024, 0.05, [EXACT]), (2048, 0.0, [EXACT])) == ("exact", 1024)


def test_the_longest_limit_is_taken_where_all_lose_much():
    assert taken((512, 0.8, [EXACT]), (1024, 0.6, [EXACT])) == ("exact", 1024)


def test_where_nothing_fits_the_next_shorter_limit_is_taken():
    big = ("exact", 10.0, 90.0, False)
    assert taken((512, 0.8, [EXACT]), (1024, 0.0, [big])) == ("exact", 512)
    assert taken((512, 0.8, [big]), (1024, 0.0, [big])) is None


def test_what_does_not_fit_is_no_measure_for_what_does():
    assert taken((512, 0.0, [("exact", 10.0, 95.0, False), FAST, POOR])) == ("fast", 512)


def test_an_unknown_score_is_not_good_unless_all_are_unknown():
    assert taken((512, 0.0, [EXACT, ("new", 1.0, None)])) == ("exact", 512)
    assert taken((512, 0.0, [("old", 2.0, None), ("new", 1.0, None)])) == ("new", 512)


@pytest.mark.parametrize("stage", [0, 1])
def test_both_stages_must_fit(stage):
    costs = [Cost(60.0, 100.0, fits=number != stage, micro_batch_tokens=1, reduced=False) for number in range(2)]
    assert not Choice("exact", 512, *costs, 1.0, None).fits
