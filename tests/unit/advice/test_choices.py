import math

import numpy as np
import pytest

from lib.advice.choices import Choice, Limit, Ratio, bearable, choose, ratio, start_advice
from lib.advice.estimates import StageCost
from lib.advice.scores import ModelScores
from lib.advice.texts import Language
from lib.advice.wording import _mechanism

ENGLISH, UKRAINIAN = Language("en", 0.95), Language("uk", 1.0)
SURE, TIE, SLOW, ONCE = (
    Ratio(0.4, 0.35, 0.5, 9),
    Ratio(0.8, 0.6, 1.2, 9),
    Ratio(1.5, 1.4, 1.6, 9),
    Ratio(0.1, math.nan, math.nan, 1),
)


def choice(model, limit, hours, found=SURE, f1=None, fits=True):
    cost = StageCost(seconds=60.0, mb=100.0, fits=fits, micro_batch_tokens=limit, reduced=False)
    return Choice(model, limit, cost, cost, hours, found, f1, exact=model == "exact")


def table(*limits, scores=None):
    """A limit per entry: tokens, share of the text that is lost, choices."""
    return [
        Limit(tokens, lost, 0.5, scores, [choice(name, tokens, *rest) for name, *rest in rows])
        for tokens, lost, rows in limits
    ]


def taken(*limits, points=1.0, scores=None):
    found = choose(table(*limits, scores=scores), points)
    return found and (found.model, found.limit)


EXACT = ("exact", 10.0, Ratio(1.0, 1.0, 1.0, 9), 90.0)
FAST, POOR = ("fast", 4.0, SURE, 89.1), ("poor", 1.0, Ratio(0.1, 0.09, 0.11, 9), 80.0)


def test_a_clear_difference_gives_the_faster_with_its_interval():
    found = ratio([0.5, 0.52, 0.48, 0.5, 0.51, 0.49, 0.5, 5.0, 0.5], [1.0] * 9)
    assert found.median == 0.5
    assert (found.low, found.high) == (0.49, 0.52)  # one turn that something disturbed does not widen it
    assert found.faster
    assert taken((512, 0.0, [EXACT, ("fast", 5.0, found, 90.0)])) == ("fast", 512)


def test_a_noisy_tie_gives_exact_attention():
    noise = np.random.default_rng(1).normal(0, 0.3, (2, 9))
    found = ratio(*np.exp(noise))
    assert not found.faster
    assert taken((512, 0.0, [EXACT, ("noisy", 6.0, found, 90.0), ("tie", 5.0, TIE, 90.0)])) == ("exact", 512)


def test_ties_are_rarely_taken_for_faster():
    """Of 300 ties with noise of 20 % in every measurement, fewer than 1 % are advised."""
    generator = np.random.default_rng(0)
    wrong = sum(ratio(*np.exp(generator.normal(0, 0.2, (2, 7)))).faster for _ in range(300))
    assert wrong < 3


def test_what_all_models_suffer_in_a_turn_does_not_count():
    """The machine is busy in half of the turns and takes three times as long."""
    busy = np.array([1, 3, 1, 3, 1, 3, 3.0])
    found = ratio(0.5 * busy, 1.0 * busy)
    assert (found.low, found.median, found.high) == (0.5, 0.5, 0.5)


def test_fewer_than_six_turns_advise_nothing_but_exact_attention():
    assert math.isnan(ratio([0.1] * 5, [1.0] * 5).high)
    assert not ratio([0.1] * 5, [1.0] * 5).faster
    assert ratio([0.1] * 6, [1.0] * 6).faster
    assert taken((512, 0.0, [EXACT, ("once", 1.0, ONCE, 90.0)])) == ("exact", 512)


def test_less_than_a_tenth_is_not_worth_an_approximation():
    assert taken((512, 0.0, [EXACT, ("little", 9.3, Ratio(0.93, 0.92, 0.94, 9), 90.0)])) == ("exact", 512)


def test_the_fastest_of_the_good_ones_is_taken():
    assert taken((512, 0.0, [EXACT, FAST, POOR])) == ("fast", 512)


