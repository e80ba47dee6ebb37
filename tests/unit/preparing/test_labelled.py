"""Preparation of labelled datasets: cleaning, balance, split, summary, and all that refuses."""

import gzip
import json
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.model_selection import train_test_split

from lib.core import program
from lib.core.errors import ConfigError, DataError
from lib.preparing.drawing import assign_splits
from lib.preparing.labelled import SPLITS, prepare_dataset
from lib.preparing.parts import SCHEMA
from lib.preparing.settings.preparation import Preparation, Split
from lib.tokens.stored import shared_documents

ROOT = Path(__file__).parents[3]


def documents(count, classes=2, start=0):
    return [{"text": f"text {n} " + "word " * (n % 7), "label": n % classes} for n in range(start, start + count)]


def write(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.fixture
def parts(tmp_path):
    return {
        "train": [write(tmp_path / "train.parquet", documents(300))],
        "test": [write(tmp_path / "test.parquet", documents(200, start=300))],
    }


def settings(**options):
    return Preparation(**{"labels": ["no", "yes"]} | options)


def prepared(folder):
    return {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in SPLITS}


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def test_split_is_two_calls_of_scikit_learn(parts, tmp_path):
    prepare_dataset(parts, tmp_path / "out", settings(split=Split(join=["test", "train"])))
    rows = documents(200, start=300) + documents(300)
    labels = [row["label"] for row in rows]
    train, rest = train_test_split(np.arange(500), test_size=0.2, stratify=labels, random_state=42)
    validation, test = train_test_split(rest, test_size=0.5, stratify=np.array(labels)[rest], random_state=42)
    found = prepared(tmp_path / "out")
    for name, chosen in zip(SPLITS, (train, validation, test), strict=True):
        assert [row["text"] for row in found[name]] == [rows[n]["text"] for n in np.sort(chosen)]
        assert pq.read_schema(tmp_path / "out" / f"{name}.parquet") == SCHEMA
    assert [len(found[name]) for name in SPLITS] == [400, 50, 50]
    identities = [row["id"] for name in SPLITS for row in found[name]]
    assert sorted(identities) == sorted([f"train-{n}" for n in range(300)] + [f"test-{n}" for n in range(200)])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        [*(f"{name}.parquet" for name in SPLITS), "summary.json"]
    )


def test_split_has_the_sizes_of_the_published_datasets():
    """Those of arXiv, whose tenths are not whole."""
    labels = np.repeat(np.arange(11), [3_036] * 5 + [3_035, 3_034, 3_033, 3_036, 3_035, 3_035])
    assert np.bincount(assign_splits(labels, list(map(str, range(11))), Split())).tolist() == [26_710, 3_339, 3_339]


def test_split_with_held_out_part_balance_and_sizes():
    generator = np.random.default_rng(0)
    labels = generator.choice(2, 80_000, p=[0.4, 0.6])
    held_out = np.arange(80_000) >= 62_000
    split = Split(held_out="validation", documents={"train": 45_000, "validation": 6_500, "test": 6_500})
    assignment = assign_splits(labels, ["no", "yes"], split, balance=True, held_out=held_out)
    for number, size in enumerate((45_000, 6_500, 6_500)):
        chosen = assignment == number
        assert chosen.sum() == size
        assert (labels[chosen] == 1).sum() == size // 2
        assert (held_out[chosen] == (number > 0)).all()
    again = assign_splits(labels, ["no", "yes"], split, balance=True, held_out=held_out)
    assert (again == assignment).all()
    other = assign_splits(labels, ["no", "yes"], split.model_copy(update={"seed": 1}), balance=True, held_out=held_out)
    assert (other != assignment).any()


def test_held_out_part_gives_validation_and_test(parts, tmp_path):
    prepare_dataset(parts, tmp_path / "out", settings(split=Split(held_out="test")))
    found = prepared(tmp_path / "out")
    assert [len(found[name]) for name in SPLITS] == [300, 100, 100]
    assert all(row["id"].startswith("train-") for row in found["train"])
    assert all(row["id"].startswith("test-") for row in found["validation"] + found["test"])
    only = {"train": parts["train"]}  # without the part, the file is split like others
    prepare_dataset(only, tmp_path / "only", settings(split=Split(held_out="test")))
    assert [len(rows) for rows in prepared(tmp_path / "only").values()] == [240, 30, 30]
    with pytest.raises(ConfigError, match=r"\['dev'\]"):  # joined, the documents of test would train
        prepare_dataset(parts, tmp_path / "out", settings(split=Split(held_out="dev")))


