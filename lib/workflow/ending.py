"""How Snakemake ends on SIGTERM: it starts no further job, and leaves when those that run have ended."""

import _thread
from typing import Any

from snakemake.scheduling.job_scheduler import JobScheduler

_exit_gracefully = JobScheduler.exit_gracefully


def end_without_deadlock() -> None:
    """Let Snakemake, in this process, hear SIGTERM whatever it is doing.

    Its handler takes the locks of the scheduler. It runs in the main thread, which may hold them at that moment, and
    then waits for itself without end. A thread of its own waits until they are free. `threading` cannot start it, since
    that takes a lock, too.
    """

    def exit_gracefully(self: Any, *arguments: Any) -> None:
        _thread.start_new_thread(_exit_gracefully, (self,))

    JobScheduler.exit_gracefully = exit_gracefully
