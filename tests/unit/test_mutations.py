"""Whatever stands in a configuration or a raw file: it is read, or a clear error says what is wrong with it.

Every example is a valid one with some mutations, drawn the same way each time; `-m slow` draws many more.
"""

import contextlib
import copy
import gzip
import io
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_studies import SMALL

from lib.core.errors import ProjectError
from lib.core.program import read_settings
from lib.preparing.filtering import filter_corpus
from lib.preparing.labelled import prepare_dataset
from lib.preparing.settings.corpus import ArticleFilter
from lib.preparing.settings.preparation import Preparation
from lib.study.configuration import SHIPPED, load_study, merged, read_layers
from lib.workflow.planning.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.extended
EXAMPLES = [
    pytest.param(1, id="few"),
    pytest.param(60, id="many", marks=pytest.mark.slow),
]
"""How many times as many examples as `make test` draws."""


def drawn(examples):
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(max_examples=examples, derandomize=True, database=None, deadline=None, suppress_health_check=checks)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["", "null", "scratch", "sdpa", "imdb", "finetune", "{a}", "../x", "a\nb", "$(id)", "[", "\udc80", "\0", "yes"]
    ),
    st.sampled_from(
        ["1_0", "0o17", "12:30:45", "1e3", "n" * 300, "n" * 5000, "/dev/zero", "{0..99999999}", 2**63, 10**400, 1e300]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


# Configurations


STUDIES = [SMALL, *(merged(read_layers([SHIPPED[f"demo_{name}.yaml"]])) for name in ("toy", "hate_speech"))]


def places(values, path=()):
    """Return the path of everything in nested values."""
    found = [path] if path else []
    items = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, value in items:
        found += places(value, (*path, key))
    return found


def reached(values, path):
    for key in path:
        values = values[key]
    return values


@st.composite
def mutated_studies(draw):
    result = copy.deepcopy(STUDIES[draw(st.sampled_from([0, 0, 0, 1, 2]))])
    for _ in range(draw(st.integers(1, 3))):
        found = places(result)
        if not found:
            break
        *path, last = draw(st.sampled_from(found))
        target = reached(result, path)
        change = draw(st.sampled_from(["value", "value", "delete", "rename", "add", "copy"]))
        if change == "value":
            target[last] = draw(values)
        elif change == "delete":
            del target[last]
        elif change == "copy":
            target[last] = copy.deepcopy(reached(result, draw(st.sampled_from(found))))
        elif isinstance(target, dict):
            name = draw(st.text(max_size=6) | st.sampled_from([str(place[-1]) for place in found]))
            target[name] = target.pop(last) if change == "rename" else draw(values)
    return result


def planned(layers):
    """Ask for what the rules ask for."""
    plan = Plan(load_study(layers))
    plan.check()
    assert plan.report.tables is not None
    assert plan.report.figures is not None
    for run in plan.runs:
        plan.data(run)
        plan.start(run)
        plan.minutes(run)


@pytest.mark.parametrize("times", EXAMPLES)
def test_mutated_configuration_is_read_or_refused(times, monkeypatch):
    monkeypatch.chdir(ROOT)  # where the files are that configurations name

    @drawn(100 * times)
    @given(mutated_studies())
    def check(values):
        with contextlib.suppress(ProjectError):
            planned([("mutated.yaml", values)])

    check()


# Bytes


@st.composite
def mutated_bytes(draw, originals):
    name, data = draw(st.sampled_from(originals))
    data = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 12))
        change = draw(st.sampled_from(["flip", "flip", "replace", "cut", "insert", "repeat", "end"]))
        if change == "flip" and start < len(data):
            data[start] ^= 1 << draw(st.integers(0, 7))
        elif change == "replace":
            data[start : start + length] = draw(st.binary(max_size=12))
        elif change == "cut":
            del data[start : start + length]
        elif change == "insert":
            pieces = [b"</article>", b'"', b",", b"\n", b"&x;", b"<!ENTITY a 'b'>", b"{", b"\xff\xfe", b"\0", b"1e999"]
            data[start:start] = draw(st.binary(max_size=12) | st.sampled_from(pieces))
        elif change == "repeat":
            data[start:start] = data[start : start + 40]
        else:
            del data[start:]
    return name, bytes(data)


