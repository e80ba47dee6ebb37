"""Why a step would be made again, in words: settings, functions, inputs, commands, since it was last made."""

import ast
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lib.core.errors import first
from lib.core.settings import differences
from lib.workflow.planning.steps import Job, Workflow, in_order, title
from lib.workflow.staleness.agreement import short
from lib.workflow.staleness.kept_code import code_since


class Staleness(NamedTuple):
    """Why one step is stale."""

    words: list[str]
    """Every reason of its own; none where only what it is made from is stale."""
    settings: dict[str, tuple[Any, Any]]
    """Changed settings, before and now, by dotted name."""


def stale_steps(workflow: Workflow, code: str) -> dict[Job, Staleness]:
    """Return every job that would be made, each after those whose results it reads, and why.

    Args:
        workflow: with its plan, see `lib.workflow.planning.steps`.
        code: folder of the code that was kept.
    """
    needed = set(workflow.dag.needrun_jobs())
    made_again = {str(file) for job in needed for file in job.output}
    return {job: _staleness(workflow, job, code, made_again) for job in in_order(workflow) if job in needed}


def is_whole(workflow: Workflow, job: Job) -> bool:
    """Whether all results of a job are there and Snakemake has seen the end of it."""
    return not workflow.dag.reason(job).forced and all(Path(file).exists() for file in job.output)


def _staleness(workflow: Workflow, job: Job, code: str, made_again: set[str]) -> Staleness:
    reason, record = workflow.dag.reason(job), workflow.persistence.metadata(job.output[0])
    if missing := [str(file) for file in job.output if not Path(file).exists()]:
        return Staleness(["not made yet" if len(missing) == len(job.output) else f"missing: {', '.join(missing)}"], {})
    words = ["begun and not finished: it is being made, or was interrupted"] if reason.forced else []
    words += [f"input {file} has changed" for file in sorted(set(map(str, reason.updated_input)) - made_again)]
    if record is None:
        return Staleness(words, {})
    inputs = set(map(str, job.input))
    words += [f"input {file} is new" for file in sorted(inputs - set(record.input or inputs))]
    words += [f"input {file} is no longer read" for file in sorted(set(record.input or ()) - inputs)]
    if record.code not in (None, job.rule.shellcmd):
        words.append(f"the command of the rule {job.rule.name} has changed")
    before, now = set(record.params or ()), set(workflow.persistence._params(job))
    (old_settings, old), (new_settings, new) = _read(before - now), _read(now - before)
    settings = differences(old_settings, new_settings)
    words += [f"setting {name}: {_in_words(*values)}" for name, values in settings.items()]
    program = str(job.params.get("program"))
    for digest in old if program in new else ():
        words += code_since(code, digest, program)
    if not (settings or program in new) and before != now:
        words.append(f"parameters: {short(old)} became {short(new)}")
    return Staleness(words, settings)


def _read(parameters: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the settings in recorded parameters, which are JSON, and the other parameters."""
    settings: dict[str, Any] = {}
    others = []
    for text in sorted(parameters):
        value = ast.literal_eval(text)
        if isinstance(value, str) and value.startswith("{"):
            settings |= json.loads(value)
        else:
            others.append(value if isinstance(value, str) else text)
    return settings, others


def _in_words(before: Any, now: Any) -> str:
    if isinstance(before, list) and isinstance(now, list):
        gone, new = [each for each in before if each not in now], [each for each in now if each not in before]
        changes = [f"{word} {short(each)}" for word, each in (("without", gone), ("with", new)) if each]
        return ", ".join(changes) or "in another order"
    return f"from {short(before)} to {short(now)}"


def stale_report(steps: Mapping[Job, Staleness], target: str, total: int, fate: str = "would be made") -> str:
    """Return why `steps` are stale, those with the same reasons together.

    Args:
        steps: all that would be made for a target.
        target: what was asked for.
        total: number of steps that the target takes in all.
        fate: what becomes of them.
    """
    if not steps:
        return f"{target}: nothing is stale, all {total} steps are up to date."
    groups: dict[tuple[str, ...], list[str]] = {}
    for job, why in steps.items():
        groups.setdefault(tuple(why.words), []).append(title(job))
    derived = groups.pop((), [])
    lines = [f"{target}: {len(steps)} of {total} steps {fate}."]
    for words, titles in groups.items():
        lines += ["", *first(sorted(titles)), *(f"    {word}" for word in words)]
    if derived:
        lines += ["", "and what is made from these:", *(f"    {name}" for name in first(derived))]
    return "\n".join(lines)
