import numpy as np
import pytest
from run_records import scope_of, write_baseline, write_predictions, write_run

from lib.results.kinds.significance import AnswerTable

NAMES = ["no", "yes"]
LABELS = np.arange(200) % 2
WRONG = {"tfidf": 60, "sdpa": 10, "favor-m64": 12, "lsh-h2-c64": 64}
"""As many wrong ones of either class each, so that macro-F1 is the accuracy: 70, 95, 94 and 68 %."""


def written(folder):
    folders = []
    for model, wrong in WRONG.items():
        predicted = np.where(np.arange(200) < wrong, 1 - LABELS, LABELS)
        tfidf = model == "tfidf"
        run = write_baseline(folder, "imdb", 0.5) if tfidf else write_run(folder, "finetune", model, "imdb")
        folders.append(write_predictions(run, NAMES, LABELS, predicted))
    return folders


def test_answer_in_one_row(tmp_path):
    shown = scope_of(written(tmp_path), {"finetune": ["imdb"]}, list(WRONG), reference="sdpa", baseline="tfidf")
    table = AnswerTable(kind="answer", stage="finetune").make(shown)
    (row,) = table.frame.to_dict("records")
    assert (row["dataset"], row["highest"], row["f1"]) == ("imdb", "sdpa", pytest.approx(95))
    assert row["low"] < 95 < row["high"]
    assert row["shown_better"] == "sdpa, favor-m64 (than tfidf)"
    assert row["shown_worse"] == "lsh-h2-c64 (than sdpa)"
    assert row["no_significant_difference"] == "lsh-h2-c64 (from tfidf); favor-m64 (from sdpa)"
    assert "One seed: there is no variance over seeds" in table.note
    assert "all 5 comparisons" in table.note


def test_answer_with_equal_means(tmp_path):
    """0.9 + 0.8 + 0.7 and 0.7 + 0.8 + 0.9 differ in the last digit."""
    folders = []
    for model, wrong in (("sdpa", (20, 40, 60)), ("favor-m64", (60, 40, 20))):
        for seed, count in enumerate(wrong):
            predicted = np.where(np.arange(200) % 100 < count // 2, 1 - LABELS, LABELS)
            run = write_run(tmp_path, "finetune", model, "imdb", seed=seed)
            folders.append(write_predictions(run, NAMES, LABELS, predicted))
    shown = scope_of(folders, {"finetune": ["imdb"]}, ["sdpa", "favor-m64"], reference="sdpa")
    (row,) = AnswerTable(kind="answer", stage="finetune").make(shown).frame.to_dict("records")
    assert row["highest"].split(", ") == ["favor-m64", "sdpa"]
