"""ListOps: every label is the value of its expression, and expressions are drawn as published."""

import random
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency, ks_2samp

from lib.preparing.generators import problems_of
from studies.lra.generators import listops

PARTS = ("train", "validation", "test")
SIZES = {"validation": 60, "test": 90}


def made(documents=600, seed=0, **options):
    """The rows that the generator makes, by part."""
    values = SIZES | options
    assert not list(problems_of("listops", documents, values))
    contents = listops.make(documents, random.Random(seed), listops.Options.model_validate(values))
    return {
        part: [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        for part in PARTS
        for table in [contents[f"{part}.parquet"]]
    }


def everything(parts):
    return [row for part in PARTS for row in parts[part]]


def test_documents_repeat_by_generator():
    assert made() == made()
    assert made() != made(seed=1)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[SM 8 7 6 ]", 1),
        ("[MED 9 1 4 ]", 4),
        ("[MED 8 0 6 3 ]", 4),
        ("[SM [MAX 1 5 ] [SM 9 9 ] [MED 1 [MIN 8 3 ] 2 ] ]", 5),
    ],
)
def test_value_of_an_expression(expression, value):
    assert listops.value(expression.split()) == value


def arguments(words):
    """The numbers of arguments of the operators, and the levels of the tree."""
    counts, waiting, depth = [], [0], 1
    for word in words:
        if word == "]":
            counts.append(waiting.pop())
        else:
            depth = max(depth, len(waiting))
            waiting[-1] += 1
            if word.startswith("["):
                waiting.append(0)
    assert waiting == [1]
    return counts, depth


def test_expressions_in_bounds():
    rows = everything(made(min_length=8, max_length=40, max_depth=4, max_args=5))
    assert len({row["text"] for row in rows}) == 600
    depths, counts, lengths = set(), Counter(), set()
    for row in rows:
        words = row["text"].split()
        lengths.add(len(words))
        found, depth = arguments(words)
        counts.update(found)
        depths.add(depth)
        assert row["label"] == listops.value(words)
        assert set(words) <= {*listops.OPERATORS, "]", *map(str, range(10))}
    assert (min(lengths), max(lengths)) == (8, 40)
    assert max(depths) == 4
    assert sorted(counts) == [2, 3, 4, 5]


# Long Range Arena

PUBLISHED = {"min_length": 501, "max_length": 1999}
"""More than 500 and fewer than 2,000 words; its other settings are those that `Options` has anyway."""


def published_tree(rng, depth=1):
    """Draw a tree as `generate_tree` of lra_benchmarks/data/listops.py defines it: a digit, or operator and arguments.

    A node is an expression with probability 0.25 above level 10, with 2 to 10 arguments, and a digit otherwise.
    """
    if depth >= 10 or rng.random() > 0.25:
        return rng.randrange(10)
    return rng.choice(["MIN", "MAX", "MED", "SM"]), [published_tree(rng, depth + 1) for _ in range(rng.randint(2, 10))]


def parsed(words):
    """The tree of an expression, read by recursion."""

    def read(place):
        if words[place] in "0123456789":
            return int(words[place]), place + 1
        operator, found, place = words[place].removeprefix("["), [], place + 1
        while words[place] != "]":
            child, place = read(place)
            found.append(child)
        return (operator, found), place + 1

    tree, end = read(0)
    assert end == len(words)
    return tree


def evaluated(tree):
    """The value of a tree by the published definition: the median is numpy's, cut to a whole number."""
    if isinstance(tree, int):
        return tree
    found = [evaluated(child) for child in tree[1]]
    return int({"MIN": min, "MAX": max, "MED": np.median, "SM": lambda values: sum(values) % 10}[tree[0]](found))


def nodes(tree, depth=1):
    """Yield the depth and the number of arguments of every node; 0 for a digit."""
    yield depth, 0 if isinstance(tree, int) else len(tree[1])
    for child in () if isinstance(tree, int) else tree[1]:
        yield from nodes(child, depth + 1)


def words_of(tree):
    return 1 if isinstance(tree, int) else 2 + sum(map(words_of, tree[1]))


def test_long_expressions_by_another_evaluator():
    for row in everything(made(200, **PUBLISHED)):
        tree = parsed(row["text"].split())
        assert row["label"] == evaluated(tree)
        assert 500 < words_of(tree) == len(row["text"].split()) < 2000
        depths, counts = zip(*nodes(tree), strict=True)
        assert max(depths) <= 10
        assert set(counts) <= {0, *range(2, 11)}


def test_long_expressions_as_published():
    """Labels, lengths, depth, operators at the root and arguments against trees by its definition."""
    ours = [(parsed(row["text"].split()), row["label"]) for row in everything(made(800, **PUBLISHED))]
    rng, theirs = random.Random(1), []
    while len(theirs) < 400:
        tree = published_tree(rng)
        if 500 < words_of(tree) < 2000:
            theirs.append((tree, evaluated(tree)))
    lengths = [[words_of(tree) for tree, _ in trees] for trees in (ours, theirs)]
    assert ks_2samp(*lengths).pvalue > 0.01
    labels = [np.bincount([label for _, label in trees], minlength=10) for trees in (ours, theirs)]
    assert chi2_contingency(np.array(labels)).pvalue > 0.01
    roots = [
        [sum(tree[0] == name for tree, _ in trees) for name in ("MIN", "MAX", "MED", "SM")] for trees in (ours, theirs)
    ]
    assert chi2_contingency(np.array(roots)).pvalue > 0.01
    counted = [
        np.bincount([count for tree, _ in trees for _, count in nodes(tree)], minlength=11)[2:]
        for trees in (ours, theirs)
    ]
    shares = [each / each.sum() for each in counted]
    assert shares[0] == pytest.approx(shares[1], abs=0.01)
    for trees in (ours, theirs):
        assert np.mean([max(depth for depth, _ in nodes(tree)) for tree, _ in trees]) > 9.9
    # What the docstring of the generator says: the label of 37 % follows from the first word alone.
    first = Counter((tree[0], label) for tree, label in ours)
    right = sum(max(first[name, label] for label in range(10)) for name in ("MIN", "MAX", "MED", "SM"))
    assert right / len(ours) == pytest.approx(0.37, abs=0.05)


def test_expressions_refused():
    (problem,) = problems_of("listops", 600, SIZES | {"min_length": 200})
    assert "min_length = 200" in problem
