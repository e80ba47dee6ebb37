"""What the advised study says of a user's texts: for every file that is accepted, its preparation succeeds."""

import csv
import json
import re
import tempfile
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lib.advice.columns import OwnColumns, find_columns
from lib.advice.encoders import SMALL
from lib.advice.preparing import FEWEST_OF_CLASS, PER_CLASS, own_texts
from lib.advice.question import Question
from lib.advice.studies import TEXTS, advised_study
from lib.advice.texts import ngram_settings
from lib.backbones.settings import BACKBONES
from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.preparing.filtering import filter_corpus
from lib.preparing.labelled import prepare_dataset
from lib.preparing.settings.preparation import Preparation
from lib.preparing.settings.sources import Dialect
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


def answer(path, label, column="body"):
    """Return what the advice finds about texts, or the message with which it refuses them."""
    try:
        found = find_columns([path], column, label, None, labelled=label is not None)
        return own_texts([path], column=column, label=label, dialect=found.dialect), ""
    except DataError as error:
        return None, str(error)


def dataset_of(path, own):
    """Return the dataset of the study that is written about texts, read as a user would read it."""
    question = Question("the study", texts=[str(path)])
    body = advised_study(SMALL, question, own, 512, {}, "fp32", ngram_settings(own.texts))
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
        (range(150), "texts.jsonl: 'label' has 150 values in 150 documents, such as '149'. Expected classes"),
        (["one"] * 150, "expected two at least"),
        (["x", {"a": 1}] * 75, "texts.jsonl, document 2: 'label' has .* expected the name"),
    ],
)
def test_a_column_that_has_no_classes_is_refused(tmp_path, values, match):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {n}", "label": value}) + "\n" for n, value in enumerate(values)))
    with pytest.raises(DataError, match=match):
        own_texts([path], column="text", label="label")


WORDS = ("film", "good", "long", "été", "房间很小", "a;b", "it's", "x,y", 'the "best" one')


@st.composite
def any_tables(draw):
    """Names of columns, those of texts and labels, and rows: any order, further columns of ids, prices and sources."""
    number = draw(st.integers(40, 80))
    classes = draw(st.lists(LABELS, min_size=2, max_size=4, unique_by=cell_text))
    text, label = draw(st.sampled_from(["body", "text", "Review"])), draw(st.sampled_from(["class", "label", "stars"]))
    drawn = {
        text: [
            " ".join(draw(st.lists(st.sampled_from(WORDS), min_size=6, max_size=9))) + f" {n}" for n in range(number)
        ],
        label: [classes[n % len(classes)] for n in range(number)],
    }
    further = {
        "id": [f"doc-{n}" for n in range(number)],
        "price": [f"{n}.5" for n in range(number)],
        "source": ["the web"] * number,
    }
    names = draw(st.permutations([text, label, *draw(st.lists(st.sampled_from(sorted(further)), unique=True))]))
    return names, text, label, [[(drawn | further)[name][n] for name in names] for n in range(number)]


def write_as(suffix, folder, names, rows):
    """Write rows in a format, as pandas would."""
    path, frame = Path(folder) / f"texts{suffix}", pd.DataFrame(rows, columns=names)
    if suffix.startswith(".csv"):
        frame.to_csv(path, index=False)
    elif suffix == ".tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True, force_ascii=False)
    else:
        frame.to_parquet(path)
    return path


