import itertools
import re

import numpy as np
import pytest
from run_records import scope_of, write_predictions, write_run

from lib.results.kinds.significance import AnswerTable

NAMES = ["no", "yes"]
LABELS = np.arange(200) % 2
WRONG = {"tfidf": 60, "sdpa": 10, "favor-m64": 12, "lsh-h2-c64": 64}
"""As many wrong ones of either class each, so that macro-F1 is the accuracy: 70, 95, 94 and 68 %."""


def written(folder, wrong=WRONG, datasets=("imdb",), seeds=(0,)):
    folders = []
    for (model, count), dataset, seed in itertools.product(wrong.items(), datasets, seeds):
        predicted = np.where(np.roll(np.arange(200), 2 * seed) < count, 1 - LABELS, LABELS)
        run = write_run(folder, "finetune", model, dataset, seed)
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
    (said,) = table.headlines
    assert "sdpa has 95.0 % macro-F1, the highest of 4 models, and favor-m64 94.0 %; the difference of 1.0" in said
    assert said.endswith(
        "(95 % interval over documents: -0.4 to 2.4) may be chance after correction for 5 comparisons."
    )
    html = table.to_html()
    assert html.index(said) < html.index("<table") < html.index(table.note[:40])
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


@pytest.mark.parametrize(
    ("wrong", "seeds", "beginning", "end"),
    [
        (10, (0,), " with 1 seed, sdpa has 95.0 % macro-F1 and tfidf 70.0 %; the", "is significant (one seed)."),
        (60, (0,), " with 1 seed, sdpa has 70.0 % macro-F1 and tfidf 70.0 %; the", "may be chance."),
        (56, (0, 1, 2), " of imdb with 3 seeds, sdpa has 72.0 %", "after correction for 2 comparisons."),
    ],
)
def test_sentence_of_two_models(tmp_path, wrong, seeds, beginning, end):
    """The reference is the worse one, so that the difference and its interval change their signs."""
    datasets = ["imdb", "arxiv"][: len(seeds)]
    folders = written(tmp_path, {"tfidf": 60, "sdpa": wrong}, datasets, seeds)
    scope = scope_of(folders, {"finetune": datasets}, ["sdpa", "tfidf"], reference="tfidf")
    said, *others = AnswerTable(kind="answer", stage="finetune", confidence=0.9).make(scope).headlines
    assert len(others) == len(datasets) - 1
    assert said.startswith(f"On 200 test texts{beginning}")
    assert said.endswith(f" {end}")
    over = "documents and seeds" if len(seeds) > 1 else "documents"
    size, *ends = re.search(rf"of (\S+) points \(90 % interval over {over}: (\S+) to (\S+)\)", said).groups()
    assert float(ends[0]) < float(size) == (60 - wrong) / 2 < float(ends[1])
