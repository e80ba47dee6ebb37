import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from run_records import write_run
from small_studies import study

from lib.core.attempts import Heartbeat
from lib.core.program import FINISHED
from lib.core.record import RunId
from lib.workflow.commands.progress import follow, progress, progress_report
from lib.workflow.planning.plan import Plan
from lib.workflow.start import killed

OTHER = "another-machine"


@pytest.fixture
def plan(tmp_path):
    results = ("results", {"execution": {"results": str(tmp_path / "results")}})
    return Plan(study(("seeds", [1]), layers=[results]))


def moment(minutes):
    """Return the time in so many minutes."""
    return datetime.now(UTC) + timedelta(minutes=minutes)


def beat(plan, key, number=1, *, minutes=0.0, **fields):
    """Write the heartbeat of an attempt at a run, of so many minutes ago, and return the attempt."""
    updated = moment(-minutes)
    usual = {
        "out": str(Path(plan.paths.folder(key)).absolute()),
        "host": OTHER,
        "process": 1,
        "started": updated - timedelta(hours=1),
        "updated": updated,
    }
    names = {"stage": key.stage, "model": key.model, "dataset": key.dataset, "seed": key.seed}
    attempt = Path(
        plan.paths.results, "work", f"{key.stage}-{key.model}-key", f"{number:04d}-{OTHER}-{uuid.uuid4().hex[:8]}"
    )
    attempt.mkdir(parents=True)
    Heartbeat(**usual | names | fields).write(attempt)
    return attempt


def log(plan, key, *lines):
    path = Path(plan.paths.log(key.path))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


PRETRAIN = RunId("pretrain", "sdpa", "wikipedia", 1)
LSH = RunId("pretrain", "lsh-h2-c64", "wikipedia", 1)
FAVOR = RunId("pretrain", "favor-m64", "wikipedia", 1)
BASELINE = RunId("finetune", "tfidf", "imdb", 1)


def test_record_is_done_and_heartbeat_is_running(plan, tmp_path):
    write_run(tmp_path / "results", *PRETRAIN[:3], seed=1, seconds=1800.0)
    beat(plan, LSH, state="finished")  # of an attempt whose results are not accepted yet
    beat(plan, FAVOR, epoch=3.4, epochs=10, loss=2.3456, tokens_per_second=45_100.2, ends=moment(130.3))
    found = progress(plan)
    assert [found[key].state for key in (PRETRAIN, LSH, FAVOR)] == ["done", "running", "running"]
    text = progress_report(plan, found)
    assert "pretrain                        1        2        0        0" in text
    (line,) = [line for line in text.splitlines() if line.startswith("pretrain/favor-m64/wikipedia/seed-1")]
    for part in ("3.4/10", "2.346", "45,100", "in 2 h 10 min"):
        assert part in line
    assert "no heartbeat" not in text


def test_refused_results_are_waited_for(plan):
    beat(plan, LSH, minutes=10, state="finished")
    assert progress(plan)[LSH].state == "waiting"


def test_silent_process_is_dead_after_an_hour(plan):
    beat(plan, LSH, minutes=11.7)
    beat(plan, FAVOR, minutes=89.7)
    found = progress(plan)
    assert (found[LSH].state, found[FAVOR].state) == ("running", "failed")
    text = progress_report(plan, found)
    assert "(no heartbeat for 12 min)" in text
    assert "failed: pretrain/favor-m64/wikipedia/seed-1: dead: no heartbeat for 1 h 30 min" in text


def test_failed_run_and_its_log(plan):
    beat(plan, LSH, state="failed", error="the loss at step 7 is nan.")
    log(plan, LSH, "first line", *["line"] * 20, "last line")
    found = progress(plan)
    assert found[LSH].state == "failed"
    text = progress_report(plan, found)
    assert "failed: pretrain/lsh-h2-c64/wikipedia/seed-1: the loss at step 7 is nan." in text
    assert "    last line" in text
    assert "first line" not in text


LEAKS = ["nanobind: leaked 64 types!", *[' - leaked type "triton._C.libtriton.ir.location"'] * 20, "nanobind: a bug."]


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ([], "running"),
        (["10:01 ERROR lib: no documents"], "failed"),
        ([f"2026-11-25 10:00:01,123 ERROR lib: {killed(9)}"], "failed"),
        ([f"10:01 INFO lib: evaluate{FINISHED}53 s"], "missing"),
        (["10:01 ERROR lib: no documents", *LEAKS], "failed"),
        ([f"10:01 INFO lib: evaluate{FINISHED}53 s", *LEAKS], "missing"),
    ],
)
def test_run_without_heartbeats_is_told_by_its_log(plan, lines, state):
    log(plan, BASELINE, "10:00 INFO lib: fitting", *lines)
    found = progress(plan)
    assert found[BASELINE].state == state
    assert "leaked" not in progress_report(plan, found)


def test_finished_run_without_results_is_missing(plan, tmp_path):
    write_run(tmp_path / "results", *PRETRAIN[:3], seed=1, files={"history.csv": "0"}, epochs=0)
    log(plan, BASELINE, "10:00 INFO lib: fitting", f"10:01 INFO lib: evaluate{FINISHED}53 s")
    log(plan, LSH, "10:00 INFO lib: a second time")  # Snakemake has removed the log of the first
    found = progress(plan)
    assert [found[key].state for key in (PRETRAIN, BASELINE, LSH)] == ["missing", "missing", "running"]
    text = progress_report(plan, found)
    assert "    pretrain/sdpa/wikipedia/seed-1: history.csv" in text
    assert "    finetune/tfidf/imdb/seed-1: all of " in text


def test_archived_run_without_model_is_done(tmp_path):
    layers = [("", {"execution": {"results": str(tmp_path), "runs": "archived"}})]
    plan = Plan(study(("seeds", [1]), layers=layers))
    write_run(tmp_path, *PRETRAIN[:3], seed=1, files={"model/model.safetensors": "0"})
    write_run(tmp_path, *LSH[:3], seed=1, files={"model/model.safetensors": "0", "predictions.parquet": "0"})
    found = progress(plan)
    assert [found[key].state for key in (PRETRAIN, LSH)] == ["done", "missing"]
    assert found[LSH].error == "predictions.parquet"


@pytest.mark.parametrize("terminal", [True, False])
def test_study_is_followed(plan, tmp_path, monkeypatch, capsys, terminal):
    """Two of the runs are known, of 100 seconds each, and 150 of these are done; the others count as their mean."""
    write_run(tmp_path / "results", *PRETRAIN[:3], seed=1, seconds=100.0)
    beat(plan, LSH, epoch=1.5, epochs=3, loss=2.25, started=moment(-50 / 60), ends=moment(50 / 60))
    (tmp_path / "log").write_text("3 of 40 steps (7%) done\n4 of 40 steps (10%) done\n")
    parents = iter([7, 7, 7, 1])  # it is orphaned after two views
    monkeypatch.setattr("os.getppid", lambda: next(parents))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    follow(plan, str(tmp_path / "log"))
    shown, number = capsys.readouterr().out.split("\x1b[4F\x1b[J"), len(progress(plan))
    assert len(shown) == 1 + terminal
    bar, *running = shown[-1].splitlines()
    assert f"{150 / number:3.0f} %" in bar
    assert bar.endswith(f"1 of {number} runs, 4 of 40 steps")
    assert max(map(len, [bar, *running])) <= 80
    assert [line.split() for line in running[2:]] == [[LSH.path, "1.5/3", "2.250"]] * terminal
