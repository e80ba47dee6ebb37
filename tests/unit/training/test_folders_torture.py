"""Three processes at one run, stopped, continued and killed at random: one right record, or none and an error."""

import contextlib
import os
import random
import signal
import time

import pytest
from run_folders import finish

from lib.core.errors import ProjectError
from lib.core.record import differing_files, read_record
from lib.training.checkpoints import take_over


def start(folders, draws, seed):
    """Start a process at a run; it ends with 0 if the results are in their place, with 1 if it left with an error."""
    process = os.fork()
    if process:
        return process
    status = 2
    try:
        pauses = random.Random(seed)
        with folders:
            if not folders.is_done():
                take_over(folders)
                folders.move_to_out(finish(folders, pause=lambda: time.sleep(pauses.uniform(0, 0.02))))
        status = 0
    except ProjectError:
        status = 1
    finally:
        os._exit(status)


def torture(begin, seed):
    """Return the statuses of three processes; None = killed."""
    draws, processes, stopped = random.Random(seed), [], set()
    for number in range(3):
        processes.append(start(begin(), draws, seed * 10 + number))
        time.sleep(draws.uniform(0, 0.012))
        if draws.random() < 0.5:
            stopped.add(draws.choice(processes))
            _send(max(stopped), signal.SIGSTOP)
    for _ in range(draws.randrange(16)):
        process = draws.choice(processes)
        if process in stopped:
            stopped.discard(process)
            _send(process, signal.SIGCONT)
        else:
            stopped.add(process)
            _send(process, signal.SIGKILL if draws.random() < 0.1 else signal.SIGSTOP)
        time.sleep(draws.uniform(0, 0.012))
    statuses = []
    for process in draws.sample(processes, 3):
        _send(process, signal.SIGCONT)
        _, status = os.waitpid(process, 0)
        statuses.append(None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
    return statuses


def _send(process, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def check(begin, seed):
    statuses, out = torture(begin, seed), begin().out
    assert set(statuses) <= {0, 1, None}, (seed, statuses)
    if (out / "run.json").exists():
        record = read_record(out)
        assert set(record.files) == {"config.yaml", "model/weights"}, (seed, statuses)
        assert not differing_files(out, record), (seed, statuses)
    else:
        assert 0 not in statuses, (seed, statuses)
    # Whatever has happened, the next start comes to the same results.
    _, status = os.waitpid(start(begin(), None, seed), 0)
    assert os.WEXITSTATUS(status) == 0, (seed, statuses)
    assert not differing_files(out, read_record(out)), (seed, statuses)
    assert [path.name for path in out.parent.iterdir() if not path.name.startswith(".trash")] == ["out"]


@pytest.mark.parametrize("seed", [0, 1, 2, pytest.param(range(3, 100), marks=pytest.mark.slow)], ids=str)
def test_processes_stopped_and_killed_at_random(begin, seed, tmp_path):
    for each in [seed] if isinstance(seed, int) else seed:
        check(lambda folder=tmp_path / str(each): begin(out=folder / "runs" / "out", work=folder / "work"), each)
