"""The parameters that a result is known to be valid for, in addition to those in Snakemake's metadata.

A change that is accepted overwrites the metadata of a result. What was there before stays true of it: going back to
that state, settings and digest of code together, makes nothing stale. Only whole states count, and only of the very
result that was accepted: a result that is made again starts without them.
"""

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from snakemake.exceptions import WorkflowError
from snakemake.persistence import NO_PARAMS_CHANGE, PersistenceBase

from lib.core.files import write_json
from lib.workflow.planning.steps import Job

FILE = "accepted.json"
"""Name of the file, in the folder of the code that is kept."""

_params_changed = PersistenceBase.params_changed
_metadata = PersistenceBase.metadata


class KnownStates(BaseModel):
    """The states that one result is known to be valid for."""

    made: float
    """When Snakemake began to make the result, which tells it from a later one at the same place."""
    states: list[str]
    """Digests of the parameters that it was made with or accepted for."""


_FILE = TypeAdapter(dict[str, KnownStates])


def remember_states(folder: str | Path, persistence: Any, jobs: Mapping[Job, bool]) -> None:
    """Keep in `folder` with what parameters results are up to date, before Snakemake's metadata is overwritten.

    Args:
        folder: of the code that is kept.
        persistence: Snakemake's metadata.
        jobs: the jobs that are accepted; whether nothing but their parameters has changed. Otherwise what was known is
            forgotten: it held together with other inputs or another command.
    """
    known = _known_states(folder)
    for job, only_parameters in jobs.items():
        for file in job.output:
            before = known.pop(str(file), None)
            record = persistence.metadata(file)
            if only_parameters and record is not None and record.params is not None and record.starttime is not None:
                states = before.states if before is not None and before.made == record.starttime else []
                now = _digest(record.params)
                known[str(file)] = KnownStates(made=record.starttime, states=[*dict.fromkeys([*states, now])])
    write_json(Path(folder, FILE), _FILE.dump_python(dict(sorted(known.items()))))


def recognise_states(folder: str | Path) -> None:
    """Let Snakemake, in this process, treat results as up to date with all parameters they are known to be valid for.

    Args:
        folder: of the code that is kept.
    """
    read = functools.cache(functools.partial(_known_states, folder))

    def is_known(persistence: Any, file: Any, now: str) -> bool:
        known, record = read().get(str(file)), persistence.metadata(file)
        return known is not None and record is not None and known.made == record.starttime and now in known.states

    def params_changed(self: Any, job: Job, file: Any = None) -> Any:
        changes = _params_changed(self, job, file)
        now = _digest(self._params(job)) if changes else ""
        return changes if not all(is_known(self, each, now) for each in changes) else NO_PARAMS_CHANGE

    def metadata(self: Any, target: Any) -> Any:
        try:
            return _metadata(self, target)
        except (OSError, ValueError) as error:
            raise WorkflowError(
                f".snakemake/metadata: the entry of {target} cannot be read ({str(error).splitlines()[0]}). Expected "
                "what Snakemake wrote. Correct owner and permissions (chmod -R u+rwX .snakemake). If it is damaged, "
                f"snakemake --cleanup-metadata {target} removes it; then the result counts as up to date."
            ) from error

    PersistenceBase.params_changed = params_changed
    PersistenceBase.metadata = metadata


def _known_states(folder: str | Path) -> dict[str, KnownStates]:
    """Return what was remembered, by the path of each result."""
    try:
        return _FILE.validate_json(Path(folder, FILE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return {}


def _digest(parameters: Iterable[str]) -> str:
    return hashlib.sha256(json.dumps(sorted(parameters)).encode()).hexdigest()[:16]
