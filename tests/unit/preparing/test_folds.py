"""Folds: from a file or from a column, and what does not match."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from lib.core.errors import DataError
from lib.preparing.labelled import SPLITS, prepare_dataset
from lib.preparing.settings.preparation import Folds, Preparation, Split


def write(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def prepare(tmp_path, rows, folds, **options):
    settings = Preparation(**{"id": "id", "labels": ["no", "yes"], "split": Split(folds=Folds(**folds))} | options)
    prepare_dataset({"all": [write(tmp_path / "raw.parquet", rows)]}, tmp_path / "out", settings)
    return {name: pq.read_table(tmp_path / "out" / f"{name}.parquet")["id"].to_pylist() for name in SPLITS}


def documents(count, **values):
    return [
        {"id": f"d{n}", "text": f"text {n}", "label": n // 5 % 2} | {key: value(n) for key, value in values.items()}
        for n in range(count)
    ]


def fold_file(tmp_path, lines, header="id,fold"):
    path = tmp_path / "folds.csv"
    path.write_text("\n".join([header, *lines, ""]))
    return str(path)


EXPECTED = {
    "train": [f"d{n}" for n in range(20) if n % 5 not in (3, 4)],
    "validation": [f"d{n}" for n in range(20) if n % 5 == 4],
    "test": [f"d{n}" for n in range(20) if n % 5 == 3],
}


def test_folds_of_a_file_or_a_column(tmp_path):
    file = fold_file(tmp_path, [f"{n % 5},d{n}" for n in reversed(range(20))], header="part,id")
    folds = {"file": file, "column": "part", "validation": 4, "test": 3}
    assert prepare(tmp_path, documents(20), folds) == EXPECTED
    for kind in (int, str, float):
        rows = documents(20, fold=lambda n, kind=kind: kind(n % 5))
        assert prepare(tmp_path, rows, {"validation": "4", "test": 3}) == EXPECTED


@pytest.mark.parametrize("value", [["dev"], float("inf")])
def test_fold_that_is_no_name_is_refused(tmp_path, value):
    with pytest.raises(DataError, match="all, document 'd0': .*'fold'"):
        prepare(tmp_path, documents(20, fold=lambda n: value), {"validation": "dev", "test": "True"})


def test_folds_with_names_and_a_limit(tmp_path):
    rows = documents(30, part=lambda n: ["fit", "dev", "eval"][n % 3])
    folds = {"column": "part", "validation": "dev", "test": "eval"}
    assert [len(ids) for ids in prepare(tmp_path, rows, folds).values()] == [10, 10, 10]
    split = Split(folds=Folds(**folds), documents={"train": 4})
    assert [len(ids) for ids in prepare(tmp_path, rows, folds, split=split).values()] == [4, 10, 10]


def test_folds_of_documents_that_are_dropped(tmp_path):
    rows = documents(20)
    rows[0]["text"] = " "
    file = fold_file(tmp_path, [f"d{n},{n % 5}" for n in range(20)])
    found = prepare(tmp_path, rows, {"file": file, "validation": 4, "test": 3})
    assert found["train"] == EXPECTED["train"][1:]


FOLDS = "id,fold\n" + "".join(f"d{n},{n % 5}\n" for n in range(20))
OTHER_TABLES = {
    "semicolons": ("id;fold\nd0;1\n", "utf-8", "folds.csv: has no column 'id', 'fold'; it has 'id;fold'"),
    "no header": ("d0,1\nd1,2\n", "utf-8", "folds.csv: has no column 'id', 'fold'; it has 'd0', '1'"),
    "UTF-16": ("id,fold\nd0,1\n", "utf-16", "folds.csv: has a NUL byte"),
    "an open quotation mark": ('id,fold\n"d0,1\n', "utf-8", "folds.csv: "),
    "an id twice": ("id,fold\nd0,1\nd0,2\n", "utf-8", "folds.csv, entry 2: the id 'd0'"),
    "a document less": (FOLDS.replace("d19,4\n", ""), "utf-8", r"folds\.csv has no fold of the document 'd19'"),
    "a document more": (f"{FOLDS}d20,0\n", "utf-8", r"folds\.csv: 1 ids have no document, such as 'd20'"),
}


@pytest.mark.parametrize("table", OTHER_TABLES)
def test_table_that_is_none_of_folds_is_refused(table, tmp_path):
    """No setting names the delimiter, the encoding or the column of the ids of this file."""
    content, encoding, problem = OTHER_TABLES[table]
    (tmp_path / "folds.csv").write_text(content, encoding=encoding)
    folds = {"file": str(tmp_path / "folds.csv"), "validation": 4, "test": 3}
    with pytest.raises(DataError, match=problem):
        prepare(tmp_path, documents(20), folds)
    assert not (tmp_path / "out").exists()


def test_folds_without_documents_are_refused(tmp_path):
    rows = documents(20, fold=lambda n: n % 5)
    with pytest.raises(DataError, match="no document is in fold 7"):
        prepare(tmp_path, rows, {"validation": 7, "test": 3})
    with pytest.raises(DataError, match="has no column 'part'"):
        prepare(tmp_path, rows, {"column": "part", "validation": 4, "test": 3})
    rows[2]["fold"] = None
    with pytest.raises(DataError, match="the source has no fold of the document 'd2' in 'fold'"):
        prepare(tmp_path, rows, {"validation": 4, "test": 3})
    with pytest.raises(DataError, match="absent.csv: "):
        prepare(tmp_path, rows, {"file": str(tmp_path / "absent.csv"), "validation": 4, "test": 3})


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"folds": {"validation": 3, "test": "3.0"}}, "'3'"),
        ({"folds": {"validation": 3, "test": 4, "train": [1, "3"]}}, "'3'"),
        ({"folds": {"validation": 3, "test": 4}, "published": True}, "published and folds"),
        ({"join": ["train", "test"], "held_out": "test"}, "held_out = test"),
    ],
)
def test_splits_are_given_in_one_way(values, match):
    with pytest.raises(ValidationError, match=match):
        Split.model_validate(values)
