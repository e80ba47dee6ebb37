"""A label means what a person wrote, and too few documents are refused with their numbers."""

import contextlib
import json

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lib.core.errors import DataError
from lib.preparing.drawing import SplitError
from lib.preparing.labelled import SPLITS, prepare_dataset
from lib.preparing.settings.preparation import Preparation

NEWS = ["World", "Sports", "Business", "Sci/Tech"]


def write(path, labels):
    """Write documents with these labels, each with a text that names it."""
    pd.DataFrame({"text": [f"{label}, {n}" for n, label in enumerate(labels)], "label": labels}).to_parquet(path)
    return path


def prepared(files, target, options):
    """Prepare a dataset, and return its documents."""
    prepare_dataset(files, target, Preparation.model_validate(options))
    return [row for split in SPLITS for row in pq.read_table(target / f"{split}.parquet").to_pylist()]


@pytest.mark.parametrize("kind", [int, str])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    numbers=st.lists(st.integers(-2, 6), min_size=2, max_size=5, unique=True),
    names=st.permutations([*NEWS, "other"]),
    sizes=st.lists(st.sampled_from([1, 4, 30]), min_size=5, max_size=5),
)
@example(numbers=[1, 2, 3, 4], names=NEWS, sizes=[30] * 4)  # as AG News is published
@example(numbers=[0, 1, 2, 3], names=NEWS, sizes=[1, 30, 30, 30])
def test_class_of_a_document_is_what_its_value_names(tmp_path_factory, kind, numbers, names, sizes):
    """A number names the class at its place, from 0, or is refused."""
    folder = tmp_path_factory.mktemp("labels")
    labels = [kind(number) for number, size in zip(numbers, sizes, strict=False) for _ in range(size)]
    names = names[: len(numbers)]
    files = {"all": [write(folder / "all.parquet", labels)]}
    with contextlib.suppress(DataError):
        for row in prepared(files, folder / "out", {"labels": names}):
            assert int(row["text"].split(",")[0]) == row["label"]


def test_labels_that_count_from_1_need_values(tmp_path):
    files = {"all": [write(tmp_path / "news.parquet", [1, 2, 3, 4] * 20)]}
    with pytest.raises(DataError, match=r"document 4: the label is 4; expected one of 0, 1, 2, 3, World"):
        prepare_dataset(files, tmp_path / "out", Preparation(labels=NEWS))
    values = {str(number): name for number, name in enumerate(NEWS, start=1)}
    for row in prepared(files, tmp_path / "out", {"labels": NEWS, "values": values}):
        assert int(row["text"].split(",")[0]) == row["label"] + 1


@pytest.mark.parametrize(
    ("sizes", "options", "match"),
    [
        ({"a": 40, "b": 2}, {}, "a: 40, b: 2"),
        ({"a": 40, "b": 4}, {}, "at a share of 0.5"),
        ({"a": 60, "b": 40}, {"split": {"documents": {"test": 14}}},
         "test: 14, but there are a: 6, b: 4"),
        ({"a": 60, "b": 40}, {"split": {"documents": {"test": 1}}}, "in test: a: 1, b: 0"),
    ],
)  # fmt: skip
def test_documents_too_few_to_split_are_counted(tmp_path, sizes, options, match):
    path = write(tmp_path / "all.parquet", [name for name, size in sizes.items() for _ in range(size)])
    with pytest.raises(SplitError, match=match) as caught:
        prepare_dataset({"all": [path]}, tmp_path / "out", Preparation.model_validate({"labels": [*sizes]} | options))
    assert json.dumps(caught.value.sizes) == json.dumps(sizes)
