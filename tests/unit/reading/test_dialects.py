"""Tables and texts as others write them: read right by a dialect, or refused with the setting that decides."""

import contextlib
import csv
import gzip
import json
import re

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tables import write_table

from lib.core.errors import DataError
from lib.preparing.filtering import filter_corpus
from lib.preparing.labelled import SPLITS, prepare_dataset
from lib.preparing.settings.corpus import ArticleFilter
from lib.preparing.settings.preparation import Preparation, Split
from lib.preparing.settings.sources import Dialect
from lib.reading.readers import read_records

GLUE = """sentence\tlabel
"Amazing film , said one critic\t1
a plain one\t1
nothing else\t0
He called it a disaster"\t0
"""
ESCAPED = 'text,label\n"He said \\"good\\", and left",1\nplain,0\n'


def write(folder, name, content, encoding="utf-8"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def read(path, *, label="label", labels=("no", "yes"), **options):
    records = read_records({"train": [path]}, label=label, labels=labels if label else (), **options)
    return [(record.text, record.label) for record in records]


def refused(path, match, **options):
    with pytest.raises(DataError, match=match):
        read(path, **options)


# Quotation marks and backslashes


def rows_of_glue():
    return [(text, int(label)) for text, label in (line.split("\t") for line in GLUE.splitlines()[1:])]


@pytest.mark.parametrize("packing", ["", ".gz"])
def test_tsv_that_can_be_read_in_two_ways_is_refused(tmp_path, packing):
    """Read with quotation marks, its first document would end in the last one, with the label of that."""
    path = write(tmp_path, f"raw.tsv{packing}", gzip.compress(GLUE.encode()) if packing == ".gz" else GLUE)
    refused(path, "set 'dialect.quotes'", text="sentence")
    assert read(path, text="sentence", dialect=Dialect(quotes=False)) == rows_of_glue()
    assert read(path, text="sentence", dialect=Dialect(quotes=True)) == [
        (re.search(r'"(.*)"', GLUE, re.DOTALL)[1], 0)
    ]  # fmt: skip


def test_tsv_of_pandas_with_tabs_in_texts_is_refused(tmp_path):
    frame = pd.DataFrame({"text": ['a "b"', "c\td", "e\nf", "plain"], "label": [0, 1, 0, 1]})
    frame.to_csv(tmp_path / "raw.tsv", sep="\t", index=False)
    refused(tmp_path / "raw.tsv", "may be part of the text or of the table")
    rows = list(frame.itertuples(index=False, name=None))
    assert read(tmp_path / "raw.tsv", dialect=Dialect(quotes=True)) == rows
    cut = write(tmp_path, "cut.tsv", 'label\ttext\n1\tplain\n0\t"in the mid')
    refused(cut, "may be part of the text or of the table")


def test_backslashes_that_escape_by_a_setting(tmp_path):
    path = write(tmp_path, "raw.csv", ESCAPED)
    refused(path, "cannot be read|part of the text")
    assert read(path, dialect=Dialect(escape="backslash")) == [('He said "good", and left', 1), ("plain", 0)]
    unquoted = write(tmp_path, "unquoted.csv", "text,label\nfirst\\, and more,1\nplain,0\n")
    refused(unquoted, "line 2: has 3 fields; expected 2")
    assert read(unquoted, dialect=Dialect(escape="backslash")) == [("first, and more", 1), ("plain", 0)]


def test_csv_whose_line_feeds_may_end_rows_is_refused(tmp_path):
    path = write(tmp_path, "raw.csv", 'label,text\n1,"Amazing film\n0,He called it a disaster"\n')
    refused(path, "may be part of the text or of the table.*set 'dialect.quotes'")
    assert read(path, dialect=Dialect(quotes=True)) == [("Amazing film\n0,He called it a disaster", 1)]
    assert read(path, dialect=Dialect(quotes=False)) == [('"Amazing film', 1), ('He called it a disaster"', 0)]
    frame = pd.DataFrame({"text": ["a, b\nc, d", "one\ntwo", "x"], "label": [1, 0, 1]})
    for columns in (["text", "label"], ["label", "text"], ["text"]):
        frame[columns].to_csv(tmp_path / "raw.csv", index=False)
        label = "label" if "label" in columns else None
        assert [text for text, _ in read(tmp_path / "raw.csv", label=label)] == frame["text"].tolist()


# Delimiters, headers, encodings


def test_delimiter_of_another_kind_by_a_setting(tmp_path):
    path = write(tmp_path, "raw.csv", "text;label\na, b;1\nc;0\n")
    refused(path, "has no column 'text', 'label'; it has 'text;label'")
    assert read(path, dialect=Dialect(delimiter=";")) == [("a, b", 1), ("c", 0)]
    path = write(tmp_path, "phrases.txt", "Sales rose@1\nSales, fell@0\n")
    for lacking in (Dialect(columns=["text", "label"]), Dialect(quotes=False), Dialect(escape="backslash")):
        refused(path, "only with 'dialect.delimiter'", dialect=lacking)
    dialect = Dialect(delimiter="@", columns=["text", "label"])
    assert read(path, dialect=dialect) == [("Sales rose", 1), ("Sales, fell", 0)]


SAID = 'He said "so good"; and, left|or\tnot'


@pytest.mark.parametrize(("delimiter", "escape"), [(";", "none"), ("\t", "backslash"), ("|", "none")])
def test_delimiter_quotation_marks_and_escapes_differ(tmp_path, delimiter, escape):
    text = SAID + "\nand came back"
    options = {"doublequote": False, "escapechar": "\\"} if escape == "backslash" else {}
    path = tmp_path / "raw.csv"
    with path.open("w", newline="") as file:
        rows = [["text", "label"], [text, "1"], ["plain", "0"]]
        csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL, **options).writerows(rows)
    refused(path, "cannot be read|has no column")
    dialect = Dialect(delimiter=delimiter, quotes=True, escape=escape)
    assert read(path, dialect=dialect) == [(text, 1), ("plain", 0)]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("'text','label'\n'so, it''s','1'\n'he said \"no\"\nand left','0'\n", {"quotechar": "'"}),
        ('# by us, in 2020\ntext,label\n# "interim\none,1\n#\ntwo,0\n', {"comment": "#"}),
        ("Our texts, 2020\n\ntext,label\none,1\ntwo,0\n", {"skiprows": 2}),
        ("Our texts\n% by us\n'text','label'\n% 1\n'one, two',1\n", {"skiprows": 1, "comment": "%", "quotechar": "'"}),
    ],
)
def test_marks_comments_and_lines_above_as_by_pandas(tmp_path, content, options):
    path = write(tmp_path, "raw.csv", content)
    refused(path, "has no column 'text', 'label'")
    expected = pd.read_csv(path, **options)
    assert read(path, dialect=Dialect(**options)) == list(expected.itertuples(index=False, name=None))


