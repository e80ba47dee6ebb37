"""Advice on real text: 300 tweets, and Ukrainian posts."""

import runpy
from pathlib import Path

import pandas as pd
import pytest
import yaml

pytestmark = [pytest.mark.real, pytest.mark.study]
PROGRAM = Path(__file__).resolve().parents[2] / "scripts/tools/advise.py"


def advice(repository, shared, monkeypatch, file, *arguments):
    """What the program prints about a file, and the study that it writes."""
    printed: list[str] = []
    monkeypatch.setattr("builtins.print", printed.append)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(file.parent / "cache"))
    out = file.with_suffix(".yaml")
    vocabulary = shared / "data/vocab/bert-base-uncased/vocab.txt"
    given = ["--texts", file, "--study", repository / "config/config.yaml", "--vocabulary", vocabulary, "--out", out]
    runpy.run_path(str(PROGRAM))["main"]([*map(str, given), "--device", "cpu", "--seconds", "20", *arguments])
    return printed[0], yaml.safe_load(out.read_text())


def test_300_tweets_take_tfidf_or_a_published_encoder(repository, shared, monkeypatch, tmp_path):
    tweets = pd.read_csv(shared / "data/hate/davidson_labeled_data.csv.gz").sample(300, random_state=1)
    file = tmp_path / "tweets.csv"
    tweets[["tweet", "class"]].rename(columns={"tweet": "text", "class": "label"}).to_csv(file, index=False)
    text, study = advice(repository, shared, monkeypatch, file, "--label", "label")
    assert "30 test documents can show no difference" in text
    assert "exact attention" in text.splitlines()[0]
    assert study["experiment"]["datasets"]["texts"]["labels"] == ["0", "1", "2"]
    assert list(study["experiment"]["models"]) == ["tfidf", "minilm"]


def test_ukrainian_posts_take_a_multilingual_encoder(repository, shared, monkeypatch, tmp_path):
    posts = pd.read_parquet(shared / "data/unlp2025/train.parquet").query("lang == 'uk'").head(300)
    file = tmp_path / "posts.parquet"
    posts[["content"]].rename(columns={"content": "text"}).to_parquet(file)
    text, study = advice(repository, shared, monkeypatch, file)
    assert "These texts are not English: 'uk'" in text
    assert "Lengths are in tokens of the study's `wordpiece`; in those of FacebookAI/xlm-roberta-base" in text
    assert "tokens per word" not in text
    assert "hyperpartisan" not in text
    assert study["experiment"]["published"]["xlm-r"]["repository"] == "FacebookAI/xlm-roberta-base"
