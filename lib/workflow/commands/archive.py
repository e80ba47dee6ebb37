"""A study as data: its records, tables, figures and settings in one file that others remake every table from.

Models and texts are left out.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lib.core.errors import ConfigError, DataError
from lib.core.files import atomic_path, litter, mapping_text
from lib.core.record import MODEL, RUN, missing_files, read_record
from lib.workflow.commands.verification import MANIFEST
from lib.workflow.planning.plan import Plan

STUDY, CITATION, READ_ME = "study.yaml", "CITATION.cff", "README.md"
TEMPLATE = Path(__file__).with_suffix(".md")


class Archived(NamedTuple):
    """Numbers of packed runs and files."""

    runs: int
    files: int
    size: int
    """Bytes of the archive."""


def archive(plan: Plan, settings: Mapping[str, Any], citation: Path, out: str | Path) -> Archived:
    """Pack a finished study into `out`, a gzipped tar file that is unpacked at the root of a checkout.

    It holds, below the study's folder of results: of each run all but its model; tables, figures and what they are made
    from; the code that runs executed; the study with its runs archived; the citation; the digest of each file.

    Args:
        plan: the study.
        settings: its configuration, as its files give it.
        citation: file with it.
        out: to appear, `.tar.gz`.

    Raises:
        ConfigError: the study's results lie outside this folder, or only a part of the study is asked for.
        DataError: a run, table or figure of the study is missing, or something cannot be packed.
    """
    out, results = Path(out), Path(plan.paths.results)
    if results.is_absolute() or ".." in results.parts:
        raise ConfigError(f"execution.results: {results} means nothing elsewhere. Expected a folder below this one.")
    if plan.study.only is not None:
        asked = plan.study.only.model_dump_json(exclude_none=True)
        raise ConfigError(f"only: {asked} asks for a part of the study. Expected none: an archive holds a whole study.")
    files = sorted(_files(plan))
    read_me = TEMPLATE.read_text(encoding="utf-8")
    written = {
        STUDY: mapping_text(_archived(plan, settings)),
        CITATION: citation.read_text(encoding="utf-8"),
        READ_ME: read_me.format(runs=len(plan.runs), study=f"{results}/{STUDY}", citation=CITATION),
    }
    size = pack(out, results, files, written)
    return Archived(sum(file.name == RUN for file in files), len(files) + len(written) + 1, size)


def pack(out: Path, results: Path, files: Iterable[Path], written: Mapping[str, str]) -> int:
    """Write an archive of files and texts with a manifest of them; the same files give the same bytes.

    Links are packed as the files that they lead to.

    Args:
        out: to appear.
        results: folder of the files, whose path the archive keeps.
        files: to pack, below `results`.
        written: texts of further files, by name below `results`.

    Returns:
        Bytes of the archive.

    Raises:
        DataError: something is no file, but a link to a folder or to nothing, a pipe or a socket.
    """
    digests: dict[str, str] = {}
    # Times stay: by them Snakemake knows that tables are newer than records.
    times: dict[str, float] = {}

    def add(name: str, content: bytes, time: float) -> None:
        digests[name], times[name] = hashlib.sha256(content).hexdigest(), time
        entry = tarfile.TarInfo(f"{results}/{name}")
        entry.size, entry.mtime = len(content), time
        tar.addfile(entry, io.BytesIO(content))

    # The first bytes of the archive hold neither its time nor its name.
    with (
        atomic_path(out) as partial,
        partial.open("wb") as packed,
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as zipped,
        tarfile.open(mode="w", fileobj=zipped) as tar,
    ):
        for file in files:
            if not file.is_file():
                raise DataError(f"{file}: is no file, so it cannot be archived. Expected files; delete it.")
            add(str(file.relative_to(results)), file.read_bytes(), file.stat().st_mtime)
        latest = max(times.values(), default=0.0)
        for name, text in written.items():
            add(name, text.encode(), latest)
        add(MANIFEST, json.dumps({"files": digests}, indent=1).encode(), latest)
    return out.stat().st_size


def _files(plan: Plan) -> set[Path]:
    """Return the files to pack that the study has made."""
    tables = plan.report.tables.items()
    with_texts = tuple(plan.paths.table(name, "") for name, each in tables if "written" in each["scope"])
    shown = {Path(target) for target in plan.targets() if not target.startswith(with_texts)}
    records = {Path(plan.paths.record(run.id)) for run in plan.runs}
    folders = [record.parent for record in records]
    if missing := sorted(str(file) for file in shown | records if not file.is_file()):
        raise DataError(f"{missing[0]}: no such file, nor {len(missing) - 1} more. Finish the study; see make status.")
    for folder in folders:
        if gone := missing_files(folder, read_record(folder)):
            raise DataError(f"{folder}: {gone[0]} is gone. make verify shows how it is made again.")
    of_runs = {file for each in folders for file in _all(each) if MODEL not in file.relative_to(each).parts}
    report = Path(plan.paths.results, "report.html")
    return shown | of_runs | _all(Path(plan.paths.code)) | ({report} if report.exists() and not with_texts else set())


def _all(folder: Path) -> set[Path]:
    """Return what is in a folder and those below it, without litter; links to folders are no folders."""
    return {
        path
        for path in folder.rglob("*")
        if (path.is_symlink() or not path.is_dir()) and not litter(folder, path.relative_to(folder).parts)
    }


def _archived(plan: Plan, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of the study whose runs are archived: without what is made from more than runs."""
    values = json.loads(json.dumps(settings))
    for name in values["experiment"].get("published") or {}:
        if (own := plan.experiment.backbones.get(name)) is None:  # an entry that is taken away
            continue
        entry = values["experiment"].setdefault("backbones", {}).setdefault(name, {})
        entry["architecture"] = json.loads(own.model_dump_json())["architecture"]
    report = values.get("report") or {}
    report.pop("analyses", None)
    for kind, results in (("tables", plan.study.report.tables), ("figures", plan.study.report.figures)):
        for name, shown in results.items():
            if shown.reads != "runs" or shown.needs_documents:  # but texts, or tokens
                del report[kind][name]
    left = {*(report.get("tables") or {}), *(report.get("figures") or {})}
    report["opens_with"] = [name for name in report.get("opens_with") or () if name in left] or None
    values["execution"] = {**(values.get("execution") or {}), "runs": "archived"}
    return values
