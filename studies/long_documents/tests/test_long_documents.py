"""The program that writes the long documents with several labels, and the generated ones in their place."""

import json
import runpy
from pathlib import Path

import pandas as pd
import pytest

from lib.core.errors import DataError

PROGRAM = Path(__file__).resolve().parents[3] / "studies/long_documents/scripts/long_documents.py"


def test_tables_of_laws_and_books(tmp_path):
    for split, concepts in (("train", ["9", "100"]), ("dev", ["9"]), ("test", ["7"])):
        law = {"header": "a", "recitals": "b", "main_body": ["c", "d"], "concepts": concepts}
        (tmp_path / split).mkdir()
        (tmp_path / split / "law.json").write_text(json.dumps(law))
    books = [
        [number, "", "", "", "", json.dumps({"/a": "novel", "/b": f"g{number % 2}"}), "word " * 12]
        for number in range(20)
    ]
    short, without = [20, "", "", "", "", '{"/a": "novel"}', "short"], [21, "", "", "", "", None, "word " * 12]
    pd.DataFrame([*books, short, without]).to_csv(tmp_path / "books.txt", sep="\t", header=False, index=False)
    main = runpy.run_path(str(PROGRAM))["main"]
    arguments = ["--eurlex", str(tmp_path), "--books", str(tmp_path / "books.txt"), "--out"]
    main([*arguments, str(tmp_path / "out")])
    (law,) = pd.read_parquet(tmp_path / "out/eurlex/train.parquet").itertuples()
    assert (law.text, law.inverted, law.label.tolist()) == ("a\nb\nc\nd", "c\nd\nb\na", [0, 2])
    assert json.loads((tmp_path / "out/eurlex/labels.json").read_text()) == ["100", "7", "9"]
    sizes = {path.stem: len(pd.read_parquet(path)) for path in (tmp_path / "out/books").glob("*.parquet")}
    assert sizes == {"train": 16, "validation": 2, "test": 2}
    pairs = pd.read_parquet(tmp_path / "out/book_pairs/train.parquet")
    first, second = (pd.read_parquet(tmp_path / "out/books/train.parquet").iloc[number] for number in (0, 1))
    assert (pairs["id"][0], pairs["text"][0]) == (f"{first.id}-{second.id}", first.text + second.text)
    assert pairs["label"][0].tolist() == sorted({*first.label, *second.label})
    with pytest.raises(DataError, match="train: has no JSON files"):
        main(["--eurlex", str(tmp_path / "out"), "--out", str(tmp_path / "again")])
