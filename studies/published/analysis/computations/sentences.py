"""English sentences whose relations between words are known, since they are generated with them."""

from typing import NamedTuple

import numpy as np

from lib.core.randomness import derive_seed


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


DETERMINERS = ("the", "a", "this", "that", "every", "some")
ADJECTIVES = _words(
    "old young small large quiet happy angry tired famous poor rich clever strange friendly lonely "
    "serious brave calm proud polite"
)
NOUNS = _words(
    "teacher doctor farmer lawyer student driver writer painter singer soldier banker sailor baker hunter "
    "pilot judge nurse clerk guard guest"
)
PLACES = _words(
    "house garden river bridge station market church school village forest window table kitchen office "
    "library hotel street tower field castle"
)
PREPOSITIONS = ("near", "behind", "beside", "from", "by", "across")
VERBS = _words(
    "saw met helped watched followed called thanked visited invited remembered ignored greeted heard "
    "found admired trusted painted praised warned answered"
)
STATES = _words("late early tired ill happy angry sad hungry busy alone ready afraid safe lost wrong right")
CONNECTIVES = ("because", "when", "although", "while", "before", "after")
MEN = _words("king man boy father brother uncle husband son grandfather nephew prince actor")
WOMEN = _words("queen woman girl mother sister aunt wife daughter grandmother niece princess actress")
NAMES = _words(
    "Peter Anna Robert Maria Thomas Laura Daniel Julia Martin Helen Paul Emma George Alice Henry Sarah "
    "Frank Clara Oscar Ruth"
)


class Relation(NamedTuple):
    """One word that belongs to another."""

    kind: str
    """One of `NAMES` of the parameters: `determiner` to noun, `adjective` to noun, `subject` to its verb, `pronoun` to
    antecedent, repeated `name` to its first place."""
    dependent: int
    """Place of the word, counted from 0."""
    head: int
    """Place of the word that it belongs to."""


class Sentence(NamedTuple):
    """Words, a full stop at the end, and the relations between them."""

    words: list[str]
    relations: list[Relation]


def generate(count: int, half: int, seed: int) -> list[Sentence]:
    """Return `count` sentences of one of two halves, which share constructions but few words.

    Nouns, verbs, names and adjectives before nouns are others in each half.

    A third has one clause; a third has two, and a pronoun in the second one, whose gender tells which of two people it
    means, the subject or the object; a third repeats one of two names. Noun phrases have up to two adjectives, and
    subjects may be followed by a phrase of place or by a relative clause, so no relation has one distance.

    Args:
        count: how many.
        half: 0 or 1.
        seed: of the draws.
    """
    makers = (_Maker.plain, _Maker.with_pronoun, _Maker.with_names)
    found = []
    for number in range(count):
        maker = _Maker(half, np.random.default_rng(derive_seed("relations", seed, half, number)))
        makers[number % len(makers)](maker)
        maker.words.append(".")
        found.append(Sentence(maker.words, maker.relations))
    return found


class _Maker:
    """Writes one sentence from left to right."""

    def __init__(self, half: int, generator: np.random.Generator) -> None:
        self.half, self.generator = half, generator
        self.words: list[str] = []
        self.relations: list[Relation] = []

    def plain(self) -> None:
        subject = self.noun_phrase(self.one(NOUNS))
        verb = self.verb_of(subject)
        self.relations.append(Relation("subject", subject, verb))
        self.noun_phrase(self.one(NOUNS))
        if self.chance(0.5):
            self.place()

    def with_pronoun(self) -> None:
        people = [self.one(MEN), self.one(WOMEN)]
        pronouns = ["he", "she"]
        first = int(self.generator.integers(2))
        subject = self.noun_phrase(people[first], determiner="the")
        verb = self.verb_of(subject)
        self.relations.append(Relation("subject", subject, verb))
        other = self.noun_phrase(people[1 - first], determiner="the")
        if self.chance(0.5):
            self.place()
        self.write(self.any(CONNECTIVES))
        meant = int(self.generator.integers(2))  # the subject or the object
        pronoun = self.write(pronouns[first if meant == 0 else 1 - first])
        self.relations.append(Relation("pronoun", pronoun, (subject, other)[meant]))
        self.write("was")
        self.write(self.one(STATES))

    def with_names(self) -> None:
        names = [str(name) for name in self.generator.choice(NAMES[self.half :: 2], 3, replace=False)]
        first = self.write(names[0])
        verb = self.write(self.one(VERBS))
        self.relations.append(Relation("subject", first, verb))
        second = self.write(names[1])
        if self.chance(0.6):
            self.place()
        self.write("and")
        if self.chance(0.5):
            self.write("later")
        meant = int(self.generator.integers(2))
        again = self.write(names[meant])
        self.relations.append(Relation("name", again, (first, second)[meant]))
        verb = self.write(self.one(VERBS))
        self.relations.append(Relation("subject", again, verb))
        self.write(names[2])

    def noun_phrase(self, noun: str, determiner: str | None = None) -> int:
        """Write a determiner, up to two adjectives and a noun; return the place of the noun."""
        adjectives = self.generator.choice(ADJECTIVES[self.half :: 2], int(self.generator.integers(3)), replace=False)
        following = [*map(str, adjectives), noun]
        determiner = determiner or self.any(DETERMINERS)
        places = [self.write("an" if determiner == "a" and following[0][0] in "aeiou" else determiner)]
        places += [self.write(word) for word in following]
        head = places[-1]
        self.relations.append(Relation("determiner", places[0], head))
        self.relations += [Relation("adjective", place, head) for place in places[1:-1]]
        return head

    def place(self) -> None:
        """Write a preposition and a noun phrase."""
        self.write(self.any(PREPOSITIONS))
        self.noun_phrase(self.one(PLACES))

    def verb_of(self, subject: int) -> int:
        """Write optional words between a subject and its verb, then the verb; return the place of the verb."""
        between = int(self.generator.integers(3))
        if between == 1:
            self.place()
        elif between == 2:
            self.write("who")
            self.write(self.one(VERBS))  # of the clause, whose subject is `who`
            self.noun_phrase(self.one(NOUNS))
        return self.write(self.one(VERBS))

    def write(self, word: str) -> int:
        """Write a word and return its place."""
        self.words.append(word)
        return len(self.words) - 1

    def one(self, words: tuple[str, ...]) -> str:
        """Return one of the words that belong to the half."""
        return self.any(words[self.half :: 2])

    def any(self, words: tuple[str, ...]) -> str:
        return str(self.generator.choice(words))

    def chance(self, probability: float) -> bool:
        return bool(self.generator.random() < probability)


def text_of(sentence: Sentence) -> tuple[str, list[tuple[int, int]]]:
    """Return a sentence as text, and where each word begins and ends, in characters."""
    *words, stop = sentence.words
    text, spans = "", []
    for word in words:
        start = len(text) + bool(text)
        text = f"{text} {word}" if text else word
        spans.append((start, len(text)))
    return text + stop, [*spans, (len(text), len(text) + len(stop))]
