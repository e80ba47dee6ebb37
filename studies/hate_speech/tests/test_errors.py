import pandas as pd
import pytest
from run_records import scope_of, write_predictions, write_run
from text_descriptions import write_texts

from lib.core.errors import DataError
from lib.core.record import RUN
from studies.hate_speech.results.kinds.texts import ErrorsTable

pytestmark = pytest.mark.extended

LABELS = [0, 0, 1, 1, 0, 1, 0, 1]
PREDICTIONS = {
    ("sdpa", 1): [1, 0, 1, 1, 0, 1, 0, 1],
    ("sdpa", 2): [1, 1, 1, 1, 0, 1, 0, 0],
    ("tfidf", 1): [0, 0, 1, 1, 1, 0, 0, 1],
    ("tfidf", 2): [0, 0, 1, 1, 1, 0, 0, 1],
}
WORDS = [3, 4, 6, 6, 10, 12, 20, 30]


@pytest.fixture
def folders(tmp_path):
    return [
        write_predictions(write_run(tmp_path, "finetune", model, "tweets", seed=seed), ["no", "yes"], LABELS, predicted)
        for (model, seed), predicted in PREDICTIONS.items()
    ]


@pytest.fixture
def texts(tmp_path):
    """A description whose ids are those of the predictions; that of training has the same ids as documents of test."""
    documents = [{"id": number, "words": words} for number, words in enumerate(WORDS)]
    documents[4] |= {"near_copy": True, "language": "de"}
    documents[5] |= {"near_copy": True}
    return write_texts(tmp_path / "texts.parquet", *documents, {"id": 0, "words": 900, "split": "train"})


def table(folders, texts, models=("sdpa", "tfidf"), **settings):
    files = [*(folder / RUN for folder in folders), texts]
    scope = scope_of(folders, {"finetune": ["tweets"]}, models, texts=["tweets"], files=files)
    return ErrorsTable(kind="errors", stage="finetune", **settings).make(scope)


def test_error_rates_by_length(folders, texts):
    """Worked out by hand: two documents a quarter."""
    made = table(folders, texts)
    assert made.to_csv() == (
        "model,3 to 4 words,3 to 4 words_sd,6 words,6 words_sd,"
        "10 to 12 words,10 to 12 words_sd,20 to 30 words,20 to 30 words_sd\n"
        "sdpa,75.00,35.36,0.00,0.00,0.00,0.00,25.00,35.36\n"
        "tfidf,0.00,0.00,0.00,0.00,100.00,0.00,0.00,0.00\n"
    )
    assert "   3 to 4 words (n = 2) [%] |" in made.to_markdown()
    assert made.note is None


def test_error_rates_of_copies_and_languages(folders, texts):
    made = table(folders[2:3], texts, ["tfidf"], by="near_copy")
    assert made.to_csv() == "model,no near copy in training,near copy in training\ntfidf,0.00,100.00\n"
    assert made.note.startswith("A near copy shares")
    made = table(folders[2:3], texts, ["tfidf"], by="language")
    assert made.to_csv() == "model,en,de\ntfidf,14.29,100.00\n"
    assert "other" in table(folders[2:3], texts, ["tfidf"], by="language", threshold=0.2).frame


def test_description_of_other_documents(folders, tmp_path):
    texts = write_texts(tmp_path / "texts.parquet", *({"id": number} for number in range(7)))
    with pytest.raises(DataError, match="seed-1: .*document 7.*tweets"):
        table(folders[:1], texts, ["sdpa"])


def test_labels_of_words(folders, texts):
    words = {"id": [0, 7], "label": [[0, 1, None], [1]], "prediction": [[0, 0, 1], [1]], "split": "test"}
    pd.DataFrame(words).to_parquet(folders[0] / "predictions.parquet")
    assert table(folders[:1], texts, ["sdpa"], by="near_copy").to_csv().endswith("sdpa,33.33,\n")
