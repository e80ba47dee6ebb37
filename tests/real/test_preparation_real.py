"""Preparation of the real corpora: published sizes, original XML, and the keyword filter against its definition."""

import json
import re
import unicodedata
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lib.preparing.filtering import filter_corpus
from lib.preparing.labelled import prepare_dataset
from lib.preparing.settings.preparation import Preparation, Split
from lib.study.configuration import load_study, read_layers

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"

pytestmark = [
    pytest.mark.real,
    pytest.mark.extended,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real corpora are not beside the repository (../shared/data)"),
]


def test_sizes_and_duplicates_of_imdb(tmp_path):
    files = {part: [DATA / "imdb" / f"{part}.parquet"] for part in ("train", "test")}
    settings = Preparation(labels=["negative", "positive"], remove=r"<br\s*/?>", split=Split(join=["test", "train"]))
    prepare_dataset(files, tmp_path / "out", settings)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {name: split["documents"] for name, split in summary["splits"].items()} == {
        "train": 40_000,
        "validation": 5_000,
        "test": 5_000,
    }
    texts = pq.read_table(tmp_path / "out" / "train.parquet")["text"].to_pylist()
    assert not any(re.search(r"<br\s*/?>", text) for text in texts)
    different = {" ".join(unicodedata.normalize("NFC", text.casefold()).split()) for text in texts}
    assert summary["splits"]["train"]["duplicate_texts"] == len(texts) - len(different) > 0


def test_hyperpartisan_articles_in_xml(tmp_path):
    folder = DATA / "hyperpartisan"
    files = {"train": [folder / "articles-training-byarticle-20181122.xml.gz"]}
    truth = {"train": [folder / "ground-truth-training-byarticle-20181122.xml.gz"]}
    settings = Preparation(labels=["not_hyperpartisan", "hyperpartisan"], split=Split(held_out="validation"))
    prepare_dataset(files, tmp_path / "out", settings, truth)
    part = json.loads((tmp_path / "out" / "summary.json").read_text())["parts"]["train"]
    assert part["read"] == 645
    assert part["candidates"] == {"not_hyperpartisan": 407, "hyperpartisan": 238}
    tables = [pq.read_table(tmp_path / "out" / f"{name}.parquet") for name in ("train", "validation", "test")]
    texts = {row["id"]: row["text"] for table in tables for row in table.to_pylist()}
    assert len(texts) == 645
    # The text of links, and the text after them.
    assert "Money ( Image by 401(K) 2013) Permission" in texts["0000000"]


def test_filter_of_wikipedia(tmp_path):
    settings = load_study(read_layers([ROOT / "config" / "config.yaml"])).experiment.corpora["wikipedia"].filter
    keywords = set(settings.keywords)
    source = DATA / "wikipedia" / "en-sample.parquet"
    filter_corpus(source, tmp_path / "part.parquet", settings)
    rows = pq.read_table(source, columns=["id", "text"]).to_pylist()
    expected = [row["id"] for row in rows if len(keywords.intersection(re.findall("[a-z]+", row["text"].lower()))) >= 3]
    assert pq.read_table(tmp_path / "part.parquet")["id"].to_pylist() == expected
    assert len(expected) == 6_336


def test_tweets_whose_classes_are_numbers(tmp_path):
    settings = Preparation(
        label="class",
        text="tweet",
        labels=["neutral", "hateful"],
        values={0: "hateful", 1: None, 2: "neutral"},
        balance=2.5,
    )
    prepare_dataset({"all": [DATA / "hate/davidson_labeled_data.csv.gz"]}, tmp_path / "out", settings)
    part = json.loads((tmp_path / "out" / "summary.json").read_text())["parts"]["all"]
    assert (part["read"], part["unlabelled"], part["empty"]) == (24_783, 19_190, 0)
    assert part["candidates"] == {"neutral": 4_163, "hateful": 1_430}
    assert part["kept"] == {"neutral": 3_575, "hateful": 1_430}
