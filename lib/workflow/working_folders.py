"""When the working folders of runs are removed: once Snakemake has accepted the results.

Runs may end after the call that started them was killed. The next call rejects their results and starts them again,
and then they need their checkpoints, however old these are.
"""

import logging
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent

from lib.core.attempts import sweep
from lib.core.record import RUN
from lib.workflow.planning.paths import Paths


class Remover(logging.Handler):
    """Removes the working folder of a run when Snakemake logs that a job has finished.

    Args:
        paths: of the study.
        persistence: Snakemake's record of the files.
    """

    def __init__(self, paths: Paths, persistence: Any):
        super().__init__()
        self.paths, self.persistence = paths, persistence

    def emit(self, record: logging.LogRecord) -> None:
        """Remove the folders of accepted runs, after a job."""
        if getattr(record, "event", None) == LogEvent.JOB_FINISHED:
            remove_accepted(self.paths, self.persistence)


def remove_accepted(paths: Paths, persistence: Any) -> None:
    """Remove the working folders of all runs with results that no call has to make again.

    Args:
        paths: of the study.
        persistence: Snakemake's record of the files.
    """
    results = Path(paths.results)

    def is_accepted(out: Path) -> bool:
        if not out.is_relative_to(results.absolute()):  # the results have been moved since
            return False
        record = results / out.relative_to(results.absolute()) / RUN
        return record.is_file() and not persistence._filter_incomplete_keys([str(record)])

    sweep(Path(paths.work), is_accepted)
