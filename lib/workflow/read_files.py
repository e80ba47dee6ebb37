"""Files that jobs read and no job makes: results of one that changed meanwhile are made again.

Snakemake notes the contents of inputs when a job has ended, and takes them for those that the job has read.
"""

import os
import shutil
from pathlib import Path
from typing import Any


def states(dag: Any) -> dict[str, tuple[int, ...]]:
    """Return what differs after any change of the files that no job makes, by path.

    Args:
        dag: Snakemake's graph of jobs.
    """
    made = {str(file) for job in dag.jobs for file in job.output}
    return {file: _state(file) for file in {str(file) for job in dag.jobs for file in job.input} - made}


def remove_outdated(dag: Any, before: dict[str, tuple[int, ...]]) -> list[str]:
    """Remove what finished jobs made of files whose state is not the one of before, and return these files."""
    changed = {file for file, state in before.items() if _state(file) != state}
    outdated = [job for job in dag.finished_jobs if not changed.isdisjoint(map(str, job.input))]
    for place in (Path(file) for job in outdated for file in job.output):
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    return sorted(changed.intersection(str(file) for job in outdated for file in job.input))


def _state(file: str) -> tuple[int, ...]:
    if not os.path.exists(file):
        return ()
    status = os.stat(file)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
