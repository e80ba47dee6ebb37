"""Raw files of every format, whole and damaged."""

import contextlib
import csv
import gzip
import io
import json
import os
import random
import zipfile

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.core.errors import DataError
from lib.preparing.settings.sources import Dialect
from lib.reading import raw_files
from lib.reading.readers import Record, read_records

ROWS = [
    {"key": "a", "body": "first text, with a comma", "class": "no"},
    {"key": "b", "body": 'second "text"\nover two lines', "class": "yes"},
    {"key": "c", "body": "třetí text\t末", "class": "no"},
]
EXPECTED = [Record("train", row["key"], row["body"], int(row["class"] == "yes")) for row in ROWS]
OPTIONS = {"text": "body", "id": "key", "label": "class", "labels": ["no", "yes"]}

ARTICLES = """<?xml version="1.0" encoding="UTF-8"?><articles>
<article id="0000001" published-at="2017-09-10" title="Not part of the text">
<p>Before <a href="http://x.org" type="external">the link</a> and after.</p> between <p>Second &amp; last.</p>
</article>
<article id="0000002" title="Only a link"><a><p>inside</p></a> behind it</article>
</articles>"""
TRUTH = """<?xml version="1.0" ?><articles>
<article hyperpartisan="false" id="0000002" labeled-by="publisher" url="u"/>
<article hyperpartisan="true" id="0000001" labeled-by="publisher" url="u"/>
</articles>"""


def parquet_bytes(rows, **options):
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, **options)
    return sink.getvalue()


