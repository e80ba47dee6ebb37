import json

import datasets
import numpy as np
import pytest

from lib.results.kinds.token_lengths import TokenLengthsFigure
from lib.results.scope import Scope


def write(folder, splits, parts=None, limit=100):
    """Write tokenised splits, of which only the lengths matter here, and their statistics; return the latter's path."""
    statistics = {}
    for split, lengths in splits.items():
        table = datasets.Dataset.from_dict(
            {"length": lengths}, features=datasets.Features(length=datasets.Value("int32"))
        )
        table.save_to_disk(str(folder / split), num_shards=1)
        statistics[split] = {"documents": len(lengths), "max_tokens": limit, "at_limit": None}
        if lengths:
            statistics[split]["at_limit"] = float(np.mean(np.array(lengths) == limit))
    file = folder / "token_lengths.json"
    file.write_text(json.dumps(statistics | (parts or {})))
    return file


def drawn(tokenised, *files):
    scope = Scope(models=[], stages={}, owners={}, tokenised=tokenised, files=files)
    return TokenLengthsFigure(kind="token_lengths").draw(scope)


def shares_of(axes):
    """Return for each line its shares in percent, by the last whole length of a bin."""
    return {
        step.get_gid(): {
            round(end - 0.5): value
            for value, end in zip(step.get_data().values.tolist(), step.get_data().edges[1:], strict=True)
            if value
        }
        for step in axes.patches
    }


def test_shares_of_lengths(tmp_path):
    file = write(tmp_path, {"train": [3, 4, 4, 40], "validation": [40, 40], "test": [20, 20]}, limit=40)
    (axes,) = drawn([("imdb", "wordpiece")], file).axes
    assert axes.get_title("left") == "imdb"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("tokens, after the cut", "documents [% per 1 token]")
    assert shares_of(axes) == {"train": {3: 25, 4: 50, 40: 25}, "validation": {40: 100}, "test": {20: 100}}
    assert len({step.get_linestyle() for step in axes.patches}) == 3
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "train: 4 documents, 25 % at 40 tokens",
        "validation: 2 documents, 100 % at 40 tokens",
        "test: 2 documents, 0 % at 40 tokens",
    ]


def test_parts_with_their_own_limit(tmp_path):
    parts = {
        "train_short": {"documents": 3, "max_tokens": 5, "at_limit": 2 / 3},
        "train_long": {"documents": 2, "max_tokens": 10, "at_limit": 0.5},
    }
    file = write(tmp_path, {"train": [5, 5, 2, 10, 7], "validation": [10]}, parts, limit=10)
    (axes,) = drawn([("wikipedia", "wordpiece")], file).axes
    of_parts = shares_of(axes)
    assert list(of_parts) == ["train_short", "train_long", "validation"]
    assert of_parts["train_short"] == {2: pytest.approx(100 / 3), 5: pytest.approx(200 / 3)}
    assert of_parts["train_long"] == {7: 50, 10: 50}
    assert [line.get_xdata() for line in axes.lines] == [[5, 5], [10, 10]]
    assert [text.get_text() for text in axes.texts] == ["5", "10"]
