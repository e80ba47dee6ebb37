"""Whether a finished run is the one that the plan means: two records of one fact are compared.

Snakemake's metadata has the settings and the code that it planned a run with. `config.yaml` and `run.json` have those
that the run was made with. Snakemake itself compares only its own.
"""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lib.core.errors import ConfigError
from lib.core.files import read_mapping
from lib.core.identity import NamesRun
from lib.core.record import CONFIG, RUN, RunRecord
from lib.core.search_space import laid_over
from lib.study.runs import Run
from lib.workflow.planning.plan import Plan
from lib.workflow.staleness.kept_code import code_since

GIVEN_AT_START = ("task.teacher_weights", "backbone.vectors_folder")
"""Settings that are paths, which the program of a run is told when it starts."""

NOT_SET = "not set"
LONGEST = 120
"""Characters of a value that are shown."""

Values = tuple[Any, Any]
"""Two values of a setting, before and now; `NOT_SET` where there is none."""


def disagreements(plan: Plan, run: Run, record: RunRecord) -> list[str]:
    """Return how a finished run differs from the plan, in words."""
    folder = Path(plan.paths.folder(run.id))
    problems = [] if record.id == run.id else [f"{RUN} is the record of another run, {record.id.path}"]
    try:
        own = read_mapping(folder / CONFIG)
    except ConfigError as error:
        return [*problems, str(error)]
    wanted = json.loads(run.settings)
    for file in plan.settings_from(run):
        if Path(file).is_file():
            wanted = laid_over(wanted, read_mapping(file))
    for name, (value, planned) in differences(_restricted(own, wanted), wanted).items():
        accepted = any(planned in entry.settings.get(name, ()) for entry in record.accepted)
        if name not in GIVEN_AT_START and not accepted:
            problems.append(f"setting {name}: {short(value)} in the run, {short(planned)} in the plan")
    return problems


def unlike_plan(plan: Plan, folder: Path, record: RunRecord) -> list[str]:
    """Return how a finished run differs from the plan, its code included, in words."""
    run = plan.run_at(folder.relative_to(Path(plan.paths.results, "runs")).as_posix())
    changes = code_changes(record, functools.partial(code_since, plan.paths.code, now=plan.code(run)))
    return disagreements(plan, run, record) + changes


def misnamed(folder: Path, record: RunRecord) -> list[str]:
    """Return in words how the record, the settings and the folder of a run disagree about its name."""
    problems = []
    if not folder.as_posix().endswith(f"/{record.id.path}"):
        problems.append(f"{RUN} is the record of another run, {record.id.path}")
    if record.imported is None and (folder / CONFIG).is_file():
        own = read_mapping(folder / CONFIG)
        names = [name for name in NamesRun.model_fields if name in own and own[name] != getattr(record, name)]
        problems += [f"{CONFIG} and {RUN} differ in {', '.join(names)}"] if names else []
    return problems


def code_changes(record: RunRecord, since: Callable[[str], list[str]]) -> list[str]:
    """Return the changes of the code since a run, in words; nothing if it is known to be good for the code.

    Args:
        record: of the run.
        since: returns the changes since a digest of code.
    """
    accepted = [digest for entry in record.accepted if entry.code for digest in entry.code]
    known = [*accepted[::-1], *([record.code] if record.code else [])]
    changes = [since(digest) for digest in known]
    return changes[0] if changes and all(changes) else []


def differences(before: Mapping[str, Any], now: Mapping[str, Any], place: str = "") -> dict[str, Values]:
    """Return the settings that differ, by dotted name."""
    found: dict[str, Values] = {}
    for name in [*now, *(name for name in before if name not in now)]:
        old, new = before.get(name, NOT_SET), now.get(name, NOT_SET)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found |= differences(old, new, f"{place}{name}.")
        elif old != new:
            found[f"{place}{name}"] = (old, new)
    return found


def short(value: Any) -> str:
    """Return a value as a message shows it."""
    text = value if value is NOT_SET else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _restricted(own: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that the plan has, too."""
    return {
        name: _restricted(value, wanted[name])
        if isinstance(value, Mapping) and isinstance(wanted[name], Mapping)
        else value
        for name, value in own.items()
        if name in wanted
    }
