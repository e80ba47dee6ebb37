"""The generators of toy tasks: labels by hand-made cases, sizes, splits that share nothing, and what they refuse."""

import itertools
import random
import re
from collections import Counter
from math import comb

import numpy as np
import pytest

from lib.preparing.generators import generator, options_class, problems_of
from studies.toy.generators import brackets, neighbours
from studies.toy.generators.senses import SENSES

pytestmark = pytest.mark.extended

TOYS = ("reverse", "brackets", "copy", "recall", "neighbours", "senses")
PARTS = ("train", "validation", "test")
SIZES = {"validation": 60, "test": 90}
NONE = -100


def made(name, documents=600, seed=0, **options):
    """The rows that a generator makes, by part."""
    values = SIZES | ({"lengths": [5, 10]} if name == "neighbours" else {}) | options
    assert not list(problems_of(name, documents, values))
    contents = generator(name).make(documents, random.Random(seed), options_class(name).model_validate(values))
    return {
        part: [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        for part in PARTS
        for table in [contents[f"{part}.parquet"]]
    }


def everything(parts):
    return [row for part in PARTS for row in parts[part]]


def problems(name, documents=600, **options):
    return "\n".join(problems_of(name, documents, SIZES | options))


@pytest.mark.parametrize("name", TOYS)
def test_documents_repeat_by_generator(name):
    assert made(name) == made(name)
    assert made(name) != made(name, seed=1)


@pytest.mark.parametrize("name", ["reverse", "copy", "recall", "neighbours"])
def test_words_with_labels(name):
    for row in everything(made(name)):
        assert len(row["label"]) == len(row["text"].split())


@pytest.mark.parametrize(
    ("name", "options", "groups"),
    [
        ("copy", {"distances": [3, 10, 20]}, [3, 10, 20]),
        ("recall", {"pairs": [2, 5]}, [2, 5]),
        ("neighbours", {"lengths": [4, 7]}, [4, 7]),
        ("senses", {}, None),
    ],
)
def test_groups_equally_frequent(name, options, groups):
    for rows in made(name, **options).values():
        counts = Counter(row["group"] if groups else row["label"] for row in rows)
        assert sorted(counts) == (groups or [0, 1])
        assert len(set(counts.values())) == 1


def test_sequences_reversed():
    rows = everything(made("reverse", symbols=12, length=3))
    assert {len(row["label"]) for row in rows} == {3}
    for row in rows:
        assert list(map(int, row["text"].split()))[::-1] == row["label"]
    assert {word for row in rows for word in row["text"].split()} == set(map(str, range(12)))


def test_first_symbol_at_its_distance():
    for row in everything(made("copy", distances=[1, 5])):
        words = row["text"].split()
        assert words.index("?") == row["group"] == len(words) - 1
        assert row["label"] == [NONE] * row["group"] + [int(words[0])]


def test_values_of_keys():
    orders = set()
    for row in everything(made("recall", keys=6, values=3, pairs=[2, 6])):
        words, pairs = row["text"].split(), row["group"]
        keys, values, queries = words[0 : 2 * pairs : 2], words[1 : 2 * pairs : 2], words[2 * pairs :]
        assert len(set(keys)) == pairs
        assert sorted(queries) == sorted(keys)
        value_of = dict(zip(keys, values, strict=True))
        assert row["label"][: 2 * pairs] == [NONE] * 2 * pairs
        assert [f"v{label}" for label in row["label"][2 * pairs :]] == [value_of[key] for key in queries]
        orders.add(tuple(keys.index(key) for key in queries) if pairs == 2 else (0, 1))
    assert orders == {(0, 1), (1, 0)}


def test_greatest_number_nearby():
    numbers = [1, 0, 0, 4, 0, 0, 0, 2]
    assert neighbours.greatest_nearby(numbers, 0) == numbers
    assert neighbours.greatest_nearby(numbers, 1) == [1, 1, 4, 4, 4, 0, 2, 2]
    assert neighbours.greatest_nearby(numbers, 2) == [1, 4, 4, 4, 4, 4, 2, 2]
    for row in everything(made("neighbours", reach=1)):
        assert row["label"] == neighbours.greatest_nearby(list(map(int, row["text"].split())), 1)


@pytest.mark.parametrize("reach", [0, 2])
def test_labels_equally_frequent(reach):
    rows = everything(made("neighbours", symbols=4, reach=reach, lengths=[60]))
    inner = [label for row in rows for label in row["label"][2:-2]]
    shares = np.bincount(inner, minlength=4) / len(inner)
    assert shares == pytest.approx(0.25, abs=0.02)


def test_bank_in_every_text():
    telling = [{word for words in lists.values() for word in words} for lists in SENSES.values()]
    places = [Counter(), Counter()]
    lengths = set()
    for row in everything(made("senses", 2000)):
        words = row["text"].split()
        assert words.count("bank") == 1
        assert sum(word in telling[row["label"]] for word in words) == 2
        assert not telling[1 - row["label"]] & set(words)
        assert row["text"] == row["text"].lower()
        places[row["label"]][words.index("bank")] += 1
        lengths.add(len(words))
    assert places[0].keys() == places[1].keys()
    assert 12 <= min(lengths) <= max(lengths) <= 20


# Brackets


def test_balanced_sequences():
    for sequence, expected in {
        "()": True,
        "(())()": True,
        ")(": False,
        "(()": False,
        "())(": False,
        "((": False,
    }.items():
        assert brackets.is_balanced(sequence) == expected
    # Every sequence of three pairs, asked one by one.
    balanced = sum(brackets.is_balanced("".join(each)) for each in itertools.product("()", repeat=6))
    assert brackets.balanced_sequences(3) == balanced == 5
    assert brackets.balanced_sequences(10) == 16_796
    assert brackets.balanced_share(10) == pytest.approx(0.016, abs=5e-5)


def test_brackets_distinct_and_true():
    parts = made("brackets", pairs=6, documents=264, validation=20, test=30)
    rows = everything(parts)
    assert [len(parts[part]) for part in PARTS] == [214, 20, 30]
    texts = [row["text"] for row in rows]
    assert len(set(texts)) == 264
    assert {len(text) for text in texts} == {23}  # 12 brackets and the blanks between
    for row in rows:
        assert brackets.is_balanced(row["text"].replace(" ", "")) == bool(row["label"])
    assert sum(row["label"] for row in rows) == 132 == comb(12, 6) // 7  # all that there are


def test_brackets_as_published():
    n = 33_592
    options = {"as_published": True, "validation": n - int(0.8 * n) - int(0.1 * n) - 1, "test": 3360}
    assert options["validation"] == 3359
    parts = made("brackets", n, passes=2, **options)
    assert [len(parts[part]) for part in PARTS] == [2 * 26_873, 3359, 3360]
    for part, passes in zip(PARTS, (2, 1, 1), strict=True):
        texts = {label: [row["text"] for row in parts[part] if row["label"] == label] for label in (0, 1)}
        assert len(set(texts[1])) == len(texts[1]) / passes
        assert all(brackets.is_balanced(text.replace(" ", "")) for text in texts[1])
    # One pass after the other: the balanced ones again, the random ones anew.
    first, second = parts["train"][:26_873], parts["train"][26_873:]
    same = [one["text"] == two["text"] for one, two in zip(first, second, strict=True)]
    labels = np.array([row["label"] for row in first])
    assert [row["label"] for row in second] == labels.tolist()
    assert np.array(same)[labels == 1].all()
    assert np.array(same)[labels == 0].mean() < 0.001
    every_balanced = {row["text"] for row in everything(parts) if row["label"]}
    assert len(every_balanced) == brackets.balanced_sequences(10)
    # Random ones are called unbalanced whatever they are.
    drawn = [row["text"].replace(" ", "") for row in everything(parts) if not row["label"]]
    found = np.mean([brackets.is_balanced(sequence) for sequence in drawn])
    share = brackets.balanced_share(10)
    assert found == pytest.approx(share, abs=4 * (share / len(drawn)) ** 0.5)


@pytest.mark.parametrize(
    ("documents", "options", "message"),
    [
        (33_594, {}, "documents: half of 33,594 are 16,797 distinct.*pairs = 10 there are 16,796. Lower it to 33,593"),
        (1000, {"pairs": 3, "as_published": True}, "half of 1,000 are 500 distinct .* there are 5. Lower it to 11,"),
    ],
)
def test_brackets_refused(documents, options, message):
    with pytest.raises(AssertionError):
        made("brackets", documents, **options)
    assert re.search(message, problems("brackets", documents, **options))


# All


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("recall", {"pairs": [4, 40]}, "options.pairs: 40 pairs need as many distinct keys, but there are 32"),
        ("copy", {"distances": []}, "options.distances: .*at least 1 item"),
        ("neighbours", {}, "options.lengths: missing"),
        ("reverse", {"symbols": 1}, "options.symbols: .*greater than or equal to 2. Found 1"),
    ],
)
def test_toys_refused(name, options, message):
    assert re.search(message, problems(name, **options))
