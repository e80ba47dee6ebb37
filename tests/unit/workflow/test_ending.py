"""SIGTERM reaches Snakemake's scheduler also while the main thread holds one of its locks."""

import os
import signal
import threading

import pytest
from snakemake.scheduling.job_scheduler import JobScheduler

from lib.workflow.ending import end_without_deadlock


class Checked:
    """A lock that raises an error where its owner would wait for itself for ever."""

    def __init__(self):
        self.lock, self.owner = threading.Lock(), None

    def acquire(self, blocking=True, timeout=-1):
        if blocking and self.owner == threading.get_ident():
            raise RuntimeError("deadlock")
        taken = self.lock.acquire(blocking, timeout)
        if taken:
            self.owner = threading.get_ident()
        return taken

    def release(self):
        self.owner = None
        self.lock.release()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *error):
        self.release()


@pytest.fixture
def scheduler(monkeypatch):
    monkeypatch.setattr(JobScheduler, "exit_gracefully", JobScheduler.exit_gracefully)
    end_without_deadlock()
    made = object.__new__(JobScheduler)
    made._lock, made._open_jobs, made._user_kill = Checked(), threading.Semaphore(0), None
    made._open_jobs._cond = threading.Condition(Checked())
    before = signal.signal(signal.SIGTERM, made.exit_gracefully)
    yield made
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("held", ["_lock", "_open_jobs"])
def test_a_signal_while_the_main_thread_holds_a_lock_is_heard(scheduler, held):
    lock = scheduler._lock if held == "_lock" else scheduler._open_jobs._cond
    with lock:
        os.kill(os.getpid(), signal.SIGTERM)
    assert scheduler._open_jobs.acquire(timeout=60)
    assert scheduler._user_kill == "graceful"


def test_a_signal_while_a_thread_is_started_is_heard(scheduler, monkeypatch):
    monkeypatch.setattr(threading, "_active_limbo_lock", Checked())
    with threading._active_limbo_lock:
        os.kill(os.getpid(), signal.SIGTERM)
    assert scheduler._open_jobs.acquire(timeout=60)