def test_shares_are_what_their_decimals_say():
    """Unlike 0.14 * 100 and 1.16 * 25 in floats."""
    split = Split(validation=0.07, test=0.07)
    assert np.bincount(assign_splits(np.arange(100) % 2, ["no", "yes"], split)).tolist() == [86, 7, 7]
    found = assign_splits((np.arange(125) < 25).astype(int), ["no", "yes"], Split(), balance=1.16)
    assert (found >= 0).sum() == 25 + 29


@pytest.fixture
def published(tmp_path):
    """Three parts, in another order than the splits."""
    sizes = {"test": 30, "train": 100, "validation": 20}
    starts = dict(zip(sizes, (0, 30, 130), strict=True))
    return {part: [write(tmp_path / f"{part}.parquet", documents(sizes[part], start=starts[part]))] for part in sizes}


def test_published_splits_are_taken_as_they_are(published, tmp_path):
    prepare_dataset(published, tmp_path / "out", settings(split=Split(published=True)))
    for name, rows in prepared(tmp_path / "out").items():
        assert [row["text"] for row in rows] == pq.read_table(published[name][0])["text"].to_pylist()
        assert [row["id"] for row in rows] == [f"{name}-{number}" for number in range(len(rows))]
    report = summary(tmp_path / "out")
    assert {name: part["documents"] for name, part in report["splits"].items()} == {
        "train": 100, "validation": 20, "test": 30,
    }  # fmt: skip
    split = Split(published=True, documents={"train": 50, "test": 10})
    prepare_dataset(published, tmp_path / "cut", settings(split=split))
    found = prepared(tmp_path / "cut")
    assert {name: Counter(row["label"] for row in rows) for name, rows in found.items()} == {
        "train": {0: 25, 1: 25}, "validation": {0: 10, 1: 10}, "test": {0: 5, 1: 5},
    }  # fmt: skip


def test_published_splits_need_their_parts(parts, published, tmp_path):
    for files in (parts, published | {"extra": parts["train"]}):
        with pytest.raises(ConfigError, match=r"names the parts \['train', 'validation', 'test'\]"):
            prepare_dataset(files, tmp_path / "out", settings(split=Split(published=True)))
    write(tmp_path / "train.parquet", documents(20, classes=1))
    with pytest.raises(DataError, match="in train: no: 20, yes: 0"):
        prepare_dataset(published, tmp_path / "out", settings(split=Split(published=True)))


def test_published_splits_need_all_classes_in_training(published, tmp_path, caplog):
    for part in ("validation", "test"):
        write(tmp_path / f"{part}.parquet", documents(20, classes=1))
    prepare_dataset(published, tmp_path / "out", settings(split=Split(published=True)))
    assert summary(tmp_path / "out")["splits"]["test"]["labels"] == {"no": 20, "yes": 0}
    assert "test: has no document of the classes yes" in caplog.text
    write(tmp_path / "test.parquet", [{"text": " ", "label": 0}, {"text": "x", "label": 1}])
    with pytest.raises(DataError, match=r"split.published: test has no document left"):
        prepare_dataset(published, tmp_path / "out", settings(split=Split(published=True), min_chars=2))


def test_documents_are_cleaned_dropped_and_balanced(tmp_path):
    rows = [{"text": f"{'yes' if n % 3 else 'no!'}<br /><BR>{n:03d}<br>", "label": bool(n % 3)} for n in range(90)] + [
        {"text": "<br />", "label": True},
        {"text": "ab", "label": False},
        {"text": "yes<br/><BR>001", "label": True},
    ]
    path = write(tmp_path / "raw.parquet", rows)
    prepare_dataset({"all": [path]}, tmp_path / "out", settings(remove=r"<br\s*/?>", min_chars=3, balance=True))
    found = prepared(tmp_path / "out")
    kept = [row for name in SPLITS for row in found[name]]
    assert all("<br" not in row["text"] and "<BR>" in row["text"] for row in kept)
    assert Counter(row["label"] for row in kept) == {0: 30, 1: 30}
    part = summary(tmp_path / "out")["parts"]["all"]
    assert part == {
        "files": ["raw.parquet"],
        "read": 93,
        "unlabelled": 0,
        "empty": 1,
        "short": 1,
        "candidates": {"no": 30, "yes": 61},
        "kept": {"no": 30, "yes": 30},
    }
    assert summary(tmp_path / "out")["splits"]["train"]["labels"] == {"no": 24, "yes": 24}


