import pytest
from text_descriptions import write_texts

from lib.results.scope import Scope
from studies.hate_speech.results.kinds.texts import TextsTable

pytestmark = pytest.mark.extended


def table(**files):
    return TextsTable(kind="texts").make(
        Scope(models=[], stages={}, owners={}, texts=list(files), files=list(files.values()))
    )


def test_row_per_dataset_and_split(tmp_path):
    """Worked out by hand; training has no near copies of itself."""
    tweets = write_texts(
        tmp_path / "tweets.parquet",
        {"split": "train", "label": "yes", "words": 1, "near_copy": None},
        *({"split": "train", "words": words, "near_copy": None} for words in (2, 3)),
        {"split": "train", "words": 9, "repeated": True, "near_copy": None},
        {"words": 4, "near_copy": True},
        {"words": 7},
        {"label": "yes", "featureless": True},
    )
    spans = write_texts(tmp_path / "spans.parquet", {"label": None, "words": 700})
    made = table(tweets=tweets, spans=spans)
    assert made.to_csv() == (
        "dataset,split,documents,class_no,class_yes,words_median,words_p95,words_max,repeated,near_copies,featureless\n"
        "tweets,train,4,75.0,25.0,2.5,9,9,1,,0.0\n"
        "tweets,test,3,66.7,33.3,5.0,7,7,0,33.33,33.3\n"
        "spans,test,1,,,700.0,700,700,0,0.00,0.0\n"
    )
    assert made.to_markdown().count("A near copy shares at least 60% of the runs of 1 word") == 1
    assert "near copies of training texts [%] |" in made.to_markdown().splitlines()[0]
