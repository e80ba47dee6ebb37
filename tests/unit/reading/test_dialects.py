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