def test_duplicate_texts_are_reported(tmp_path):
    path = write(tmp_path / "raw.parquet", [{"text": f"text {n // 10 // 2}", "label": n % 2} for n in range(100)])
    prepare_dataset({"all": [path]}, tmp_path / "out", settings())
    found = {name: [row["text"] for row in rows] for name, rows in prepared(tmp_path / "out").items()}
    report = summary(tmp_path / "out")
    assert [len(texts) for texts in found.values()] == [80, 10, 10]
    for name, texts in found.items():
        assert report["splits"][name]["duplicate_texts"] == len(texts) - len(set(texts))
    assert report["shared_texts"] == {
        f"{second} in {first}": sum(text in found[first] for text in found[second])
        for first, second in [("train", "validation"), ("train", "test"), ("validation", "test")]
    }
    assert report["shared_texts"]["validation in train"] == 10


@pytest.mark.parametrize(
    ("other", "same"),
    [("CAF\u00c9 STRASSE", True), ("\tcafe\u0301 \n stra\u00dfe ", True), ("cafe stra\u00dfe", False)],
)
def test_duplicate_texts_in_case_space_and_accents(tmp_path, other, same):
    """One notion, for the summary, for what is dropped, for the records of runs and for descriptions of texts."""
    texts = {"train": ["caf\u00e9 stra\u00dfe", other, *"abcd"], "validation": ["x", "y"], "test": [other, "z"]}
    parts = {
        part: [write(tmp_path / f"{part}.parquet", [{"text": text, "label": n % 2} for n, text in enumerate(found)])]
        for part, found in texts.items()
    }
    for duplicates, documents in (("keep", 6), ("drop", 4 if same else 5)):
        folder = tmp_path / duplicates
        prepare_dataset(parts, folder, settings(duplicates=duplicates, split=Split(published=True)))
        assert [len(rows) for rows in prepared(folder).values()] == [documents, 2, 2]
        files = {name: folder / f"{name}.parquet" for name in SPLITS}
        assert shared_documents(files)["test"] == summary(folder)["shared_texts"]["test in train"] / 2
    keep = tmp_path / "keep"
    assert summary(keep)["splits"]["train"]["duplicate_texts"] == same


def test_pattern_that_takes_for_ever_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.preparing.labelled.MOST_SECONDS", 0.2)
    files = {"all": [write(tmp_path / "all.parquet", [{"text": "a" * 5_000 + "b", "label": 0}])]}
    with pytest.raises(DataError, match="document 'all-0': .*remove"):
        prepare_dataset(files, tmp_path / "out", settings(remove="(a+)+$"))


@pytest.mark.parametrize("published", [True, False])
def test_duplicate_texts_are_dropped_and_those_of_test_stay(tmp_path, published):
    parts = {
        name: [write(tmp_path / f"{name}.parquet", [{"text": f"text {n}", "label": n % 2} for n in numbers])]
        for name, numbers in {
            "train": [*range(60), 0, 1],
            "validation": [*range(60, 80), 5],
            "test": [*range(80, 100), 5, 6, 60, 81],
        }.items()
    }
    chosen = settings(duplicates="drop", split=Split(published=published))
    prepare_dataset(parts, tmp_path / "out", chosen)
    found = {name: {row["text"] for row in rows} for name, rows in prepared(tmp_path / "out").items()}
    report = summary(tmp_path / "out")
    assert sum(map(len, found.values())) == sum(split["documents"] for split in report["splits"].values()) == 100
    assert set(report["shared_texts"].values()) == {0}
    if published:
        assert {f"text {n}" for n in (5, 6, 60, 81)} <= found["test"]
        assert [len(texts) for texts in found.values()] == [58, 19, 23]
    assert "duplicates" not in settings().model_dump()


def test_preparation_gives_the_same_bytes_again(parts, tmp_path):
    for name in ("one", "two"):
        prepare_dataset(parts, tmp_path / name, settings(split=Split(documents={"train": 101})))
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    assert len(prepared(tmp_path / "one")["train"]) == 101


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"split": Split(documents={"train": 401})}, DataError, "train: 401, but there are no: 200, yes: 200"),
        ({"labels": ["no", "yes", "never"]}, DataError, "no: 250, yes: 250, never: 0"),
        ({"split": Split(join=["test", "extra"])}, ConfigError, r"'extra'\].*\['train', 'test'\]"),
        ({"min_chars": 1000, "split": Split(held_out="test")}, DataError, "no: 0, yes: 0"),
        ({"label": "star"}, DataError, "no column 'star'; it has 'text', 'label'"),
    ],
)
def test_preparation_that_cannot_be_leaves_nothing(parts, tmp_path, options, error, match):
    with pytest.raises(error, match=match):
        prepare_dataset(parts, tmp_path / "new" / "out", settings(**options))
    assert not (tmp_path / "new").exists() or list((tmp_path / "new").iterdir()) == []


