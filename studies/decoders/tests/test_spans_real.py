"""Spans in real posts of the UNLP 2025 shared task: what is read, and what reading by tokens costs."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lib.preparing.labelled import prepare_dataset
from lib.preparing.settings.preparation import Folds, Preparation, Split
from lib.reading.spans import marked, token_labels
from lib.tokens.vocabularies import train_wordpiece
from studies.decoders.evaluation.spans import character_counts, character_values, span_metrics

pytestmark = [pytest.mark.real, pytest.mark.extended]


@pytest.fixture(scope="module")
def prepared(shared, tmp_path_factory):
    """The labelled posts, split by the folds of the study that this one follows: fold 4 validates, here 3 tests."""
    source = shared / "data" / "unlp2025"
    folds = Folds(file=str(source / "cv_split.csv"), validation=4, test=3)
    settings = Preparation(
        text="content",
        id="id",
        label="trigger_words",
        label_per="span",
        labels=["plain", "manipulative"],
        split=Split(folds=folds),
    )
    folder = tmp_path_factory.mktemp("unlp") / "prepared"
    prepare_dataset({"train": [source / "train.parquet"]}, folder, settings)
    return {split: pd.read_parquet(folder / f"{split}.parquet") for split in ("train", "validation", "test")}


def test_folds_and_spans_of_posts(prepared):
    assert {split: len(posts) for split, posts in prepared.items()} == {"train": 2_293, "validation": 764, "test": 765}
    for posts in prepared.values():
        for text, spans in zip(posts["text"], posts["label"], strict=True):
            assert all(0 <= start < end <= len(text) for start, end in spans)
            assert all(one[1] < other[0] for one, other in itertools.pairwise(spans))
    assert sum(len(spans) for posts in prepared.values() for spans in posts["label"]) == 8_978 - 1 - 92


def test_cost_of_reading_by_tokens(prepared, tmp_path):
    """Labels of tokens, put together from windows, hold nearly all characters of spans, and hardly any other."""
    tokenizer = train_wordpiece(tmp_path / "tokenizer", prepared["train"]["text"].tolist(), 8_000, strip_accents=False)
    posts = prepared["validation"]
    found, inside = [], []
    for row, windows in zip(
        posts.itertuples(), tokenizer.encode_windows(posts["text"].tolist(), 128, 0.5), strict=True
    ):
        marks = marked(row.label, len(row.text))
        starts, ends = (np.concatenate([getattr(part, name) for part in windows]) for name in ("starts", "ends"))
        labels = np.concatenate([token_labels(part.starts, part.ends, marks) for part in windows])
        found.append(character_values(starts, ends, labels, len(row.text)) >= 0.5)
        inside.append(marks)
    scores = span_metrics(character_counts(np.concatenate(found), np.concatenate(inside)))
    assert scores["precision"] > 0.985
    assert scores["recall"] > 0.995
