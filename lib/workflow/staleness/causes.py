"""Why a step would be made again, in words: settings, functions, inputs, commands, since it was last made."""

import ast
import difflib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lib.core.record import RUN, missing_files, read_record
from lib.workflow.planning.steps import Job, Workflow, in_order, title
from lib.workflow.staleness.agreement import NOT_SET, Values, differences, short
from lib.workflow.staleness.kept_code import code_since

LISTED = 6
"""How many steps of one reason are named."""


class Staleness(NamedTuple):
    """Why one step is stale."""

    settings: dict[str, Values]
    """Changed settings, by dotted name."""
    code: tuple[str, str] | None
    """Digests of the code before and now, if they differ."""
    others: list[str]
    """Everything else that differs, in words."""
    functions: list[str]
    """What of the code differs, in words."""
    reads: list[str]
    """What it is made from and would itself be made again."""

    @property
    def words(self) -> list[str]:
        """Every reason of its own, in words."""
        return [*map(_change_in_words, self.settings, self.settings.values()), *self.functions, *self.others]


def stale_steps(workflow: Workflow, code: str) -> dict[Job, Staleness]:
    """Return every job that would be made, each after those whose results it reads, and why.

    Args:
        workflow: with its plan, see `lib.workflow.planning.steps`.
        code: folder of the code that was kept.
    """
    needed = set(workflow.dag.needrun_jobs())
    return {job: staleness(workflow, job, code, needed) for job in in_order(workflow) if job in needed}


def staleness(workflow: Workflow, job: Job, code: str, needed: set[Job]) -> Staleness:
    """Return why a job would be made again; `needed` are all that would."""
    reason = workflow.dag.reason(job)
    files = {file for other, read in workflow.dag.dependencies[job].items() if other in needed for file in read}
    found = Staleness({}, None, [], [], sorted(map(str, files)))
    if missing := [str(file) for file in job.output if not Path(file).exists()]:
        made = len(missing) == len(job.output)
        found.others.append("not made yet" if made else f"missing: {', '.join(missing)}")
    elif reason.forced:
        found.others.append("begun and not finished: it is being made, or was interrupted")
    for file in sorted(set(map(str, reason.updated_input)) - set(found.reads)):
        compared = Path(file).is_file() and Path(file).stat().st_size <= workflow.dag_settings.max_checksum_file_size
        found.others.append(f"input {file} {'has changed' if compared else 'is newer than what was made from it'}")
    records = {record.model_dump_json(): record for record in map(workflow.persistence.metadata, job.output) if record}
    for record in records.values():
        found = _against(found, record, job, code, bool(workflow.persistence.params_changed(job)))
    return found


def missing_results(workflow: Workflow) -> dict[Job, list[str]]:
    """Return the finished steps that lack results and would not be made again, each with what it lacks.

    Snakemake takes a step as up to date while all that was made from it is there and newer than its inputs.
    """
    needed = set(workflow.dag.needrun_jobs())
    return {job: gone for job in in_order(workflow) if job not in needed and (gone := _gone(job))}


def _gone(job: Job) -> list[str]:
    """Return which results of a job are missing, or else which files of the run that it made."""
    folders = [Path(file).parent for file in job.output if Path(file).name == RUN]
    return [str(file) for file in job.output if not Path(file).exists()] or [
        str(folder / name) for folder in folders for name in missing_files(folder, read_record(folder))
    ]


def _against(found: Staleness, record: Any, job: Job, code: str, parameters_changed: bool) -> Staleness:
    """Return `found` with what differs from Snakemake's record of the last time."""
    others = list(found.others)
    inputs = set(map(str, job.input))
    if record.input is not None:
        others += [f"input {file} is new" for file in sorted(inputs - set(record.input))]
        others += [f"input {file} is no longer read" for file in sorted(set(record.input) - inputs)]
    if record.code is not None and record.code != job.rule.shellcmd:
        others.append(f"the command of the rule {job.rule.name}: {_other_words(record.code, job.rule.shellcmd)}")
    settings, digests, functions = dict(found.settings), found.code, list(found.functions)
    for name, (before, now) in _parameters(record.params or [], job) if parameters_changed else ():
        if name == "program" and NOT_SET not in (before, now):
            digests = (before, now)
            functions += code_since(code, before, now)
        elif isinstance(before, Mapping) and isinstance(now, Mapping):
            settings |= differences(before, now)
        else:
            settings[name] = (before, now)
    return found._replace(
        settings=settings,
        code=digests,
        functions=list(dict.fromkeys(functions)),
        others=list(dict.fromkeys(others)),
    )


