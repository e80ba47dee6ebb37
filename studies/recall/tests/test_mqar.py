"""MQAR: the rules of the published generator, the distances of its queries, and that nothing gives an answer away."""

import random
import re
from collections import Counter

import numpy as np
import pytest

from lib.preparing.generators import options_class, problems_of, raw_files
from studies.recall.generators import mqar

SIZES = {"validation": 60, "test": 90}
NONE = -100


def made(documents=600, seed=0, **options):
    """Return the rows by part."""
    values = SIZES | options
    assert not list(problems_of("mqar", documents, values))
    contents = mqar.make(documents, random.Random(seed), options_class("mqar").model_validate(values))
    return {
        file.removesuffix(".parquet"): [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        for file, table in contents.items()
    }


def everything(**options):
    return [row for rows in made(**options).values() for row in rows]


def problems(**options):
    return "\n".join(problems_of("mqar", 600, SIZES | options))


def queries(row):
    """Return where the queries of a text stand."""
    return [place for place, label in enumerate(row["label"]) if label != NONE]


@pytest.mark.parametrize("filler", ["blank", "random"])
def test_label_behind_its_key(filler):
    for row in everything(vocabulary=64, length=32, pairs=[3, 8], filler=filler):
        words, pairs = row["text"].split(), row["group"]
        assert len(words) == len(row["label"]) == 32
        value_of = dict(zip(words[0 : 2 * pairs : 2], words[1 : 2 * pairs : 2], strict=True))
        assert len(value_of) == len(set(value_of.values())) == pairs
        assert all(key.startswith("k") and value.startswith("v") for key, value in value_of.items())
        assert sorted(words[place] for place in queries(row)) == sorted(value_of)
        for place in queries(row):
            assert place >= 2 * pairs
            assert place % 2 == 0
            assert f"v{row['label'][place]}" == value_of[words[place]]


@pytest.mark.parametrize("filler", ["blank", "random"])
def test_keys_twice_and_no_other_answer(filler):
    beside = Counter()
    for row in everything(vocabulary=64, length=32, pairs=[4], filler=filler):
        words = row["text"].split()
        counts = Counter(words)
        assert all(counts[key] == 2 for key in words[0:8:2])
        if filler == "blank":
            assert set(words[8:]) == set(words[0:8:2]) | {"b"}
            assert counts["b"] == 32 - 12
        for place in queries(row):
            neighbours = [words[each] for each in (place - 1, place + 1) if 8 <= each < 32]
            beside["right"] += f"v{row['label'][place]}" in neighbours
            beside["all"] += len(neighbours)
    # Beside a query stands its answer as rarely as any other word of the vocabulary.
    assert beside["right"] / beside["all"] < (0.001 if filler == "blank" else 3 / 64)


@pytest.mark.parametrize("power", [0.01, 1.0])
def test_places_by_the_power_law(power):
    rows = everything(documents=9000, vocabulary=16, length=32, pairs=[1], power=power)
    room = np.arange(1, 16)
    expected = room ** (power - 1.0) / (room ** (power - 1.0)).sum()
    found = np.bincount([(queries(row)[0] - 2) // 2 for row in rows], minlength=15) / len(rows)
    assert found == pytest.approx(expected, abs=0.015)


def test_full_text():
    for row in everything(vocabulary=64, length=32, pairs=[8]):
        assert queries(row) == list(range(16, 32, 2))


def test_groups_equally_frequent():
    parts = made(vocabulary=64, length=32, pairs=[4, 8], documents=1200)
    assert {part: len(rows) for part, rows in parts.items()} == {"train": 1050, "validation": 60, "test": 90}
    for rows in parts.values():
        assert len(set(Counter(row["group"] for row in rows).values())) == 1
    texts = [row["text"] for rows in parts.values() for row in rows]
    assert len(set(texts)) == len(texts)
    assert raw_files("mqar") == {part: [f"{part}.parquet"] for part in ("train", "validation", "test")}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"length": 32, "pairs": [4, 9]}, "9 pairs and their queries need 36 words, but length = 32"),
        ({"vocabulary": 33}, "vocabulary = 33 is odd.*Use 34"),
    ],
)
def test_texts_refused(options, named):
    assert re.search(named, problems(**options))