@pytest.mark.parametrize(
    ("delimiter", "spelling", "columns"),
    [(";", "sep={}", None), (",", "SEP={}", ["text", "label"]), ("\t", "\ufeffsep={}", None)],
)
def test_line_that_tells_spreadsheets_the_delimiter(tmp_path, delimiter, spelling, columns):
    lines = [spelling.format(delimiter), *(["text{}label"] if columns is None else []), "one{}1", "two{}0", "three{}"]
    path = write(tmp_path, "a.csv", "".join(line.replace("{}", delimiter) + "\r\n" for line in lines[:-1]))
    dialect = Dialect(delimiter=delimiter, columns=columns)
    assert read(path, dialect=dialect) == [("one", 1), ("two", 0)]
    if columns is None and delimiter != ",":
        refused(path, "no column 'text'", dialect=Dialect())
    path.write_bytes(path.read_bytes() + lines[-1].replace("{}", delimiter).encode() + delimiter.encode())
    refused(path, f"line {len(lines)}: has 3 fields", dialect=dialect)


def test_table_without_header_has_names_of_columns(tmp_path):
    path = write(tmp_path, "raw.tsv", "1.0\tx\tfirst\n0.0\ty\tsecond\n")
    refused(path, "has no column 'text', 'label'.* has them in its first line or in 'dialect.columns'")
    assert read(path, dialect=Dialect(columns=["label", "other", "text"])) == [("first", 1), ("second", 0)]
    refused(path, "line 1: has 3 fields; expected 2", dialect=Dialect(columns=["label", "text"]))
    refused(path, "several columns 'text'", dialect=Dialect(columns=["label", "text", "text"]))