def _parameters(recorded: Sequence[str], job: Job) -> Iterator[tuple[str, Values]]:
    """Yield the parameters that differ, paired as far as they look alike, since Snakemake records no names."""
    names = {repr(value): name for name, value in job.params.items()}
    compared = job.dag.workflow.persistence._params(job)
    now = {text: value for value in job.non_derived_params if (text := repr(value)) in compared}
    old = [_read(text) for text in recorded if text not in now]
    for text, value in now.items():
        if text in recorded:
            continue
        new = _parsed(value)
        alike = [each for each in old if type(each) is type(new)]
        if isinstance(new, Mapping):
            alike.sort(key=lambda each: -len(each.keys() & new.keys()))
        elif isinstance(new, str):
            alike.sort(key=lambda each: len(each) != len(new))
        before = alike[0] if alike else NOT_SET
        if alike:
            old.remove(before)
        yield names.get(text, "a parameter"), (before, new)
    for before in old:
        yield "a parameter", (before, NOT_SET)


def _read(text: str) -> Any:
    """Return a recorded parameter; the text itself if it was no literal."""
    try:
        return _parsed(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text


def _parsed(value: Any) -> Any:
    """Return the settings in a parameter of JSON, and any other parameter as it is."""
    if not isinstance(value, str):
        return value
    text = str(value)  # plain, of a program or a file of the plan
    try:
        return json.loads(text) if text.startswith("{") else text
    except ValueError:
        return text


def _change_in_words(name: str, values: Values) -> str:
    before, now = values
    if isinstance(before, list) and isinstance(now, list):
        gone, new = [each for each in before if each not in now], [each for each in now if each not in before]
        changes = [f"{word} {short(each)}" for word, each in (("without", gone), ("with", new)) if each]
        return f"setting {name}: {', '.join(changes) or 'in another order'}"
    return f"setting {name}: from {short(before)} to {short(now)}"


def _other_words(before: str, now: str) -> str:
    """Return which words of a command are gone, and which are new."""
    old, new = before.split(), now.split()
    parts = []
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            changes = (("without", old[start:end]), ("with", new[new_start:new_end]))
            parts += [f"{word} {short(' '.join(words))}" for word, words in changes if words]
    return ", ".join(parts)


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
    derived: dict[str, list[str]] = {}  # by what is done
    for job, why in steps.items():
        if words := tuple(why.words):
            groups.setdefault(words, []).append(title(job))
        else:
            done, _, what = title(job).partition(" ")
            derived.setdefault(done, []).append(what)
    lines = [f"{target}: {len(steps)} of {total} steps {fate}."]
    for words, titles in groups.items():
        lines += ["", *_listed(titles), *(f"    {word}" for word in words)]
    if derived:
        made = (f"    {done} {'; '.join(_listed(names))}" for done, names in derived.items())
        lines += ["", "and what is made from these:", *made]
    return "\n".join(lines)


def missing_report(missing: Mapping[Job, Sequence[str]], workflow: Workflow) -> str:
    """Return which finished steps lack results, and the command that makes them again."""
    lines = [
        f"Finished steps that lack results: {len(missing)}. Snakemake alone would not make them again, since what was "
        "made from them is there and newer."
    ]
    for job, gone in missing.items():
        lines += ["", title(job), *(f"    missing: {file}" for file in _listed(list(gone)))]
    # What is made from a forced step is made again without being forced.
    first = [job for job in missing if missing.keys().isdisjoint(workflow.dag.dependencies[job])]
    files = [next(file for file in [*missing[job], *job.output] if file in job.output) for job in first]
    command = forcing(files, workflow)
    return "\n".join([*lines, "", "This makes them again, and all that is made from them:", f"    {command}"])


def forcing(files: Sequence[str], workflow: Workflow) -> str:
    """Return the command that makes the steps again that `files` are results of, with all that was made from them.

    It starts nothing else: unless all else is made, it names what it makes.

    Args:
        files: one result of each step.
        workflow: with its plan, see `lib.workflow.planning.steps`.
    """
    made = {str(file) for job in in_order(workflow) for file in job.output}
    targets = [file for file in files if file not in made]
    again: set[Job] = set()
    for job in in_order(workflow):
        outputs = [str(file) for file in job.output]
        forced = [file for file in files if file in outputs]
        is_there = all(Path(file).exists() for file in outputs)
        if forced or (is_there and not again.isdisjoint(workflow.dag.dependencies[job])):
            again.add(job)
            targets.append([*forced, *outputs][0])
    needed = {job for job in workflow.dag.needrun_jobs() if job.output}
    if made.issuperset(files) and needed <= again:
        targets = sorted(workflow.dag_settings.targets)
    configfiles = map(os.path.relpath, workflow.config_settings.configfiles)
    return f"snakemake {shlex.join([*targets, '--cores', 'all', '--configfile', *configfiles, '--forcerun', *files])}"


def _listed(names: list[str]) -> list[str]:
    return [*names[:LISTED], *([f"and {len(names) - LISTED} more"] if len(names) > LISTED else [])]
