from colorsys import rgb_to_hsv

import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from run_records import scope_of, write_predictions, write_run
from small_studies import SMALL, changed

from lib.core.errors import ConfigError, DataError
from lib.core.record import PREDICTIONS
from lib.results.kinds.calibration import CalibrationFigure
from lib.study.configuration import load_study


def write(root, model, outcomes, dataset="imdb", seed=0, classes=2):
    """Write test documents of class 0, each as (whether it is predicted right, with which confidence)."""
    folder = write_run(root, "finetune", model, dataset, seed=seed)
    rows = []
    for right, confidence in outcomes:
        rest = [(1 - confidence) / (classes - 1)] * (classes - 1)
        probabilities = [confidence, *rest] if right else [rest[0], confidence, *rest[1:]]
        rows.append({"label": 0, "prediction": int(not right), "probabilities": probabilities, "split": "test"})
    wrong = {"label": 0, "prediction": 1, "probabilities": [0.0, 1.0], "split": "validation"}
    pd.DataFrame([wrong, *rows]).to_parquet(folder / PREDICTIONS, index=False)
    return folder


def drawn(folders, models=("sdpa",), datasets=("imdb",), fields=None, **settings):
    scope = scope_of(folders, {"finetune": datasets}, list(models), **fields or {})
    return CalibrationFigure(kind="calibration", stage="finetune", **{"least_documents": 1} | settings).draw(scope)


def lines_of(axes):
    return {line.get_gid(): line for line in axes.lines}


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


OUTCOMES = [(True, 0.9), (True, 1.0), (True, 0.95), (False, 0.95), (True, 0.55), (False, 0.55)]


def test_points_are_accuracy_at_the_mean_confidence_of_a_bin(tmp_path):
    above, below = drawn([write(tmp_path, "sdpa", OUTCOMES)], bins=5).axes
    # From 0.8 to 1 four documents, three of them right; from 0.4 to 0.6 two, one of them right.
    assert lines_of(above)["sdpa"].get_xydata().tolist() == [pytest.approx([55, 50]), pytest.approx([95, 75])]
    assert lines_of(below)["sdpa"].get_xydata().tolist() == [pytest.approx([55, 100 / 3]), pytest.approx([95, 200 / 3])]
    assert lines_of(above)["diagonal"].get_xydata().tolist() == [[0, 0], [100, 100]]
    assert legend_of(below) == ["sdpa: 15.0"]  # (2 * 5 + 4 * 20) / 6
    assert (above.get_ylabel(), below.get_ylabel()) == ("test accuracy [%]", "documents [%]")
    assert below.get_xlabel() == "confidence [%]"
    assert below.get_xlim() == (48, 102)  # confidence is never below that of a guess


def test_no_point_stands_on_single_documents(tmp_path):
    """Of 50 documents, 2 lie alone in low bins and zigzag; joined, each point has ten documents or more."""
    confident = [(number % 10 > 0, 0.95) for number in range(28)] + [(number % 4 > 0, 0.85) for number in range(20)]
    folder = write(tmp_path, "sdpa", [(True, 0.55), (False, 0.65), *confident])
    above, below = drawn([folder], least_documents=10).axes
    points = lines_of(above)["sdpa"].get_xydata()
    assert points[:, 0].tolist() == pytest.approx([100 * (0.55 + 0.65 + 20 * 0.85) / 22, 95])
    assert points[:, 1].tolist() == pytest.approx([100 * (1 + 0 + 15) / 22, 100 * 25 / 28])
    assert [text.get_text() for text in above.texts] == ["documents per point: 22 or more"]
    assert len(lines_of(below)["sdpa"].get_xydata()) == 4  # where documents lie is shown as it is
    as_they_are = drawn([folder], least_documents=1)
    assert len(lines_of(as_they_are.axes[0])["sdpa"].get_xydata()) == 4
    assert legend_of(below) == legend_of(as_they_are.axes[1])


def test_fewer_documents_than_a_point_needs_make_one_point(tmp_path):
    above, _ = drawn([write(tmp_path, "sdpa", OUTCOMES)], least_documents=20).axes
    assert lines_of(above)["sdpa"].get_xydata().tolist() == [pytest.approx([100 * 4.9 / 6, 100 * 4 / 6])]


