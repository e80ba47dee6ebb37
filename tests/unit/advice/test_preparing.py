"""What the advised study says of a user's texts: for every file that is accepted, its preparation succeeds."""

import csv
import json
import tempfile
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.advice.preparing import own_texts
from lib.advice.published import SMALL, TEXTS, published_study
from lib.advice.question import Question
from lib.advice.texts import ngram_settings
from lib.backbones.settings import BACKBONES
from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.data.filtering import filter_corpus
from lib.data.labelled import prepare_dataset
from lib.data.settings.preparation import Preparation
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
        return own_texts([path], column="body", label=label), ""
    except DataError as error:
        return None, str(error)


def dataset_of(path, own):
    """Return the dataset of the study that is written about texts, read as a user would read it."""
    body = published_study(
        Question("the study", texts=[str(path)]), own, SMALL, limit=512, execution={}, precision="fp32",
        ngrams=ngram_settings(own.texts),
    )  # fmt: skip
    experiment = load_study([("texts.yaml", yaml.safe_load(body))]).experiment
    if "tfidf" in experiment.backbones:
        BACKBONES.load("tfidf", "backbone").vectorizer(experiment.backbones["tfidf"]).fit(own.texts)
    return (experiment.datasets or experiment.corpora)[TEXTS]


@given(tables(), st.sampled_from([",", ";", "\t", "|"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_about_labelled_texts_prepares_and_has_the_documents_that_are_said(rows, delimiter):
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, rows, delimiter)
        own, refusal = answer(path, label="class")
        if own is None:
            assert "Add documents" in refusal or "expected two at least" in refusal
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
@settings(max_examples=30, deadline=None)
def test_what_is_written_about_texts_without_labels_asks_for_no_more_than_are_kept(texts):
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


def test_classes_with_too_few_documents_go_where_that_keeps_the_most_training_documents(tmp_path):
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


def test_labels_that_are_numbers_are_in_their_order(tmp_path):
    pd.DataFrame({"body": [f"text {n}" for n in range(90)], "class": [10.0, 2.0, 1.0] * 30}).to_parquet(
        tmp_path / "n.parquet"
    )
    own = own_texts([tmp_path / "n.parquet"], column="body", label="class")
    assert own.settings["labels"] == ["1", "2", "10"]


def test_a_table_that_can_be_read_in_two_ways_is_refused_with_the_option_that_decides(tmp_path):
    path = tmp_path / "glue.tsv"
    path.write_text('body\tclass\n"Amazing film\tyes\nplain\tno\nlong"\tno\n' + "text\tyes\nother\tno\n" * 20)
    with pytest.raises(DataError, match=r"--dialect '\{\.\.\.\}'"):
        own_texts([path], column="body", label="class")
    dialect = Preparation.model_fields["dialect"].annotation.__args__[0].model_validate({"quotes": False})
    assert own_texts([path], column="body", label="class", dialect=dialect).settings["dialect"] == {"quotes": False}


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (range(150), "has more than 100 values"),
        (["one"] * 150, "expected two at least"),
        ([["a"]] * 150, "expected the name"),
    ],
)
def test_a_column_that_has_no_classes_is_refused(tmp_path, values, match):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {n}", "label": value}) + "\n" for n, value in enumerate(values)))
    with pytest.raises(DataError, match=match):
        own_texts([path], column="text", label="label")
