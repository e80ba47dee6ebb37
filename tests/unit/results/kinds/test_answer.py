import re

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
    assert table.headlines == [
        "On 200 test texts, sdpa has 95.0 % macro-F1, the highest of 4 models, and favor-m64 94.0 %; the difference of "
        "1.0 points (95 % interval over documents: -0.4 to 2.4) may be chance after correction for 5 comparisons."
    ]
    assert (
        table.to_html().index(table.headlines[0])
        < table.to_html().index("<table")
        < table.to_html().index(table.note[:40])
    )
    assert table.to_markdown().startswith(table.headlines[0])
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


def sentences(folder, wrong, datasets=("imdb",), seeds=(0,), **shown):
    """Return the headlines where each model has so many wrong ones of 200 on each dataset, by turns of the seed."""
    folders = []
    for dataset in datasets:
        for model, count in wrong.items():
            for seed in seeds:
                predicted = np.where(np.roll(np.arange(200), 2 * seed) < count, 1 - LABELS, LABELS)
                run = write_run(folder, "finetune", model, dataset, seed=seed)
                folders.append(write_predictions(run, NAMES, LABELS, predicted))
    scope = scope_of(folders, {"finetune": list(datasets)}, list(wrong), reference=next(iter(wrong)), **shown)
    return AnswerTable(kind="answer", stage="finetune", confidence=0.9).make(scope).headlines


def test_sentence_of_a_significant_difference(tmp_path):
    """The reference is the worse one, so that difference and interval change their sign."""
    (said,) = sentences(tmp_path, {"tfidf": 60, "sdpa": 10})
    assert said.startswith(
        "On 200 test texts, sdpa has 95.0 % macro-F1 and tfidf 70.0 %; the difference of 25.0 points ("
    )
    assert said.endswith(") is significant (one seed).")
    low, high = map(float, re.search(r"90 % interval over documents: (\S+) to (\S+)\)", said).groups())
    assert 15 < low < 25 < high < 35


def test_sentences_of_seeds_and_datasets(tmp_path):
    first, second = sentences(tmp_path, {"tfidf": 60, "sdpa": 56}, ("imdb", "arxiv"), (0, 1, 2))
    for text, dataset in ((first, "imdb"), (second, "arxiv")):
        assert text.startswith(
            f"On 200 test texts of {dataset}, sdpa has 72.0 % macro-F1 and tfidf 70.0 % (means over 3"
        )
        assert "interval over documents and seeds" in text


def test_sentence_of_same_predictions(tmp_path):
    (said,) = sentences(tmp_path, {"tfidf": 60, "sdpa": 60})
    assert "sdpa has 70.0 % macro-F1 and tfidf 70.0 %; the difference of 0.0 points (" in said
    assert said.endswith(") may be chance.")
    assert "equal" not in said
