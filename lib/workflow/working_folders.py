"""When the working folders of runs are removed: once Snakemake has accepted the results.

Runs may end after the call that started them was killed. The next call rejects their results and starts them again,
and then they need their checkpoints, however old these are.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from snakemake.scheduling.job_scheduler import JobScheduler

from lib.core.attempts import sweep
from lib.core.record import RUN
from lib.workflow.planning.paths import Paths

_finish_jobs = JobScheduler._finish_jobs


def remove_with_acceptance(paths: Paths) -> None:
    """Let Snakemake, in this process, remove the working folders of a run when it has accepted the results.

    Args:
        paths: of the study.
    """

    def finish_jobs(self: Any) -> None:
        _finish_jobs(self)
        if self.workflow.is_main_process and not self.workflow.dryrun:
            remove_accepted(paths, self.workflow.persistence)

    JobScheduler._finish_jobs = finish_jobs


def remove_accepted(paths: Paths, persistence: Any) -> None:
    """Remove the working folders of all runs with results that no call has to make again.

    Args:
        paths: of the study.
        persistence: Snakemake's record of the files.
    """
    sweep(Path(paths.work), _is_accepted(paths, persistence))


def _is_accepted(paths: Paths, persistence: Any) -> Callable[[Path], bool]:
    results = Path(paths.results)

    def is_accepted(out: Path) -> bool:
        try:
            record = results / out.relative_to(results.absolute()) / RUN
        except ValueError:  # the results have been moved since
            return False
        return record.is_file() and not persistence._filter_incomplete_keys([str(record)])

    return is_accepted
