"""The classical baseline on the complete IMDb reviews, against the published macro-F1. About half a minute."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lib.core.settings.baseline import Baseline
from lib.core.settings.data import Preparation
from lib.data.labelled import prepare_dataset
from lib.evaluation.baseline import REPORT, run_baseline

REVIEWS = Path(__file__).resolve().parents[2] / "../shared/data/imdb"
LABELS = ["negative", "positive"]
PUBLISHED = 0.8950


@pytest.mark.real
def test_macro_f1_is_near_the_published_one(tmp_path):
    if not REVIEWS.is_dir():
        pytest.skip(f"no IMDb reviews at {REVIEWS}")
    files = {part: [REVIEWS / f"{part}.parquet"] for part in ("test", "train")}
    prepare_dataset(files, tmp_path / "prepared", Preparation(labels=LABELS, remove=r"<br\s*/?>"))
    splits = {split: tmp_path / f"prepared/{split}.parquet" for split in ("train", "validation", "test")}
    assert [pq.read_metadata(path).num_rows for path in splits.values()] == [40_000, 5_000, 5_000]

    run_baseline(dataset="imdb", **splits, label_names=LABELS, settings=Baseline(), folder=tmp_path / "baseline")

    report = json.loads((tmp_path / "baseline" / REPORT).read_text())
    assert report["metrics"]["test_f1_macro"] == pytest.approx(PUBLISHED, abs=0.01)
    assert report["features"] == 20_000
