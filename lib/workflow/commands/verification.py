"""Whether finished results are still what their records say: the files that runs left, what they read, and the code."""

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field, ValidationError

from lib.core.errors import DataError, first
from lib.core.files import file_digest, files_in, litter
from lib.core.record import COMPARED_PACKAGES, RUN, RunRecord, differing_files, digest_of, read_record
from lib.study.runs import Run
from lib.workflow.planning.plan import Plan
from lib.workflow.staleness.acceptance import Accepted, read_accepted
from lib.workflow.staleness.agreement import disagreements, misnamed
from lib.workflow.staleness.kept_code import code_since

MANIFEST = "MANIFEST.json"
"""File of an archived study with the digest of every file in it."""
ARCHIVED = ("runs", "tables", "figures")
"""Folders with no more files than the manifest names; logs and code are added as tables are remade."""


class Verified(NamedTuple):
    """What was found of the runs of a study."""

    runs: int
    differing: dict[str, list[str]]
    """What differs from a run's record, by the run's folder."""
    damaged: list[str]
    """Folders of runs that have to be made again: their own files are gone or differ, or their settings are others."""
    missing: list[str]
    """Files that the study has and that are not there."""
    other_versions: dict[tuple[str, str], list[str]]
    """Folders of the runs that a package was used for in a version which is not installed, by package and version."""
    mixed: dict[str, str]
    """Conditions that changed when a run was resumed, by the run's folder."""
    instruction_sets: dict[str, int]
    """Numbers of runs by the processor's instruction set, as far as it is known."""
    unknown: dict[str, int]
    """What records do not tell, and how many of them."""
    accepted: dict[str, Accepted]
    """What was last accepted of runs that changes after them would have made stale, by the run's folder."""


def verify(results: str, code: str, plan: Plan | None = None) -> Verified:
    """Compare all finished results below a folder with their records, or an archived study with its manifest.

    An archived study has neither the models of its runs nor what they read, and other code may be at hand.

    Args:
        results: folder of a study's results.
        code: folder of the code that was kept.
        plan: of the study, with the files that it expects and the settings of its runs; None = expect nothing.

    Raises:
        DataError: a file is not a run record, or no manifest.
    """
    damaged: list[str] = []
    unknown: Counter[str] = Counter()
    # Many runs read the same tokens and executed the same code.
    digest, since = functools.cache(digest_of), functools.cache(functools.partial(code_since, code))
    planned = {Path(plan.paths.folder(run.id)): run for run in plan.study.runs} if plan else {}
    # A walk alone does not enter linked folders.
    folders = {*planned, *(path.parent for path in files_in(Path(results, "runs"), f"**/{RUN}"))}
    records = {folder: read_record(folder) for folder in sorted(folders) if (folder / RUN).is_file()}
    archived = Path(results, MANIFEST).is_file()
    differing = _not_as_archived(Path(results)) if archived else {}
    accepted = read_accepted(code)
    for folder, record in records.items():
        recorded = plan is not None and folder in planned and plan.paths.is_recorded(planned[folder].id)
        if recorded:  # without weights, nor what no table reads
            record.files = {name: each for name, each in record.files.items() if (folder / name).is_file()}
        left = [] if archived else differing_files(folder, record)
        problems = left or misnamed(folder, record)
        changes = accepted.get(str(folder), [])
        if plan and not problems and folder in planned and record.imported is None:
            left = problems = disagreements(plan, planned[folder], changes[-1].settings if changes else {})
        damaged += [str(folder)] if left and not recorded else []
        if recorded and plan:
            problems += _read_otherwise(plan, planned[folder], record, digest)
            unknown["whether today's code gives the same"] += record.code != plan.code(planned[folder])
        elif not archived:
            problems += _read(record, changes, digest)
            edits = [since(code) for code in [*(each.code for each in reversed(changes)), record.code] if code]
            problems += edits[0] if edits and all(edits) else []
        if problems:
            differing[str(folder)] = differing.get(str(folder), []) + problems
        unknown["the files that they left"] += not record.files
        unknown["the code that they executed"] += not record.code
        unknown["what they read"] += any(parent.digest is None for parent in record.parents.values())
    # The records, tables and figures that the finished study has.
    expected = [*(plan.paths.record(run.id) for run in plan.study.asked), *plan.targets()] if plan else []
    missing = [file for file in dict.fromkeys(expected) if not Path(file).is_file()]
    mixed = {str(folder): words for folder, record in records.items() if (words := record.mixed)}
    sets = Counter(record.instruction_set for record in records.values() if record.instruction_set)
    latest = {str(folder): accepted[str(folder)][-1] for folder in records if str(folder) in accepted}
    return Verified(len(records), differing, damaged, missing, other_versions(records), mixed, sets, +unknown, latest)


