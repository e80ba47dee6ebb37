import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from run_records import scope_of, write_baseline, write_predictions, write_run

from lib.core.program import run as run_program
from lib.results.kinds.score_intervals import ScoreIntervalsFigure
from lib.results.predictions import paired_predictions

PROGRAM = Path(__file__).resolve().parents[4] / "scripts/figure.py"
WRONG = {"sdpa": 20, "favor-m64": 10, "favor-m128": 20, "tfidf": 60}
LABELS = np.arange(200) % 2


def scope(tmp_path):
    folders, datasets = [], ["imdb", "arxiv"]
    for dataset in datasets:
        for model, wrong in WRONG.items():
            trained = write_run if model != "tfidf" else None
            folder = (
                trained(tmp_path, "finetune", model, dataset) if trained else write_baseline(tmp_path, dataset, 0.7)
            )
            predictions = np.where(np.arange(200) < wrong, 1 - LABELS, LABELS)
            folders.append(write_predictions(folder, ["no", "yes"], LABELS, predictions))
    return scope_of(folders, {"finetune": datasets}, list(WRONG), baseline="tfidf")


def figure(scope, **settings):
    return ScoreIntervalsFigure(kind="score_intervals", stage="finetune", **settings).draw(scope)


def drawn(axes):
    """By model: its place from the top, its score, its interval."""
    points = {line.get_gid(): line for line in axes.lines if line.get_gid()}
    bars = [collection.get_segments()[0] for collection in axes.collections]
    return {
        model: (int(point.get_ydata()[0]), point.get_xdata()[0], *bar[:, 0])
        for (model, point), bar in zip(points.items(), bars, strict=True)
    }


def test_bars_are_intervals(tmp_path):
    shown = scope(tmp_path)
    axes = figure(shown, confidence=0.9).axes[1]
    grid = shown.grid("finetune")
    paired = paired_predictions(grid[grid["dataset"] == "arxiv"])
    for model, (_, score, low, high) in drawn(axes).items():
        assert score == pytest.approx(100 - WRONG[model] / 2)
        assert [low, high] == pytest.approx(
            [100 * end for end in paired.score(paired.models.index(model)).score_interval(0.9)]
        )
    assert [axes.get_title("left"), axes.get_xlabel()] == ["arxiv", "test F1 [%], 90 % interval\nover documents"]


@pytest.mark.parametrize(
    ("start", "rare", "word"), [("1", 100, "independent"), (None, 9, "rarest"), (None, 100, "jackknife")]
)
def test_program_with_notes_on_intervals(tmp_path, start, rare, word):
    """Weights that the seeds share, and few documents of a class: the sentences of the tables with intervals."""
    labels = np.repeat([0, 1], [200 - rare, rare])
    folders = []
    for seed in (0, 1):
        parents = {"start": {"path": "pretrained", "digest": start or str(seed)}}
        run = write_run(tmp_path, "finetune", "sdpa", "imdb", seed=seed, parents=parents)
        folders.append(write_predictions(run, ["no", "yes"], labels, np.roll(labels, 1 + seed)))
    scope = {
        "models": ["sdpa"],
        "stages": [["finetune", ["imdb"]]],
        "owners": {"finetune": {"sdpa": {"imdb": "sdpa"}}},
        "families": {"sdpa": "sdpa"},
    }
    shown = json.dumps({"settings": {"kind": "score_intervals", "stage": "finetune"}, "scope": scope})
    records, out = [str(folder / "run.json") for folder in folders], tmp_path / "figure.svg"
    main = runpy.run_path(str(PROGRAM))["main"]
    assert run_program(main, ["--figure", shown, "--records", *records, "--out", str(out)]) == 0
    text = out.read_text()
    said = {each for each in ("independent", "rarest", "jackknife") if each in text}
    assert said == {word, "jackknife"}