@pytest.mark.parametrize(("delimiter", "mark", "label"), [(",", "\ufeff", "label"), ("\t", "", None)])
def test_header_of_a_joined_file_is_no_document(tmp_path, delimiter, mark, label):
    content = f"{mark}text,label\none,1\n{mark}text,label\ntwo,0\n".replace(",", delimiter)
    path = write(tmp_path, "raw.tsv" if delimiter == "\t" else "raw.csv", content)
    refused(path, "line 3: has the names of the columns.*remove this line", label=label)
    path.write_text("".join(content.splitlines(keepends=True)[place] for place in (0, 1, 3)))
    assert [text for text, _ in read(path, label=label)] == ["one", "two"]
    given = Dialect(columns=["text", "label"])
    refused(path, "line 1: has the names of the columns", label=label, dialect=given)


TEXTS = {"windows-1252": "café — naïve", "utf-16": "тест 测试", "shift_jis": "テスト", "utf-32": "тест"}


@pytest.mark.parametrize(("encoding", "suffix"), zip(TEXTS, (".csv", ".tsv", ".jsonl", ".txt"), strict=True))
def test_encoding_of_another_kind_by_a_setting(tmp_path, encoding, suffix):
    text = TEXTS[encoding]
    content = {
        ".csv": f"text,label\n{text},1\n",
        ".tsv": f"text\tlabel\n{text}\t1\n",
        ".jsonl": json.dumps({"text": text, "label": 1}, ensure_ascii=False) + "\n",
        ".txt": f"{text}\n",
    }[suffix]
    path = write(tmp_path, f"raw{suffix}", content, encoding)
    label = None if suffix == ".txt" else "label"
    refused(path, "has a NUL byte|has at character", label=label)
    assert read(path, label=label, dialect=Dialect(encoding=encoding)) == [(text, label and 1)]


def test_encoding_that_is_wrong_is_named(tmp_path):
    path = write(tmp_path, "raw.csv", "text,label\nж,1\n", "utf-8")
    refused(path, "text in utf-16", dialect=Dialect(encoding="utf-16"))
    refused(write(tmp_path, "bare.txt", "one\ntwo\n", "utf-16-le"), "NUL byte", label=None)
    refused(path, "'text' has at character 1 the byte 0xD0, which is not ascii", dialect=Dialect(encoding="ascii"))
    for encoding in ("klingon", "rot13", "a\0b"):
        with pytest.raises(ValidationError, match="Expected an encoding of texts"):
            Dialect(encoding=encoding)
    for delimiter in ("", ", ", '"', "\n", "\\"):
        with pytest.raises(ValidationError):
            Dialect(delimiter=delimiter)


CELLS = {"text": "a b", "label": "no", "id": "x", "group": "g", "fold": "f"}


@pytest.mark.parametrize(
    ("column", "place", "suffix"),
    [("label", "name", ".csv"), ("id", "value", ".jsonl"), ("group", "value", ".csv"), ("fold", "name", ".jsonl")],
)
def test_bytes_of_another_encoding_are_named_anywhere(tmp_path, column, place, suffix):
    """Also in names of columns above texts in ASCII; the remedy of the message reads the file."""
    names = {key: f"é{key}" if (key, place) == (column, "name") else key for key in CELLS}
    cells = {names[key]: "né" if (key, place) == (column, "value") else cell for key, cell in CELLS.items()}
    lines = [",".join(cells), ",".join(cells.values())] if suffix == ".csv" else [json.dumps(cells, ensure_ascii=False)]
    path = write(tmp_path, f"raw{suffix}", "\n".join(lines), "windows-1252")
    options = {"id": names["id"], "group": names["group"], "fold": names["fold"], "label": names["label"]}
    options["labels"] = [cells[names["label"]], "other"]
    refused(path, r"has at character \d the byte 0xE9, which is not utf-8.*'dialect.encoding'", **options)
    assert read(path, **options, dialect=Dialect(encoding="windows-1252")) == [("a b", 0)]


def half_characters(folder):
    """Return files whose second of three texts has what no text can have, and that character."""
    lines = [json.dumps({"text": text}) for text in ("a", "bc\ud83d!", "e")]
    return {
        write(folder, "raw.jsonl", "\n".join(lines)): r"'text' has at character 3 half of a surrogate pair \(U\+D83D\)",
        write(folder, "raw.csv", b"text\na\nbc\xe9d\ne\n"): "'text' has at character 3 the byte 0xE9",
        write(folder, "raw.tsv", b"text\na\nbc\xe9d\ne\n"): "'text' has at character 3 the byte 0xE9",
        write(folder, "raw.txt", b"a\nbc\xe9d\ne\n"): "'text' has at character 3 the byte 0xE9",
    }