@given(any_tables(), st.sampled_from([".csv", ".csv.gz", ".tsv", ".jsonl", ".parquet"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_columns_of_text_and_label_are_found_in_every_format_as_if_they_were_named(table, suffix):
    names, text, label, rows = table
    with tempfile.TemporaryDirectory() as folder:
        path = write_as(suffix, folder, names, rows)
        _, refusal = answer(path, label, text)
        if "set 'dialect.quotes'" in refusal:  # quotation marks between tabs may be of the text or of the table
            with pytest.raises(DataError, match=re.escape(refusal)):
                find_columns([path], None, None, None)
            return
        found = find_columns([path], None, None, None)
        assert (found.text, found.label) == (text, label)
        assert [f"`{name}` was taken" in note for name, note in zip((text, label), found.notes, strict=True)] == [
            True
        ] * 2
        assert find_columns([path], text, label, None).notes == ()
        assert find_columns([path], None, None, None, labelled=False).label is None
        assert answer(path, found.label, found.text) == answer(path, label, text)


@given(tables(), st.sampled_from([",", ";", "\t", "|"]))
@example([[f"the film {number}", name] for number in range(10) for name in ("1", "1.0")], ",")  # one class
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_columns_of_any_accepted_file_are_found_or_asked_for(rows, delimiter):
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, rows, delimiter)
        found = find_columns([path], None, None, None)
        assert found.text == "body"
        labels = [name for _, name in rows if name]
        classes = set(map(cell_text, labels))
        if found.label is None:
            assert len(classes) < 2 or len(labels) < PER_CLASS * len(classes)
            assert "No other column has" in found.notes[1]
            assert "`class`" in found.notes[1]
        else:
            assert found.label == "class"
            assert answer(path, label=found.label) == answer(path, label="class")


@pytest.mark.parametrize(
    ("columns", "flag", "named"),
    [
        ({"question": "how long is it {}", "answer": "it is so long {}", "class": "ab"}, "--column", "question"),
        ({"body": "a long text with words {}", "class": "ab", "year": "12"}, "--label", "class"),
    ],
)
def test_several_columns_that_may_be_meant_are_named_with_the_flag_that_decides(tmp_path, columns, flag, named):
    rows = [[value.format(n) if "{}" in value else value[n % 2] for value in columns.values()] for n in range(60)]
    path = write_as(".csv", tmp_path, list(columns), rows)
    with pytest.raises(DataError, match=f"(?s){path.name}.*'{named}'.*{flag}.*{', '.join(map(repr, columns))}"):
        find_columns([path], None, None, None)


def test_labels_in_order_and_numbers_of_many_values_are_read_to_the_end_of_all_files(tmp_path):
    """A thousand rows of one class come first, and a column of few values in them has more later."""
    one = write_as(".csv", tmp_path, ["text", "y", "n"], [[f"text {n}", "no", "1"] for n in range(1500)])
    (tmp_path / "more").mkdir()
    more = write_as(".csv", tmp_path / "more", ["text", "y", "n"], [[f"text {n}", "yes", n] for n in range(150)])
    assert find_columns([one, more], None, None, None).label == "y"


def test_folders_are_labels_and_plain_text_has_none(tmp_path):
    files = []
    for folder in ("neg", "pos"):
        (tmp_path / folder).mkdir()
        files += [tmp_path / folder / f"{number}.txt" for number in range(30)]
    for number, file in enumerate(files):
        file.write_text(f"some text {number}")
    dialect = Dialect(document="file")
    found = find_columns(files, None, None, dialect)
    own = own_texts(files, column=found.text, label=found.label, dialect=dialect)
    assert own.classes == {"neg": 30, "pos": 30}
    assert "names of the folders" in found.notes[0]
    assert find_columns(files[:1], None, None, None).label is None
    assert "no labels" in find_columns(files[:1], None, None, None).notes[0]


REVIEWS = [[f"Der Film Nummer {n} war für mich {'gut' if n % 2 else 'schlecht'}", "ab"[n % 2]] for n in range(60)]
COMMAS = [[f"{text}, ja", label] for text, label in REVIEWS]


def as_table(folder, names, rows, delimiter, encoding="utf-8", **options):
    path = Path(folder) / "reviews.csv"
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter, **options).writerows([names, *rows])
    return path


@pytest.mark.parametrize("rows", [REVIEWS, COMMAS], ids=["plain", "commas"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["windows-1252", "utf-16", "utf-8"])
def test_a_table_is_read_with_the_settings_that_are_given_and_those_that_are_found(tmp_path, rows, delimiter, encoding):
    path, dialect = as_table(tmp_path, ["Rezension", "Urteil"], rows, delimiter, encoding), Dialect(encoding=encoding)
    found = find_columns([path], None, None, dialect)
    assert (found.text, found.label) == ("Rezension", "Urteil")
    own = own_texts([path], column=found.text, label=found.label, dialect=found.dialect)
    assert own.classes == {"a": 30, "b": 30}
    assert set(own.texts) <= {text for text, _ in rows}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_columns_with_the_same_name_do_not_hide_the_others(tmp_path, delimiter):
    path = as_table(tmp_path, ["", "", "text", "label"], [["", "", *row] for row in REVIEWS], delimiter)
    found = find_columns([path], None, None, None)
    assert (found.text, found.label) == ("text", "label")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_single_column_that_may_be_several_is_refused_with_the_delimiter(tmp_path, delimiter):
    path = tmp_path / "reviews.csv"
    lines = [f"film {n}{delimiter} good {delimiter}a" if n % 3 else f"film {n}{delimiter}b" for n in range(60)]
    path.write_text("\n".join([f"text{delimiter}label", *lines]))
    if delimiter == ",":  # by default, it has two columns
        assert find_columns([path], "text", "label", None) == OwnColumns("text", "label", Dialect())
        return
    with pytest.raises(DataError, match=r"single column.*--dialect") as refusal:
        find_columns([path], None, None, None)
    dialect = Dialect.model_validate(yaml.safe_load(re.search(r"--dialect '(.*?)'", str(refusal.value))[1]))
    assert dialect.delimiter == delimiter
    with pytest.raises(DataError, match="has 3 fields; expected 2"):
        own_texts([path], column="text", label="label", dialect=dialect)


def test_texts_in_a_single_column_are_said_to_have_no_labels(tmp_path):
    found = find_columns([as_table(tmp_path, ["text"], [[text] for text, _ in REVIEWS], ",")], None, None, None)
    assert (found.text, found.label) == ("text", None)
    assert "no labels (the file has one column)" in found.notes[-1]


@pytest.mark.parametrize("name", ["label", "urteil"])
@pytest.mark.parametrize("row", [0, 1, 59])
def test_bytes_of_another_encoding_outside_of_texts_are_named(tmp_path, row, name):
    """They are in the name of a column, above texts in ASCII, or in a label."""
    rows = [["text", name], *([f"film {n} was fine", "ab"[n % 2]] for n in range(60))]
    rows[row][1] = "né"
    path = tmp_path / "reviews.csv"
    path.write_text("\n".join(map(",".join, rows)), encoding="windows-1252")
    with pytest.raises(DataError, match="the byte 0xE9, which is not utf-8.*'dialect.encoding'"):
        own_texts([path], column="text", label=find_columns([path], None, None, None).label)


def test_a_list_in_json_is_refused_with_the_form_that_is_read(tmp_path):
    path = tmp_path / "reviews.json"
    path.write_text(json.dumps([{"text": "a", "label": "b"}] * 20))
    with pytest.raises(DataError, match="one object per line"):
        own_texts([path], column=find_columns([path], None, None, None).text, label=None)


TEXT = "the film was good and long, said {n} of us who saw it in the town where it was made"
NEWS = '"{a}","Title {n}","' + TEXT + '"'
TWEETS = '"{b}","{n}","Mon Apr 06","NO_QUERY","user{n}","' + TEXT + '"'
BOTH = "--dialect '{columns: [label, text]}'; if not, name two by --column and --label"
SEVERAL = "several labels per document are not supported yet"


def csv_of(*labels):
    return "text,label\n" + "".join(f'"{TEXT.format(n=n)}","{labels[n % len(labels)]}"\n' for n in range(60))


def text_of(line):
    return "".join(line.format(n=n, a=3 - n // 20, b=4 * (n // 30), c=["ham", "spam"][n % 2]) + "\n" for n in range(60))


SEEN = {
    "AG News": ({"train.csv": text_of(NEWS)}, f"'3' is the name of a column and its value in 19 of.*{re.escape(BOTH)}"),
    "Sentiment140": ({"a.csv": text_of(TWEETS)}, r"is the name of a column and its value in [25]9 of the first 59"),
    "spam": (
        {"spam.tsv": text_of("{c}\t" + TEXT)},
        "'ham' is the name of a column and its value in 29 of the first 59",
    ),
    "case": ({"a.csv": csv_of("Good", "good", "bad")}, r"^'Good' \(20\) and 'good' \(20\) are classes of their own"),
    "invisible": (
        {"a.csv": csv_of("pro", "contra", "contra\u200b")},
        r"^'contra' \(20\) and 'contra\\u200b' \(20\) are",
    ),
    "width": ({"a.csv": csv_of("\uff21 b", "A  b", "c")}, r"^'\uff21 b' \(20\) and 'A  b' \(20\) are"),
    "a;b": ({"a.csv": csv_of("a", "b", "a;b")}, f"'label' has 'a;b'; {SEVERAL}"),
    "a|b": ({"a.csv": csv_of("a|b", "a", "b|a|c", "c")}, f"'label' has 'a|b'; {SEVERAL}".replace("|", r"\|")),
    "list in text": ({"a.csv": csv_of("['a', 'b']", "['a']")}, rf"'label' has .\['a', 'b'\].; {SEVERAL}"),
    "list": ({"a.jsonl": text_of('{{"text": "' + TEXT + '", "label": ["a"]}}')}, rf"'label' has \['a'\]; {SEVERAL}"),
    "fastText": ({"a.txt": text_of("__label__{c} " + TEXT)}, "60 of the first 60 texts begin with `__label__`"),
    "file per class": (dict.fromkeys(("pos.txt", "neg.txt"), text_of(TEXT)), r"be classes, as \S+/pos.txt and \S+/neg"),
    "polarity": (dict.fromkeys(("rt.pos", "rt.neg"), text_of(TEXT)), "may be classes, as .*--unlabelled"),
    "table per class": (dict.fromkeys(("a.csv", "b.csv"), csv_of("").replace(",label", ",n")), "may be classes"),
    "folders": (dict.fromkeys(("pos/1.txt", "neg/2.txt"), text_of(TEXT)), r"--dialect '\{document: file\}'"),
    "splits": (dict.fromkeys(("train.csv", "test.csv"), csv_of("a", "b")), "^The files of test and train are joined"),
    "two labels": (
        {"a.csv": "text,label\n" + "one  Text,a\nOne text,b\n" * 3 + csv_of("a", "b").partition("\n")[2]},
        "^6 of 66 documents have the text of another one with another label",
    ),
}
"""Files, and what is asked or said (from its beginning, ^) of them."""


def notes_of(folder, contents, **options):
    """Return what the advice says of files, or the question with which it stops."""
    for name, text in contents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    files = [folder / name for name in contents]
    try:
        found = find_columns(files, None, None, options.get("dialect"), labelled=options.get("labelled", True))
        own = own_texts(files, column=found.text, label=found.label, dialect=found.dialect)
    except DataError as error:
        return str(error)
    return own


@pytest.mark.parametrize("kind", SEEN)
def test_what_may_be_meant_otherwise_is_asked_or_said(tmp_path, kind):
    contents, expected = SEEN[kind]
    found = notes_of(tmp_path, contents)
    if expected.startswith("^"):
        assert any(re.search(expected, note) for note in found.notes), found
    else:
        assert re.search(expected, found), found
        assert str(tmp_path) in found


@pytest.mark.parametrize(
    ("contents", "options", "classes"),
    [
        (SEEN["spam"][0], {"dialect": Dialect(columns=["label", "text"])}, {"ham": 30, "spam": 30}),
        (SEEN["file per class"][0], {"labelled": False}, {}),
        (SEEN["fastText"][0], {"labelled": False}, {}),
        ({f"part{n}.txt": text_of(TEXT) for n in range(2)}, {}, {}),
        ({name: text_of(TEXT) for name in ("train.txt", "dev.txt")}, {}, {}),
        ({"a.csv": csv_of("arts, crafts", "crafts", "sports")}, {}, {"arts, crafts": 20, "crafts": 20, "sports": 20}),
        ({"a.csv": csv_of("uk;news", "us;news", "uk;sport")}, {}, {"uk;news": 20, "uk;sport": 20, "us;news": 20}),
        ({"a.csv": csv_of(*range(6))}, {}, dict.fromkeys("012345", 10)),
    ],
)
def test_what_a_person_has_said_or_has_one_meaning_is_not_asked(tmp_path, contents, options, classes):
    assert notes_of(tmp_path, contents, **options).classes == classes


def test_a_thousand_classes_are_taken_if_there_are_documents_of_each(tmp_path):
    rows = "".join(f"{TEXT.format(n=n)},class {n % 1000}\n" for n in range(10_000)).replace("long, ", "long ")
    (tmp_path / "a.csv").write_text("text,label\n" + rows)
    own = own_texts([tmp_path / "a.csv"], column="text", label="label")
    assert len(own.classes) == 1000
    assert not own.notes