def csv_bytes(rows, delimiter=","):
    sink = io.StringIO(newline="")
    writer = csv.DictWriter(sink, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return sink.getvalue().encode()


def jsonl_bytes(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


CONTENTS = {
    ".parquet": parquet_bytes(ROWS),
    ".csv": csv_bytes(ROWS),
    ".tsv": csv_bytes(ROWS, "\t"),
    ".jsonl": jsonl_bytes(ROWS),
    ".json": jsonl_bytes(ROWS),
}


def write(folder, suffix, content, packing=""):
    """Write `content` plain, gzipped or zipped, and return its path."""
    content = content.encode() if isinstance(content, str) else content
    path = folder / f"raw{suffix}{packing}"
    if packing == ".gz":
        path.write_bytes(gzip.compress(content))
    elif packing == ".zip":
        path = folder / "raw.zip"  # as on Zenodo, whose archives do not tell the format
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for litter in ("__MACOSX/._member", "folder/.DS_Store", "folder/Thumbs.db"):
                archive.writestr(litter, b"not a document")
            archive.writestr(f"folder/member{suffix}", content)
    else:
        path.write_bytes(content)
    return path


def read(path, **options):
    return list(read_records({"train": [path]}, **options))


def refuse(path, match, **options):
    with pytest.raises(DataError, match=match) as caught:
        read(path, **options)
    assert path.name in str(caught.value)


@pytest.mark.parametrize("packing", ["", ".gz", ".zip"])
@pytest.mark.parametrize("suffix", sorted(CONTENTS))
def test_table_is_read_alike_in_every_format(tmp_path, suffix, packing):
    dialect = Dialect(quotes=True) if suffix == ".tsv" else None  # in a TSV, marks may be text
    assert read(write(tmp_path, suffix, CONTENTS[suffix], packing), **OPTIONS, dialect=dialect) == EXPECTED


@pytest.mark.parametrize("packing", ["", ".gz", ".zip"])
def test_text_has_one_document_a_line(tmp_path, packing):
    """A mark of the order of bytes is no text; the last line needs no end; a document without an id has a number."""
    path = write(tmp_path, ".txt", "\ufefffirst\u2028still first\r\n\nthird", packing)
    assert [record.text for record in read(path)] == ["first\u2028still first", "", "third"]
    (tmp_path / "1").mkdir()
    records = read_records({"train": [path, write(tmp_path / "1", ".txt", "c\n")], "test": [path]})
    ids = [f"train-{number}" for number in range(4)] + [f"test-{number}" for number in range(3)]
    assert [record.id for record in records] == ids


@pytest.mark.parametrize("packing", ["", ".zip"])
def test_articles_keep_all_text(tmp_path, packing):
    (tmp_path / "truth").mkdir()
    truth = write(tmp_path / "truth", ".xml", TRUTH, packing)
    path = write(tmp_path, ".xml", ARTICLES, packing)
    records = read(path, label="label", labels=["no", "yes"], ground_truth={"train": [truth]})
    assert records == [
        Record("train", "0000001", "Before the link and after.\nbetween\nSecond & last.", 1),
        Record("train", "0000002", "inside\nbehind it", 0),
    ]
    assert [record.label for record in read(path)] == [None, None]


def test_json_lines_may_leave_out_a_label_but_no_text(tmp_path):
    rows = [{"text": "a", "label": 1}, {"text": "b"}, {"text": "c", "label": None}]
    path = write(tmp_path, ".jsonl", jsonl_bytes(rows))
    kept = read(path, label="label", labels=["no", "yes"], values={"": None})
    assert [record.text for record in kept if record.label is not None] == ["a"]
    refuse(path, "document 2: the label is None", label="label", labels=["no", "yes"])
    path = write(tmp_path, ".jsonl", jsonl_bytes(rows[::-1][1:]))
    refuse(path, "line 1: has no column 'label'", label="label")
    path = write(tmp_path, ".jsonl", jsonl_bytes([*rows, {"Text": "d"}]))
    refuse(path, "line 4: has no column 'text'", label="label", labels=["no", "yes"], values={"": None})


FORMATS = {".parquet": parquet_bytes, ".csv": csv_bytes, ".jsonl": jsonl_bytes}


def of_datasets(path, names, column, **options):
    """Write a table as the library `datasets` does, with the names of classes in the schema, and read it."""
    kind = {"names": names, "_type": "ClassLabel"}
    feature = {"feature": kind, "length": -1, "_type": "Sequence"} if isinstance(column[0], list) else kind
    about = json.dumps({"info": {"features": {"label": feature}}})
    table = pa.table({"text": ["a b", "c d"], "label": column}).replace_schema_metadata({"huggingface": about})
    pq.write_table(table, path)
    return [record.label for record in read(path, label="label", **options)]


@pytest.mark.parametrize(("values", "options"), [([1, 0], {}), ([[1, 0], [0, 0]], {"label_per": "word"})])
def test_schema_with_another_order_of_classes_is_refused(tmp_path, values, options):
    path = tmp_path / "raw.parquet"
    with pytest.raises(DataError, match="raw.parquet: 0 in 'label' is 'pos'") as caught:
        of_datasets(path, ["pos", "neg"], values, labels=["neg", "pos"], **options)
    remedy = json.loads(str(caught.value).split("Expected its order: ")[1][:-1])
    assert of_datasets(path, ["pos", "neg"], values, labels=remedy, **options) == values
    assert of_datasets(path, ["pos", "neg"], values, labels=["good", "bad"], **options) == values


CUT = [(suffix, "") for suffix in (*CONTENTS, ".xml")] + [(".jsonl", ".gz"), (".csv", ".zip"), (".parquet", ".gz")]


@pytest.mark.parametrize(("suffix", "packing"), CUT)
def test_file_that_is_cut_is_refused(tmp_path, suffix, packing):
    """Tables are cut in the quoted field of the second row."""
    content, options = (ARTICLES.encode(), {}) if suffix == ".xml" else (CONTENTS[suffix], OPTIONS)
    whole = write(tmp_path, suffix, content, packing).read_bytes()
    keep = content.index(b"second") + 4 if packing == "" and suffix not in (".parquet", ".xml") else len(whole) * 3 // 5
    path = tmp_path / ("raw.zip" if packing == ".zip" else f"raw{suffix}{packing}")
    path.write_bytes(whole[:keep])
    refuse(path, "[Ee]xpected", **options)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.sampled_from([*sorted(CONTENTS), ".xml", ".txt"]),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 9), st.binary(max_size=6)), min_size=1, max_size=3),
)
def test_file_of_mutated_bytes_is_read_or_refused(tmp_path_factory, suffix, edits):
    """No other error than one that says what is wrong with the file ends the reading."""
    content, options = (CONTENTS[suffix], OPTIONS) if suffix in CONTENTS else (ARTICLES.encode(), {})
    content = bytearray(content)
    for place, removed, added in edits:
        place %= len(content) + 1
        content[place : place + removed] = added
    with contextlib.suppress(DataError):
        read(write(tmp_path_factory.mktemp("mutated"), suffix, bytes(content)), **options)


