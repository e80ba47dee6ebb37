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


def test_a_file_says_which_fold_a_document_is_in(tmp_path):
    file = fold_file(tmp_path, [f"{n % 5},d{n}" for n in reversed(range(20))], header="part,id")
    folds = {"file": file, "column": "part", "validation": 4, "test": 3}
    assert prepare(tmp_path, documents(20), folds) == EXPECTED


@pytest.mark.parametrize("kind", [int, str, float])
def test_or_a_column_of_the_source(tmp_path, kind):
    assert prepare(tmp_path, documents(20, fold=lambda n: kind(n % 5)), {"validation": "4", "test": 3}) == EXPECTED


@pytest.mark.parametrize("value", [["dev"], {"a": 1}, float("inf"), b"dev"])
def test_what_is_no_name_is_no_fold(tmp_path, value):
    message = r"all, document 'd0': the source has no fold of the document 'd0' in 'fold', but .*"
    with pytest.raises(DataError, match=message):
        prepare(tmp_path, documents(20, fold=lambda n: value), {"validation": "dev", "test": "True"})


def test_folds_may_have_names_and_splits_be_cut(tmp_path):
    rows = documents(30, part=lambda n: ["fit", "dev", "eval"][n % 3])
    folds = {"column": "part", "validation": "dev", "test": "eval"}
    assert [len(ids) for ids in prepare(tmp_path, rows, folds).values()] == [10, 10, 10]
    split = Split(folds=Folds(**folds), documents={"train": 4})
    assert [len(ids) for ids in prepare(tmp_path, rows, folds, split=split).values()] == [4, 10, 10]


def test_documents_that_are_dropped_have_folds_all_the_same(tmp_path):
    rows = documents(20)
    rows[0]["text"] = " "
    file = fold_file(tmp_path, [f"d{n},{n % 5}" for n in range(20)])
    found = prepare(tmp_path, rows, {"file": file, "validation": 4, "test": 3})
    assert found["train"] == EXPECTED["train"][1:]


@pytest.mark.parametrize(
    ("lines", "header", "match"),
    [
        (range(19), "id,fold", r"folds\.csv has no fold of the document 'd19' in 'fold'"),
        (range(21), "id,fold", r"folds\.csv: 1 ids have no document, such as 'd20'"),
        ([*range(20), 7], "id,fold", r"folds\.csv, entry 21: the id 'd7' comes twice"),
        (range(20), "id,part", r"folds\.csv: has no column 'fold'; it has 'id', 'part'"),
        ([n for n in range(20) if n % 5 != 3], "id,fold", "has no fold of the document 'd3'"),
    ],
)
def test_folds_and_documents_that_do_not_match_are_refused(tmp_path, lines, header, match):
    file = fold_file(tmp_path, [f"d{n},{n % 5}" for n in lines], header)
    with pytest.raises(DataError, match=match):
        prepare(tmp_path, documents(20), {"file": file, "validation": 4, "test": 3})
    assert not (tmp_path / "out").exists()


OTHER_TABLES = {
    "semicolons": ("id;fold\nd0;1\n", "utf-8", "folds.csv: has no column 'id', 'fold'; it has 'id;fold'"),
    "tabs": ("id\tfold\nd0\t1\n", "utf-8", "folds.csv: has no column 'id', 'fold'; it has 'id\\\\tfold'"),
    "no header": ("d0,1\nd1,2\n", "utf-8", "folds.csv: has no column 'id', 'fold'; it has 'd0', '1'"),
    "other names": ("doc,part\nd0,1\n", "utf-8", "folds.csv: has no column 'id', 'fold'; it has 'doc', 'part'"),
    "a column twice": ("id,fold,id\nd0,1,d0\n", "utf-8", "folds.csv: has several columns 'id'"),
    "UTF-16": ("id,fold\nd0,1\n", "utf-16", "folds.csv: has a NUL byte"),
    "a field more": ("id,fold\nd0,1,2\n", "utf-8", "folds.csv, line 2: has 3 fields; expected 2"),
    "an open quotation mark": ('id,fold\n"d0,1\n', "utf-8", "folds.csv: .*"),
    "quotation marks": ('id,fold\n"d0,1\nd1,"2\n",3\n', "utf-8", "folds.csv: .*"),
    "an id twice": ("id,fold\nd0,1\nd0,2\n", "utf-8", "folds.csv, entry 2: the id 'd0' comes twice"),
}


@pytest.mark.parametrize("table", OTHER_TABLES)
def test_a_table_that_is_none_of_folds_is_refused(table, tmp_path):
    """No setting names the delimiter, the encoding or the column of the ids of this file."""
    content, encoding, problem = OTHER_TABLES[table]
    (tmp_path / "folds.csv").write_text(content, encoding=encoding)
    folds = {"file": str(tmp_path / "folds.csv"), "validation": 4, "test": 3}
    with pytest.raises(DataError, match=problem):
        prepare(tmp_path, documents(20), folds)


def test_folds_that_there_are_not_are_refused(tmp_path):
    rows = documents(20, fold=lambda n: n % 5)
    with pytest.raises(DataError, match="no document is in fold 7, of 0 .4 documents., 1 "):
        prepare(tmp_path, rows, {"validation": 7, "test": 3})
    with pytest.raises(DataError, match="has no column 'part'; it has 'id', 'text', 'label', 'fold'"):
        prepare(tmp_path, rows, {"column": "part", "validation": 4, "test": 3})
    rows[2]["fold"] = None
    with pytest.raises(DataError, match="the source has no fold of the document 'd2' in 'fold'"):
        prepare(tmp_path, rows, {"validation": 4, "test": 3})
    with pytest.raises(DataError, match="absent.csv: .*FileNotFoundError"):
        prepare(tmp_path, rows, {"file": str(tmp_path / "absent.csv"), "validation": 4, "test": 3})


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"folds": {"validation": 3, "test": "3"}}, "'3'. are named twice"),
        ({"folds": {"validation": 3, "test": 4}, "published": True}, "published and folds both define"),
        ({"join": ["train", "test"], "held_out": "test"}, "with held_out = test all other parts train"),
    ],
)
def test_splits_are_given_in_one_way(values, match):
    with pytest.raises(ValidationError, match=match):
        Split.model_validate(values)