@pytest.mark.parametrize("times", EXAMPLES)
def test_mutated_file_of_settings_is_read_or_refused(times, tmp_path):
    originals = [(name, path.read_bytes()) for name, path in sorted(SHIPPED.items()) if name.startswith("demo")]
    for path in SHIPPED.values():  # what they extend
        (tmp_path / path.name).write_bytes(path.read_bytes())

    @drawn(40 * times)
    @given(mutated_bytes(originals))
    def check(file):
        path = tmp_path / "mutated.yaml"
        path.write_bytes(file[1])
        with contextlib.suppress(ProjectError):
            load_study(read_layers([path]))

    check()


ROWS = [{"id": f"d{n}", "text": f"word {n} of <b>some</b> text, é", "label": n % 2, "group": n} for n in range(40)]
ROWS = [row | {"words": [n % 2, None], "spans": [[0, 2 + n % 3]]} for n, row in enumerate(ROWS)]
PREPARATION = {"labels": ["no", "yes"], "id": "id"}
ARTICLE = '<article id="{id}" title="a"><p>{words}</p> between <p>a <a href="b">link</a> after</p></article>\n'
ENTRY = '<article id="{id}" hyperpartisan="{truth}" bias="a"/>\n'


def parquet(rows):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def articles(line):
    rows = [
        line.format(
            id=row["id"],
            words=row["text"].replace("<b>", "").replace("</b>", ""),
            truth=str(bool(row["label"])).lower(),
        )
        for row in ROWS
    ]
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<articles>\n{"".join(rows)}</articles>\n'.encode()


def zipped(name, data):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return file.getvalue()


def raw_files():
    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    table = "id,text,label,group,spans\n"
    table += "".join(f'{row["id"]},"{row["text"]}",{row["label"]},{row["group"]},"{row["spans"]}"\n' for row in ROWS)
    files = [
        ("a.parquet", parquet(ROWS)),
        ("a.jsonl", lines),
        ("a.csv", table.encode()),
        ("a.tsv", table.replace(",", "\t").encode()),
        ("a.xml", articles(ARTICLE)),
        ("a.txt", "\n".join(row["text"] for row in ROWS).encode()),
    ]
    packed = [(f"{name}.gz", gzip.compress(data, mtime=0)) for name, data in files[:2]]
    return [*files, *packed, ("a.csv.zip", zipped("a.csv", table.encode()))]


def prepared(name, data, settings, folder):
    """Prepare a dataset of one file, and filter it as a corpus."""
    path = folder / name
    path.write_bytes(data)
    truth = folder / "truth.xml"
    truth.write_bytes(articles(ENTRY))
    xml = name == "a.xml"
    with contextlib.suppress(ProjectError):
        preparation = read_settings(Preparation, PREPARATION | settings)
        prepare_dataset({"train": [path]}, folder / "out", preparation, {"train": [truth]} if xml else None)
    with contextlib.suppress(ProjectError):
        filter_corpus(path, folder / "filtered.parquet", ArticleFilter(keywords=["word"], min_keywords=1), "train")


LABELS = [
    {},
    {"group": "group"},
    {"label_per": "word", "label": "words"},
    {"label_per": "span", "label": "spans"},
    {"balance": True, "split": {"folds": {"column": "group", "validation": 1, "test": 2}}},
    {"values": {"0": "no", "1": None}, "remove": "<[^>]*>"},
    {"dialect": {"quotes": False, "escape": "backslash", "encoding_errors": "drop"}},
    {"dialect": {"encoding": "utf-16", "encoding_errors": "replace", "delimiter": ","}},
    {"dialect": {"quotechar": "'", "comment": "#", "skiprows": 1}},
    {"dialect": {"document": "file", "encoding": "cp1252"}, "id": None},
]


@pytest.mark.parametrize("times", EXAMPLES)
def test_mutated_raw_file_is_read_or_refused(times, tmp_path):
    @drawn(120 * times)
    @given(mutated_bytes(raw_files()), st.sampled_from(LABELS))
    def check(file, settings):
        prepared(*file, settings, tmp_path)

    check()


@pytest.mark.parametrize("times", EXAMPLES)
def test_raw_file_with_any_value_is_read_or_refused(times, tmp_path):
    @drawn(60 * times)
    @given(st.data())
    def check(data):
        rows = copy.deepcopy(ROWS)
        column = data.draw(st.sampled_from(["id", "text", "label", "group", "words", "spans"]))
        value = data.draw(values)
        for row in rows if data.draw(st.booleans()) else rows[3:4]:
            row[column] = value
        options = data.draw(st.sampled_from(LABELS))
        prepared("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode(), options, tmp_path)
        with contextlib.suppress(pa.ArrowException, ValueError, OverflowError, TypeError):
            prepared("a.parquet", parquet(rows), options, tmp_path)

    check()
