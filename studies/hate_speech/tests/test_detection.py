import numpy as np
import pandas as pd
import pytest
import yaml
from run_records import scope_of, write_baseline

from lib.core.errors import DataError
from studies.hate_speech.results.kinds.detection import DetectionTable

VALIDATION = {"label": [0, 1, 0, 1], "positive": [0.1, 0.3, 0.2, 0.9]}
TEST = {"label": [0, 0, 1, 1], "positive": [0.2, 0.6, 0.4, 0.8]}


def run(root, seed=0, **splits):
    folder = write_baseline(root, "posts", 0.8, seed=seed)
    frames = []
    for split, values in ({"validation": VALIDATION, "test": TEST} | splits).items():
        rows = pd.DataFrame({"label": values["label"]}).assign(split=split)
        rows["probabilities"] = [np.float32([1 - share, share]) for share in values["positive"]]
        frames.append(rows)
    pd.concat(frames, ignore_index=True).to_parquet(folder / "predictions.parquet", index=False)
    (folder / "config.yaml").write_text(yaml.safe_dump({"labels": ["harmless", "hateful"]}))
    return folder


def table(*folders, positive=None):
    settings = DetectionTable(kind="detection", stage="finetune", positive=positive)
    return settings.make(scope_of(folders, {"finetune": ["posts"]}, ["tfidf"]))


def test_detection_at_three_thresholds(tmp_path):
    """By hand. Validation tells its classes apart from 0.3 on, and so finds three on test, of which one is wrong."""
    row = table(run(tmp_path)).frame.iloc[0]
    assert row["threshold"] == pytest.approx(0.3)
    assert row["f1_half"] == pytest.approx(50)  # 0.6 and 0.8: one right of two, one of two found
    assert row["f1_threshold"] == pytest.approx(80)  # 0.4, 0.6 and 0.8: precision 2/3, recall 1
    assert row["roc_auc"] == pytest.approx(75)  # of four pairs only (0.6, 0.4) is the wrong way round
    assert row["average_precision"] == pytest.approx(100 * (0.5 * 1 + 0.5 * 2 / 3))
    assert row["calibration_error"] == pytest.approx(100 * (abs(1 - 0.8) + abs(0 - 0.6)) / 2)


def test_detection_of_several_seeds(tmp_path):
    worse = TEST | {"positive": [0.8, 0.6, 0.4, 0.2]}
    row = table(run(tmp_path, 0), run(tmp_path, 1, test=worse)).frame.iloc[0]
    assert row["roc_auc"] == pytest.approx((75 + 0) / 2)
    assert row["roc_auc_sd"] == pytest.approx(75 / 2**0.5)


@pytest.mark.parametrize(
    ("splits", "positive", "message"),
    [
        ({}, "odd", "there is no class 'odd' to detect. Known: harmless, hateful"),
        ({"validation": {"label": [0], "positive": [0.5]}}, None, "'hateful' cannot be detected .no document is of"),
    ],
)
def test_detection_refused(tmp_path, splits, positive, message):
    with pytest.raises(DataError, match=message):
        table(run(tmp_path, **splits), positive=positive)
