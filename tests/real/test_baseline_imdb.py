"""The classical baseline on the complete IMDb reviews, against the published macro-F1. About half a minute."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lib.core.record import RUN, read_record
from lib.preparing.labelled import prepare_dataset
from lib.preparing.settings.preparation import Preparation
from lib.results.kinds.classes import ClassesTable
from lib.results.scope import Scope
from lib.study.run import RunSettings
from lib.training.evaluate import evaluate

REVIEWS = Path(__file__).resolve().parents[2] / "../shared/data/imdb"
LABELS = ["negative", "positive"]
PUBLISHED = 0.8950


@pytest.mark.extended
@pytest.mark.real
def test_macro_f1_on_imdb(tmp_path):
    if not REVIEWS.is_dir():
        pytest.skip(f"no IMDb reviews at {REVIEWS}")
    files = {part: [REVIEWS / f"{part}.parquet"] for part in ("test", "train")}
    prepare_dataset(files, tmp_path / "prepared", Preparation(labels=LABELS, remove=r"<br\s*/?>"))
    splits = {split: tmp_path / f"prepared/{split}.parquet" for split in ("train", "validation", "test")}
    assert [pq.read_metadata(path).num_rows for path in splits.values()] == [40_000, 5_000, 5_000]

    run = RunSettings(
        stage="finetune",
        model="tfidf",
        dataset="imdb",
        seed=420,
        task={"kind": "sequence_classification"},
        backbone={"kind": "tfidf", "C": 1.0, "class_weight": None},
        labels=LABELS,
        data={split: str(path) for split, path in splits.items()},
    )
    evaluate(run, tmp_path / "run")

    record = read_record(tmp_path / "run")
    assert record.metrics["test_f1_macro"] == pytest.approx(PUBLISHED, abs=0.01)
    assert record.parameters["total"] == 20_000 + 1  # a weight per n-gram, and a bias
    scope = Scope(
        models=["tfidf"],
        stages={"finetune": ["imdb"]},
        owners={"finetune": {"tfidf": {"imdb": "tfidf"}}},
        files=[tmp_path / "run" / RUN],
    )
    table = ClassesTable(kind="classes", stage="finetune", models=["tfidf"]).make(scope)
    macro = table.frame.set_index("label").loc["macro average", "f1"]
    assert macro == pytest.approx(100 * record.metrics["test_f1_macro"])
