"""Accept stale results: tell Snakemake that what changed was judged harmless.

Snakemake's own `--touch` does nearly this. It also makes results newer than what is made from them outside the target,
which would be made again, and says nothing in the records.
"""

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

from lib.core.errors import RunError
from lib.core.files import files_in
from lib.core.record import RUN, Accepted, digest_of, read_record, write_run
from lib.workflow.planning.paths import Paths
from lib.workflow.planning.planned import planned_code
from lib.workflow.planning.steps import Job, Workflow, in_order, title
from lib.workflow.staleness import made_files
from lib.workflow.staleness.causes import Staleness, missing_report, missing_results, stale_steps
from lib.workflow.staleness.kept_code import keep_code
from lib.workflow.staleness.known_states import remember_states

NAMED = 5
"""How many steps a refusal names."""


def accept(workflow: Workflow, paths: Paths, reason: str | None) -> dict[Job, Staleness]:
    """Take what a target is made of as up to date; the records of its runs say what was accepted, and why.

    Nothing is made. What is not stale but unknown to Snakemake, since its metadata was lost, is made known, too.
    Settings and code as they were before stay known, so that going back to them makes nothing stale. The digests of the
    files that the stale steps read and made are noted again.

    Args:
        workflow: with the plan of the target, see `lib.workflow.planning.steps`.
        paths: of the study.
        reason: why the change is harmless, in the user's words.

    Returns:
        The steps that were stale, and why.

    Raises:
        RunError: something is not there or not whole, so that it has to be made; or Snakemake is at work.
    """
    code = paths.code
    stale = stale_steps(workflow, code)
    _check(workflow, stale)
    unknown = [job for job in in_order(workflow) if job not in stale and not workflow.persistence.has_metadata(job)]
    with workflow.persistence.lock():
        workflow.iocache.deactivate()
        keep_code(code, planned_code([*stale, *unknown]))
        remember_states(code, workflow.persistence, {job: not why.others for job, why in stale.items()})
        checksums: dict[str, str] = {}
        for job in in_order(workflow):
            if job in stale:
                for file in job.output:
                    if Path(file).name == RUN:
                        checksums[str(file)] = _write_entry(Path(file), stale[job], reason)
                _make_no_older_than_inputs(job)
            if job in stale or job in unknown:
                workflow.async_run(workflow.persistence.finished(job))
        _renew(checksums)
        made_files.note_again(paths, stale)
    return stale


def unknown_steps(workflow: Workflow) -> int:
    """Return how many finished steps Snakemake knows nothing of, so that it cannot see what changes."""
    needed = set(workflow.dag.needrun_jobs())
    return sum(job not in needed and not workflow.persistence.has_metadata(job) for job in in_order(workflow))


def _check(workflow: Workflow, stale: Collection[Job]) -> None:
    if workflow.persistence.locked:
        raise RunError(
            "Snakemake is at work in this folder. Wait for its end, or, if it was killed, unlock: snakemake --unlock"
        )
    not_whole = [
        title(job) for job in stale if workflow.dag.reason(job).forced or not all(Path(f).exists() for f in job.output)
    ]
    if not_whole:
        more = f" and {len(not_whole) - NAMED} more" if len(not_whole) > NAMED else ""
        raise RunError(
            f"nothing was accepted: {len(not_whole)} of its steps have to be made first, since their results are not "
            f"there, or not whole: {'; '.join(not_whole[:NAMED])}{more}. Accept a target that does not need them, or "
            "run snakemake."
        )
    if missing := missing_results(workflow):
        raise RunError(f"nothing was accepted. {missing_report(missing, workflow)}")


def _write_entry(path: Path, why: Staleness, reason: str | None) -> str:
    """Add to a run's record what was accepted, without making it newer, and return the checksum that it had."""
    record = read_record(path.parent)
    read = {name: parent for name, parent in record.parents.items() if parent.digest and Path(parent.path).exists()}
    inputs = {name: (str(parent.digest), digest_of(Path(parent.path))) for name, parent in read.items()}
    entry = Accepted(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        reason=reason,
        settings=why.settings,
        code=why.code,
        inputs={name: (before, now) for name, (before, now) in inputs.items() if before != now},
        changes=[*why.words, *(f"made from {file}, which was accepted" for file in why.reads)],
    )
    status, before = path.stat(), _checksum(path)
    write_run(path.parent, record.model_copy(update={"accepted": [*record.accepted, entry]}))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return before


def _renew(checksums: Mapping[str, str]) -> None:
    """Replace old checksums of a record by its new one in the metadata of everything that was made from it.

    Where times are lost, as in a copy, Snakemake compares contents with those that it has recorded.
    """
    now = {path: _checksum(Path(path)) for path in checksums}
    for metadata in files_in(".snakemake/metadata") if checksums else ():
        try:
            values = json.loads(metadata.read_text(encoding="utf-8"))
        except ValueError:  # none of Snakemake's own
            continue
        recorded = values.get("input_checksums") or {}
        renewed = {path: now[path] for path, before in recorded.items() if checksums.get(path) == before}
        if renewed:
            metadata.write_text(json.dumps(values | {"input_checksums": recorded | renewed}), encoding="utf-8")


def _checksum(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def _make_no_older_than_inputs(job: Job) -> None:
    """Give the results of a job the time of its newest input where they are older, and else leave theirs."""
    inputs = map(_timed, job.input)
    newest = max((status.st_mtime_ns for place in inputs for status in (place.stat(), place.lstat())), default=0)
    for place in map(_timed, job.output):
        if place.exists() and place.stat().st_mtime_ns < newest:
            os.utime(place, ns=(newest, newest))


def _timed(file: str) -> Path:
    """Return the file whose time is that of a file or folder, for Snakemake."""
    stamp = Path(file, ".snakemake_timestamp")
    return stamp if stamp.exists() else Path(file)
