import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console
from run_records import write_run
from small_studies import study

from lib.core.attempts import PARTS, Heartbeat
from lib.core.identity import RunId
from lib.workflow.commands import watching
from lib.workflow.commands.progress import progress
from lib.workflow.commands.watching import HEIGHTS, curve, watch, watched
from lib.workflow.planning.plan import Plan

SDPA = RunId("pretrain", "sdpa", "wikipedia", 1)
FAVOR = RunId("pretrain", "favor-m64", "wikipedia", 1)


@pytest.fixture
def plan(tmp_path):
    results = ("results", {"execution": {"results": str(tmp_path / "results")}})
    return Plan(study(("seeds", [1]), layers=[results]))


def beat(plan, key, **fields):
    now = datetime.now(UTC)
    attempt = Path(plan.paths.work, f"{key.path.replace('/', '-')}-key", "0001-host-aa")
    attempt.mkdir(parents=True)
    place = {"out": str(Path(plan.paths.folder(key)).absolute()), "host": "elsewhere", "process": 1}
    names = {"stage": key.stage, "model": key.model, "dataset": key.dataset, "seed": key.seed}
    Heartbeat(**names, **place, started=now, updated=now, **fields).write(attempt)


def lines(plan, width=160):
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(watched(plan, progress(plan)))
    return capture.get().splitlines()


@pytest.mark.parametrize(
    ("losses", "shown"),
    [
        ([], ""),
        ([None, None], ""),
        ([2.0], HEIGHTS[0]),
        ([3.0, 2.0, 1.0], HEIGHTS[7] + HEIGHTS[4] + HEIGHTS[0]),
        ([None, 1.0, None, 8.0], f" {HEIGHTS[0]} {HEIGHTS[7]}"),
        ([5.0, 5.0], HEIGHTS[0] * 2),
    ],
)
def test_a_curve_is_as_wide_as_a_whole_training(losses, shown):
    assert curve(losses) == shown.ljust(PARTS)


def test_running_runs_have_a_line_with_their_losses(plan, tmp_path):
    write_run(tmp_path / "results", *SDPA[:3], seed=1, seconds=1800.0)
    ends = datetime.now(UTC) + timedelta(minutes=130.3)
    beat(plan, FAVOR, epoch=3.4, epochs=10, loss=2.3456, losses=[3.0, 2.0], tokens_per_second=45_100.2, ends=ends)
    shown = lines(plan)
    (line,) = [line for line in shown if line.startswith(FAVOR.path)]
    for part in (f"{HEIGHTS[7]}{HEIGHTS[0]} ", "3.4/10", "2.346", "45,100", "in 2 h 10 min"):
        assert part in line
    (stage,) = [line for line in shown if line.startswith("pretrain ")]
    assert stage.split()[-5:] == ["1", "1", "1", "0", "0"]
    assert "hours spent" in "".join(shown[-2:])


def test_only_the_first_failures_are_named(plan):
    for run in plan.runs[:7]:
        beat(plan, run.id, state="failed", error="out of memory")
    shown = lines(plan)
    assert sum("out of memory" in line for line in shown) == watching.FAILED
    assert "and 2 more; make status names all" in shown


def test_a_narrow_terminal_shows_every_run_on_one_line(plan):
    beat(plan, FAVOR, epoch=3.4, epochs=10, loss=2.3, losses=[3.0, 2.0])
    assert sum("3.4/10" in line for line in lines(plan, 80)) == 1
    assert max(map(len, lines(plan, 80))) <= 80


def test_it_ends_when_nothing_is_left_to_do_and_looks_again_until_then(plan, tmp_path, monkeypatch):
    looks = []

    def finish(seconds):
        looks.append(seconds)
        for run in plan.runs:
            write_run(tmp_path / "results", *run.id[:3], seed=1)

    monkeypatch.setattr(time, "sleep", finish)
    found = watch(plan)
    assert looks == [watching.SECONDS]
    assert {run.state for run in found.values()} == {"done"}
