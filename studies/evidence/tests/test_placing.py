"""Placed texts: where the evidence stands, that places differ in order alone, and that splits share no article."""

import json
import random
import runpy
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.core import program
from lib.core.errors import DataError
from lib.core.labels import words
from lib.preparing.folds import SPLITS
from lib.preparing.parts import SCHEMA, part_schema
from lib.preparing.settings.placement import Placement
from lib.reading.words import ends_sentence
from studies.evidence.placing import place_dataset, placed, sentences

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[3]
PLACES = ("start", "middle", "end", "scattered")
SIZES = {"train": 12, "validation": 4, "test": 5}
WORDS = 40

WORD = st.text("ab.!?\"') ", min_size=1, max_size=4).map(str.strip).filter(bool)
TEXTS = st.lists(WORD, min_size=1, max_size=40).map(" ".join)


def marked(sentences_, sign):
    """Return sentences whose words say where they come from."""
    return [[f"{sign}{number}.{place}" for place in range(size)] for number, size in enumerate(sentences_)]


SENTENCES = st.lists(st.integers(1, 9), max_size=12)


@given(TEXTS)
def test_sentences_hold_all_words(text):
    found = sentences(text)
    assert [word for sentence in found for word in sentence] == words(text)
    assert all(found)
    for sentence in found:
        assert not any(map(ends_sentence, sentence[:-1]))
    for sentence in found[:-1]:
        assert ends_sentence(sentence[-1])


@given(SENTENCES, SENTENCES, st.sampled_from(PLACES), st.integers(0, 99))
def test_evidence_placed_loses_nothing(own, others, place, seed):
    evidence, surroundings = marked(own, "e"), marked(others, "s")
    found = placed(evidence, surroundings, place, random.Random(seed))
    assert [each for each in found if each[0][0] == "e"] == evidence
    assert [each for each in found if each[0][0] == "s"] == surroundings


@given(SENTENCES.filter(bool), SENTENCES, st.integers(0, 99))
def test_evidence_at_its_place(own, others, seed):
    evidence, surroundings = marked(own, "e"), marked(others, "s")
    before = {}
    for place in ("start", "middle", "end"):
        found = placed(evidence, surroundings, place, random.Random(seed))
        first = found.index(evidence[0])
        assert found[first : first + len(evidence)] == evidence
        before[place] = sum(map(len, found[:first]))
    total = sum(others)
    assert before["start"] == 0
    assert before["end"] == total
    # No gap between two sentences is nearer to the middle.
    ends = [sum(others[:number]) for number in range(len(others) + 1)]
    assert before["middle"] in ends
    assert abs(before["middle"] - total / 2) == min(abs(end - total / 2) for end in ends)


def test_scattered_sentences():
    """Each gap is as likely as any other: 2,000 draws of 3 sentences among 4 gaps, within 5 standard deviations."""
    evidence, surroundings = marked([1, 1, 1], "e"), marked([1, 1, 1], "s")
    counts = Counter()
    for seed in range(2000):
        passed = 0
        for sentence in placed(evidence, surroundings, "scattered", random.Random(seed)):
            passed += sentence[0][0] == "s"
            counts[passed] += sentence[0][0] == "e"
    assert sum(counts.values()) == 6000
    assert all(abs(counts[gap] - 1500) < 5 * (6000 * 0.25 * 0.75) ** 0.5 for gap in range(4))


def write(folder, *, schema=SCHEMA, text=lambda split, n: f"Own{split}{n} was good. I liked{split}{n} it!", further=()):
    folder.mkdir()
    for split, size in SIZES.items():
        rows = [
            {"id": f"{split}-{n}", "text": text(split, n), "label": n % 2, **dict.fromkeys(further, n)}
            for n in range(size)
        ]
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / f"{split}.parquet")
    return {split: folder / f"{split}.parquet" for split in SIZES}


def write_articles(folder, count=200, files=2):
    """Write articles whose words name them; every tenth one repeats the one before with other white space."""
    paths, number = [], 0
    for file in range(files):
        rows = []
        for _ in range(count // files):
            name = number - (number % 10 == 9)
            space = "\n\n" if number % 10 == 9 else " "
            text = space.join(f"a{name}w{word}{'.' * (word % 5 == 4)}" for word in range(17))
            rows.append({"id": f"a-{number}", "text": text, "label": None})
            number += 1
        paths.append(folder / f"articles-{file}.parquet")
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), paths[-1])
    return paths