@pytest.mark.extended
@pytest.mark.parametrize("suffix", [".parquet", ".xml", ".jsonl"])
def test_large_files_are_streamed(tmp_path, suffix):
    generator = random.Random(0)
    rows = [{"text": generator.randbytes(4_000).hex()} for _ in range(15_000)]
    path = tmp_path / f"raw{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=len(rows), compression="none")
    elif suffix == ".jsonl":
        path.write_bytes(jsonl_bytes(rows))
    else:
        articles = "".join(f'<article id="{n}"><p>{row["text"]}</p></article>' for n, row in enumerate(rows))
        path.write_text(f"<articles>{articles}</articles>")
        del articles
    assert path.stat().st_size > 120_000_000
    del rows
    memory = psutil.Process().memory_info
    before = most = memory().rss
    for number, _ in enumerate(read_records({"train": [path]})):
        if number % 100 == 0:
            most = max(most, memory().rss)
    assert number == 14_999
    assert most - before < 80_000_000


BOMB = """<?xml version="1.0"?><!DOCTYPE articles [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<articles><article id="1"><p>&b;</p></article></articles>"""
EXTERNAL = """<?xml version="1.0"?><!DOCTYPE articles [<!ENTITY x SYSTEM "file:///etc/hostname">]>
<articles><article id="1"><p>&x;</p></article></articles>"""


@pytest.mark.parametrize("content", [BOMB, EXTERNAL])
def test_xml_that_refers_to_entities_is_refused(tmp_path, content):
    refuse(write(tmp_path, ".xml", content), "EntitiesForbidden")


NO_NAMES = [["a"], {"a": 1}, True, float("inf"), "x" * 5_000, None, "  "]


@pytest.mark.parametrize("value", NO_NAMES, ids=lambda value: repr(value)[:20])
def test_id_that_is_no_name_is_refused(tmp_path, value):
    path = write(tmp_path, ".jsonl", jsonl_bytes([{"id": value, "text": "first"}]))
    refuse(path, "document 1: the id is .*4096 .*'id'", id="id")
    for name, text in ((7, "7"), (-0.0, "-0.0"), (10**30, str(10**30)), (" a", " a")):
        path = write(tmp_path, ".jsonl", jsonl_bytes([{"id": name, "text": "x"}]))
        assert [record.id for record in read(path, id="id")] == [text]


@pytest.mark.parametrize("line", ['{"text": "a", "text": "b"}', '{"text": "a", "more": {"x": 1, "x": 1}}'])
def test_key_twice_in_json_lines_is_refused(tmp_path, line):
    refuse(write(tmp_path, ".jsonl", f'{{"text": "c"}}\n{line}\n'.encode()), "line 2: has the key '(text|x)' twice")


@pytest.mark.parametrize(
    ("truth", "match"),
    [
        (TRUTH.replace('"0000002"', '"0000003"'), "no entry for the id '0000002'"),
        (TRUTH.replace("</articles>", '<article hyperpartisan="true" id="9"/></articles>'), "no document, such as '9'"),
        (TRUTH.replace('"0000002"', '"0000001"'), "id '0000001' comes twice"),
        (TRUTH.replace('"false"', '"neither"'), "the label is 'neither'"),
        (TRUTH[:120], "cannot be read"),
    ],
)
def test_ground_truth_that_does_not_match(tmp_path, truth, match):
    path = write(tmp_path, ".xml", ARTICLES)
    (tmp_path / "truth.xml").write_text(truth)
    with pytest.raises(DataError, match=match):
        read(path, label="label", labels=["no", "yes"], ground_truth={"train": [tmp_path / "truth.xml"]})


