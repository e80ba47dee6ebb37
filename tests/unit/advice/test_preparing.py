"""What the advised study says of a user's texts: for every file that is accepted, its preparation succeeds."""

import csv
import re
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.advice.columns import find_columns
from lib.advice.encoders import SMALL
from lib.advice.preparing import FEWEST_OF_CLASS, own_texts
from lib.advice.question import Question
from lib.advice.seen import label_set
from lib.advice.studies import TEXTS, StudySize, advised_study
from lib.advice.texts import ngram_settings
from lib.backbones.settings import BACKBONES
from lib.core.errors import DataError, ProjectError
from lib.core.files import read_mapping
from lib.preparing.filtering import filter_corpus
from lib.preparing.labelled import prepare_dataset
from lib.preparing.settings.preparation import Preparation
from lib.reading.cells import cell_text
from lib.study.configuration import load_study

SCRIPTS = ("the film was good and long", "дуже добрий фільм", "房间很小不干净", "ที่นี่อร่อยบริการดี")
LABELS = st.sampled_from(
    ["no", "off", "1", "1.0", "2", "true", "False", "null", "~", "a: b", "#x", "é", "-1", "0", "3e2"]
)


@st.composite
def tables(draw):
    """Rows of text and label: classes of any size, copies, texts and labels that are missing, any script."""
    names = draw(st.lists(LABELS, min_size=2, max_size=5, unique=True))
    script = draw(st.sampled_from(SCRIPTS))
    sizes = [draw(st.sampled_from([2, 5, 12, 40])) for _ in names]
    rows = [
        [f"{script} {number} {name}", name] for name, size in zip(names, sizes, strict=True) for number in range(size)
    ]
    copies = draw(st.lists(st.integers(0, len(rows) - 1), max_size=20))
    rows += [list(rows[number]) for number in copies]
    rows += [["", names[0]]] * draw(st.integers(0, 3)) + [[f"{script} unlabelled", ""]] * draw(st.integers(0, 3))
    return draw(st.permutations(rows))


def write(folder, rows, dialect=","):
    path = Path(folder) / "my texts (1).csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=dialect).writerows([["body", "class"], *rows])
    return path


def answer(path, label):
    """Return what the advice finds about texts, or the message with which it refuses them."""
    try:
        found = find_columns([path], "body", label, None, labelled=label is not None)
        return own_texts([path], column="body", label=label, dialect=found.dialect), ""
    except DataError as error:
        return None, str(error)


def dataset_of(path, own):
    """Return the dataset of the study that is written about texts, read as a user would read it."""
    question = Question("the study", texts=[str(path)])
    body = advised_study(
        SMALL, {}, question, own, StudySize(512, own.splits["train"]), {}, "fp32", ngram_settings(own.texts)
    )
    experiment = load_study([("texts.yaml", yaml.safe_load(body))]).experiment
    if "tfidf" in experiment.backbones:
        BACKBONES.load("tfidf", "backbone").vectorizer(experiment.backbones["tfidf"]).fit(own.texts)
    return (experiment.datasets or experiment.corpora)[TEXTS]


@given(tables(), st.sampled_from([",", ";", "\t", "|"]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_study_of_labelled_texts_prepares_what_it_says(rows, delimiter):
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, rows, delimiter)
        own, refusal = answer(path, label="class")
        if own is None:
            sizes = Counter(cell_text(name) for text, name in rows if text and name)
            assert "too few" in refusal or "expected two at least" in refusal
            assert sum(size >= FEWEST_OF_CLASS for size in sizes.values()) < 2
            return
        dataset = dataset_of(path, own)
        preparation = Preparation.model_validate(dataset.model_dump(include=set(Preparation.model_fields)))
        prepare_dataset({"train": [path]}, Path(folder) / "out", preparation)
        summary = read_mapping(Path(folder) / "out/summary.json")
        assert {name: split["documents"] for name, split in summary["splits"].items()} == own.splits
        assert len(own.texts) == own.splits["train"]
        assert sum(own.classes.values()) == own.documents
        if any(summary["shared_texts"].values()):
            assert any("have the text of a training document" in note for note in own.notes)


@given(st.lists(st.sampled_from(["", " ", *SCRIPTS]), min_size=1, max_size=40))
@settings(max_examples=15, deadline=None)
def test_study_of_texts_without_labels_keeps_what_it_says(texts):
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, [[text, ""] for text in texts])
        own, refusal = answer(path, label=None)
        if own is None:
            assert "expected at least 10" in refusal or "texts are empty" in refusal
            return
        corpus = dataset_of(path, own)
        filter_corpus(path, Path(folder) / "kept.parquet", corpus.filter)
        kept = len(pd.read_parquet(Path(folder) / "kept.parquet"))
        assert corpus.long.articles + corpus.held_out.articles == kept == own.documents


def sized(**sizes):
    return [[f"text {number} of {name}", name] for name, size in sizes.items() for number in range(size)]


def test_classes_of_few_documents_are_left_out(tmp_path):
    own = own_texts([write(tmp_path, sized(many=100, some=60, five=5, two=2))], column="body", label="class")
    assert own.classes == {"many": 100, "some": 60}
    assert "the study has `labels: [many, some]` and `values: {two: null, five: null}`" in own.notes[0]
    assert own.notes[1] == "Documents left out: 7 without one of these classes."


