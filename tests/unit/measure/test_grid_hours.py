import json
from pathlib import Path

import numpy as np
import pytest
from step_costs import made_steps

from lib.core.errors import DataError
from lib.measure import estimates
from lib.measure import grid_hours as module
from lib.measure.estimates import ModelSteps
from lib.measure.grid_hours import described, grid_hours, quickest, summary, training_lengths
from lib.results.printed_values import published_runs
from lib.study.configuration import load_study, read_layers
from lib.workflow.planning.plan import Plan

STUDY = "config/config.yaml"


@pytest.fixture
def plan(tmp_path, repository):
    return Plan(load_study([*read_layers([repository / STUDY]), ("test", {"execution": {"results": str(tmp_path)}})]))


def write_statistics(plan, entry, **splits):
    path = Path(plan.paths.token_lengths(entry, "wordpiece"))
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(splits))


def statistics(lengths):
    limit = int(lengths.max())
    found = {"documents": len(lengths), "mean": lengths.mean(), "median": np.median(lengths), "min": lengths.min()}
    return {name: float(value) for name, value in found.items()} | {
        "documents": len(lengths), "max": limit, "at_limit": float((lengths == limit).mean())
    }  # fmt: skip


def test_the_whole_grid_has_63_runs_and_the_published_hours(monkeypatch, repository):
    """Steps cost a millisecond a token, padding included, whatever the model."""
    monkeypatch.setattr(estimates, "SIMULATED", 500)
    found = ModelSteps(made_steps(), made_steps(lengths=(128, 512)), 4)
    monkeypatch.setattr(module, "measure_turns", lambda exact, cases, *_, **__: {key: [found] for key in cases})
    hours = grid_hours(
        str(repository / STUDY), device="cpu", kernels="auto", compile=False, models=None, seconds=1, encoder={}
    )
    assert hours.groupby("stage", sort=False).size().to_dict() == {"pretrain": 9, "tapt": 27, "finetune": 27}
    minutes = published_runs("grid")["minutes_per_epoch"]
    assert hours["published_hours"].sum() == pytest.approx(107.3, abs=0.1)
    row = hours[(hours["stage"] == "tapt") & (hours["dataset"] == "imdb") & (hours["model"] == "lsh-h4-c64")].iloc[0]
    assert row["published_hours"] == pytest.approx(minutes["tapt", "lsh-h4-c64", "imdb"] * 15 / 60)
    tokens = row["documents"] * row["mean_tokens"] * row["epochs"]
    assert tokens / 1e3 / 3600 < row["hours"] < 1.3 * tokens / 1e3 / 3600  # batches are of similar lengths
    text = summary(hours)
    assert "107.32" in text
    assert "9 models, 63 runs" in text
    assert "Lengths of arxiv, hyperpartisan, imdb, wikipedia are assumed" in text


@pytest.mark.parametrize("compile", [False, True])
def test_blocks_are_compiled_on_request(monkeypatch, repository, compile):
    found, asked = ModelSteps(made_steps(), made_steps(lengths=(128, 512)), 4), []

    def measured(exact, cases, masked, *_, **__):
        asked.extend(each.compiled for each in (masked, *cases.values()))
        return {key: [found] for key in cases}

    monkeypatch.setattr(module, "measure_turns", measured)
    monkeypatch.setattr(estimates, "SIMULATED", 500)
    options = {"device": "cpu", "kernels": "auto", "models": ["favor-m64"], "seconds": 1, "encoder": {}}
    grid_hours(str(repository / STUDY), compile=compile, **options)
    assert asked == [compile] * 3  # exact attention too, which others are compared with


def test_the_quickest_of_all_turns_counts_batch_by_batch():
    slow_end, slow_start = ([(2, 128, a), (8, 512, b)] for a, b in ((1.0, 9.0), (2.0, 8.0)))
    turns = [ModelSteps(made_steps(batches=each), made_steps(batches=each), 4) for each in (slow_end, slow_start)]
    assert quickest(turns).classification.batches == [(2, 128, 1.0), (8, 512, 8.0)]
    assert quickest(turns).masked_lm.batches == [(2, 128, 1.0), (8, 512, 8.0)]


def test_assumed_lengths_are_cut_to_the_limit_of_their_part(plan):
    lengths, documents, source = training_lengths(plan, "wikipedia", "wordpiece")
    assert (documents, source) == (600_000, "assumed")
    assert lengths[:450_000].max() == 128
    assert lengths[450_000:].max() == 512


def test_statistics_of_prepared_texts_count_before_what_is_assumed(plan):
    short, long = statistics(np.full(30, 128)), statistics(np.arange(1, 101))
    write_statistics(plan, "wikipedia", train=statistics(np.full(130, 100)), train_short=short, train_long=long)
    lengths, documents, source = training_lengths(plan, "wikipedia", "wordpiece")
    assert (documents, source) == (130, "prepared")
    assert (lengths[:30] == 128).all()
    assert lengths[30:].mean() == pytest.approx(50.5, abs=0.5)
    write_statistics(plan, "imdb", test={})
    with pytest.raises(DataError, match="token_lengths.json: no statistics"):
        training_lengths(plan, "imdb", "wordpiece")


@pytest.mark.parametrize("limit", [512, 4096, 16_384])
def test_lengths_that_are_described_have_the_same_mean_median_and_share_at_the_limit(limit):
    drawn = np.random.default_rng(0).lognormal(7, 0.8, 5000).round().clip(16, limit)
    lengths = described(statistics(drawn), 5000)
    assert lengths.mean() == pytest.approx(drawn.mean(), rel=0.02)
    assert np.median(lengths) == pytest.approx(np.median(drawn), rel=0.01)
    assert drawn.min() <= lengths.min() <= lengths.max() <= limit
    assert (lengths == limit).mean() == pytest.approx((drawn == limit).mean(), abs=0.01)
