"""Measure how often the forecast of the labels that a gain takes holds, on files drawn from labelled corpora.

Out: a CSV file, one row per corpus, row of the advice and number of documents.

A file has so many documents of a corpus, drawn by class. `low` to `high` is the interval of the forecast from it, and
`true` the least number of more documents by which the mean curve of the row gains as much. That curve is the mean of
many draws of training and test documents from the corpus, smoothed by a polynomial of the logarithm of the size;
TF-IDF is fitted to training documents alone. `reach` is how many more documents the corpus allows, at most `MOST` times
those of the file. Where not even these gain it, `true` is infinite, and an interval holds it if it ends beyond.
"""

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.polynomial import Polynomial
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.preprocessing import normalize

from benchmarks import options
from benchmarks.tables import COLUMNS
from lib.advice.curve import GAIN, MOST, Size, documents_needed, drawn, learning_curve
from lib.advice.quick import USUAL, QuickRow
from lib.backbones.text_encoder import open_encoder
from lib.core import program
from lib.core.weights import EncoderSettings
from lib.training.encoding import write_encoder

CORPORA = {
    "imdb": ("imdb/train.parquet", "text", "label"),
    "davidson": ("hate/davidson_labeled_data.csv.gz", "tweet", "class"),
    "stormfront": ("hate/stormfront_sentences.csv.gz", "text", "label"),
    "unlp2025": ("unlp2025/train.parquet", "content", "manipulative"),
    "arxiv": ("arxiv/archives11.parquet", "text", "label"),
}
"""File, column of the text and of the label, by corpus."""

SMALLEST_CLASS = 0.03
"""Share of the documents below which a class is left out."""

TOKENS = 64
"""Tokens of a document that encoders read."""

POOL, TEST = 6_000, 1_500
"""Documents of a corpus, and of a test on it, at most; a test has a third of the corpus, at most."""

DRAWS, FEWEST, SEED = 10_000, 12, 1_000
"""Documents that models of a size learn from, all draws together; draws, at least; seed of the files."""


def label_forecast(*, data: str, encoder: str | None, names: Iterable[str], sizes: Sequence[int]) -> pd.DataFrame:
    """Compare forecasts from files with the mean curves of their corpora.

    Args:
        data: folder of the corpora.
        encoder: folder of a published encoder, which reads 64 tokens; None = TF-IDF alone.
        names: of corpora.
        sizes: documents of the files.
    """
    rows = []
    for name in names:
        texts, labels = corpus(data, *CORPORA[name])
        counts = CountVectorizer(ngram_range=(1, 2), min_df=2).fit_transform(texts)
        read: dict[str, Any] = {"tfidf": counts} | ({"frozen": vectors(texts, encoder)} if encoder else {})
        for row, features in read.items():
            curve, reach = mean_curve(features, labels, min(sizes))
            for size in sizes:
                file = drawn(labels, Size(size), SEED)
                found = learning_curve(QuickRow(row, 0, 0, False, *learnt(features, file)), labels[file], np.inf)
                if found is None:
                    continue
                about, low, high, shown = documents_needed(*found.largest(), size)
                more = np.arange(1, min(MOST * size, reach - size) + 1)
                gained = more[curve(np.log(size + more)) - curve(np.log(size)) >= GAIN]
                true = gained[0] if len(gained) else np.inf
                held = low <= true <= high if len(gained) else high > more[-1]
                rows.append((name, row, size, shown, about, low, high, true, more[-1], held))
    return pd.DataFrame(rows, columns=COLUMNS["label_forecast"])


def corpus(data: str, file: str, text: str, label: str) -> tuple[list[str], np.ndarray]:
    """Return the texts of a corpus in random order, each once, and their classes [n], without rare ones."""
    found = (pd.read_parquet if file.endswith("parquet") else pd.read_csv)(Path(data) / file)
    found = found[found[label].map(found[label].value_counts(normalize=True)) >= SMALLEST_CLASS]
    found = found.dropna(subset=text).drop_duplicates(text).sample(frac=1, random_state=0)[:POOL]
    return [*found[text]], np.unique(found[label], return_inverse=True)[1]


def vectors(texts: Sequence[str], encoder: str) -> np.ndarray:
    """Return the vectors of texts by an encoder, of length 1 [n, D]."""
    settings = EncoderSettings(folder=encoder, segment=TOKENS, max_tokens=TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        write_encoder("frozen", settings, Path(encoder), Path(encoder), Path(folder) / "frozen")
        return normalize(open_encoder(Path(folder) / "frozen", settings, "cpu").vectors(texts))


def learnt(features: Any, *parts: np.ndarray) -> list[Any]:
    """Return the features of parts of the documents; TF-IDF, if features are counts, is fitted to the first part."""
    if isinstance(features, np.ndarray):
        return [features[part] for part in parts]
    there = np.bincount(features[parts[0]].indices, minlength=features.shape[1])
    counts = features[:, np.flatnonzero((there >= 2) & (there <= 0.9 * len(parts[0])))]
    often = np.argsort(-counts[parts[0]].sum(axis=0).A1, kind="stable")[:20_000]
    weighed = TfidfTransformer().fit(counts[parts[0]][:, often])
    return [weighed.transform(counts[part][:, often]) for part in parts]


def mean_curve(features: Any, labels: np.ndarray, least: int) -> tuple[Polynomial, int]:
    """Return the mean score by the logarithm of the number of documents that models learn from, and the largest one."""
    held_out = min(TEST, len(labels) // 3)
    most, found = len(labels) - held_out, []
    sizes = np.geomspace(least, most, 1 + round(2 * np.log2(most / least))).astype(int)
    for draw in range(max(FEWEST, DRAWS // least)):
        shuffled = drawn(labels, Size(len(labels)), draw)
        for size in sizes[np.maximum(FEWEST, DRAWS // sizes) > draw]:
            known, asked = learnt(features, shuffled[:size], shuffled[most:])
            model = LogisticRegression(C=USUAL, max_iter=1000).fit(known, labels[shuffled[:size]])
            found.append((size, f1_score(labels[shuffled[most:]], model.predict(asked), average="macro")))
    means = pd.DataFrame(found, columns=["size", "score"]).groupby("size")["score"].agg(["mean", "sem"])
    return Polynomial.fit(np.log(means.index), means["mean"], 4, w=1 / means["sem"]), most


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(__doc__)
    parser.add_argument("--data", default="../shared/data", metavar="FOLDER", help="of the corpora (../shared/data)")
    parser.add_argument("--encoder", metavar="FOLDER", help="a published encoder (TF-IDF alone)")
    parser.add_argument("--names", nargs="+", choices=CORPORA, default=[*CORPORA], help="corpora (all)")
    parser.add_argument(
        "--sizes", nargs="+", type=program.positive, default=[100, 200, 400], help="documents of a file"
    )
    options.measure(parser, label_forecast, argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
