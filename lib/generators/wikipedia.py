"""Encyclopedia articles on films, politics, science and places, in the words that the labelled corpora use.

Those on places hold no keyword of the filter, some others fewer than three.
"""

import random

from lib.generators.imdb import opinions
from lib.preparing.english import COMMON, FILM, POLITICS, TOPICS, sentences
from lib.preparing.generators import GeneratorOptions

FILES = {"train": [f"train-{shard:05d}-of-00003.parquet" for shard in range(3)]}

_PLACES = (
    "the ADJ NOUN in PLACE was VERBED by NAME in TIME",
    "NAME VERBED a ADJ NOUN near the NOUN",
    "in TIME NUMBER people in PLACE saw the ADJ NOUN",
    "the NOUN and the NOUN were VERBED for NUMBER years",
)
_FILMS = (
    "the film by director NAME was shown in PLACE in TIME",
    "the movie won an award for its ASPECT and its ASPECT",
    "critics saw the ASPECT in a ADJ NOUN",
)
_POLITICS = (
    "the OFFICE in PLACE spoke about ISSUE before the election in TIME",
    "the party of NAME saw TONE in the debate on ISSUE",
    "readers wrote about the TONE at the OFFICE in PLACE",
    "the vote on ISSUE brought TONE to the government",
    "the policy on ISSUE brought TONE to the OFFICE",
)
_SCIENCE = (
    "we show that the TERM of the TERM is ADJ in NUMBER cases",
    "the TERM was described by NAME and NAME for a ADJ NOUN",
    "the method for the TERM compares the TERM with the work of NAME",
    "it follows that the TERM and the TERM are ADJ",
    "section NUMBER has a proof on the TERM and an experiment on the TERM",
    "our result on the TERM holds for NUMBER of the ADJ examples and parts",
)
_FEWEST, _MOST = 4, 30


def article(rng: random.Random) -> str:
    """Return the text of an article on a random subject."""
    subject = rng.choices(("place", "film", "politics", "science"), (15, 40, 20, 25))[0]
    count = rng.randint(_FEWEST, _MOST)
    if subject == "place":
        made = sentences(rng, _PLACES, COMMON, count)
    elif subject == "film":
        made = sentences(rng, _FILMS, COMMON | FILM, 1 + count // 4)
        made += opinions(rng, rng.randrange(2), 1 + count // 3)
    elif subject == "politics":
        tone = rng.choice(("LOADED", "SOBER"))
        made = sentences(rng, _POLITICS, COMMON | POLITICS | {"TONE": POLITICS[tone]}, count)
    else:
        made = sentences(rng, _SCIENCE, COMMON | {"TERM": rng.choice(list(TOPICS.values()))}, count)
    made += sentences(rng, _PLACES, COMMON, rng.randint(0, 2))
    return "\n\n".join(" ".join(made[start : start + 5]) for start in range(0, len(made), 5))


def make(documents: int, rng: random.Random, options: GeneratorOptions) -> dict[str, dict[str, list]]:
    """Return the tables of the shards: `id`, `url`, `title`, `text`."""
    tables = {}
    names = FILES["train"]
    for shard, name in enumerate(names):
        ids = [str(number) for number in range(documents) if number * len(names) // documents == shard]
        tables[name] = {
            "id": ids,
            "url": [f"https://example.org/wiki/{id}" for id in ids],
            "title": [f"{rng.choice(COMMON['NAME'])} {id}".capitalize() for id in ids],
            "text": [article(rng) for _ in ids],
        }
    return tables
