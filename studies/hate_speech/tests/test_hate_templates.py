"""Posts from templates: labels by hand-made cases, groups with names, and what is refused."""

import random
import re
from collections import Counter

import pytest

from lib.preparing.generators import generator, group_names, options_class, problems_of
from studies.hate_speech.generators.hate_templates import FUNCTIONS

pytestmark = pytest.mark.extended

NAME = "hate_templates"
SIZES = {"validation": 24, "test": 360}
FUNCTION_NAMES = [function.name for function in FUNCTIONS]


def made(documents=450, seed=0, **options):
    """Return the tables that the generator makes, by part."""
    values = SIZES | options
    assert not list(problems_of(NAME, documents, values))
    contents = generator(NAME).make(documents, random.Random(seed), options_class(NAME).model_validate(values))
    return {name.removesuffix(".parquet"): table for name, table in contents.items()}


def problems(documents=450, **options):
    return "\n".join(problems_of(NAME, documents, SIZES | options))


def test_documents_differ():
    tables = made()
    assert {part: len(table["text"]) for part, table in tables.items()} == {"train": 66, "validation": 24, "test": 360}
    texts = [text for table in tables.values() for text in table["text"]]
    assert len(set(texts)) == 450
    assert made() == tables != made(seed=1)


def test_functions_equally_frequent():
    for table in made().values():
        counts = Counter(table["group"])
        assert sorted(counts) == list(range(len(FUNCTIONS)))
        assert max(counts.values()) - min(counts.values()) <= 1
        for label, number in zip(table["label"], table["group"], strict=True):
            assert label == ("hateful" if FUNCTIONS[number].hateful else "non-hateful")
    assert group_names(NAME, SIZES) == FUNCTION_NAMES


def test_label_without_the_identity():
    """The same words about things or bankers are not hateful; said of identities, quoted or negated they differ."""
    documents = 12 * 64
    tables = made(documents, test=documents - 48)
    found = {
        text: (label, FUNCTION_NAMES[number])
        for table in tables.values()
        for text, label, number in zip(table["text"], table["label"], table["group"], strict=True)
    }
    assert len(found) == documents, "all there are"
    assert found["I hate immigrants."] == ("hateful", "hostility")
    assert found["I hate traffic."] == ("non-hateful", "hostility to things")
    assert found["I hate bankers."] == ("non-hateful", "hostility to unprotected groups")
    assert found["I do not hate immigrants."] == ("non-hateful", "negated hostility")
    assert found["My neighbours are immigrants."] == ("non-hateful", "neutral mention")
    assert found['Whoever says "I hate immigrants" should be ashamed.'] == ("non-hateful", "quoted hostility")
    assert found["Women are all stupid."] == ("hateful", "contempt")


@pytest.mark.parametrize(
    ("documents", "options", "message"),
    [
        (384, {}, "documents: 384 leave none for training"),
        (450, {"identities": ["twins"]}, "38 different ones of the function 'hostility', but there are 8. Lower it"),
        (450, {"classes": ["hateful", "hateful"]}, "classes: .* repeats a name"),
    ],
)
def test_templates_refused(documents, options, message):
    assert re.search(message, problems(documents, **options))
