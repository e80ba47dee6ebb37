"""Synonyms from a WordNet database: which words they take the place of, and databases that are none."""

import shutil

import numpy as np
import pytest
from wordnets import WORDS, write_wordnet

from lib.core.errors import DataError
from lib.preparing.settings.augmentation import Augmentation
from studies.hate_speech.augmentation.synonyms import Rewriter
from studies.hate_speech.augmentation.words import Request

pytestmark = pytest.mark.extended


def rewriter(source, share=1.0):
    settings = Augmentation(labels=["yes"], by="synonyms", share=share, synonyms={"local": str(source)})
    return Rewriter(settings, [source], "cpu")


def rewritten(rewriter, text, seeds=range(40)):
    return {rewriter.rewrite([Request(text, np.random.default_rng(seed))])[0] for seed in seeds}


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory):
    return write_wordnet(tmp_path_factory.mktemp("wordnet") / "dict")


@pytest.fixture(scope="module")
def synonyms(wordnet):
    return rewriter(wordnet)


def test_synonyms_of_every_sense(synonyms):
    assert rewritten(synonyms, "dog") == {"domestic dog", "hound", "cad"}
    assert rewritten(synonyms, "A DOG, glad.") == {f"A {dog}, happy." for dog in ("DOMESTIC DOG", "HOUND", "CAD")}
    assert rewritten(synonyms, "in boston") == {"in Hub of the Universe"}
    assert rewritten(synonyms, "Operate it") == {"Run it"}


def test_function_words_stay(tmp_path):
    source = write_wordnet(tmp_path / "dict", WORDS | {"noun": [["inch", "in"], ["iodine", "i"], ["dog", "cad"]]})
    assert rewritten(rewriter(source), "I in dog") == {"I in cad"}


def test_share_of_words_replaced(wordnet):
    text = "dog house glad run dog house glad run dog x"
    for result in rewritten(rewriter(wordnet, share=0.2), text, range(10)):
        changed = set(result.split()) - set(text.split())
        assert result != text
        assert len(changed) <= 3  # two words, one of which may become two


def test_text_among_others(synonyms):
    texts = ["dog house", "no such thing as one", "glad dog"]
    together = synonyms.rewrite([Request(text, np.random.default_rng(7)) for text in texts])
    alone = [synonyms.rewrite([Request(text, np.random.default_rng(7))])[0] for text in reversed(texts)]
    assert together == alone[::-1]


def test_archives_read(tmp_path, wordnet):
    archive = shutil.make_archive(str(tmp_path / "words"), "zip", wordnet.parent)
    assert rewritten(rewriter(archive), "home") == {"house"}


def broken(folder, name, content):
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("index.noun", None, "holds no file index.noun. Expected a WordNet database"),
        ("index.verb", "run v\n", "is no whole WordNet database"),
    ],
)
def test_folders_refused(tmp_path, name, content, match):
    source = write_wordnet(tmp_path / "dict")
    broken(source, name, content)
    with pytest.raises(DataError, match=match) as caught:
        rewriter(source)
    assert str(source) in str(caught.value)