class _Manifest(BaseModel):
    files: dict[str, str] = Field(min_length=1)
    """SHA-256 of every file, by its path below the study's folder."""


def _not_as_archived(results: Path) -> dict[str, list[str]]:
    """Return which files of an archived study are gone, differ from its manifest or are not in it, by their folder.

    A file in the folder of a run belongs to the run. Links are never followed, so nothing outside the study's folder is
    read.

    Raises:
        DataError: the manifest names no files.
    """
    path = results / MANIFEST
    try:
        manifest = _Manifest.model_validate_json(path.read_bytes()).files
    except ValidationError as error:
        raise DataError(f"{path}: no manifest ({error.errors()[0]['msg']}). Unpack the whole archive again.") from error
    there = {str(file.relative_to(results)) for file in results.rglob("*") if file.is_symlink() or file.is_file()}
    problems = dict.fromkeys(manifest.keys() - there, "is gone")
    for name in there - {MANIFEST}:
        file, parts = results / name, Path(name).parts
        if name not in manifest and (len(parts) == 1 or parts[0] in ARCHIVED) and not litter(results, parts):
            problems[name] = "was not archived"
        elif name in manifest and (file.is_symlink() or file_digest(file) != manifest[name]):
            problems[name] = "differs from the archived file"
    found: dict[str, list[str]] = {}
    for name, problem in sorted(problems.items()):
        file = results / name
        folder = next((each for each in file.parents if (each / RUN).is_file()), file.parent)
        found.setdefault(str(folder), []).append(f"{file.name} {problem}")
    return found


def other_versions(records: Mapping[Path, RunRecord]) -> dict[tuple[str, str], list[str]]:
    """Return the folders of runs made with packages that are installed in another version, by package and version.

    Packages that are not installed here are not compared, as those of programs that run in an image.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for package in COMPARED_PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            here = version(package)
            for folder, record in records.items():
                if record.versions.get(package, here) != here:
                    found.setdefault((package, record.versions[package]), []).append(str(folder))
    return found


def _read(record: RunRecord, accepted: Sequence[Accepted], digest: Callable[[Path], str]) -> list[str]:
    """Return which of its inputs are gone or differ from what a run read or was accepted for."""
    problems = []
    for name, parent in record.parents.items():
        known = [parent.digest, *(each.inputs.get(name) for each in accepted)]
        if parent.digest is not None and not Path(parent.path).exists():
            problems.append(f"input {name} is gone: {parent.path}")
        elif parent.digest is not None and digest(Path(parent.path)) not in known:
            problems.append(f"input {name} is not what the run read: {parent.path}")
    return problems


def _read_otherwise(plan: Plan, run: Run, record: RunRecord, digest: Callable[[Path], str]) -> list[str]:
    """Return which inputs of a recorded run differ from those of the study, as far as these were made here."""
    places = plan.data(run) | dict(zip(["tokenizer"], plan.tokenizer(run), strict=False))
    there = {name: Path(places[name]) for name in record.parents if name in places and Path(places[name]).exists()}
    others = [name for name, place in there.items() if digest(place) != record.parents[name].digest]
    return [f"input {name} differs from that of the study's own runs: {there[name]}" for name in others]


def verification_report(found: Verified, results: str) -> str:
    """Return what was found, in words."""
    same = found.runs - sum(Path(folder, RUN).is_file() for folder in found.differing)
    lines = [f"{results}: {found.runs} finished runs, {same} as recorded, {found.runs - same} differ."]
    for folder, problems in found.differing.items():
        lines += ["", folder, *(f"    {problem}" for problem in problems)]
    if found.missing:
        lines += ["", f"Missing, {len(found.missing)} files that the study has:", *named(found.missing)]
    lines += [f"Unknown for {number} of {found.runs}: {name}." for name, number in found.unknown.items()]
    if found.accepted:
        lines += ["", f"Accepted after changes, {len(found.accepted)} of {found.runs} runs:"]
        lines += named([f"{folder}: {each.reason or 'no reason given'}" for folder, each in found.accepted.items()])
    if found.mixed:
        lines += ["", f"Resumed under other conditions, {len(found.mixed)} of {found.runs} runs:"]
        lines += [f"    {folder}: {words}" for folder, words in found.mixed.items()]
    if len(found.instruction_sets) > 1:
        sets = ", ".join(f"{name} for {number}" for name, number in found.instruction_sets.items())
        lines += ["", f"The processors had different instruction sets: {sets} of {found.runs} runs."]
    for (package, then), folders in found.other_versions.items():
        lines += ["", f"{package} was {then} for {len(folders)} of {found.runs} runs, and is {version(package)} here."]
        lines += ["New runs may differ from these:", *named(folders)]
    return "\n".join(lines)


def named(places: Sequence[str]) -> list[str]:
    """Return lines that name the first places, and how many more there are."""
    return [f"    {place}" for place in first(places)]
