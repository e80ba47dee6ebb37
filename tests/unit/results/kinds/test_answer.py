import numpy as np
import pytest
from run_records import scope_of, write_baseline, write_predictions, write_run

from lib.results.kinds.significance import AnswerTable, SignificanceTable
from lib.results.predictions import interval_notes

NAMES = ["no", "yes"]
LABELS = np.arange(200) % 2
WRONG = {"tfidf": 60, "sdpa": 10, "favor-m64": 12, "lsh-h2-c64": 64}
"""As many wrong ones of either class each, so that macro-F1 is the accuracy: 70, 95, 94 and 68 %."""


def written(folder, seeds=(0,)):
    folders = []
    for model, wrong in WRONG.items():
        predicted = np.where(np.arange(200) < wrong, 1 - LABELS, LABELS)
        for seed in seeds:
            run = (
                write_baseline(folder, "imdb", 0.5, seed=seed)
                if model == "tfidf"
                else write_run(folder, "finetune", model, "imdb", seed=seed)
            )
            folders.append(write_predictions(run, NAMES, LABELS, predicted))
    return folders


def scope(folders, **fields):
    return scope_of(folders, {"finetune": ["imdb"]}, list(WRONG), reference="sdpa", baseline="tfidf", **fields)


def test_one_row_says_who_is_highest_and_what_is_shown(tmp_path):
    table = AnswerTable(kind="answer", stage="finetune").make(scope(written(tmp_path)))
    (row,) = table.frame.to_dict("records")
    assert (row["dataset"], row["highest"], row["f1"]) == ("imdb", "sdpa", pytest.approx(95))
    assert row["low"] < 95 < row["high"]
    assert row["shown_better"] == "sdpa, favor-m64 (than tfidf)"
    assert row["shown_worse"] == "lsh-h2-c64 (than sdpa)"
    assert row["no_significant_difference"] == "lsh-h2-c64 (from tfidf); favor-m64 (from sdpa)"
    assert "One seed: there is no variance over seeds" in table.note
    assert "all 5 comparisons" in table.note


def test_it_says_what_the_table_of_differences_says(tmp_path):
    folders = written(tmp_path, seeds=(0, 1))
    answer = AnswerTable(kind="answer", stage="finetune").make(scope(folders))
    differences = SignificanceTable(kind="significance", stage="finetune").make(scope(folders)).frame
    (row,) = answer.frame.to_dict("records")
    for result, column, word in (
        ("better", "shown_better", "than"),
        ("worse", "shown_worse", "than"),
        ("no difference shown", "no_significant_difference", "from"),
    ):
        for shown in differences[differences["result"] == result].itertuples():
            (part,) = [part for part in row[column].split("; ") if part.endswith(f"({word} {shown.against})")]
            assert shown.model in part
    assert "One seed" not in answer.note


def test_all_of_several_models_are_counted(tmp_path):
    pairs = [("sdpa", "tfidf"), ("favor-m64", "tfidf")]
    settings = AnswerTable(kind="answer", stage="finetune", pairs=pairs)
    assert settings.models == ["sdpa", "tfidf", "favor-m64"]
    (row,) = settings.make(scope(written(tmp_path))).frame.to_dict("records")
    assert row["shown_better"] == "all 2 (than tfidf)"
    assert (row["shown_worse"], row["no_significant_difference"]) == ("none", "none")


def test_rows_with_the_run_of_the_reference_are_compared_with_nothing(tmp_path):
    owners = {"finetune": {model: model for model in WRONG} | {"twin": "sdpa"}}
    shown = scope_of(written(tmp_path), {"finetune": ["imdb"]}, ["twin", "favor-m64"], owners=owners, reference="sdpa")
    table = AnswerTable(kind="answer", stage="finetune").make(shown)
    (row,) = table.frame.to_dict("records")
    assert row["highest"] == "twin, sdpa"
    assert row["no_significant_difference"] == "favor-m64 (from sdpa)"
    assert "for the one comparison." in table.note


def test_models_whose_means_differ_by_rounding_alone_are_both_the_highest(tmp_path):
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


def test_the_note_names_the_datasets_with_one_seed(tmp_path):
    folders = written(tmp_path, seeds=(0, 1))
    for model, wrong in WRONG.items():
        predicted = np.where(np.arange(200) < wrong, 1 - LABELS, LABELS)
        run = write_run(tmp_path, "finetune", model, "arxiv", seed=3)
        folders.append(write_predictions(run, NAMES, LABELS, predicted))
    both = scope_of(folders, {"finetune": ["imdb", "arxiv"]}, list(WRONG), reference="sdpa")
    note = AnswerTable(kind="answer", stage="finetune").make(both).note
    assert "over the test documents and seeds" in note
    assert "One seed on arxiv: there is no variance over seeds" in note


def test_the_note_names_all_that_makes_intervals_too_short(tmp_path):
    """Weights that the seeds share, and few documents of a class: the sentences of the table of differences."""
    labels, start = np.repeat([0, 1], [191, 9]), {"start": {"path": "pretrained", "digest": "1"}}
    folders = [
        write_predictions(
            write_run(tmp_path, "finetune", model, "imdb", seed=seed, parents=start),
            NAMES,
            labels,
            np.roll(labels, shift),
        )
        for shift, model in enumerate(("sdpa", "favor-m64"))
        for seed in (0, 1)
    ]
    shown = scope_of(folders, {"finetune": ["imdb"]}, ["favor-m64"], reference="sdpa")
    notes = [*interval_notes(shown.grid("finetune", models=["favor-m64", "sdpa"]), 0.95)]
    assert len(notes) == 3
    note = AnswerTable(kind="answer", stage="finetune").make(shown).note
    assert note.endswith(" ".join(notes))
    assert SignificanceTable(kind="significance", stage="finetune").make(shown).note.count(" ".join(notes)) == 1


def test_the_highest_is_one_of_the_compared_models_and_the_note_says_so(tmp_path):
    """The best of all, sdpa, is in no pair."""
    settings = AnswerTable(kind="answer", stage="finetune", pairs=[("favor-m64", "tfidf")])
    table = settings.make(scope(written(tmp_path)))
    assert table.frame["highest"].tolist() == ["favor-m64"]
    assert table.note.startswith("Highest: of the compared models, and partly so by chance, which its interval leaves")
