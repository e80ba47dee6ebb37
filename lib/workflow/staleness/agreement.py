"""Whether a finished run is the one that the plan means: two records of one fact are compared.

Snakemake's metadata has the settings and the code that it planned a run with. `config.yaml` and `run.json` have those
that the run was made with. Snakemake itself compares only its own.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lib.core.errors import ConfigError, DataError, first
from lib.core.files import read_mapping
from lib.core.record import CONFIG, RUN, NamesRun, RunId, RunRecord, read_record
from lib.core.search_space import laid_over
from lib.core.settings import NOT_SET, differences
from lib.study.runs import Run
from lib.workflow.planning.plan import Plan

GIVEN_AT_START = ("task.teacher_weights", "backbone.vectors_folder", "backbone.vectors_folders")
"""Settings that are paths, which the program of a run is told when it starts."""

LONGEST = 120
"""Characters of a value that are shown."""


def disagreements(plan: Plan, run: Run, accepted: Mapping[str, Any]) -> list[str]:
    """Return how the settings of a finished run differ from the plan, in words.

    Args:
        plan: of the study.
        run: as planned.
        accepted: values of settings that the run was accepted for, by dotted name.
    """
    try:
        own = read_mapping(Path(plan.paths.folder(run.id), CONFIG))
    except ConfigError as error:
        return [str(error)]
    wanted = json.loads(run.settings)
    for file in plan.settings_from(run):
        if Path(file).is_file():
            wanted = laid_over(wanted, read_mapping(file))
    return [
        f"setting {name}: {short(value)} in the run, {short(planned)} in the plan"
        for name, (value, planned) in differences(own, wanted).items()
        if planned != NOT_SET and name not in GIVEN_AT_START and accepted.get(name) != planned
    ]


def check_recorded(plan: Plan) -> None:
    """Check that recorded runs are those of the study, and that nothing needs their models, which no record has.

    Raises:
        DataError: some are not, or something does.
    """
    problems = []
    for run in plan.needed():
        folder = plan.paths.folder(run.id)
        if plan.paths.is_recorded(run.id):
            found = misnamed(Path(folder), read_record(folder)) or disagreements(plan, run, {})
            problems += [f"{folder}: {problem}" for problem in found]
            continue
        needed = (run.parent, run.teacher, run.imitated and run.imitated.weights)
        recorded = [each.path for each in needed if isinstance(each, RunId) and plan.paths.is_recorded(each)]
        problems += [f"{run.id.path}: needs the weights of {path}, which no record has" for path in recorded]
    if problems:
        remedy = "Correct the settings, or leave the folder out of execution.recorded: the runs are then made here"
        raise DataError(f"execution.recorded: {'; '.join(first(problems, 10))}. {remedy}.")


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


def short(value: Any) -> str:
    """Return a value as a message shows it."""
    text = value if value is NOT_SET else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
