import pandas as pd
import pytest
from run_records import scope_of, write_predictions, write_run, write_spans

from lib.core.errors import DataError
from lib.results.predictions import interval_notes, paired_predictions

NAMES = ["no", "yes", "never"]


def pair(folders, models=("sdpa", "favor-m64")):
    return paired_predictions(scope_of(folders, {"finetune": ["imdb"]}, models).grid("finetune"))


def write(tmp_path, model, predictions, seed=0, labels=(0, 0, 1)):
    return write_predictions(write_run(tmp_path, "finetune", model, "imdb", seed=seed), NAMES, labels, predictions)


def rewrite(folder, change):
    path = folder / "predictions.parquet"
    change(pd.read_parquet(path)).to_parquet(path, index=False)
    return folder


def test_predictions_by_seed_model_and_document(tmp_path):
    folders = [
        write(tmp_path, model, predictions, seed)
        for model, seed, predictions in [
            ("sdpa", 7, [0, 0, 0]),
            ("favor-m64", 8, [1, 1, 1]),
            ("favor-m64", 7, [0, 1, 1]),
            ("sdpa", 8, [0, 0, 1]),
        ]
    ]
    found = pair(folders)
    assert found.models == ["sdpa", "favor-m64"]
    assert found.predictions.tolist() == [[[0, 0, 0], [0, 1, 1]], [[0, 0, 1], [1, 1, 1]]]
    assert (found.labels.tolist(), found.documents.tolist(), found.classes) == ([0, 0, 1], [0, 1, 2], 3)
    assert pair(folders, ("favor-m64", "sdpa")).models == ["favor-m64", "sdpa"]


def test_documents_in_another_order(tmp_path):
    folders = [write(tmp_path, "sdpa", [0, 1, 2]), write(tmp_path, "favor-m64", [0, 1, 2])]
    rewrite(folders[1], lambda frame: frame.iloc[::-1])
    assert pair(folders).predictions.tolist() == [[[0, 1, 2], [0, 1, 2]]]


def test_tokens_with_their_document(tmp_path):
    """One without labels drops out."""
    tokens = {"id": ["c", "b", "a"], "label": [[2], [], [0, 1]], "prediction": [[2], [], [0, 0]], "split": "test"}
    folder = rewrite(write(tmp_path, "sdpa", [0, 1, 2]), lambda _: pd.DataFrame(tokens))
    found = pair([folder], ["sdpa"])
    assert (found.labels.tolist(), found.predictions.tolist()) == ([0, 1, 2], [[[0, 0, 2]]])
    assert found.documents.tolist() == [0, 0, 1]


def test_documents_or_labels_that_differ(tmp_path):
    for labels in ((0, 1, 1), (0, 0), (0, 0, 1, 1)):
        folders = [write(tmp_path, "sdpa", [0, 1, 2]), write(tmp_path, "favor-m64", labels, labels=labels)]
        with pytest.raises(DataError, match=r"favor-m64/imdb/seed-0/predictions.parquet"):
            pair(folders)


def test_predictions_that_are_missing(tmp_path):
    folders = [write(tmp_path, "sdpa", [0, 1, 2]), write(tmp_path, "favor-m64", [0, 1, 2])]
    rewrite(folders[1], lambda frame: frame.assign(id=0))
    with pytest.raises(DataError, match=r"favor-m64/imdb/seed-0/predictions.parquet.*document 0"):
        pair(folders)
    rewrite(folders[1], lambda frame: frame.drop(columns="id"))
    with pytest.raises(DataError, match=r"favor-m64/imdb/seed-0/predictions.parquet"):
        pair(folders)
    rewrite(folders[0], lambda frame: frame.query("split != 'test'"))
    with pytest.raises(DataError, match=r"sdpa/imdb/seed-0/predictions.parquet.*test"):
        pair(folders)
    (folders[0] / "predictions.parquet").unlink()
    with pytest.raises(DataError, match=r"sdpa/imdb/seed-0/predictions.parquet"):
        pair(folders)


def test_spans_by_document(tmp_path):
    runs = [("sdpa", [(3, 1, 0), (0, 0, 2)]), ("favor-m64", [(1, 0, 2), (2, 4, 0)])]
    folders = [
        write_spans(write_run(tmp_path, "finetune", model, "imdb", seed=seed), counts)
        for model, counts in runs
        for seed in (0, 1)
    ]
    rewrite(folders[1], lambda frame: frame.iloc[::-1])
    found = pair(folders)
    assert found.models == ["sdpa", "favor-m64"]
    assert found.true_positives.tolist() == [[[3, 0], [1, 2]]] * 2
    assert (found.false_positives + found.false_negatives).tolist() == [[[1, 2], [2, 4]]] * 2
    assert found.f1()[0].tolist() == pytest.approx([6 / (6 + 3), 6 / (6 + 6)])
    rewrite(folders[3], lambda frame: frame.assign(label=[[[0, 4]]] * len(frame)))
    with pytest.raises(DataError, match=r"favor-m64/imdb/seed-1/predictions.parquet"):
        pair(folders)


def test_few_documents_of_a_class(tmp_path):
    """Of three classes the rarest is in 9 documents, however many words of it each has."""
    few = [{"id": each, "label": [2] * 50, "prediction": [2] * 50, "split": "test"} for each in range(9)]
    many = [{"id": each, "label": [0, 1], "prediction": [0, 1], "split": "test"} for each in range(9, 40)]
    folder = rewrite(write(tmp_path, "sdpa", [0, 1, 2]), lambda _: pd.DataFrame(few + many))
    grid = scope_of([folder], {"finetune": ["imdb"]}, ["sdpa"]).grid("finetune")
    (note,) = [note for note in interval_notes(grid, 0.95) if "fewer than" in note]
    assert note.startswith("Classes with fewer than 10 test documents: imdb (9 in the rarest class).")
    rewrite(folder, lambda _: pd.DataFrame([*few, *many, few[0] | {"id": 40}]))
    assert not [note for note in interval_notes(grid, 0.95) if "fewer than" in note]
