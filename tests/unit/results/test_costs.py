import pandas as pd
import pytest

from lib.results.costs import front
from lib.results.printed_values import published_runs

COSTS = pd.DataFrame(
    {"error": [1, 2, 2, 1, 3], "minutes": [5, 3, 3, 6, 2], "memory": [4, 4, 4, 4, 9]}, index=["a", "b", "c", "d", "e"]
)
"""By hand: d is a with more time; b and c are equal; e is the fastest."""


def test_front_by_hand():
    assert front(COSTS) == ["a", "b", "c", "e"]
    assert front(COSTS[["error", "memory"]]) == ["a", "d"]
    assert front(COSTS[["minutes"]]) == ["e"]


def test_front_with_rounded_means():
    """The same three numbers, added in another order; the second costs more."""
    errors = [sum(numbers) / 3 for numbers in ((0.844, 0.758, 0.421), (0.421, 0.758, 0.844))]
    assert errors[0] != errors[1]
    for signed in (errors, errors[::-1], [-error for error in errors]):
        assert front(pd.DataFrame({"error": signed, "minutes": [1, 2]}, index=["a", "b"])) == ["a"]


EPOCHS = {"imdb": (15, 8), "hyperpartisan": (6, 7), "arxiv": (2, 4)}
TABLE = {
    "imdb": {"sdpa", "lsh-h4-c128"},
    "hyperpartisan": {"sdpa", "lsh-h2-c64", "favor-m64"},
    "arxiv": {"sdpa", "lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c128", "favor-m64", "favor-m128"},
}
"""The study's table 4.11."""


@pytest.mark.parametrize("dataset", TABLE)
def test_front_of_the_published_study(dataset):
    values = (
        published_runs("grid")
        .reset_index()
        .query("dataset == @dataset and model not in ['tfidf', 'sdpa-then-favor-m128']")
        .set_index("model")
    )
    tapt, finetune = (values[values["stage"] == stage] for stage in ("tapt", "finetune"))
    of_tapt, of_finetune = EPOCHS[dataset]
    costs = pd.DataFrame(
        {
            "error": -finetune["f1_macro_percent"],
            "minutes": of_tapt * tapt["minutes_per_epoch"] + of_finetune * finetune["minutes_per_epoch"],
            "memory": values.groupby("model")["peak_memory_gib"].max(),
        }
    )
    assert set(front(costs)) == TABLE[dataset]
