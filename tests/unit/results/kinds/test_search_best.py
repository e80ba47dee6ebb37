from io import StringIO

import pandas as pd
import pytest
from run_records import scope_of, write_run

from lib.results.kinds.search import SearchBestTable

VARIANTS = [{"recipe.freeze_layers": layers, "task.classifier_dropout": 0.1 * (layers + 1)} for layers in (0, 1)]


def best(root, scores, variants=VARIANTS, column="validation_f1", metric="eval_f1_macro"):
    """Return the table of a search that scored, by dataset, each variant with each seed."""
    runs = [
        write_run(root, "search", "sdpa", dataset, seed, variant=variant, **{metric: score})
        for dataset, rows in scores.items()
        for variant, row in zip(variants, rows, strict=True)
        for seed, score in enumerate(row)
    ]
    scope = scope_of(runs, {"search": list(scores)}, ["sdpa"], variants={"search": variants})
    return SearchBestTable(kind="search_best", stage="search", column=column).make(scope)


def test_best_settings_with_their_lead(tmp_path):
    made = best(tmp_path, {"imdb": [(0.90, 0.94), (0.91, 0.92)], "arxiv": [(0.70,), (0.80,)]})
    read = pd.read_csv(StringIO(made.to_csv()))
    assert read.columns.tolist() == [
        "dataset", "freeze_layers", "classifier_dropout", "validation_f1_macro_percent",
        "validation_f1_macro_percent_sd", "lead", "seeds",
    ]  # fmt: skip
    assert read.iloc[0].tolist() == ["imdb", 0, 0.1, 92.0, 2.83, 0.5, 2]
    assert read.iloc[1, :4].tolist() == ["arxiv", 1, 0.2, 80.0]
    assert pd.isna(read.iloc[1, 4])
    assert read.iloc[1, 5:].tolist() == [10.0, 1]
    assert "| 92.00 ± 2.83 |" in " ".join(made.to_markdown().split())


def test_setting_called_as_a_column(tmp_path):
    variants = [{"task.seeds": 7, "recipe.epochs": 2}, {"task.seeds": 9, "recipe.epochs": 2}]
    frame = best(tmp_path, {"imdb": [(0.90, 0.94), (0.80, 0.82)]}, variants).frame
    assert frame[["task.seeds", "epochs", "seeds"]].iloc[0].tolist() == ["7", "2", 2]


def test_best_of_losses(tmp_path):
    made = best(tmp_path, {"imdb": [(0.5,), (0.3,)]}, column="eval_mse", metric="eval_mse")
    assert made.frame[["freeze_layers", "lead"]].iloc[0].tolist() == ["1", pytest.approx(0.2)]
