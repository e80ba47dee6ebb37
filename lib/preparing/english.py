"""A small invented English: word lists, and sentences made from patterns.

A pattern is a line of words; a word in capitals is replaced by any word of the list of that name.
"""

import random
from collections.abc import Sequence

Lists = dict[str, Sequence[str]]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


COMMON: Lists = {
    "NOUN": _words(
        "river village bridge garden market station harbour valley school window letter winter summer road mountain "
        "forest house street coast island castle church museum library railway factory farm ship road field lake"
    ),
    "ADJ": _words("old small large quiet famous northern southern early late local modern simple narrow green distant"),
    "VERBED": _words("built opened moved found closed visited described restored sold named painted recorded joined"),
    "NAME": _words("anna martin clara peter julia thomas maria henry laura david sofia george elena victor emma paul"),
    "PLACE": _words("london vienna boston lisbon oslo dublin kyoto cairo prague geneva toronto warsaw madrid athens"),
    "TIME": _words("spring autumn morning century decade evening monday january march october"),
    "NUMBER": _words("two three four five six seven eight nine ten twelve twenty thirty"),
}

FILM: Lists = {
    "ASPECT": _words("acting story ending music dialogue pacing camera cast script editing humour lighting"),
    "GOOD": _words("wonderful brilliant charming moving superb gripping lovely clever delightful excellent"),
    "BAD": _words("terrible boring clumsy dreadful shallow tedious awful weak hollow annoying"),
    "MOMENT": _words("scene chapter minute hour act shot"),
}

POLITICS: Lists = {
    "LOADED": _words(
        "outrage corrupt betrayal shameful radical disaster lies scandal destroy rigged traitors hysteria puppet "
        "disgrace crooked"
    ),
    "SOBER": _words(
        "committee estimate report quarterly budget survey amendment hearing statement schedule analyst proposal "
        "spokesman regional turnout"
    ),
    "OFFICE": _words("senate mayor council minister governor parliament court agency candidate ministry"),
    "ISSUE": _words("taxes schools housing energy trade pensions hospitals roads farming security"),
}

TOPICS: Lists = {
    "math.AC": _words("ideal ring module prime noetherian polynomial local depth regular grading syzygy"),
    "cs.CV": _words("image pixel camera segmentation detection object video texture depth frame scene"),
    "cs.AI": _words("agent planning reasoning knowledge logic belief heuristic goal ontology search game"),
    "cs.SY": _words("controller feedback plant stability actuator sensor voltage delay observer grid loop"),
    "math.GR": _words("subgroup finite conjugate abelian coset generator nilpotent order sylow free orbit"),
    "cs.CE": _words("mesh fluid stress finite solver pressure elastic turbulence beam material load"),
    "cs.PL": _words("compiler type program lambda syntax semantics inference loop function verifier heap"),
    "cs.IT": _words("channel capacity code decoder noise bits entropy relay block fading rate"),
    "cs.DS": _words("graph vertex edge tree runtime approximation greedy queue path matching order"),
    "cs.NE": _words("neuron network population fitness mutation layer training evolution weights crossover gradient"),
    "math.ST": _words("estimator variance likelihood sample prior posterior regression bootstrap density rate test"),
}
"""Words of the eleven classes of papers; some belong to two."""


def words(rng: random.Random, pattern: str, lists: Lists) -> list[str]:
    """Return the words of `pattern`, its capitals replaced by words that `rng` draws."""
    return [rng.choice(lists[word]) if word in lists else word for word in pattern.split()]


def sentence(rng: random.Random, pattern: str, lists: Lists) -> str:
    """Return `pattern` with its capitals replaced by words that `rng` draws, as an English sentence."""
    made = " ".join(words(rng, pattern, lists))
    return f"{made[0].upper()}{made[1:]}."


def sentences(rng: random.Random, patterns: Sequence[str], lists: Lists, count: int) -> list[str]:
    """Return `count` sentences of random patterns."""
    return [sentence(rng, rng.choice(patterns), lists) for _ in range(count)]