def place(tmp_path, prepared, articles, name="out", used=0, **options):
    settings = Placement(**{"corpus": "wikipedia", "place": "middle", "words": WORDS} | options)
    place_dataset(prepared, articles, tmp_path / name, settings, used)
    return {split: pq.read_table(tmp_path / name / f"{split}.parquet").to_pylist() for split in SPLITS}


def articles_in(text):
    return {word[1:].split("w")[0] for word in words(text) if word.startswith("a") and "w" in word}


@pytest.fixture
def files(tmp_path):
    return write(tmp_path / "prepared"), write_articles(tmp_path)


def test_documents_with_text_label_and_length(tmp_path, files):
    prepared, articles = files
    for number in range(4):
        found = place(tmp_path, prepared, articles, f"out-{number}", place=PLACES[number])
        for split in SPLITS:
            original = pq.read_table(prepared[split]).to_pylist()
            assert [(row["id"], row["label"]) for row in found[split]] == [
                (row["id"], row["label"]) for row in original
            ]
            for row, before in zip(found[split], original, strict=True):
                assert len(words(row["text"])) == WORDS == row["text"].count(" ") + 1
                own = [word for word in words(row["text"]) if not word.startswith("a")]
                assert own == words(before["text"])


def test_articles_in_one_document(tmp_path, files):
    used = 25
    found = place(tmp_path, *files, used=used)
    of_documents = [articles_in(row["text"]) for split in SPLITS for row in found[split]]
    counts = Counter(name for names in of_documents for name in names)
    assert max(counts.values()) == 1
    assert all(int(name) >= used for name in counts)
    # A copy of an article in other white space surrounds nothing either, nor does a copy of one that others read.
    assert not {name for name in counts if int(name) % 10 == 9}
    assert not articles_in(" ".join(row["text"] for row in place(tmp_path, *files, "again", used=49)["train"])) & {"48"}


def test_splits_of_the_corpus(tmp_path, files):
    """Documents are dealt articles in a random order, so that test has no other kind of article than training."""
    found = place(tmp_path, *files)
    training, test = (
        [min(int(name) for name in articles_in(row["text"])) for row in found[split]] for split in ("train", "test")
    )
    assert min(test) < max(training)
    assert min(training) < max(test)


def test_files_repeat_by_seed(tmp_path, files):
    first, again, other = (
        place(tmp_path, *files, name, place="scattered", seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first == again
    for split in SPLITS:
        assert (tmp_path / f"a/{split}.parquet").read_bytes() == (tmp_path / f"b/{split}.parquet").read_bytes()
    assert first != other


def test_groups_stay(tmp_path):
    schema = part_schema("class", group=pa.int64())
    prepared = write(tmp_path / "prepared", schema=schema, further=["group"])
    found = place(tmp_path, prepared, write_articles(tmp_path))
    assert [row["group"] for row in found["test"]] == list(range(SIZES["test"]))
    assert pq.read_schema(tmp_path / "out/test.parquet") == schema


def test_text_longer_than_its_document(tmp_path, files):
    with pytest.raises(DataError) as error:
        place(tmp_path, *files, words=5)
    assert "has 6 words, but placement.words is 5" in str(error.value)
    assert "prepared/" in str(error.value)
    assert "max_chars" in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("which", ["documents", "articles"])
def test_file_damaged(tmp_path, files, which):
    prepared, articles = files
    path = prepared["test"] if which == "documents" else articles[0]
    path.write_bytes(b"no Parquet")
    with pytest.raises(DataError, match=path.name):
        place(tmp_path, prepared, articles)


def test_program_of_placing(tmp_path, files):
    prepared, articles = files
    found = place(tmp_path, prepared, articles, used=3)
    main = runpy.run_path(str(ROOT / "studies/evidence/scripts/place_dataset.py"))["main"]
    settings = json.dumps({"corpus": "wikipedia", "place": "middle", "words": WORDS})
    of_splits = [word for split in SPLITS for word in (f"--{split}", str(prepared[split]))]
    arguments = ["--settings", settings, *of_splits, "--articles", *map(str, articles), "--used", "3"]
    assert program.run(main, [*arguments, "--out", str(tmp_path / "program")]) == 0
    for split in SPLITS:
        assert pq.read_table(tmp_path / f"program/{split}.parquet").to_pylist() == found[split]