def test_good_is_what_the_user_calls_so():
    assert taken((512, 0.0, [EXACT, FAST, POOR]), points=0.5) == ("exact", 512)
    assert taken((512, 0.0, [EXACT, FAST, POOR]), points=10) == ("poor", 512)


def test_scores_within_the_noise_count_as_equal():
    noisy = ModelScores({"exact": 90.0}, "papers", 512, "published, 1 seed", 1, 3_339)
    assert 1.4 < noisy.noise < 1.7
    assert taken((512, 0.0, [EXACT, ("fast", 4.0, SURE, 88.6)])) == ("exact", 512)
    assert taken((512, 0.0, [EXACT, ("fast", 4.0, SURE, 88.6)]), scores=noisy) == ("fast", 512)
    assert bearable({"a": 90.0, "b": 88.6, "c": None}, 1.0, 1.5) == ["a", "b"]
    assert bearable({"a": None, "b": None}, 1.0, None) == ["a", "b"]


def test_the_shortest_limit_that_loses_little_is_taken():
    assert taken((512, 0.4, [EXACT]), (1024, 0.05, [EXACT]), (2048, 0.0, [EXACT])) == ("exact", 1024)


def test_the_longest_limit_is_taken_where_all_lose_much():
    assert taken((512, 0.8, [EXACT]), (1024, 0.6, [EXACT])) == ("exact", 1024)


BIG = (*EXACT, False)


def test_where_nothing_fits_the_next_shorter_limit_is_taken():
    assert taken((512, 0.8, [EXACT]), (1024, 0.0, [BIG])) == ("exact", 512)
    assert taken((512, 0.8, [BIG]), (1024, 0.0, [BIG])) is None


def test_where_exact_attention_does_not_fit_the_fastest_is_taken():
    assert taken((512, 0.0, [BIG, FAST, POOR])) == ("fast", 512)
    assert taken((512, 0.0, [BIG, ("a", 4.0, TIE, 89.0), ("b", 3.0, SLOW, 89.0)])) == ("b", 512)


def test_an_unknown_score_is_not_good_unless_all_are_unknown():
    assert taken((512, 0.0, [EXACT, ("new", 1.0, SURE)])) == ("exact", 512)
    assert taken((512, 0.0, [("exact", 2.0, EXACT[2]), ("new", 1.0, SURE)])) == ("new", 512)


@pytest.mark.parametrize("stage", [0, 1])
def test_both_stages_must_fit(stage):
    costs = [StageCost(60.0, 100.0, fits=number != stage, micro_batch_tokens=1, reduced=False) for number in range(2)]
    assert not Choice("exact", 512, *costs, 1.0, SURE, None).fits


@pytest.mark.parametrize(("documents", "few"), [(50, True), (300, True), (1500, True), (1600, False), (50_000, False)])
def test_few_documents_start_from_a_published_encoder(documents, few):
    found = start_advice(documents // 10, 16_384, ENGLISH)
    assert found.few == few
    assert found.published == few


def test_short_texts_start_from_a_published_encoder_however_many_there_are():
    assert start_advice(5000, 512, ENGLISH).published
    assert not start_advice(5000, 1024, ENGLISH).published


def test_a_foreign_language_starts_from_a_published_encoder():
    assert start_advice(5000, 16_384, UKRAINIAN).published


@pytest.mark.parametrize(
    ("measured", "said"), [(512, "cut to 512 tokens is"), (256, "cut to 256 tokens (at 512 none is known), is")]
)
def test_a_score_is_told_with_its_length_and_whether_it_is_that_of_the_times(measured, said):
    scores = ModelScores({"exact": 90.0, "fast": 89.1}, "imdb", measured, "published, 1 seed", 1, None)
    limits = table((512, 0.0, [EXACT, FAST]), scores=scores)
    assert said in _mechanism(choose(limits, 1.0), limits, 1.0, published=False)
    limits = table((512, 0.0, [EXACT, POOR]), scores=scores)
    assert said in _mechanism(choose(limits, 1.0), limits, 1.0, published=False)


def test_a_mechanism_without_a_score_is_said_to_have_none():
    limits = table((512, 0.0, [(*EXACT[:3], None), (*FAST[:3], None)]))
    advice = _mechanism(choose(limits, 1.0), limits, 1.0, published=False)
    assert "Its score at this length is not known" in advice
