"""News articles in the XML of SemEval-2019 task 4; hyperpartisan ones have more loaded and fewer sober words.

Every article has some of both. A tenth of the articles is too short to be kept, and the classes are not balanced.
"""

import gzip
import random
from xml.sax.saxutils import quoteattr

from lib.preparing.english import COMMON, POLITICS, sentence, sentences
from lib.preparing.generators import GeneratorOptions

FILES = {"train": ["articles-training.xml.gz"], "validation": ["articles-validation.xml.gz"]}
GROUND_TRUTH = {"train": ["ground-truth-training.xml.gz"], "validation": ["ground-truth-validation.xml.gz"]}

_PLAIN = (
    "the OFFICE in PLACE spoke about ISSUE in TIME",
    "NAME and NAME asked the OFFICE about ISSUE",
    "people in the ADJ NOUN near PLACE talked about ISSUE",
    "the ADJ NOUN was VERBED in TIME",
)
_TELLING = (
    "NAME saw TONE in the debate on ISSUE",
    "the vote on ISSUE brought TONE to the OFFICE",
    "readers wrote about the TONE at the OFFICE in PLACE",
)
_LOADED_SHARE = (0.3, 0.7)
_SHORT_SHARE = 0.1
_POSITIVE_SHARE = 0.45


def paragraphs(rng: random.Random, label: int, short: bool) -> list[list[str]]:
    """Return an article's sentences by paragraph."""
    lists = COMMON | POLITICS
    found = []
    for _ in range(1 if short else rng.randint(3, 4)):
        made = []
        for pattern in rng.choices(_TELLING, k=3):
            tone = "LOADED" if rng.random() < _LOADED_SHARE[label] else "SOBER"
            made.append(sentence(rng, pattern, lists | {"TONE": POLITICS[tone]}))
        made += sentences(rng, _PLAIN, lists, 1)
        rng.shuffle(made)
        found.append(made)
    return found


def article(rng: random.Random, number: int, label: int) -> str:
    """Return an article as XML, with a link around part of each paragraph, and another one inside the first."""
    short = rng.random() < _SHORT_SHARE
    body = []
    for place, made in enumerate(paragraphs(rng, label, short)):
        linked, rest = made[0], " ".join(made[1:])
        if place == 0:
            first, last = linked.split(" ", 1)
            linked = f'{first} <a href="https://example.org/{number}/inner" type="internal">{last}</a>'
        body.append(f'<p><a href="https://example.org/{number}/{place}" type="external">{linked}</a> {rest}</p>')
    title = quoteattr(sentence(rng, "NAME on ISSUE in PLACE", COMMON | POLITICS))
    head = f'<article id="{number:07d}" published-at="2017-09-{1 + number % 28:02d}" title={title}>'
    return "\n".join([head, *body, "</article>"])


def make(documents: int, rng: random.Random, options: GeneratorOptions) -> dict[str, bytes]:
    """Return articles and ground truth of the training part (seven tenths) and the validation part, as gzipped XML."""
    contents = {}
    border = documents * 7 // 10
    for part, numbers in (("train", range(border)), ("validation", range(border, documents))):
        labels = [rng.random() < _POSITIVE_SHARE for _ in numbers]
        articles = [article(rng, number, label) for number, label in zip(numbers, labels, strict=True)]
        truth = [
            f'<article id="{number:07d}" hyperpartisan="{str(label).lower()}" bias="unknown" labeled-by="publisher"/>'
            for number, label in zip(numbers, labels, strict=True)
        ]
        for (name,), lines in ((FILES[part], articles), (GROUND_TRUTH[part], truth)):
            xml = '<?xml version="1.0" encoding="UTF-8"?>\n<articles>\n' + "\n".join(lines) + "\n</articles>\n"
            # Without a time of its own, gzip writes the clock's, and the same seed would give other bytes.
            contents[name] = gzip.compress(xml.encode(), mtime=0)
    return contents
