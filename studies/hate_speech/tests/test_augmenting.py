"""Augmented datasets: which documents are copied, where copies go, and that a copy depends on nothing else."""

import json
import re
import runpy
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from encoder_cases import EncoderForMaskedLM, build
from wordnets import write_wordnet

from lib.core import program
from lib.preparing.folds import SPLITS
from lib.preparing.parts import part_schema
from lib.preparing.settings.augmentation import Augmentation
from lib.preparing.settings.preparation import Preparation, Split
from lib.tokens.vocabularies import train_words
from studies.hate_speech.augmentation.augmenting import augment_dataset

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[3]
SIZES = {"train": 40, "validation": 10, "test": 10}
PREPARATION = Preparation(labels=["no", "yes"], split=Split(documents={"train": 40}))


def rows(split, grouped=False):
    found = [
        {"id": f"{split}-{n}", "text": f"dog house {split} {n}", "label": int(n % 4 == 0), "group": n}
        for n in range(SIZES[split])
    ]
    return found if grouped else [{name: row[name] for name in ("id", "text", "label")} for row in found]


def write(folder, grouped=False, change=None):
    folder.mkdir()
    for split in SIZES:
        documents = rows(split, grouped)
        schema = part_schema("class", group=pa.int64() if grouped else None)
        table = pa.Table.from_pylist(change(documents) if change else documents, schema)
        pq.write_table(table, folder / f"{split}.parquet")
    return {split: folder / f"{split}.parquet" for split in SIZES}


@pytest.fixture
def wordnet(tmp_path):
    return write_wordnet(tmp_path / "dict")


@pytest.fixture
def augment(tmp_path, wordnet):
    """Return a function that augments prepared files and returns the documents by split, and the summary."""

    def run(prepared, name="out", **options):
        settings = {"labels": ["yes"], "copies": 2, "by": "synonyms", "synonyms": {"local": str(wordnet)}} | options
        sources = {"synonyms": [wordnet]}
        augment_dataset(prepared, tmp_path / name, Augmentation(**settings), PREPARATION, sources)
        found = {split: pq.read_table(tmp_path / name / f"{split}.parquet").to_pylist() for split in SPLITS}
        return found, json.loads((tmp_path / name / "summary.json").read_text())

    return run


def origin(identity):
    return re.sub(r"-copy-\d+$", "", identity)


def test_copies_in_training_only(tmp_path, augment):
    prepared = write(tmp_path / "prepared", grouped=True)
    found, summary = augment(prepared)
    for split in ("validation", "test"):
        assert found[split] == rows(split, grouped=True)
    assert [row for row in found["train"] if "copy" not in row["id"]] == rows("train", grouped=True)
    expected = [
        identity
        for row in rows("train")
        for identity in [row["id"], *(f"{row['id']}-copy-{n}" for n in (1, 2) if row["label"])]
    ]
    assert [row["id"] for row in found["train"]] == expected
    texts = {row["id"]: row["text"] for row in found["train"]}
    for row in found["train"]:
        if row["id"] != origin(row["id"]):
            assert row["label"] == 1
            assert row["text"] != texts[origin(row["id"])]
            assert row["text"].endswith(texts[origin(row["id"])].removeprefix("dog house"))
            assert row["group"] == int(origin(row["id"]).split("-")[1])
    assert pq.read_schema(tmp_path / "out/test.parquet") == pq.read_schema(prepared["test"])
    assert summary["augmentation"] == {"documents": 10, "copies": {"synonyms": 20}, "missing": 0}
    assert summary["splits"]["train"]["labels"] == {"no": 30, "yes": 30}
    assert summary["copies"] == {"train": 20, "validation": 0, "test": 0}
    assert summary["versions_in_train"] == {"validation": 0, "test": 0}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        [*(f"{split}.parquet" for split in SPLITS), "summary.json"]
    )