def test_half_a_character_is_refused_replaced_or_dropped(tmp_path, caplog):
    for path, message in half_characters(tmp_path).items():
        refused(path, f"document 2: {message}.*encoding_errors", label=None)
        (first, _), (second, _), (third, _) = read(path, label=None, dialect=Dialect(encoding_errors="replace"))
        assert (first, third) == ("a", "e")
        assert re.fullmatch("bc\ufffd[d!]", second)
        caplog.clear()
        records = list(read_records({"train": [path]}, dialect=Dialect(encoding_errors="drop")))
        assert [(record.id, record.text) for record in records] == [("train-0", "a"), ("train-2", "e")]
        assert f"{path}: dropped 1 documents with characters that cannot be decoded" in caplog.text


# Texts and labels in different files, and folders of classes


def prepared(folder, files, truth=None, **options):
    prepare_dataset(files, folder / "out", Preparation(**{"labels": ["neg", "pos"]} | options), truth)
    return {split: pq.read_table(folder / "out" / f"{split}.parquet").to_pylist() for split in SPLITS}


@pytest.mark.parametrize("given", ["numbers", "names"])
def test_labels_of_another_text_file_go_by_line(tmp_path, given):
    files, truth = {}, {}
    for part in SPLITS:
        files[part] = [write(tmp_path, f"{part}_text.txt", "".join(f"{part} text {n}\n" for n in range(6)))]
        lines = [str(n % 2) if given == "numbers" else ["neg", "pos"][n % 2] for n in range(6)]
        truth[part] = [write(tmp_path, f"{part}_labels.txt", "".join(f"{line}\n" for line in lines))]
    found = prepared(tmp_path, files, truth, split=Split(published=True))
    for part in SPLITS:
        assert [(row["text"], row["label"]) for row in found[part]] == [(f"{part} text {n}", n % 2) for n in range(6)]
    for more, match in (("1\n", "1 entries have no document, such as 'test-6'"), ("", "no entry for the id 'test-5'")):
        truth["test"][0].write_text("".join(f"{n % 2}\n" for n in range(6 if more else 5)) + more)
        with pytest.raises(DataError, match=match):
            prepared(tmp_path, files, truth, split=Split(published=True))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_labels_of_another_table_go_by_id(tmp_path, suffix):
    texts = pd.DataFrame({"id": [f"d{n}" for n in range(40)], "text": [f"text {n}" for n in range(40)]})
    truth = pd.DataFrame({"id": texts["id"], "label": [float(n % 2) for n in range(40)]}).iloc[::-1]
    paths = [tmp_path / f"{name}{suffix}" for name in ("texts", "labels")]
    for frame, path in zip((texts, truth), paths, strict=True):
        write_table(frame, path)
    found = prepared(tmp_path, {"all": [paths[0]]}, {"all": [paths[1]]}, id="id")
    assert {row["id"]: row["label"] for rows in found.values() for row in rows} == {f"d{n}": n % 2 for n in range(40)}


def test_labels_of_another_table_have_their_dialect(tmp_path):
    """As OLID is published: training texts with labels, test texts with a header, and their labels without one."""
    rows = "".join(f'{n}\t"text {n}\t{["OFF", "NOT"][n % 2]}\n' for n in range(40))
    train = write(tmp_path, "train.tsv", f"id\ttweet\tsubtask_a\n{rows}")
    texts = write(tmp_path, "test.tsv", "id\ttweet\n" + "".join(f"{n}\ttext {n}\n" for n in range(40, 60)))
    truth = write(tmp_path, "labels.csv", "".join(f"{n},{['OFF', 'NOT'][n % 2]}\n" for n in reversed(range(40, 60))))
    options = {
        "id": "id",
        "text": "tweet",
        "label": "subtask_a",
        "labels": ["NOT", "OFF"],
        "split": {"held_out": "test"},
    }
    dialects = {"dialect": {"quotes": False}, "ground_truth_dialect": {"columns": ["id", "subtask_a"]}}
    found = prepared(tmp_path, {"train": [train], "test": [texts]}, {"test": [truth]}, **options, **dialects)
    assert [len(found[part]) for part in SPLITS] == [40, 10, 10]
    assert all(row["label"] == (int(row["id"]) + 1) % 2 for rows in found.values() for row in rows)


