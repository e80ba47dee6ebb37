"""How many tokens the documents of each split have."""

import json
from pathlib import Path
from typing import ClassVar, Literal

import pandas as pd

from lib.core.errors import DataError
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table

STATISTICS = ("documents", "mean", "std", "median", "min", "max")


class Settings(TableSettings):
    """One row per tokenised split, or part of one cut to its own length."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["token_lengths"]] = "token_lengths"

    kind: Literal["token_lengths"]


def make(settings: Settings, scope: Scope) -> Table:
    """Return documents and statistics of their tokens, of each split; with a single tokeniser, its name is left out.

    Args:
        settings: nothing to set.
        scope: whose files hold `{split: {documents, mean, std, median, min, max}}` as JSON, the statistics of no
            documents null.
    """
    rows = []
    for (corpus, tokenizer), path in zip(scope.tokenised, scope.files, strict=True):
        try:
            rows += [
                {"corpus": corpus, "tokenizer": tokenizer, "split": split} | {name: entry[name] for name in STATISTICS}
                for split, entry in json.loads(Path(path).read_text(encoding="utf-8")).items()
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not token lengths ({error!r}). Tokenise {corpus} again.") from error
    columns = {name: Column(name, 1 if name in ("mean", "std", "median") else 0) for name in STATISTICS}
    frame = pd.DataFrame(rows, columns=["corpus", "tokenizer", "split", *STATISTICS])
    return Table(frame if frame["tokenizer"].nunique() > 1 else frame.drop(columns="tokenizer"), columns)
