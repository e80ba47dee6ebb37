import json
import logging
import time

import numpy as np
import pytest
from studies import study

from lib.advice.texts import find_tokenizer, language_of, lost, read_sample, token_lengths
from lib.core.errors import DataError, DownloadError
from lib.data.tokenizer import TextTokenizer
from lib.data.vocabularies import from_vocabulary, train_byte_pairs, train_wordpiece
from lib.workflow.plan import Plan


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.jsonl"
    rows = [{"body": f"word{number}", "class": ["no", "yes"][number % 2]} for number in range(200)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_all_documents_are_counted_and_some_are_drawn(texts):
    sample = read_sample([texts], column="body", size=50)
    assert sample.documents == 200
    assert len(set(sample.texts)) == 50
    numbers = [int(text.removeprefix("word")) for text in sample.texts]
    assert min(numbers) < 30  # from everywhere
    assert max(numbers) > 170
    assert read_sample([texts], column="body", size=50) == sample


def test_a_sample_of_few_documents_is_all_of_them(texts):
    assert read_sample([texts], column="body", size=1000).texts == [f"word{number}" for number in range(200)]


def test_labels_are_checked(texts):
    read_sample([texts], column="body", size=10, label="class", labels=["no", "yes"])
    with pytest.raises(DataError, match="the label is 'yes'; expected a number from 0 to 1, one of no, maybe"):
        read_sample([texts], column="body", size=10, label="class", labels=["no", "maybe"])


def test_what_a_limit_loses():
    lengths = np.array([100, 300, 600])
    assert lost(lengths, 300) == pytest.approx((0.3, 1 / 3))
    assert lost(lengths, 600) == (0.0, 0.0)


def test_a_vocabulary_of_the_user_comes_before_the_study_s(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]) + "\n")
    folder = find_tokenizer(Plan(study()), "wordpiece", tmp_path / "made", ["some text"], str(vocabulary))
    assert token_lengths(["a b a", "a"], TextTokenizer.load(folder)).tolist() == [5, 3]


def test_a_vocabulary_that_the_study_trains_is_trained_on_the_texts_until_the_study_has_made_it(tmp_path):
    own = Plan(study(layers=[("own.yaml", {"execution": {"results": str(tmp_path / "results")}})]))
    folder = find_tokenizer(own, "wordpiece", tmp_path / "made", ["good good film"] * 3, None)
    assert folder == tmp_path / "made"
    assert token_lengths(["good film"], TextTokenizer.load(folder)).tolist() == [4]
    made = tmp_path / "results" / "tokenizers" / "wordpiece"
    train_wordpiece(made, ["bad bad play"] * 3)
    assert find_tokenizer(own, "wordpiece", tmp_path / "again", ["good good film"], None) == made


def test_a_published_tokeniser_is_taken_as_it_is(tmp_path):
    train_byte_pairs(tmp_path / "there", ["good film"] * 3)
    published = {"algorithm": "published", "source": "local", "path": str(tmp_path / "there")}
    results = {"execution": {"results": str(tmp_path / "results")}}
    own = Plan(study(("tokenizers/wordpiece", published), layers=[("own.yaml", results)]))
    folder = find_tokenizer(own, "wordpiece", tmp_path / "made", ["good good film"], None)
    assert token_lengths(["good film"], TextTokenizer.load(folder)).tolist() == [4]


def test_a_tokeniser_of_bytes_is_made_from_nothing(tmp_path):
    results = {"execution": {"results": str(tmp_path / "results")}}
    own = Plan(study(("tokenizers/wordpiece", {"algorithm": "bytes"}), layers=[("own.yaml", results)]))
    folder = find_tokenizer(own, "wordpiece", tmp_path / "made", [], None)
    assert token_lengths(["good film"], TextTokenizer.load(folder)).tolist() == [2 + len("good film")]


def test_long_documents_are_counted_whole(tmp_path):
    tokenizer = train_wordpiece(tmp_path / "made", ["good film"] * 3)
    assert token_lengths(["good " * 5000], tokenizer).tolist() == [5002]


def test_a_foreign_language_is_split_up_by_an_english_vocabulary(tmp_path):
    english = ["the film was good and we liked it", "this play is bad and nobody liked it"] * 3
    pieces = [f"##{letter}" for letter in "абвгдеєжзиіїйклмнопрстуфхцчшщьюя"]
    vocabulary = tmp_path / "vocab.txt"
    words = sorted(set(" ".join(english).split()))
    letters = [piece.removeprefix("##") for piece in pieces]
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *letters, *pieces]) + "\n")
    tokenizer = from_vocabulary(vocabulary, tmp_path / "made", True, None, True)
    found = language_of(english, tokenizer)
    assert (found.english, found.split_up, found.tokens_per_word, found.unknown) == (True, False, 1.0, 0.0)
    foreign = language_of(["Сьогодні ввечері український уряд повідомив про нові заходи безпеки"] * 3, tokenizer)
    assert foreign.name == "uk"
    assert not foreign.english
    assert foreign.split_up
    assert foreign.tokens_per_word > 5


def test_a_hub_that_does_not_answer_is_one_message_at_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    hub = {"source": "hub", "repository": "google-bert/bert-base-uncased", "revision": "0" * 40}
    folders = {"execution": {"results": str(tmp_path / "results"), "resources": str(tmp_path / "resources")}}
    own = Plan(study(("tokenizers/wordpiece", hub), layers=[("own.yaml", folders)]))
    begun = time.monotonic()
    with caplog.at_level(logging.WARNING), pytest.raises(DownloadError, match="does not answer") as failure:
        find_tokenizer(own, "wordpiece", tmp_path / "made", ["text"], None)
    assert "Or name a vocab.txt of your own with --vocabulary" in str(failure.value)
    assert "\n" not in str(failure.value)
    assert not caplog.records
    assert time.monotonic() - begun < 10