def test_program_prepares_articles_and_ground_truth(tmp_path):
    for part in ("train", "validation"):
        ids = [f"{part}{n}" for n in range(40)]
        body = "".join(f'<article id="{i}"><p>{"x" * (n % 10 + 1)}</p></article>' for n, i in enumerate(ids))
        truth = "".join(f'<article id="{i}" hyperpartisan="{"ft"[n % 2]}"/>' for n, i in enumerate(reversed(ids)))
        truth = truth.replace('"f"', '"false"').replace('"t"', '"true"')
        (tmp_path / f"{part}.xml").write_text(f"<articles>{body}</articles>")
        (tmp_path / f"{part}-truth.xml").write_text(f"<articles>{truth}</articles>")
    arguments = ["--settings", '{"labels": ["no", "yes"], "split": {"held_out": "validation"}, "min_chars": 2}']
    for part in ("train", "validation"):
        arguments += ["--part", part, str(tmp_path / f"{part}.xml")]
        arguments += ["--ground-truth", part, str(tmp_path / f"{part}-truth.xml")]
    arguments += ["--out", str(tmp_path / "out")]
    assert program.run(runpy.run_path(str(ROOT / "scripts" / "prepare_dataset.py"))["main"], arguments) == 0
    found = prepared(tmp_path / "out")
    assert [len(rows) for rows in found.values()] == [36, 18, 18]
    # Position n holds id n, whose entry is number 39 - n of the ground truth.
    for row in found["train"]:
        assert row["label"] == (39 - int(row["id"].removeprefix("train"))) % 2


def test_programs_of_preparation_import_no_torch():
    code = "import sys, scripts.prepare_dataset, scripts.filter_corpus\n"
    code += "import scripts.download, scripts.download_model\n"
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def tagged(count):
    """Return documents of two to four words; the first of each has no label."""
    rows = []
    for n in range(count):
        size = 2 + n % 3
        labels = [None, *("yes" if (n + place) % 4 else "no" for place in range(1, size))]
        rows.append(
            {"text": "<br>" + "  ".join(f"w{n}.{place}" for place in range(size)), "label": labels, "far": n % 5}
        )
    return rows


OF_WORDS = {"label_per": "word", "group": "far", "remove": "<br>"}


def test_labels_of_words_and_groups_reach_the_splits(tmp_path):
    rows = tagged(100)
    prepare_dataset({"all": [write(tmp_path / "raw.parquet", rows)]}, tmp_path / "out", settings(**OF_WORDS))
    found = prepared(tmp_path / "out")
    assert [len(found[name]) for name in SPLITS] == [80, 10, 10]
    expected = {
        f"all-{n}": {
            "id": f"all-{n}",
            "text": row["text"].removeprefix("<br>"),
            "label": [{None: -100, "no": 0, "yes": 1}[label] for label in row["label"]],
            "group": row["far"],
        }
        for n, row in enumerate(rows)
    }
    kept = [row for name in SPLITS for row in found[name]]
    assert {row["id"]: row for row in kept} == expected
    assert [row["id"] for row in found["train"]] != [f"all-{n}" for n in range(80)]
    schema = pq.read_schema(tmp_path / "out/test.parquet")
    assert [str(field.type) for field in schema] == ["string", "string", "list<element: int64>", "int64"]
    report = summary(tmp_path / "out")
    counts = Counter(label for row in rows for label in row["label"])
    assert report["parts"]["all"]["kept"] == {"no": counts["no"], "yes": counts["yes"]}
    of_test = Counter(label for row in found["test"] for label in row["label"])
    assert report["splits"]["test"]["labels"] == {"no": of_test[0], "yes": of_test[1]}
    assert report["splits"]["test"]["documents"] == 10


@pytest.mark.parametrize(
    ("label", "options", "suffix"),
    [
        ("no", {}, "jsonl"),
        (0.5, {"labels": [], "label_range": [0, 1]}, "csv"),
        (["no", None, "yes"], {"label_per": "word"}, "jsonl"),
        ([[0, 3]], {"label_per": "span"}, "csv"),
    ],
)
def test_labels_are_not_needed_in_an_unlabelled_test_split(tmp_path, label, options, suffix):
    files = {}
    for part in SPLITS:
        of_class = {"label": [label, "yes" if label == "no" else label]} if part != "test" else {}
        frame = pd.DataFrame({"text": ["one two three", "four five six"], "far": [1, 2]} | of_class)
        files[part] = [tmp_path / f"{part}.{suffix}"]
        kind = {"orient": "records", "lines": True} if suffix == "jsonl" else {"index": False}
        getattr(frame, {"jsonl": "to_json"}.get(suffix, "to_csv"))(files[part][0], **kind)
    split = Split(published=True, test_labels=False)
    prepare_dataset(files, tmp_path / "out", settings(split=split, group="far", **options))
    found, report = prepared(tmp_path / "out"), summary(tmp_path / "out")
    assert [row["label"] for row in found["test"]] == [None, None]
    assert [row["group"] for row in found["test"]] == [1, 2]
    assert None not in [row["label"] for row in found["train"]]
    if "label_range" not in options:
        assert report["splits"]["test"]["labels"] == report["parts"]["test"]["kept"] == {"no": 0, "yes": 0}
        assert report["splits"]["validation"]["labels"] == report["splits"]["train"]["labels"]
        assert report["splits"]["train"]["labels"]["yes"] > 0


