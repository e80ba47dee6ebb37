"""How many tokens the documents of each split have, and how much of their text is lost."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.core.errors import DataError
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, TableSettings, Topic
from lib.results.style import BASELINE_COLOUR, STYLE, draw_histogram, label_histogram, name_above, panel_grid
from lib.results.table import Column, Table

STATISTICS = ("documents", "mean", "std", "median", "min", "max")
LOST = {"unknown": "unknown tokens [%]", "empty": "without a known token [%]", "dropped": "characters dropped [%]"}
"""Column of each share of lost text; blank in statistics that were made without it."""


class TokenLengthsTable(TableSettings):
    """One row per tokenised split, or part of one cut to its own length."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["token_lengths"]] = "token_lengths"

    kind: Literal["token_lengths"]

    def make(self, scope: Scope) -> Table:
        """Return the number of documents and statistics of their tokens; the name of a single tokeniser is left out.

        Args:
            scope: whose files hold `{split: {documents, mean, std, median, min, max, unknown, empty, dropped}}` as
                JSON, the statistics of no documents null.
        """
        rows = []
        for (corpus, tokenizer), path in zip(scope.tokenised, scope.files, strict=True):
            try:
                rows += [
                    {"corpus": corpus, "tokenizer": tokenizer, "split": split}
                    | {name: entry[name] for name in STATISTICS}
                    | {name: 100 * entry[name] if entry.get(name) is not None else None for name in LOST}
                    for split, entry in json.loads(Path(path).read_text(encoding="utf-8")).items()
                ]
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise DataError(f"{path}: not token lengths ({error!r}). Tokenise {corpus} again.") from error
        columns = {name: Column(name, 1 if name in ("mean", "std", "median") else 0) for name in STATISTICS}
        columns |= {name: Column(label, 2) for name, label in LOST.items()}
        frame = pd.DataFrame(rows, columns=["corpus", "tokenizer", "split", *columns])
        return Table(frame if frame["tokenizer"].nunique() > 1 else frame.drop(columns="tokenizer"), columns)


PANEL_INCHES = (3.5, 3.5)
BINS = 40


class TokenLengthsFigure(FigureSettings):
    """Histograms of the documents' tokens, one line per split, one panel per corpus and tokeniser."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["token_lengths"]] = "token_lengths"

    kind: Literal["token_lengths"]

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw which share of the documents has how many tokens, and the lengths that they are cut to as dashed lines.

        Args:
            scope: its files are the statistics that tokenisation leaves; the tokenised splits, whose columns `length`
                are drawn, are in the same folder.

        Raises:
            DataError: statistics or a tokenised split are missing, damaged, or do not fit each other.
        """
        corpora = [corpus for corpus, _ in scope.tokenised]
        figure, panels = panel_grid(len(scope.tokenised), PANEL_INCHES)
        for axes, (corpus, tokenizer), file in zip(panels, scope.tokenised, scope.files, strict=True):
            title = f"{scope.title(corpus)}, {tokenizer}" if corpora.count(corpus) > 1 else scope.title(corpus)
            axes.set_title(title, pad=14)  # above the names of limits
            _draw_parts(axes, list(_parts(Path(file))))
        return figure


class Part(NamedTuple):
    """A split, or part of one that is cut to its own length."""

    name: str
    limit: int
    """Tokens that documents are cut to."""
    at_limit: float | None
    """Share of the documents that fill the limit."""
    lengths: np.ndarray
    """Tokens of each document, after the cut."""


def _parts(file: Path) -> Iterator[Part]:
    """Yield the splits; in place of one that has parts (`train_short`, `train_long`) these, in their order."""
    from datasets import load_from_disk  # which starts slowly

    try:
        statistics: Mapping[str, Mapping[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
        splits = [name for name in statistics if (file.parent / name).is_dir()]
        if not splits:
            raise ValueError("no tokenised split in its folder")
        for split in splits:
            names = [name for name in statistics if name.startswith(f"{split}_")] or [split]
            ends = np.cumsum([statistics[name]["documents"] for name in names])
            lengths = np.asarray(load_from_disk(str(file.parent / split)).with_format("numpy")["length"][:], dtype=int)
            if len(lengths) != ends[-1]:
                raise ValueError(f"{ends[-1]} documents counted in {split}, {len(lengths)} found")
            for name, part in zip(names, np.split(lengths, ends[:-1]), strict=True):
                yield Part(name, statistics[name]["max_tokens"], statistics[name]["at_limit"], part)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file}: not token lengths ({error!r}). Tokenise {file.parent} again.") from error


def _draw_parts(axes: Axes, parts: list[Part]) -> None:
    longest = max((int(part.lengths.max(initial=0)) for part in parts), default=0)
    width = -(-longest // BINS) or 1
    edges = np.arange(longest + 0.5, -width, -width)[::-1]  # the last bin ends with the longest document
    for place, part in enumerate(parts):
        cut = "" if part.at_limit is None else f", {100 * part.at_limit:.0f} % at {part.limit:,} tokens"
        label = f"{part.name.replace('_', ' ')}: {len(part.lengths):,} documents{cut}"
        draw_histogram(axes, part.lengths, edges, place, part.name, label)
    for limit in sorted({part.limit for part in parts}):
        axes.axvline(limit, color=BASELINE_COLOUR, linestyle="--", linewidth=0.8, zorder=0)
        name_above(axes, limit, f"{limit:,}")
    label_histogram(axes, "tokens, after the cut", "token", width)