def test_copies_across_splits_are_dropped_and_counted(tmp_path):
    rows = sized(no=60, yes=60)
    own = own_texts([write(tmp_path, rows + rows[:50])], column="body", label="class")
    assert own.settings["duplicates"] == "drop"
    assert own.documents == 120
    assert "test documents have the text of a training document" in own.notes[0]


def test_labels_are_in_order_of_number_or_alphabet(tmp_path):
    pd.DataFrame({"body": [f"text {n}" for n in range(90)], "class": [10.0, 2.0, 1.0] * 30}).to_parquet(
        tmp_path / "n.parquet"
    )
    own = own_texts([tmp_path / "n.parquet"], column="body", label="class")
    assert own.settings["labels"] == ["1", "2", "10"]
    own = own_texts([write(tmp_path, sized(yes=60, no=60))], column="body", label="class")
    assert own.settings["labels"] == ["no", "yes"]


TEXT = "the film was good and long, said {n} of us who saw it in the town where it was made"
NEWS = "".join(f'"{3 - n // 20}","Title {n}","{TEXT.format(n=n)}"\n' for n in range(60))
BOTH = "--dialect '{columns: [label, text]}'; if not, name two by --column and --label"


def csv_of(*labels):
    return "text,label\n" + "".join(f'"{TEXT.format(n=n)}","{labels[n % len(labels)]}"\n' for n in range(60))


SEEN = {
    "AG News": ({"train.csv": NEWS}, f"'3' is the name of a column and its value in 19 of.*{re.escape(BOTH)}"),
    "case": ({"a.csv": csv_of("Good", "good", "bad")}, r"^'Good' \(20\) and 'good' \(20\) are classes of their own"),
    "splits": (dict.fromkeys(("train.csv", "test.csv"), csv_of("a", "b")), "^The files of test and train are joined"),
    "two signs": ({"a.csv": csv_of("a;b", "a|b", "a", "b")}, r"'label': ';' and '\|' may both be between labels"),
    "two labels": (
        {"a.csv": "text,label\n" + "one  Text,a\nOne text,b\n" * 3 + csv_of("a", "b").partition("\n")[2]},
        "^6 of 66 documents have the text of another one with another label",
    ),
}
"""Files, and what is asked or said (from its beginning, ^) of them."""


def notes_of(folder, contents):
    """Return what the advice says of files, or the question with which it stops."""
    for name, text in contents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    files = [folder / name for name in contents]
    try:
        found = find_columns(files, None, None, None)
        own = own_texts(files, column=found.text, label=found.label, dialect=found.dialect)
    except ProjectError as error:
        return str(error)
    return own


@pytest.mark.parametrize("kind", SEEN)
def test_labels_that_may_be_meant_otherwise_are_asked(tmp_path, kind):
    contents, expected = SEEN[kind]
    found = notes_of(tmp_path, contents)
    if expected.startswith("^"):
        assert any(re.search(expected, note) for note in found.notes), found
    else:
        assert re.search(expected, found), found
        assert str(tmp_path) in found


TOPICS = [["tax"], [], ["trade"], ["tax", "trade"], ["farm", "tax"], ["farm"], ["farm", "tax", "trade"], ["trade"]]
SEVERAL = {
    "lists.jsonl": (list, {}),
    "python.csv": (str, {}),
    "bars.parquet": ("|".join, {"separator": "|"}),
    "commas.csv": (",".join, {"separator": ","}),
    "marks.csv": (None, {"given_as": "columns"}),
}
"""Files, how their documents' labels are written (None = a column of 0 and 1 for each class), and what a study says."""


@pytest.mark.parametrize("name", SEVERAL)
def test_several_labels_are_found_as_they_are_written(tmp_path, name):
    written, label_set = SEVERAL[name]
    sets = [TOPICS[n % len(TOPICS)] for n in range(160)]
    marks = {topic: [int(topic in each) for each in sets] for topic in ("trade", "tax", "farm")}
    labels = {"topics": [written(each) for each in sets]} if written else marks
    frame = pd.DataFrame({"body": [TEXT.format(n=n) for n in range(160)], **labels})
    to_jsonl = partial(frame.to_json, orient="records", lines=True)
    {"csv": frame.to_csv, "parquet": frame.to_parquet, "jsonl": to_jsonl}[name.partition(".")[2]](tmp_path / name)
    columns = find_columns([tmp_path / name], None, None, None)
    own = own_texts([tmp_path / name], column=columns.text, label=columns.label, dialect=columns.dialect)
    assert own.settings["label_set"] == label_set
    assert own.classes == {topic: sum(column) for topic, column in marks.items()}
    assert own.set_sizes == {"0": 20, "1": 80, "2": 40, "3": 20}
    names = own.settings["labels"]
    for text, found in zip(own.texts, own.sample_labels, strict=True):
        assert {names[number] for number in found} == {*sets[int(re.search(r"\d+", text)[0])]}
    assert dataset_of(tmp_path / name, own).label_form == "set"
    assert any("a class each" in note for note in columns.notes) == (written is None)


def test_signs_may_be_parts_of_names():
    cities = ["New York, NY; Boston", "Boston", "New York, NY", "Boston; Reno, NV", "Reno, NV"]
    assert label_set("here", cities).separator == ";"
    for names in (
        ["Food, drink", "Sport", "Politics, home", "Politics, world", ""],
        ["arts", "crafts", "arts, crafts", "Science, general", "Politics, home", "Law, tax"],
    ):
        assert label_set("here", names) is None