@pytest.mark.parametrize(("labels", "number"), [(["no"] * 2, 2), (["no"] * 4, 4)])
def test_labels_of_words_are_as_many_as_words(tmp_path, labels, number):
    rows = [*tagged(60), {"text": "one two<br> three", "label": labels, "far": 1}]
    path = write(tmp_path / "raw.parquet", rows)
    with pytest.raises(DataError, match=f"all, document 'all-60': has {number} labels for 3 words"):
        prepare_dataset({"all": [path]}, tmp_path / "out", settings(**OF_WORDS))
    assert not (tmp_path / "out").exists()


def test_labels_of_spans_reach_the_splits(tmp_path):
    rows = [{"text": f"words {n:02d} 😀", "label": [] if n % 3 else [[0, 5], [9, 12]]} for n in range(60)]
    path = write(tmp_path / "raw.parquet", rows)
    names = {"labels": ["outside", "inside"], "label_per": "span"}
    prepare_dataset({"all": [path]}, tmp_path / "out", settings(**names))
    kept = [row for rows in prepared(tmp_path / "out").values() for row in rows]
    expected = {f"all-{n}": (row["text"], row["label"] and [[0, 5], [9, 10]]) for n, row in enumerate(rows)}
    assert {row["id"]: (row["text"], row["label"]) for row in kept} == expected
    assert (
        str(pq.read_schema(tmp_path / "out/test.parquet").field("label").type) == "list<element: list<element: int64>>"
    )
    assert summary(tmp_path / "out")["parts"]["all"]["kept"] == {"outside": 60 * 10 - 20 * 6, "inside": 20 * 6}


def csv(path, *lines, encoding="utf-8"):
    content = "\n".join(lines).encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


VALUES = {0: "hateful", 1: None, "neither": "neutral", "NA": "neutral"}
COMMENTS = {"labels": ["neutral", "hateful"], "label": "class", "text": "tweet", "values": VALUES}


@pytest.mark.parametrize("name", ["raw.csv", "raw.csv.gz"])
def test_values_of_labels_stand_for_classes_or_none(tmp_path, name):
    """As in the published file of tweets, whose first column has no name."""
    kinds = ["0", "1", "neither", "NA", "hateful", " neutral"]
    rows = [f'{n},{kinds[n % 6]},"{"null" if n == 0 else f"text {n}"}"' for n in range(120)]
    path = csv(tmp_path / name, ",class,tweet", *rows)
    prepare_dataset({"all": [path]}, tmp_path / "out", settings(**COMMENTS))
    kept = {row["id"]: (row["text"], row["label"]) for rows in prepared(tmp_path / "out").values() for row in rows}
    labels = [1, None, 0, 0, 1, 0]
    assert kept == {f"all-{n}": ("null" if n == 0 else f"text {n}", labels[n % 6]) for n in range(120) if n % 6 != 1}
    part = summary(tmp_path / "out")["parts"]["all"]
    assert (part["read"], part["unlabelled"], part["candidates"]) == (120, 20, {"neutral": 60, "hateful": 40})


@pytest.mark.parametrize(("balance", "kept"), [(True, 20), (2.5, 50), (9.0, 80), (False, 80)])
def test_balance_by_a_ratio(tmp_path, balance, kept):
    path = write(tmp_path / "raw.parquet", [{"text": f"text {n}", "label": int(n % 5 == 0)} for n in range(100)])
    prepare_dataset({"all": [path]}, tmp_path / "out", settings(balance=balance))
    assert summary(tmp_path / "out")["parts"]["all"]["kept"] == {"no": kept, "yes": 20}
    if balance is True:
        prepare_dataset({"all": [path]}, tmp_path / "same", settings(balance=1.0))
        for file in (tmp_path / "out").iterdir():
            assert file.read_bytes() == (tmp_path / "same" / file.name).read_bytes()