def test_articles_without_ground_truth_or_id_or_article(tmp_path):
    refuse(write(tmp_path, ".xml", ARTICLES), "so label cannot be read", label="label", labels=["no", "yes"])
    refuse(write(tmp_path, ".xml", "<articles><article><p>x</p></article></articles>"), "the id is")
    refuse(write(tmp_path, ".xml", "<html><p>x</p></html>"), "has no <article>")
    refuse(write(tmp_path, ".xml", '<?xml version="1.0" encoding="TTF-8"?><articles/>'), "cannot be read")


def test_id_twice_is_refused(tmp_path):
    path = write(tmp_path, ".csv", csv_bytes([*ROWS, ROWS[0]]))
    refuse(path, "document 4: the id 'a' comes twice", **OPTIONS)
    path = write(tmp_path, ".csv", csv_bytes(ROWS))
    with pytest.raises(DataError, match="document 1: the id 'a' comes twice"):
        list(read_records({"train": [path], "test": [path]}, **OPTIONS))


OF_WORDS = {"label": "label", "labels": ["no", "yes"], "label_per": "word"}
OF_SPANS = {"label": "spans", "labels": ["outside", "inside"], "label_per": "span"}


@pytest.mark.parametrize(
    ("suffix", "content", "match", "options"),
    [
        (".docx", b"x", r"'\.docx' names no known format", {}),
        (".txt", b"", "holds no document", {}),
        (".txt", b"\n  \n", "all 2 texts are empty", {}),
        (".txt", b"x\n", "so label cannot be read", {"label": "label", "labels": ["a", "b"]}),
        (".txt", b"x\n", "so group cannot be read", {"group": "far"}),
        (".txt", b"fine\nna\xefve\n", "document 2: 'text' .* 3 .*0xEF", {}),
        (".csv", b"\xef\xbb\xbf", "has no column 'text'; it has none", {}),
        (".csv", b"text,a,text\nx,y,z\n", "has several columns 'text'", {}),
        (".csv", b"text,label\nx\n", "line 2: has 1 fields", {}),
        (".csv", b"text,label\nx y,0 1\n", "document 1: the labels are '0 1'", OF_WORDS),
        (".jsonl", b"{}\n", "line 1: has no column 'text'", {}),
        (".jsonl", b'{"text": "x"}\n{"text": \n', "line 2: is not JSON", {}),
        (".jsonl", b'["x"]\n', r'line 1: is \["x"\]', {}),
        (".jsonl", b'{"text": 5}\n', "document 1: 'text' has 5", {}),
        (".jsonl", b'{"text": "\\ud800"}\n', r"document 1: .*U\+D800", {}),
        (".jsonl", b'{"text": "x y", "label": [0, 2]}\n', "document 1: the label is 2", OF_WORDS),
        (".jsonl", b'{"text": "x", "far": [1]}\n', "document 1: the group is", {"group": "far"}),
        (".jsonl", b'{"text": "x", "spans": "everywhere"}\n', "document 1 .*'everywhere'", OF_SPANS),
        (".parquet", b"\xff\xfe\x00 noise \x80" * 50, "cannot be read", {}),
    ],
)
def test_file_that_is_damaged_is_named_with_its_place(tmp_path, suffix, content, match, options):
    refuse(write(tmp_path, suffix, content), match, **options)


