"""Labels, groups and folds as people write them: one rule for all of them, in every format of a table."""

import io
import json
import math
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tables import write_table

from lib.core.errors import DataError
from lib.preparing.folds import FoldSplits
from lib.preparing.labelled import SPLITS, prepare_dataset
from lib.preparing.settings.preparation import Folds, Preparation, Split
from lib.reading.cells import cell_text, whole_number
from lib.reading.readers import read_records

FORMATS = [".csv", ".tsv", ".jsonl", ".parquet"]


def write(folder, suffix, frame):
    return write_table(frame, Path(folder) / f"raw{suffix}")


def table(folder, suffix, **columns):
    length = len(next(iter(columns.values())))
    return write(folder, suffix, pd.DataFrame({"text": [f"text {n}" for n in range(length)]} | columns))


def labels(path, names, **options):
    return [r.label for r in read_records({"train": [path]}, label="label", labels=names, **options)]


def prepare(folder, path, **options):
    prepare_dataset({"all": [path]}, folder / "out", Preparation(**{"labels": ["no", "yes"]} | options))
    return {split: pq.read_table(folder / "out" / f"{split}.parquet").to_pylist() for split in SPLITS}


# Labels


@pytest.mark.parametrize("suffix", FORMATS)
def test_numbers_that_pandas_made_floats(tmp_path, suffix):
    assert labels(table(tmp_path, suffix, label=[1.0, 0.0]), ["no", "yes"]) == [1, 0]
    assert labels(table(tmp_path, suffix, label=[2.0, 4.0]), ["2", "4"]) == [0, 1]
    with pytest.raises(DataError, match="the label is .*0.5"):
        labels(table(tmp_path, suffix, label=[1.0, 0.5]), ["no", "yes"])


@pytest.mark.parametrize(
    ("suffix", "missing", "present", "options"),
    [
        (".csv", None, [1, 0], {}),
        (".jsonl", math.nan, ["yes", "no"], {}),
        (".parquet", None, [4, 0], {"values": {"4": "yes", "0": "no"}}),
        (".tsv", math.nan, [0.5, 2.5], {"labels": [], "label_range": [0, 5]}),
    ],
)
def test_documents_without_label_are_refused_or_dropped(tmp_path, suffix, missing, present, options):
    path = table(tmp_path, suffix, label=present * 20 + [missing])
    with pytest.raises(DataError, match="document 41: the label is"):
        prepare(tmp_path, path, **options)
    found = prepare(tmp_path, path, **options | {"values": options.get("values", {}) | {"": None}})
    kept = [row["label"] for rows in found.values() for row in rows]
    assert sorted(kept) == sorted([0.5, 2.5] * 20 if "label_range" in options else [0, 1] * 20)
    assert json.loads((tmp_path / "out/summary.json").read_text())["parts"]["all"]["unlabelled"] == 1


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_word_without_label_has_none(tmp_path, suffix):
    rows = pd.DataFrame({"text": ["a b c"], "label": [[1.0, None, -100.0]]})
    path = write(tmp_path, suffix, rows)
    assert labels(path, ["no", "yes"], label_per="word") == [[1, -100, -100]]
    assert labels(path, ["no", "yes"], label_per="word", values={"": "no"}) == [[1, 0, -100]]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_truth_values_in_the_order_of_labels_warn(tmp_path, suffix, caplog):
    path = table(tmp_path, suffix, label=[True, False])
    assert labels(path, ["spam", "ham"]) == [1, 0]
    assert "false is read as 'spam', true as 'ham'" in caplog.text
    caplog.clear()
    assert labels(path, ["spam", "ham"], values={"true": "spam", "false": "ham"}) == [0, 1]
    assert labels(path, ["true", "false"]) == [0, 1]
    assert labels(table(tmp_path, suffix, label=[1, 0]), ["spam", "ham"]) == [1, 0]
    assert not caplog.text
    with pytest.raises(DataError, match="the label is"):
        labels(table(tmp_path, suffix, label=[0]), ["true", "false"])


