"""The digests of all files that the jobs of a study read and made, in one file of its results.

Runs are left out: their records hold the digests of their files. Snakemake knows the contents of inputs alone, and only
in `.snakemake`.
"""

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lib.core.errors import DataError
from lib.core.files import file_digest, files_in, write_json
from lib.workflow.planning.paths import Paths
from lib.workflow.staleness.known_states import FILE as ACCEPTED

FILE = "digests.json"
"""Name of the file, in the folder of the results."""
NOTED_AGAIN = "snakemake --forcerun all writes it again, of the files as they are"
"""A call with nothing to do writes no file, so that one job is forced."""
_DIGESTS = TypeAdapter(dict[str, str])


def begin(paths: Paths, dag: Any, *, whole: bool) -> None:
    """Forget the files that will be made again, and note those that jobs will read.

    Files that an earlier call made and could not note are noted, too.

    Args:
        paths: of the study.
        dag: Snakemake's graph of jobs.
        whole: whether the graph has all jobs of the study; then files that the study does not have any more are
            forgotten, too, if they are gone, or were read from elsewhere.
    """
    needed = set(dag.needrun_jobs())
    noted = read_digests(paths.results)
    if whole:
        known = {str(file) for job in dag.jobs for file in [*job.input, *job.output]}
        for file in noted.keys() - known:
            is_own = not {Path(paths.results), Path(paths.resources)}.isdisjoint(Path(file).parents)
            if not (is_own and Path(file).exists()) and Path(paths.code) not in Path(file).parents:
                del noted[file]
    for job in needed:
        for file in job.output:
            noted.pop(str(file), None)
    made = {str(file) for job in dag.jobs if job not in needed for file in job.output}
    _note(paths, noted, ((made | _read(dag, dag.jobs)) - noted.keys()) | _read(dag, needed))


def end(paths: Paths, dag: Any) -> list[str]:
    """Note the files that the finished jobs of this call made, and remove those made from changed files.

    Returns:
        The files read that have changed since the call began: whether before or after they were read, nobody knows.
    """
    noted = read_digests(paths.results)
    read = _read(dag, dag.finished_jobs) & noted.keys()
    changed = {file for file in read if not Path(file).exists() or content_digest(Path(file)) != noted[file]}
    made = {str(file): job for job in dag.finished_jobs for file in job.output}
    for file in [file for file, job in made.items() if not changed.isdisjoint(map(str, job.input))]:
        shutil.rmtree(file) if Path(file).is_dir() else Path(file).unlink(missing_ok=True)
    _note(paths, noted, made)
    return sorted(changed)


def note_again(paths: Paths, jobs: Iterable[Any]) -> None:
    """Note the files that accepted jobs read and made, as they are now."""
    _note(paths, read_digests(paths.results), {str(file) for job in jobs for file in [*job.input, *job.output]})


def read_digests(results: str | Path) -> dict[str, str]:
    """Return the SHA-256 of each file, or of all files of each folder, by its path.

    Raises:
        DataError: the file is damaged.
    """
    path = Path(results, FILE)
    try:
        return _DIGESTS.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValidationError as error:
        raise DataError(f"{path}: damaged ({error.errors()[0]['msg']}). Delete it: {NOTED_AGAIN}.") from error


def changed_files(results: str | Path) -> dict[str, list[str]]:
    """Return which files are gone or differ from their digests, in words, by their folder."""
    found: dict[str, list[str]] = {}
    for name, digest in read_digests(results).items():
        path = Path(name)
        if not path.exists():
            found.setdefault(str(path.parent), []).append(f"{path.name} is gone")
        elif content_digest(path) != digest:
            found.setdefault(str(path.parent), []).append(f"{path.name} has changed since it was made or read")
    return found


def content_digest(place: Path) -> str:
    """Return the digest of a file, or of the names and contents of all files in a folder but litter."""
    if place.is_file():
        return file_digest(place)
    files = {file.relative_to(place).as_posix(): file for file in files_in(place)}
    return hashlib.sha256(
        "".join(f"{name} {file_digest(files[name])}\n" for name in sorted(files)).encode()
    ).hexdigest()


def _read(dag: Any, jobs: Iterable[Any]) -> set[str]:
    """Return the inputs of jobs that no job makes."""
    return {str(file) for job in jobs for file in job.input} - {str(file) for job in dag.jobs for file in job.output}


def _note(paths: Paths, noted: dict[str, str], files: Iterable[str]) -> None:
    """Write the digests noted so far, with those of files and of the code that was kept."""
    code = {str(file) for file in files_in(paths.code, "*.json") if file.name != ACCEPTED}
    for file in {*files, *(code - noted.keys())}:
        if Path(file).exists() and Path(paths.results, "runs") not in Path(file).parents:
            noted[file] = content_digest(Path(file))
    write_json(Path(paths.results, FILE), dict(sorted(noted.items())))
