"""Whether decisions chosen on validation documents keep what they say on others: TF-IDF on real documents."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.backbones.tfidf.backbone import Backbone
from lib.backbones.tfidf.settings import Settings
from lib.core.errors import DataError
from lib.evaluation.decisions import decided, least_confidence

DATA = Path(__file__).parents[2].parent / "shared" / "data"
CERTAINTY, DRAWS = 0.9, 1000
DATASETS = {
    "imdb/train.parquet": ("text", "label", 2000, 1000, 200, 0.05),
    "hate/davidson_labeled_data.csv.gz": ("tweet", "class", 4000, 1000, 200, 0.05),
    "hate/stormfront_sentences.csv.gz": ("text", "label", 3000, 600, 200, 0.05),
    "arxiv/archives11.parquet": ("text", "label", 400, 200, 50, 0.15),
    "unlp2025/train.parquet": ("content", "manipulative", 1000, 400, 100, 0.15),
}
"""Columns of texts and labels; training, validation and test documents; share of the decided that may be wrong."""

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real corpora are not beside the repository (../shared/data)"),
]


@pytest.mark.parametrize("file", DATASETS)
def test_decisions_kept_on_other_documents(file):
    text, label, train, validation, test, wrong = DATASETS[file]
    read = pd.read_parquet if file.endswith("parquet") else pd.read_csv
    documents = read(DATA / file).sample(frac=1, random_state=1)[[text, label]].dropna()
    labels = pd.factorize(documents[label])[0]
    backbone = Backbone(Settings(kind="tfidf", C=10.0, class_weight=None), seed=1)
    backbone.fit(documents[text][:train], pd.Series(labels[:train]))
    probabilities = backbone.class_probabilities(documents[text][train:], labels.max() + 1)
    right, confidence = probabilities.argmax(axis=1) == labels[train:], probabilities.max(axis=1)
    generator, found = np.random.default_rng(1), []
    for _ in range(DRAWS):
        parts = np.split(generator.permutation(len(right)), [validation, validation + test])
        chosen, tested, rest = ((right[part], confidence[part]) for part in parts)
        for certainty in (None, CERTAINTY):
            try:
                least = least_confidence(*chosen, wrong, certainty)
            except DataError:
                continue
            of_rest = decided(*rest, least)
            true = of_rest.decided / of_rest.documents, of_rest.wrong / max(of_rest.decided, 1)
            ends = [(low, high) for _, low, high in decided(*tested, least).shares]
            covers = [not (each < low or each > high) for each, (low, high) in zip(true, ends, strict=True)]
            found.append([certainty or 0, *covers, true[1] > wrong, *true])
    names = ["certainty", "decided covered", "wrong covered", "broken", "decided", "wrong"]
    outcomes = pd.DataFrame(found, columns=names).groupby("certainty")
    table = outcomes.mean().assign(chosen=outcomes.size() / DRAWS, worst=outcomes["wrong"].quantile(0.95))
    print(file, f"{len(right):,} documents", table.to_string(float_format="%.3f"), sep="\n")
    assert table.loc[0, ["decided covered", "wrong covered"]].min() >= 0.93
    assert (table["broken"] * table["chosen"])[CERTAINTY] <= 1 - CERTAINTY