def parquet_of_copies(rows, characters):
    """Return a Parquet file that holds one text, and says `rows` times that it is the next."""
    text = pa.array(["x" * characters])
    copies = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), text)
    file = io.BytesIO()
    pq.write_table(pa.table({"text": copies}), file, compression="zstd", store_schema=False)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("copies.parquet", parquet_of_copies(rows=12_800, characters=2**23)),  # 532 bytes for 100 GiB
        ("zeros.parquet.gz", gzip.compress(bytes(2**24))),
        ("lines.txt.gz", gzip.compress(b"word " * 20 + b"\n" + (b"x" * 2**16 + b"\n") * 2**8)),
    ],
)
def test_file_that_unpacks_to_far_more_is_refused(tmp_path, monkeypatch, name, content):
    monkeypatch.setattr(raw_files, "_UNPACKED_BYTES", 2**23)
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match="unpacks to more than"):
        list(read_records({"train": [path]}))


def test_path_that_is_no_single_file_is_refused(tmp_path):
    refuse(tmp_path / "none.zip", "FileNotFoundError")
    (tmp_path / "folder.txt").mkdir()
    refuse(tmp_path / "folder.txt", "is a folder, a pipe or a device")
    os.mkfifo(tmp_path / "pipe.txt")  # nobody writes to it, so that opening it would wait for ever
    refuse(tmp_path / "pipe.txt", "is a folder, a pipe or a device")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.txt", "x")
        archive.writestr("b.txt", "x")
    refuse(tmp_path / "two.zip", r"holds 2 files \(a.txt, b.txt\)")


NAMES = [{"text": "a b c", "label": ["no", None, "yes"]}, {"text": "d", "label": [None]}, {"text": "e", "label": []}]
NUMBERS = [{"text": "a b c", "label": [0, -100, 1]}, {"text": "d", "label": [None]}, {"text": "e", "label": []}]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_labels_of_words_are_lists(tmp_path, suffix):
    for rows in (NAMES, NUMBERS):
        path = write(tmp_path, suffix, FORMATS[suffix](rows))
        assert [record.label for record in read(path, **OF_WORDS)] == [[0, -100, 1], [-100], []]


@pytest.mark.parametrize("suffix", FORMATS)
def test_spans_are_pairs_or_their_text(tmp_path, suffix, caplog):
    """The second one overruns its text, the third touches the first, the last holds nothing."""
    spans = [[[3, 5], [8, 14], [5, 7], [10, 10]], None]
    rows = [{"text": "some words", "spans": str(each) if suffix == ".csv" else each} for each in spans]
    rows[1]["spans"] = "" if suffix == ".csv" else None
    path = write(tmp_path, suffix, FORMATS[suffix](rows))
    assert [record.label for record in read(path, **OF_SPANS)] == [[(3, 7), (8, 10)], []]
    assert f"{path}: spans that overran" in caplog.text
    assert "clipped 1, empty 1, united 1" in caplog.text
    read(write(tmp_path, suffix, FORMATS[suffix](rows[1:])), **OF_SPANS)
    assert caplog.text.count("spans that") == 1


@pytest.mark.parametrize(("texts", "labels"), [(".csv", ".parquet"), (".parquet", ".jsonl"), (".jsonl", ".csv")])
def test_labels_by_order_where_a_column_shows_another(tmp_path, texts, labels):
    rows = [{"number": 1, "text": "x", "from": "a"}, {"number": 2, "text": "y", "from": "a"}]
    bodies = write(tmp_path, texts, FORMATS[texts](rows))

    def classes(ids, **settings):
        rows = [{"label": f"c{number}", "from": f"{number}", "number": number} for number in ids]
        truth = write(tmp_path / "truth", labels, FORMATS[labels](rows))
        options = {"label": "label", "labels": ["c1", "c2", "c3"], "ground_truth": {"train": [truth]}}
        return [record.label for record in read(bodies, **options, **settings)]

    (tmp_path / "truth").mkdir()
    assert classes([1, 2]) == [0, 1]
    for ids in ([2, 1], [1, 3]):
        with pytest.raises(DataError, match=f"truth/raw{labels}: .*'number'"):
            classes(ids)
    assert classes([2, 1], id="number") == [0, 1]
