import pytest
from text_descriptions import write_texts

from lib.results.scope import Scope
from studies.hate_speech.results.kinds.texts import WordsFigure

pytestmark = pytest.mark.extended


def drawn(share=1, **files):
    scope = Scope(models=[], stages={}, owners={}, texts=list(files), files=list(files.values()))
    return WordsFigure(kind="words", share=share).draw(scope).axes


def shares_of(axes):
    """Return for each line its shares in percent, by the least whole number of a bin."""
    return {
        step.get_gid(): {
            round(start + 0.5): value
            for value, start in zip(step.get_data().values.tolist(), step.get_data().edges, strict=False)
            if value
        }
        for step in axes.patches
    }


def test_panel_per_dataset(tmp_path):
    tweets = [{"split": "train", "words": words} for words in (3, 3, 9, 39)] + [{"words": 0}]
    files = {
        "tweets": write_texts(tmp_path / "tweets.parquet", *tweets),
        "reviews": write_texts(tmp_path / "reviews.parquet", {"words": 90}, {"words": 1}),
    }
    first, second = drawn(**files)
    assert (first.get_title("left"), first.get_xlabel(), first.get_ylabel()) == (
        "tweets", "words", "documents [% per 1 word]",
    )  # fmt: skip
    assert shares_of(first) == {"train": {3: 50, 9: 25, 39: 25}, "test": {0: 100}}
    assert second.get_ylabel() == "documents [% per 3 words]"
    assert shares_of(second) == {"test": {90: 50, 0: 50}}
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["train: 4 documents", "test: 1 documents"]
