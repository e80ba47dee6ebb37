"""The generators of the arena: labels follow from the words, and no answer stands where its question is."""

import random

from lib.preparing.generators import options_class, problems_of
from studies.arena.generators import fuzzy_recall, selective_copying

SIZES = {"validation": 20, "test": 20}


def rows(generator, **options):
    """Return words and labels of each document."""
    name = generator.__name__.rpartition(".")[2]
    assert not list(problems_of(name, 200, SIZES | options))
    made = generator.make(200, random.Random(1), options_class(name).model_validate(SIZES | options))
    return [(t.split(), row) for table in made.values() for t, row in zip(table["text"], table["label"], strict=True)]


def test_symbols_copied_in_order():
    for words, labels in rows(selective_copying, symbols=5, copied=4, length=20):
        assert len(words) == len(labels) == 20
        assert words[-6] != "b", "a blank comes before a symbol"
        assert words[-5:] == [">", *["?"] * 4]
        assert [f"s{each}" for each in labels[-4:]] == [word for word in words[:-5] if word != "b"]
        assert set(labels[:-4]) == {-100}


def test_values_hidden_behind_their_keys():
    for words, labels in rows(fuzzy_recall, vocabulary=12, longest=3, pairs=3, asked=2):
        start = words.index("?")
        answers = [f"v{label}" if label >= 0 else word for word, label in zip(words, labels, strict=True)]
        assert all((word == "?") == (label >= 0) for word, label in zip(words, labels, strict=True))
        assert not any(word.startswith("v") for word in words[start:])
        pairs = " ".join(answers).replace(" b", "").split()
        text = "".join(
            " " + word if word[0] == "k" and before[0] != "k" else word
            for before, word in zip(["b", *pairs], pairs, strict=False)
        )
        asked = text.split()
        assert len(asked) == 5
        assert set(asked[3:]) <= set(asked[:3])


def test_options_refused():
    assert "need 9. Raise it" in "".join(problems_of("selective_copying", 200, SIZES | {"copied": 4, "length": 8}))
    assert "asked = 9" in "".join(problems_of("fuzzy_recall", 200, SIZES | {"asked": 9}))
