import itertools

import pytest
from run_records import scope_of, write_baseline, write_run

from lib.core.record import read_record
from lib.core.record import write_run as write_record
from lib.results.kinds.pareto import ScoreTimeFigure
from lib.results.quantities import quantity

DATASETS = ["imdb", "arxiv"]
MODELS = ["sdpa", "lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128"]
MODELS += ["favor-m64", "favor-m128", "favor-m256", "favor-m512"]
SETTINGS = ScoreTimeFigure(kind="score_time", stage="finetune", time=["tapt", "finetune"])


def scope_with(folders):
    stages = dict.fromkeys(("tapt", "finetune"), DATASETS)
    owners = {"tapt": {model: model for model in MODELS}}
    owners["finetune"] = owners["tapt"] | {"tfidf": "tfidf"}
    return scope_of(folders, stages, ("tfidf", *MODELS), owners=owners, baseline="tfidf")


@pytest.fixture
def folders(tmp_path):
    """A crowd: all models within two minutes and one point of each other, far above the baseline."""
    made = [write_run(tmp_path, "finetune", "tfidf", dataset, test_f1_macro=0.6) for dataset in DATASETS]
    for number, (dataset, model) in enumerate(itertools.product(DATASETS, MODELS)):
        place = number % len(MODELS)
        made.append(write_run(tmp_path, "tapt", model, dataset, seconds=600.0 + 7 * (place // 2)))
        score = 0.99 + (place % 3) / 500
        made.append(write_run(tmp_path, "finetune", model, dataset, seconds=300.0, test_f1_macro=score))
    return made


def test_points_of_minutes_and_percent(folders):
    figure = SETTINGS.draw(scope_with(folders))
    for axes, dataset in zip(figure.axes, DATASETS, strict=True):
        assert axes.get_title("left") == dataset
        points = {line.get_gid(): line for line in axes.lines if line.get_gid()}
        assert list(points) == MODELS
        assert points["sdpa"].get_xydata().tolist() == [[15.0, pytest.approx(99.0)]]
        dashed = [line for line in axes.lines if line.get_linestyle() == "--"]
        assert dashed[0].get_ydata() == pytest.approx([60, 60])


def test_front_on_different_hardware(folders):
    (elsewhere,) = [folder for folder in folders if "/tapt/favor-m64/imdb/" in str(folder)]
    write_record(elsewhere, read_record(elsewhere).model_copy(update={"hardware": "a cluster"}))
    scope = scope_with(folders)
    fronts = [sum(line.get_zorder() == 1.2 for line in axes.lines) for axes in SETTINGS.draw(scope).axes]
    assert dict(zip(DATASETS, fronts, strict=True)) == {"imdb": 0, "arxiv": 1}
    assert list(SETTINGS.notes(scope)) == [
        "Trainings on imdb ran on different hardware: no Pareto front is drawn there."
    ]


@pytest.mark.parametrize(
    ("column", "source", "label"),
    [("accuracy", "test_accuracy", "test accuracy [%]"), ("eval_loss", "eval_loss", "eval loss")],
)
def test_axis_of_a_score(tmp_path, column, source, label):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", seconds=60.0, **{source: 0.75})]
    folders.append(write_baseline(tmp_path, "imdb", 0.9))  # which has no score but F1
    settings = ScoreTimeFigure(kind="score_time", stage="finetune", column=column, time=["finetune"])
    (axes,) = settings.draw(scope_of(folders, {"finetune": ["imdb"]}, ["sdpa"], baseline="tfidf")).axes
    assert axes.get_ylabel() == label
    assert not [line for line in axes.lines if line.is_dashed()]
    assert 0 not in [value for line in axes.lines for value in line.get_ydata()]


def test_smaller_is_better():
    names = ("eval_loss", "eval_unexplained_variance", "eval_f1")
    assert [quantity(name).smaller_is_better for name in names] == [True, True, False]
