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


def test_bars_are_intervals(tmp_path):
    folders = []
    for model, wrong in WRONG.items():
        tfidf = model == "tfidf"
        run = write_baseline(tmp_path, "arxiv", 0.7) if tfidf else write_run(tmp_path, "finetune", model, "arxiv")
        predictions = np.where(np.arange(200) < wrong, 1 - LABELS, LABELS)
        folders.append(write_predictions(run, ["no", "yes"], LABELS, predictions))
    scope = scope_of(folders, {"finetune": ["arxiv"]}, list(WRONG), baseline="tfidf")
    (axes,) = ScoreIntervalsFigure(kind="score_intervals", stage="finetune", confidence=0.9).draw(scope).axes
    paired = paired_predictions(scope.grid("finetune"))
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["favor-m64", "sdpa", "favor-m128", "tfidf"]  # the best one first
    (lines,) = axes.collections
    for model, bar, ends in zip(names, axes.patches, lines.get_segments(), strict=True):
        assert bar.get_width() == pytest.approx(100 - WRONG[model] / 2)
        expected = paired.score(paired.models.index(model)).score_interval(0.9)
        assert ends[:, 0].tolist() == pytest.approx([100 * end for end in expected])
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