@pytest.mark.parametrize("text", ["[OFF, NOT]", "[yes, no]"])
def test_names_that_yaml_reads_as_truth_values(text):
    with pytest.raises(ValidationError, match="labels.0"):
        Preparation(labels=yaml.safe_load(text))
    Preparation(labels=yaml.safe_load(text.replace("[", '["').replace(", ", '", "').replace("]", '"]')))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"labels": ["1", "1.0"]}, "labels repeat '1'"),
        ({"labels": ["caf\u00e9", "cafe\u0301"]}, "labels repeat"),
        ({"values": {"1": "no", 1.0: "yes"}}, "'1' is listed twice"),
        ({"values": {True: "no", "True": "yes"}}, "'true' is listed twice"),
        ({"values": {None: "no", "": "yes"}}, "'' is listed twice"),
        ({"values": {"yes ": "no"}}, "values.yes : is itself one of the labels"),
        ({"values": {"a": "maybe"}}, "values.a: 'maybe'"),
    ],
)
def test_values_with_two_spellings_are_refused(options, match):
    with pytest.raises(ValidationError, match=match):
        Preparation(**{"labels": ["no", "yes"]} | options)


# Groups


@pytest.mark.parametrize(
    ("suffix", "values", "groups"),
    [
        (".csv", [1, -2, 30], [1, -2, 30]),
        (".parquet", [1.0, -2.0, 30.0], [1, -2, 30]),
        (".jsonl", ["books", " films", "books"], ["books", "films", "books"]),
        (".csv", ["12", "n/a?", "3"], ["12", "n/a?", "3"]),
        (".tsv", ["01", "1", "007"], ["01", "1", "007"]),
    ],
)
def test_groups_are_numbers_if_all_are(tmp_path, suffix, values, groups):
    path = table(tmp_path, suffix, label=[0, 0, 0, 1, 1, 1] * 10, domain=values * 20)
    rows = [row for rows in prepare(tmp_path, path, group="domain").values() for row in rows]
    assert {row["id"]: row["group"] for row in rows} == {f"all-{n}": group for n, group in enumerate(groups * 20)}


# Folds