def test_what_counts_is_the_likeliest_class_whatever_else_is_predicted(tmp_path):
    """As where a model writes its answer, which need not be the likeliest one, nor any at all."""
    folder = write(tmp_path, "sdpa", OUTCOMES)
    predictions = pd.read_parquet(folder / PREDICTIONS)
    predictions.assign(prediction=-1).to_parquet(folder / PREDICTIONS, index=False)
    _, below = drawn([folder], bins=5).axes
    assert legend_of(below) == ["sdpa: 15.0"]


def test_errors_are_means_of_seeds_and_points_of_their_documents_together(tmp_path):
    folders = [write(tmp_path, "sdpa", [(True, 0.9)]), write(tmp_path, "sdpa", [(False, 0.9)], seed=1)]
    above, below = drawn(folders).axes
    assert lines_of(above)["sdpa"].get_xydata().tolist() == [pytest.approx([90, 50])]
    assert legend_of(below) == ["sdpa: 50.0 ± 56.6"]  # of 10 and 90


@pytest.mark.parametrize("seeds", [1, 4])
def test_a_document_counts_once_for_a_point_however_many_seeds_predict_it(tmp_path, seeds):
    """Five documents per bin, ten needed: with one seed or four, both bins make one point."""
    outcomes = [(True, confidence) for confidence in (0.75, 0.95) for _ in range(5)]
    folders = [write(tmp_path, "sdpa", outcomes, seed=seed) for seed in range(seeds)]
    above, _ = drawn(folders, least_documents=10).axes
    assert lines_of(above)["sdpa"].get_xydata().tolist() == [pytest.approx([85, 100])]
    assert [text.get_text() for text in above.texts] == ["documents per point: 10 or more"]


def test_models_and_datasets_are_told_apart_and_legends_cover_nothing(tmp_path):
    models = ["tfidf", "sdpa", "lsh-h2-c64", "lsh-h4-c64", "favor-m64"]
    folders = [
        write(tmp_path, model, OUTCOMES, dataset, classes=4) for model in models for dataset in ("imdb", "arxiv")
    ]
    figure = drawn(folders, models, ["imdb", "arxiv"], fields={"baseline": "tfidf"})
    upper, lower = figure.axes[:2], figure.axes[2:]
    assert [axes.get_title("left") for axes in upper] == ["imdb", "arxiv"]
    lines = lines_of(upper[0])
    assert list(lines) == ["diagonal", *models]
    hues = {model: rgb_to_hsv(*to_rgb(line.get_color()))[0] for model, line in lines.items()}
    assert hues["lsh-h2-c64"] == pytest.approx(hues["lsh-h4-c64"], abs=0.01)
    assert abs(hues["lsh-h2-c64"] - hues["favor-m64"]) > 0.1
    assert lines["lsh-h2-c64"].get_color() != lines["lsh-h4-c64"].get_color()
    assert lines["lsh-h2-c64"].get_linestyle() != lines["lsh-h4-c64"].get_linestyle()
    assert (lines["tfidf"].get_color(), lines["sdpa"].get_color()) == ("0.35", "#000000")
    figure.draw_without_rendering()
    for axes in lower:
        assert len(legend_of(axes)) == 5
        box = axes.get_legend().get_window_extent()
        assert box.y1 <= axes.xaxis.label.get_window_extent().y0
        assert figure.bbox.y0 <= box.y0


def test_what_is_missing_is_named(tmp_path):
    folder = write_run(tmp_path, "finetune", "sdpa", "imdb")
    write_predictions(folder, ["no", "yes"], [0], [0])
    with pytest.raises(DataError, match=r"predictions\.parquet.*probabilities"):
        drawn([folder])
    write(tmp_path, "sdpa", [(True, 1.5)])
    with pytest.raises(DataError, match="sdpa/imdb/seed-0.*probabilities"):
        drawn([folder])


def test_a_study_is_told_that_words_have_no_probabilities():
    words = changed(
        SMALL,
        ("experiment/datasets/imdb/label_per", "word"),
        ("experiment/datasets/arxiv/label_per", "word"),
        ("experiment/stages/finetune/task/kind", "token_classification"),
        ("experiment/models/tfidf", None),
        ("report", {"figures": {"x": {"kind": "calibration", "stage": "finetune"}}}),
    )
    with pytest.raises(ConfigError, match=r"figures\.x\.stage: shows probabilities"):
        load_study([("words.yaml", words)])
    load_study([("words.yaml", changed(words, ("report/figures/x/kind", "confusion")))])
