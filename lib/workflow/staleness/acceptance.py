"""Accept stale results: `snakemake --touch` makes them known to Snakemake as they are, and a file says why.

The records of runs stay as they were. `ACCEPTED` has, by the folder of each run, what it was accepted for.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from lib.core.errors import DataError, RunError, first
from lib.core.files import write_json
from lib.core.record import RUN, digest_of, missing_files, read_record
from lib.workflow.planning.steps import ANY_SIZE, Job, Workflow, in_order, title
from lib.workflow.staleness.causes import Staleness, is_whole

ACCEPTED = "accepted_changes.json"
"""Name of the file, in the folder of the code that is kept."""


class Accepted(BaseModel):
    """Changes after a run that the user judged harmless, so that the run was not repeated."""

    model_config = ConfigDict(extra="forbid")

    when: str
    """ISO 8601, UTC."""
    reason: str | None
    """Reason given by the user."""
    changes: list[str]
    """The changes in words; empty if only what the run is made from was accepted."""
    settings: dict[str, Any]
    """Values of changed settings that the run was accepted for, by dotted name."""
    code: str | None
    """Digest of the code that it was accepted for."""
    inputs: dict[str, str]
    """Digests of the inputs that it was accepted for, by name."""


_FILE = TypeAdapter(dict[str, list[Accepted]])


def read_accepted(folder: str | Path) -> dict[str, list[Accepted]]:
    """Return what results were accepted for, by the folder of each run, the latest last.

    Raises:
        DataError: the file is damaged.
    """
    path = Path(folder, ACCEPTED)
    try:
        return _FILE.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValidationError as error:
        raise DataError(f"{path}: damaged ({error.errors()[0]['msg']}). Delete it and accept again.") from error


def check_whole(workflow: Workflow) -> None:
    """Refuse to accept results of which some are not there.

    Raises:
        RunError: a step has to be made first.
    """
    gone = [title(job) for job in in_order(workflow) if not is_whole(workflow, job) or any(map(_gone, _folders(job)))]
    if gone:
        steps = f"{len(gone)} of its steps have to be made first: {'; '.join(first(gone))}"
        raise RunError(f"nothing was accepted: {steps}. Run snakemake; make verify names the files that are not there.")


def touch(workflow: Workflow, configfiles: Sequence[str], targets: Sequence[str]) -> None:
    """Let Snakemake take a target and all that it is made from as up to date.

    Args:
        workflow: with the plan of the target.
        configfiles: of the study.
        targets: files or rules.

    Raises:
        RunError: Snakemake refused, for instance because it is at work.
    """
    in_image = ["--software-deployment-method", "apptainer"] if workflow.deployment_settings.deployment_method else []
    command = [sys.executable, "-m", "snakemake", *targets, "--touch", "--forceall", "--cores", "1", *in_image]
    command += ["--snakefile", workflow.main_snakefile, "--max-checksum-file-size", str(ANY_SIZE), "--quiet", "all"]
    done = subprocess.run([*command, "--configfile", *configfiles], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(f"nothing was accepted: {done.stderr.strip()}")


def note(code: str, steps: Mapping[Job, Staleness], reason: str | None) -> None:
    """Write what stale runs were accepted for.

    Args:
        code: folder of the code that is kept.
        steps: that were stale, and why.
        reason: why the change is harmless, in the user's words.
    """
    accepted = read_accepted(code)
    for job, why in steps.items():
        for folder in _folders(job):
            earlier = accepted.setdefault(str(folder), [])
            parents = read_record(folder).parents
            entry = Accepted(
                when=datetime.now(UTC).isoformat(timespec="seconds"),
                reason=reason,
                changes=why.words,
                settings=(earlier[-1].settings if earlier else {})
                | {name: now for name, (_, now) in why.settings.items()},
                code=str(job.params.program),
                inputs={name: digest_of(Path(each.path)) for name, each in parents.items() if Path(each.path).exists()},
            )
            earlier.append(entry)
    write_json(Path(code, ACCEPTED), _FILE.dump_python(dict(sorted(accepted.items())), mode="json"))


def _folders(job: Job) -> list[Path]:
    """Return the folder of the run that a job makes; none if it makes something else."""
    return [Path(file).parent for file in job.output if Path(file).name == RUN]


def _gone(folder: Path) -> list[str]:
    return missing_files(folder, read_record(folder))