def folded(tmp_path, suffix, folds, **names):
    path = table(tmp_path, suffix, label=[n // len(folds) % 2 for n in range(6 * len(folds))], fold=folds * 6)
    found = prepare(tmp_path, path, split=Split(folds=Folds(**names)))
    return {split: sorted({int(row["id"][4:]) % len(folds) for row in rows}) for split, rows in found.items()}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_folds_are_read_like_labels(tmp_path, suffix, caplog):
    caplog.set_level("INFO")
    assert folded(tmp_path, suffix, [1.0, 2.0, 3.0, 4.0], validation=3, test="4") == {
        "train": [0, 1], "validation": [2], "test": [3],
    }  # fmt: skip
    assert folded(tmp_path, suffix, ["fit", "dev ", "eval"], validation="dev", test="eval") == {
        "train": [0], "validation": [1], "test": [2],
    }  # fmt: skip
    message = "split.folds: train: fit (6 documents); validation: dev (6 documents); test: eval (6 documents)"
    assert message in caplog.text


@pytest.mark.parametrize("names", [["train", "dev", "test", "Test"], ["dev", "test", "test ", "Test"]])
def test_fold_that_may_be_misspelt_does_not_train(tmp_path, names):
    suffix = ".csv"
    with pytest.raises(DataError, match=r"split.folds: no .*Test \(6 documents\)"):
        folded(tmp_path, suffix, names, validation="dev", test="test")
    known = [name for name in names if name in ("train", "Test")]
    train = [number for number, name in enumerate(names) if name in known]
    assert folded(tmp_path, suffix, names, validation="dev", test="test", train=known)["train"] == train
    with pytest.raises(DataError, match="no setting gives a split to"):
        folded(tmp_path, suffix, [*names, "extra"], validation="dev", test="test", train=known)


# Any of them, against pandas and a plain reader


CELLS = st.one_of(
    st.integers(-3, 12),
    st.integers(-3, 12).map(float),
    st.sampled_from([0.5, None, math.nan, True, False]),
    st.sampled_from(
        ["no", "Yes", " a b ", "né", "ne\u0301", "7.0", "-2", "08", 'say "hi"', "тест", "是", "a\tb", "1e3"]
    ),
)


def plain(value):
    """Return the text of a value by a rule of the test's own."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    if isinstance(value, str):
        text = value.strip().replace("e\u0301", "é")
        return text[:-2] if text.endswith(".0") and text[:-2].lstrip("-").isdigit() else text
    return str(value)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(CELLS, min_size=1, max_size=8))
def test_cells_have_the_same_text_in_every_format(tmp_path_factory, cells):
    """Groups are what is read; a column of several types is written to JSONL and CSV as Python has it."""
    folder = tmp_path_factory.mktemp("cells")
    expected = [plain(cell) for cell in cells]
    assert [cell_text(cell) for cell in cells] == expected
    frame = pd.DataFrame({"text": "x", "far": pd.Series(cells, dtype=object)})
    files = [write(folder, suffix, frame) for suffix in (".csv", ".jsonl")]
    if len(set(map(type, cells))) == 1:
        files.append(write(folder, ".parquet", frame))
    for path in files:
        blank = expected.index("") if "" in expected else None
        records = read_records({"train": [path]}, group="far")
        if blank is None:
            assert [record.group for record in records] == expected
        else:
            with pytest.raises(DataError, match=f"document {blank + 1}: the group is"):
                list(records)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(CELLS, min_size=3, max_size=8), st.sampled_from([".csv", ".jsonl"]), st.data())
def test_fold_gives_the_split_of_its_text_or_is_refused(tmp_path_factory, cells, suffix, data):
    """A plain rule: all other numbers train, and one other name, if it differs from the two in more than its case."""
    texts = [plain(cell) for cell in cells]
    given_folds = data.draw(st.lists(st.sampled_from([*texts, "no", "7"]), min_size=2, max_size=2, unique=True))
    if "" in given_folds:
        return
    frame = pd.DataFrame({"text": "x", "fold": pd.Series(cells, dtype=object)})
    records = read_records({"train": [write(tmp_path_factory.mktemp("folds"), suffix, frame)]}, fold="fold")
    splits = FoldSplits(Folds(validation=given_folds[0], test=given_folds[1]))
    others = {text for text in texts if text not in given_folds and whole_number(text) is None}
    misspelt = len(others) > 1 or {name.casefold() for name in others} & {name.casefold() for name in given_folds}
    if "" in texts or not set(given_folds) <= set(texts) or misspelt:
        with pytest.raises(DataError, match="fold"):
            read_splits(splits, records)
    else:
        expected = {given_folds[0]: 1, given_folds[1]: 2}
        assert read_splits(splits, records) == [expected.get(text, 0) for text in texts]


def read_splits(splits, records):
    found = [splits.split(record.id, record.fold, record.id) for record in records]
    splits.check_spent()
    return found


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.data())
def test_label_is_read_right_or_refused(tmp_path_factory, data):
    """A plain rule: a name as written; else the number of a class, if no name is the number of another class."""
    names = data.draw(
        st.lists(st.sampled_from(["-1", "0", "1", "2", "4", "1.0", "no", "yes", "neutral", "true"]), min_size=2,
                 max_size=4, unique_by=plain)
    )  # fmt: skip
    cell = data.draw(CELLS)
    text, own = plain(cell), list(map(plain, names))
    truth = {"false": "0", "true": "1"} if len(names) == 2 else {}
    numbers = [truth.get(name, name) for name in own]
    confusing = any(number.lstrip("-").isdigit() and int(number) != place for place, number in enumerate(numbers))
    if text in own:
        expected = own.index(text)
    elif not confusing and (number := truth.get(text, text)) in map(str, range(len(names))):
        expected = int(number)
    else:
        expected = None
    file = io.BytesIO()
    pq.write_table(pa.table({"text": ["x"], "label": [cell]}), file)
    for suffix, content in (
        (".jsonl", json.dumps({"text": "x", "label": cell}).encode()),
        (".parquet", file.getvalue()),
        (".csv", pd.DataFrame({"text": ["x"], "label": pd.Series([cell], dtype=object)}).to_csv(index=False).encode()),
    ):
        path = tmp_path_factory.mktemp("label") / f"raw{suffix}"
        path.write_bytes(content)
        if expected is None:
            with pytest.raises(DataError, match="document 1: the label is"):
                labels(path, names)
        else:
            assert labels(path, names) == [expected]


def test_whole_numbers_of_cells():
    for text, number in (("7", 7), ("-3", -3), ("08", 8), ("1.5", None), ("", None), ("²", None)):
        assert whole_number(text) == number
    assert whole_number(str(2**63)) is None
