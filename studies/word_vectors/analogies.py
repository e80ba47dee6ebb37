"""Analogies, such as: a man is to a king as a woman is to a queen."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from studies.word_vectors.storage import Vectors

RELATIONS = {
    "gender": (
        "man woman, king queen, father mother, son daughter, brother sister, husband wife, boy girl, actor actress, "
        "prince princess, uncle aunt, he she, his her, male female, nephew niece, grandfather grandmother, duke duchess"
    ),
    "plural": (
        "book books, city cities, school schools, river rivers, team teams, year years, game games, song songs, "
        "church churches, player players, village villages, company companies, film films, member members, "
        "child children, man men, family families"
    ),
    "capital": (
        "Paris France, London England, Berlin Germany, Rome Italy, Madrid Spain, Tokyo Japan, Moscow Russia, "
        "Beijing China, Warsaw Poland, Vienna Austria, Athens Greece, Cairo Egypt, Ottawa Canada, Stockholm Sweden, "
        "Lisbon Portugal, Dublin Ireland, Budapest Hungary, Oslo Norway, Tehran Iran, Kiev Ukraine"
    ),
    "past": (
        "play played, win won, become became, begin began, write wrote, make made, take took, give gave, go went, "
        "come came, lead led, hold held, leave left, find found, build built, receive received, move moved, use used"
    ),
    "comparative": (
        "large larger, small smaller, high higher, low lower, great greater, old older, young younger, long longer, "
        "short shorter, good better, bad worse, strong stronger, late later, early earlier, few fewer, wide wider"
    ),
}
"""Pairs of words by relation. They are our own selection of frequent words, not a published set of questions."""


class Answers(NamedTuple):
    """Answers of vectors about one relation."""

    relation: str
    questions: int
    """Ordered pairs of its pairs."""
    known: int
    """Questions whose four words all have a vector."""
    correct: int
    """Known questions that are answered by the right word."""


def answer(vectors: Vectors) -> list[Answers]:
    """Answer the questions of each relation by vectors: as a is to b, so is c to which word.

    The answer is the word nearest to b - a + c by cosine, other than a, b and c, among all words with a vector. All
    vectors are scaled to length 1 first.

    Source:
        Mikolov et al. 2013 (https://doi.org/10.48550/arXiv.1301.3781), section 4. Lengths are those of word2vec's code.
    """
    keyed, found = vectors.keyed, []
    for relation, listed in RELATIONS.items():
        written = listed.lower() if vectors.lowercase else listed
        pairs = [pair.split() for pair in written.split(", ")]
        questions = [one + other for one, other in itertools.permutations(pairs, 2)]
        known = [words for words in questions if all(word in keyed.key_to_index for word in words)]
        correct = sum(keyed.most_similar([b, c], [a], topn=1)[0][0] == d for a, b, c, d in known)
        found.append(Answers(relation, len(questions), len(known), correct))
    return found
