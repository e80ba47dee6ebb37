"""Working folders and result folders of runs.

Every process works in its own folder, an attempt, which is not an output of the workflow: two processes on the same run
never share files. A later attempt resumes from the earlier ones, and earlier processes that are still alive stop.
Results appear by one renaming, and a finished run is never replaced.
"""

import contextlib
import errno
import functools
import hashlib
import json
import logging
import os
import platform
import re
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from tenacity import retry, retry_if_exception_type, stop_after_attempt

from lib.core.attempts import TRASH, Heartbeat, attempts, is_alive, remove
from lib.core.errors import DataError, RunError
from lib.core.files import LITTER, explained, folders_in, litter, mapping_text, read_mapping, settle, where, write_text
from lib.core.record import CONFIG, RUN, NamesRun, Parent, differing_files, digest_of, missing_files, read_record
from lib.study.run import RunSettings
from lib.training import distributed

logger = logging.getLogger(__name__)

KEY = "[0-9a-f]{32}"
"""Random end of the name of an attempt, a copy or a folder under removal."""
RESULTS = "results"
TRACKERS = "trackers"


class RunFolders:
    """The folders of one run, as a context manager for a process that executes it.

    Args:
        run: the run's settings.
        out: folder of the results; without `work`, refused if it holds more than settings.
        work: parent of the working folders, which stay until the workflow has accepted the results, see
            `lib.workflow.working_folders`. None = next to `out`, and removed at the end.
        code: digest of the code that the run executes; None = unknown.

    Attributes:
        home: folder of all attempts with these settings, code and inputs.
        work: folder of this attempt inside the context; no other process writes to it.
        trackers: folder that trackers write to inside the context.
        parents: inputs of the run, by name.

    Raises:
        ProjectError: `out` is refused, an input cannot be read, or a folder cannot be created.
    """

    def __init__(self, run: RunSettings, out: str | Path, work: str | Path | None, code: str | None = None):
        git_commit()  # of the start, for the record
        self.run, self.out, self.code = run, Path(out), code
        self.is_by_hand = work is None
        if self.is_by_hand:
            _refuse_content(self.out)
        self.parents = parents_of(run)
        self.home = Path(work or self.out.with_name(f".{self.out.name}.work")) / home_of(run, code, self.parents)
        self.work = self.home  # until an attempt begins
        self._attempt: int | None = None
        self._staged: int | None = None
        now = datetime.now(UTC)
        self.heartbeat = Heartbeat(
            **NamesRun.of(run).model_dump(),
            out=str(self.out.absolute()),
            host=platform.node(),
            process=os.getpid(),
            started=now,
            updated=now,
        )

    def __enter__(self) -> Self:
        """Begin an attempt, shared by all processes of a training run.

        Raises:
            RunError: a folder cannot be created, or another process has just begun a later attempt.
        """
        if distributed.index() == 0:
            self._begin()
        self.work = distributed.first(self.work)
        self.trackers = self.work / TRACKERS
        return self

    def _begin(self) -> None:
        try:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            self._create()
            self._attempt = os.open(self.work, os.O_RDONLY)
        except OSError as error:
            raise RunError(explained(Path(error.filename or self.home), error)) from error
        self.refuse_later()
        self._sweep_copies()

    # The workflow and other runs remove parent folders that are empty, also between the calls that create them.
    @retry(retry=retry_if_exception_type(FileNotFoundError), stop=stop_after_attempt(50), reraise=True)
    def _create(self) -> None:
        number = max((int(path.name.split("-")[0]) for path in attempts(self.home)), default=0) + 1
        self.work = self.home / f"{number:04d}-{self.heartbeat.host}-{uuid.uuid4().hex}"
        begun = self.home / f".{self.work.name}"
        begun.mkdir(parents=True)
        self.heartbeat.write(begun)
        begun.rename(self.work)

    def _sweep_copies(self) -> None:
        """Remove copies of results and folders under removal that killed processes of this run left.

        The name of a copy ends like that of its attempt. Earlier attempts at this run are superseded; one with other
        settings but the same result folder may be alive.
        """
        named = re.compile(rf"{re.escape(f'.{self.out.name}.')}({KEY})|{re.escape(TRASH)}{KEY}")
        for folder in folders_in(self.out.parent):
            if (match := named.fullmatch(folder.name)) and not (match[1] is None and (folder / RUN).exists()):
                owners = self.home.parent.glob(f"*/*-{match[1]}")
                if not any(is_alive(attempt) for attempt in owners if attempt.parent != self.home):
                    shutil.rmtree(folder, ignore_errors=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        """Record how the attempt ended, and remove files that are no longer needed.

        Raises:
            RunError: it failed because another process has taken the run over.
        """
        if distributed.index():
            return
        try:
            self._end(error)
        finally:
            for descriptor in filter(None, (self._attempt, self._staged)):
                os.close(descriptor)
            self._attempt = self._staged = None

    def _end(self, error: BaseException | None) -> None:
        if error is None:
            with contextlib.suppress(OSError):
                self._write(state="finished")
            if self.is_by_hand:
                remove(self.home)
                with contextlib.suppress(OSError):  # other runs are at work there
                    self.home.parent.rmdir()
            return
        try:
            if isinstance(error, Exception):
                self.refuse_later(error)
        except RunError as left:
            error = left
            raise
        finally:
            with contextlib.suppress(OSError):
                self._write(state="failed", error=(str(error) or type(error).__name__).splitlines()[0])

    def earlier(self) -> list[Path]:
        """Return the attempts before this one, the oldest first."""
        found = attempts(self.home)
        return found[: found.index(self.work)] if self.work in found else []

    def refuse_later(self, cause: Exception | None = None) -> None:
        """Raise an error if there is an attempt after this one, or if this one's folder was removed.

        A process that stands still while its folder is removed may bring the path back, since libraries create missing
        parent folders.

        Args:
            cause: the error that this explains, if any.

        Raises:
            RunError: another process has begun a later attempt.
        """
        try:
            is_own = _is_open(self._attempt, self.work)
        except OSError as error:
            is_own = error.errno not in (errno.ENOENT, errno.ESTALE)
        if not is_own:
            remove(self.work)
            with contextlib.suppress(OSError):  # other attempts are there, or it was not brought back
                self.home.rmdir()
        found = attempts(self.home)
        if self.work in found[-1:]:
            return
        later = f"in {found[-1]}" if found else "and has removed this one's folder"
        raise RunError(f"{self.work}: another process has taken this run over, {later}. This one stops.") from cause

    def beat(self, **news: object) -> None:
        """Write the heartbeat, with `news` in its fields, and look for a later attempt.

        Raises:
            RunError: another process has begun a later attempt.
        """
        self.refuse_later()
        try:
            self._write(**news)
        except FileNotFoundError as error:
            self.refuse_later(error)
        except OSError as error:  # only a checkpoint that cannot be written ends the run
            logger.warning("%s", explained(self.work, error))

    def _write(self, **news: object) -> None:
        self.heartbeat = self.heartbeat.model_copy(update={"updated": datetime.now(UTC)} | news)
        self.heartbeat.write(self.work)

    def stage(self) -> Path:
        """Return a folder for the results that contains only the configuration of the run."""
        staged = self.work / RESULTS
        remove(staged)
        staged.mkdir()
        if self._staged is not None:
            os.close(self._staged)
        self._staged = os.open(staged, os.O_RDONLY)
        write_text(staged / CONFIG, mapping_text(self.run.model_dump(mode="json")))
        return staged

    def _check(self, staged: Path) -> None:
        """Raise an error unless `staged` is the folder that `stage` returned, with all files in its record.

        A takeover moves the folders of earlier attempts away; a process that still writes there creates new ones.

        Raises:
            ProjectError: it is another folder, or incomplete.
        """
        try:
            is_own = _is_open(self._staged, staged)
        except OSError as error:
            self.refuse_later(error)
            raise RunError(f"{explained(staged, error)} Start this run again.") from error
        if not is_own:
            self.refuse_later()
            raise RunError(f"{staged}: something has removed the results meanwhile. Start this run again.")
        if problems := differing_files(staged, read_record(staged)):
            raise RunError(f"{staged}: incomplete ({', '.join(problems)}). Start this run again.")

    def move_to_out(self, staged: Path) -> None:
        """Move the finished results to `out` by one renaming.

        A finished run with the same settings, code and inputs stays, since its results are the same. Files of an
        unfinished one are removed.

        Raises:
            ProjectError: another finished run is in `out`, the results are incomplete, or `out` cannot be written.
        """
        self._check(staged)
        try:
            if self.trackers.is_dir():
                for path in self.trackers.iterdir():
                    if not litter(self.trackers, [path.name]):
                        os.rename(path, staged / path.name)
            settle(staged)
            self._put(staged)
        except OSError as error:
            self.refuse_later(error)
            raise RunError(f"{explained(self.out, error)} The finished results wait in {self.work}.") from error

    def _put(self, staged: Path) -> None:
        self.out.parent.mkdir(parents=True, exist_ok=True)
        copy = self.out.parent / f".{self.out.name}.{self.work.name.rpartition('-')[2]}"
        try:
            while not self.is_done():
                try:
                    os.rename(staged, self.out)
                    return
                except OSError as error:
                    if error.errno == errno.EXDEV and staged != copy:
                        shutil.copytree(staged, copy, symlinks=True, ignore=litter)
                        settle(copy)
                        staged = copy
                    elif error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                        self._clear()
                    else:
                        raise
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _clear(self) -> None:
        """Remove files that an unfinished run left in the result folder.

        Raises:
            RunError: the run is by hand, and something has been put there since it began.
        """
        if _is_finished(self.out):
            return
        if self.is_by_hand:
            _refuse_content(self.out)
        aside = self.out.parent / f"{TRASH}{uuid.uuid4().hex}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.out, aside)
            if _is_finished(aside):  # another process has put its results here in the meantime
                with contextlib.suppress(OSError):
                    os.rename(aside, self.out)
            shutil.rmtree(aside, ignore_errors=True)

    def is_done(self) -> bool:
        """Whether another process has finished this run.

        Raises:
            RunError: finished results of other settings, code or inputs are there.
        """
        if not _is_finished(self.out):
            return False
        record, settings = read_record(self.out), read_mapping(self.out / CONFIG)
        own = json.loads(self.run.model_dump_json())
        compared = (own.keys() | settings.keys()) - {"execution"}
        differing = [name for name in compared if own.get(name) != settings.get(name)]
        differing += ["code"] * (record.code != self.code) + ["inputs"] * (record.parents != self.parents)
        if differing:
            names = ", ".join(sorted(differing))
            raise RunError(f"{self.out}: holds a finished run with other {names}. Delete it, or give another folder.")
        logger.info("%s: another process has finished this run, with the same results", self.out)
        return True


def _refuse_content(out: Path) -> None:
    """Refuse a result folder that a user names if it holds more than the settings of a run.

    A run by hand leaves nothing there before it is finished, so that all else is somebody's.

    Raises:
        RunError: something else is there, or it is no folder.
    """
    if not os.path.lexists(out):
        return
    try:
        found = sorted(path.name for path in out.iterdir() if path.name not in (CONFIG, ".DS_Store", *LITTER))
    except OSError as error:
        raise RunError(explained(out, error)) from error
    if found or out.is_symlink():
        what = "is a link" if out.is_symlink() else "holds a finished run" if RUN in found else f"holds {found[0]}"
        raise RunError(f"{out}: {what}. Expected a new folder, since nothing is overwritten; give --out another one.")


def _is_open(descriptor: int | None, folder: Path) -> bool:
    """Whether `folder` is the folder that was opened: until it is closed, no other one can be mistaken for it.

    Raises:
        OSError: `folder` is gone.
    """
    return descriptor is not None and os.path.samestat(os.fstat(descriptor), folder.stat())


def _is_finished(folder: Path) -> bool:
    """Whether a folder has a finished run with all its files; warn about missing ones, since the run is repeated."""
    if not (folder / RUN).is_file():
        return False
    if gone := missing_files(folder, read_record(folder)):
        logger.warning("%s: not a finished run, since it lacks %s; the run is repeated", folder, ", ".join(gone))
    return not gone


def home_of(run: RunSettings, code: str | None, parents: Mapping[str, Parent]) -> str:
    """Return the name of the folder of all attempts with these settings, code and inputs.

    Args:
        run: the run's settings; those of its execution do not count.
        code: digest of the code that the run executes; None = unknown.
        parents: its inputs, by name.
    """
    digests = [parent.digest for parent in parents.values()]
    settings = run.model_dump_json(exclude={"execution"})
    key = hashlib.sha256(f"{settings}{code}{digests}".encode()).hexdigest()[:12]
    folder = NamesRun.of(run).id._replace(variant="").path.replace("/", "-")  # the key includes the variant
    return f"{folder[:200]}-{key}"


def parents_of(run: RunSettings) -> dict[str, Parent]:
    """Return the inputs of `run`: data by split, tokeniser, weights, other inputs of its task and backbone.

    Raises:
        DataError: one of them cannot be read.
    """
    folders = run.data | run.task.folders() | run.backbone.folders()
    places: dict[str, Path] = {name: Path(folder) for name, folder in folders.items()}
    if run.tokenizer is not None:
        places["tokenizer"] = Path(run.tokenizer)
    if run.start is not None:
        places["start"] = Path(run.start.checkpoint)
    try:
        return {name: Parent(path=str(path), digest=digest_of(path)) for name, path in places.items()}
    except OSError as error:
        raise DataError(f"{where(error)}: cannot be read ({error.strerror}). Expected an input of this run.") from error


@functools.cache
def git_commit() -> str | None:
    """Return the commit of the code when this process began, marked if files differ from it; None outside a checkout.

    The cluster profile does not count: every user sets an account and a partition there.
    """
    git = functools.partial(subprocess.check_output, cwd=Path(__file__).parent, stderr=subprocess.DEVNULL, text=True)
    changed_files = ["status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)slurm"]
    try:
        commit, changed = (git(["git", *arguments]).strip() for arguments in (["rev-parse", "HEAD"], changed_files))
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}-dirty" if changed else commit
