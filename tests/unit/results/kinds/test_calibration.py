import pandas as pd
import pytest
from run_records import scope_of, write_run

from lib.core.record import PREDICTIONS
from lib.results.kinds.calibration import CalibrationFigure


def write(root, outcomes, seed=0):
    """Write test documents of class 0, each as (whether it is predicted right, with which confidence).

    On validation three of four with a confidence of 0.9 are right, so that the temperature is ln 9 / ln 3 = 2.
    """
    folder = write_run(root, "finetune", "sdpa", "imdb", seed=seed)
    rows, validation = [], [(True, 0.9)] * 3 + [(False, 0.9)]
    for split, documents in (("validation", validation), ("test", outcomes)):
        for right, confidence in documents:
            probabilities = [confidence, 1 - confidence] if right else [1 - confidence, confidence]
            rows.append({"label": 0, "prediction": int(not right), "probabilities": probabilities, "split": split})
    pd.DataFrame(rows).to_parquet(folder / PREDICTIONS, index=False)
    return folder


def drawn(folders, **settings):
    scope = scope_of(folders, {"finetune": ["imdb"]}, ["sdpa"])
    return CalibrationFigure(kind="calibration", stage="finetune", **{"least_documents": 1} | settings).draw(scope)


def lines_of(axes):
    return {line.get_gid(): line for line in axes.lines}


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


OUTCOMES = [(True, 0.9), (True, 1.0), (True, 0.95), (False, 0.95), (True, 0.55), (False, 0.55)]


def test_points_of_bins(tmp_path):
    above, below = drawn([write(tmp_path, OUTCOMES)], bins=5).axes
    # From 0.8 to 1 four documents, three of them right; from 0.4 to 0.6 two, one of them right.
    assert lines_of(above)["sdpa"].get_xydata().tolist() == [pytest.approx([55, 50]), pytest.approx([95, 75])]
    assert lines_of(below)["sdpa"].get_xydata().tolist() == [pytest.approx([55, 100 / 3]), pytest.approx([95, 200 / 3])]
    assert lines_of(above)["diagonal"].get_xydata().tolist() == [[0, 0], [100, 100]]
    # (2 * 5 + 4 * 20) / 6; at T = 2 confidences of 0.55, 0.9, 0.95 and 1 are 0.525, 0.75, 0.813 and 1.
    assert legend_of(below) == ["sdpa: 15.0; at T = 2.00: 15.4"]  # (2 * 2.5 + 1 * 25 + 3 * 20.9) / 6
    assert (above.get_ylabel(), below.get_ylabel()) == ("test accuracy [%]", "documents [%]")
    assert below.get_xlabel() == "confidence [%]"
    assert below.get_xlim() == (48, 102)  # confidence is never below that of a guess


def test_points_of_few_documents(tmp_path):
    """Of 50 documents, 2 lie alone in low bins and zigzag; joined, each point has ten documents or more."""
    confident = [(number % 10 > 0, 0.95) for number in range(28)] + [(number % 4 > 0, 0.85) for number in range(20)]
    folder = write(tmp_path, [(True, 0.55), (False, 0.65), *confident])
    above, below = drawn([folder], least_documents=10).axes
    points = lines_of(above)["sdpa"].get_xydata()
    assert points[:, 0].tolist() == pytest.approx([100 * (0.55 + 0.65 + 20 * 0.85) / 22, 95])
    assert points[:, 1].tolist() == pytest.approx([100 * (1 + 0 + 15) / 22, 100 * 25 / 28])
    assert below.get_legend().get_title().get_text().endswith("documents per point: 22 or more")
    assert len(lines_of(below)["sdpa"].get_xydata()) == 4  # where documents lie is shown as it is
    as_they_are = drawn([folder], least_documents=1)
    assert len(lines_of(as_they_are.axes[0])["sdpa"].get_xydata()) == 4
    assert legend_of(below) == legend_of(as_they_are.axes[1])


def test_calibration_of_the_likeliest_class(tmp_path):
    """As where a model writes its answer, which need not be the likeliest one, nor any at all."""
    folder = write(tmp_path, OUTCOMES)
    predictions = pd.read_parquet(folder / PREDICTIONS)
    predictions.assign(prediction=-1).to_parquet(folder / PREDICTIONS, index=False)
    _, below = drawn([folder], bins=5).axes
    assert legend_of(below) == ["sdpa: 15.0; at T = 2.00: 15.4"]


def test_calibration_of_several_seeds(tmp_path):
    folders = [write(tmp_path, [(True, 0.9)]), write(tmp_path, [(False, 0.9)], seed=1)]
    above, below = drawn(folders).axes
    assert lines_of(above)["sdpa"].get_xydata().tolist() == [pytest.approx([90, 50])]
    assert legend_of(below) == ["sdpa: 50.0 ± 56.6; at T = 2.00: 50.0 ± 35.4"]  # of 10 and 90, of 25 and 75
