"""Descriptions of texts, written as `studies.hate_speech.description` leaves them."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        ("split", pa.dictionary(pa.int8(), pa.string())),
        ("id", pa.string()),
        ("label", pa.dictionary(pa.int16(), pa.string())),
        ("words", pa.int32()),
        ("language", pa.dictionary(pa.int16(), pa.string())),
        ("repeated", pa.bool_()),
        ("near_copy", pa.bool_()),
        ("featureless", pa.bool_()),
    ]
)
"""The columns, repeated here: the module that writes them needs packages that `make setup` does not bring."""

NEAR_COPIES = {"unit": "words", "size": 1, "threshold": 0.6, "permutations": 128, "recall": 0.988}
USUAL = {
    "split": "test",
    "label": "no",
    "words": 5,
    "language": "en",
    "repeated": False,
    "near_copy": False,
    "featureless": False,
}


def write_texts(path: Path, *documents: dict, near_copies: dict | None = None) -> Path:
    """Write a description of documents that differ from a usual one by what is given; return its path."""
    rows = [{"id": f"d{number}"} | USUAL | document for number, document in enumerate(documents)]
    schema = SCHEMA.set(1, pa.field("id", pa.infer_type([row["id"] for row in rows])))
    table = pa.Table.from_pylist(rows, schema)
    known = {"near_copies": json.dumps(NEAR_COPIES | (near_copies or {}))}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(known), path)
    return path