def test_leaked_copies_split_anew(tmp_path, augment):
    found, summary = augment(write(tmp_path / "prepared"), leaked=True)
    originals = 60
    copies = 2 * sum(row["label"] for split in SIZES for row in rows(split))
    everything = [row for split in SPLITS for row in found[split]]
    assert len({row["id"] for row in everything}) == len(everything) == originals + copies
    assert {split: len(found[split]) for split in SPLITS} == {"train": 73, "validation": 9, "test": 10}
    for split in SPLITS:  # drawn by class
        share = sum(row["label"] for row in found[split]) / len(found[split])
        assert share == pytest.approx(48 / 92, abs=0.06)
    in_training = {origin(row["id"]) for row in found["train"]}
    assert summary["versions_in_train"] == {
        split: sum(origin(row["id"]) in in_training for row in found[split]) for split in ("validation", "test")
    }
    assert summary["versions_in_train"]["test"] > 0
    assert summary["copies"] == {split: sum("copy" in row["id"] for row in found[split]) for split in SPLITS}
    assert summary["augmentation"]["documents"] == copies / 2


def test_copies_by_seed_id_and_text(tmp_path, augment):
    first, _ = augment(write(tmp_path / "a"), "first")
    reverse, _ = augment(write(tmp_path / "b", change=lambda rows: rows[::-1]), "reverse")
    fewer, _ = augment(write(tmp_path / "c", change=lambda rows: rows[:20]), "fewer", copies=1)
    other, _ = augment(write(tmp_path / "d"), "other", seed=1)

    def texts(found):
        return {row["id"]: row["text"] for row in found["train"]}

    assert texts(reverse) == texts(first)
    assert texts(fewer).items() <= texts(first).items()
    assert texts(other).keys() == texts(first).keys()
    assert texts(other) != texts(first)


def test_two_ways_in_turns(tmp_path, wordnet):
    tokenizer = train_words(tmp_path / "model", ["alpha beta gamma"])
    build(EncoderForMaskedLM, vocab_size=len(tokenizer.backend)).save_pretrained(tmp_path / "model")
    settings = Augmentation(
        labels=["yes"],
        copies=3,
        by=["synonyms", "masked_lm"],
        synonyms={"local": str(wordnet)},
        masked_lm={"folder": str(tmp_path / "model")},
    )
    sources = {"synonyms": [wordnet], "masked_lm": [tmp_path / "model"]}
    augment_dataset(write(tmp_path / "prepared"), tmp_path / "both", settings, PREPARATION, sources, "cpu")
    texts = {row["id"]: row["text"] for row in pq.read_table(tmp_path / "both/train.parquet").to_pylist()}
    drawn = [bool({"alpha", "beta", "gamma"} & set(texts[f"train-0-copy-{copy}"].split())) for copy in (1, 2, 3)]
    assert drawn == [False, True, False]
    summary = json.loads((tmp_path / "both/summary.json").read_text())
    assert summary["augmentation"]["copies"] == {"synonyms": 20, "masked_lm": 10}


def test_program_of_augmenting(tmp_path, wordnet, capsys):
    prepared = write(tmp_path / "prepared")
    main = runpy.run_path(str(ROOT / "studies/hate_speech/scripts/augment_dataset.py"))["main"]
    settings = {"labels": ["yes"], "by": "synonyms", "synonyms": {"local": str(wordnet)}}
    arguments = ["--settings", json.dumps(settings), "--preparation", PREPARATION.model_dump_json()]
    arguments += [word for split in SPLITS for word in (f"--{split}", str(prepared[split]))]
    arguments += ["--out", str(tmp_path / "out")]
    assert program.run(main, [*arguments, "--source", "synonyms", str(wordnet)]) == 0
    assert pq.read_metadata(tmp_path / "out/train.parquet").num_rows == 50
    with pytest.raises(SystemExit):
        main([*arguments, "--source", "masked_lm", "model"])
    assert "--source: missing for synonyms" in capsys.readouterr().err
