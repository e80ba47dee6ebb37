import pandas as pd
import pytest
from run_records import scope_of, write_run

from lib.core.errors import DataError
from lib.core.record import PREDICTIONS
from lib.results.kinds.abstention import AbstentionTable

VALIDATION = [(True, 0.9)] * 9 + [(False, 0.9)] + [(False, 0.6)] * 5
TEST = [(True, 0.95)] * 28 + [(False, 0.9)] * 2 + [(True, 0.8)] * 10


def table(root, *validations):
    """Return the table of runs, one per seed; documents of class 0 are (whether right, with what confidence)."""
    folders = [write_run(root, "finetune", "sdpa", "imdb", seed=seed) for seed in range(len(validations))]
    for folder, validation in zip(folders, validations, strict=True):
        rows = [
            {"label": 0, "prediction": 9, "probabilities": sorted([p, 1 - p], reverse=right), "split": split}
            for split, documents in (("validation", validation), ("test", TEST))
            for right, p in documents
        ]
        pd.DataFrame(rows).to_parquet(folder / PREDICTIONS, index=False)
    settings = AbstentionTable(kind="abstention", stage="finetune", wrong=0.1)
    return settings.make(scope_of(folders, {"finetune": ["imdb"]}, ["sdpa"]))


def test_share_and_certainty(tmp_path):
    """Validation decides 30 test documents, 2 of them wrong; 15 documents are too few for a certainty."""
    made = table(tmp_path, VALIDATION)
    plain, certain = made.frame.to_dict("records")
    assert list(plain.values())[3:5] == [pytest.approx(90), 75]
    assert plain["wrong"] == pytest.approx(100 / 15)  # the proof of tables compares its interval
    assert (plain["left"], certain["left"], certain["certainty"], certain["decided"]) == (10, 40, 90, 0)
    assert pd.isna([plain["certainty"], certain["confidence"], certain["wrong"], certain["wrong_high"]]).all()
    assert "At most 10 % of the decided documents" in made.note
    assert "One seed: there is no variance over seeds" in made.note


def test_seeds_that_decide_nothing(tmp_path):
    row = table(tmp_path, VALIDATION, [(False, 0.9)], [(number % 20 > 0, 0.9) for number in range(400)]).frame.iloc[0]
    assert [row["decided"], row["decided_low"], row["decided_high"], row["left"]] == [50, 0, 100, 20]
    assert row["wrong"] == pytest.approx(100 / 15)
    assert row["confidence"] == pytest.approx(90)


def test_predictions_without_probabilities(tmp_path):
    with pytest.raises(DataError, match="hold no probabilities"):
        table(tmp_path, [(True, 1.5)])