def folder_of_classes(folder):
    files = {}
    for part in ("train", "test"):
        for label in ("neg", "pos", "unsup"):
            (folder / part / label).mkdir(parents=True)
            for n in range(20):
                (folder / part / label / f"{n}_7.txt").write_text(f"{part} {label} {n}\nsecond line")
        files[part] = sorted((folder / part).glob("*/*.txt"))
    (folder / "train/neg/0_7.txt").write_text("")
    return files


def test_folder_per_class_is_a_dataset(tmp_path):
    """As aclImdb is published."""
    files = folder_of_classes(tmp_path / "aclImdb")
    options = {"dialect": {"document": "file"}, "split": {"held_out": "test"}}
    with pytest.raises(DataError, match="pos/0_7.txt|unsup/0_7.txt.*'unsup'"):
        prepared(tmp_path, files, **options)
    found = prepared(tmp_path, files, **options, values={"unsup": None})
    assert [len(rows) for rows in found.values()] == [39, 20, 20]
    for row in (row for rows in found.values() for row in rows):
        assert row["text"].split()[1] == ["neg", "pos"][row["label"]]
        assert row["text"].endswith("\nsecond line")
    filter_corpus(files["train"][19], tmp_path / "filtered.parquet", ArticleFilter(dialect={"document": "file"}))
    assert pq.read_table(tmp_path / "filtered.parquet")["text"].to_pylist() == ["train neg 9\nsecond line"]


def test_files_of_a_folder_need_no_suffix(tmp_path):
    """As the 20 newsgroups are published."""
    (tmp_path / "sci.med").mkdir()
    path = write(tmp_path / "sci.med", "59284", "Subject: café\n\nHello", "latin-1")
    dialect = Dialect(document="file", encoding="latin-1")
    assert read(path, labels=["sci.space", "sci.med"], dialect=dialect) == [("Subject: café\n\nHello", 1)]
    refused(path, "names no known format", label=None)
    refused(path, "so id cannot be read", dialect=dialect, id="id")


# Any table, against a plain reader


FIELDS = st.text(st.sampled_from('ab "\\,;\té末'), min_size=1, max_size=8).filter(lambda text: text.strip())
TABLES = st.lists(st.tuples(FIELDS, st.integers(0, 1)), min_size=1, max_size=6)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(TABLES, st.sampled_from([".csv", ".tsv"]), st.sampled_from(["quotes", "escapes", "plain"]), st.booleans())
def test_table_is_read_right_or_refused(tmp_path_factory, rows, suffix, kind, last):
    """Python's writer writes it in three dialects; without settings it is read right, or refused."""
    folder = tmp_path_factory.mktemp("table")
    delimiter = "\t" if suffix == ".tsv" else ","
    dialect = {
        "quotes": Dialect(quotes=True, escape="none"),
        "escapes": Dialect(quotes=True, escape="backslash"),
        "plain": Dialect(quotes=False, escape="none"),
    }[kind]
    if kind == "plain":
        rows = [(text.replace(delimiter, " "), label) for text, label in rows]
        if any(not text.strip() for text, _ in rows):
            return
    columns = ["label", "text"] if last else ["text", "label"]
    lines = [columns, *([label, text] if last else [text, label] for text, label in rows)]
    path = folder / f"raw{suffix}"
    with path.open("w", encoding="utf-8", newline="") as file:
        if kind == "plain":
            file.writelines(delimiter.join(map(str, line)) + "\n" for line in lines)
        else:
            escapes = {"doublequote": False, "escapechar": "\\"} if kind == "escapes" else {}
            csv.writer(file, delimiter=delimiter, lineterminator="\n", **escapes).writerows(lines)
    assert read(path, dialect=dialect) == rows
    with contextlib.suppress(DataError):
        assert plain(read(path)) == plain(rows)


def plain(rows):
    """Return documents without the signs that a dialect may take for its own; a setting decides about these."""
    return [(text.replace("\\", "").replace('"', ""), label) for text, label in rows]
