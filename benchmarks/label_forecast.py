"""Measure how often the forecast of the labels that a gain takes holds, on files drawn from labelled corpora.

Out: a CSV file, one row per corpus (`file`), row of the advice and number of documents (`size`).

A file has so many documents of a corpus, drawn by class. `low` to `high` is the interval of the forecast from it, and
`true` the least number of more documents that raise the mean curve of the row as much. That curve is the mean of
many draws of training and test documents from the corpus, smoothed by a polynomial of the logarithm of the size;
TF-IDF is fitted to training documents alone. `most` is how many more documents the corpus allows, at most `MOST` times
those of the file. Where not even these gain it, `true` is infinite, and an interval holds it if it ends beyond.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.polynomial import Polynomial
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.preprocessing import normalize

from benchmarks import options
from lib.advice.curve import GAIN, MOST, Size, documents_needed, drawn, learning_curve
from lib.advice.quick import USUAL, QuickRow
from lib.backbones.text_encoder import open_encoder
from lib.core.weights import EncoderSettings

CORPORA = {
    "imdb": ("imdb/train.parquet", "text", "label"),
    "davidson": ("hate/davidson_labeled_data.csv.gz", "tweet", "class"),
    "stormfront": ("hate/stormfront_sentences.csv.gz", "text", "label"),
    "unlp2025": ("unlp2025/train.parquet", "content", "manipulative"),
    "arxiv": ("arxiv/archives11.parquet", "text", "label"),
}
"""File, column of the text and of the label, by corpus."""

POOL, TEST, SHARE, TOKENS = 6_000, 1_500, 0.03, 64
"""Documents of a corpus, and of a test on it (and a third of the corpus), at most; share of a class below which it is
left out; tokens of a document that the encoder reads."""

SIZES, SEED, DRAWS, FEWEST = (100, 200, 400), 1_000, 10_000, 12
"""Documents of the files, and the seed of their draw; documents that models of a size learn from, all draws together,
and draws, at least."""


def label_forecast(*, data: str, encoder: str) -> pd.DataFrame:
    """Compare forecasts from files with the mean curves of their corpora.

    Args:
        data: folder of the corpora.
        encoder: folder of a published encoder.
    """
    rows, reader = [], open_encoder(encoder, EncoderSettings(folder=encoder, segment=TOKENS, max_tokens=TOKENS))
    for name, (path, text, label) in CORPORA.items():
        table = (pd.read_parquet if path.endswith("parquet") else pd.read_csv)(f"{data}/{path}")
        table = table[table[label].map(table[label].value_counts(normalize=True)) >= SHARE]
        table = table.dropna(subset=text).drop_duplicates(text).sample(frac=1, random_state=0)[:POOL]
        texts, labels = [*table[text]], np.unique(table[label], return_inverse=True)[1]
        counts = CountVectorizer(ngram_range=(1, 2), max_features=20_000).fit_transform(texts)
        for row, features in {"tfidf": counts, "frozen": normalize(reader.vectors(texts))}.items():
            curve, reach = mean_curve(features, labels)
            for size in SIZES:
                file = drawn(labels, Size(size), SEED)
                found = learning_curve(QuickRow(row, 0, 0, False, *learnt(features, file)), labels[file], np.inf)
                assert found is not None, "a file has documents enough"
                about, low, high, shown = documents_needed(*found.largest(), size)
                more = np.arange(1, min(MOST * size, reach - size) + 1)
                gained = more[curve(np.log(size + more)) - curve(np.log(size)) >= GAIN]
                true = gained[0] if len(gained) else np.inf
                held = low <= true <= high if len(gained) else high > more[-1]
                rows.append((name, row, size, shown, about, low, high, true, more[-1], held))
    return pd.DataFrame(rows, columns=["file", "row", "size", "shown", "about", "low", "high", "true", "most", "held"])


def learnt(features: Any, *parts: np.ndarray) -> list[Any]:
    """Return the features of parts of the documents; TF-IDF, if features are counts, is fitted to the first part."""
    if isinstance(features, np.ndarray):
        return [features[part] for part in parts]
    there = features[parts[0]].getnnz(axis=0)
    counts = features[:, np.flatnonzero((there >= 2) & (there <= 0.9 * len(parts[0])))]
    weighed = TfidfTransformer().fit(counts[parts[0]])
    return [weighed.transform(counts[part]) for part in parts]


def mean_curve(features: Any, labels: np.ndarray) -> tuple[Polynomial, int]:
    """Return the mean score by the logarithm of the number of documents that models learn from, and the largest one."""
    most, found = len(labels) - min(TEST, len(labels) // 3), []
    sizes = np.geomspace(SIZES[0], most, 1 + round(2 * np.log2(most / SIZES[0]))).astype(int)
    for draw in range(DRAWS // SIZES[0]):
        shuffled = drawn(labels, Size(len(labels)), draw)
        for size in sizes[np.maximum(FEWEST, DRAWS // sizes) > draw]:
            known, asked = learnt(features, shuffled[:size], shuffled[most:])
            model = LogisticRegression(C=USUAL, max_iter=1000).fit(known, labels[shuffled[:size]])
            found.append((np.log(size), f1_score(labels[shuffled[most:]], model.predict(asked), average="macro")))
    logarithms, scores = np.transpose(found)
    return Polynomial.fit(logarithms, scores, 4), most


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(__doc__)
    parser.add_argument("--data", required=True, metavar="FOLDER", help="of the corpora, with the files of CORPORA")
    parser.add_argument("--encoder", required=True, metavar="FOLDER", help="of a published encoder")
    options.measure(parser, label_forecast, argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
