"""The program that writes Longformer's split of Hyperpartisan beside one without its leak, on a few articles."""

import gzip
import json
import runpy
from pathlib import Path

import pandas as pd
import pytest

from lib.core.errors import DataError

PROGRAM = Path(__file__).resolve().parents[3] / "studies/longformer_splits/scripts/longformer_splits.py"
SPLITS = {"train": [0, 1, 2, 5], "dev": [3, 6], "test": [5, 6, 7]}  # of the test articles, only 7 is new


@pytest.fixture(scope="module")
def program():
    return runpy.run_path(str(PROGRAM))


@pytest.fixture
def arguments(tmp_path, program):
    articles = "".join(f'<article id="{n:07}" title="Title {n}"><p>Text {n}.</p></article>' for n in range(9))
    truth = "".join(f'<article id="{n:07}" hyperpartisan="{"true" if n % 2 else "false"}"/>' for n in range(9))
    for name, text in (("ARTICLES", articles), ("TRUTH", truth)):
        with gzip.open(tmp_path / program[name], "wt") as file:
            file.write(f"<articles>{text}</articles>")
    (tmp_path / "hp-splits.json").write_text(json.dumps(SPLITS))
    return ["--splits", str(tmp_path / "hp-splits.json"), "--data", str(tmp_path), "--out", str(tmp_path / "out")]


def test_articles_of_both_splits(tmp_path, program, arguments, capsys):
    program["main"](arguments)
    tables = {path.relative_to(tmp_path / "out"): pd.read_parquet(path) for path in tmp_path.rglob("*.parquet")}
    assert {str(path): list(table["id"]) for path, table in tables.items()} == {
        "published/train.parquet": [0, 1, 2, 5],
        "published/validation.parquet": [3, 6],
        "published/test.parquet": [5, 6, 7],
        "clean/train.parquet": [0, 1, 2, 4, 8],
        "clean/validation.parquet": [3],
        "clean/test.parquet": [5, 6, 7],
    }
    for table in tables.values():
        assert list(table["label"]) == [number % 2 for number in table["id"]]
        assert all(f"Text {number}." in text for number, text in zip(table["id"], table["text"], strict=True))
    said = capsys.readouterr().out
    assert "published: 4 train, 2 validation, 3 test; 1 of the test articles are in training" in said
    assert "clean: 5 train, 1 validation, 3 test; 0 of the test articles are in training" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"train": [0], "test": [1]}', "'dev'"),
        ('{"train": [0, 99], "dev": [], "test": [1]}', r"\[99\]"),
    ],
)
def test_splits_that_cannot_be_read(tmp_path, program, arguments, text, message):
    (tmp_path / "hp-splits.json").write_text(text)
    with pytest.raises(DataError, match=message):
        program["main"](arguments)
    assert not (tmp_path / "out").exists()
