"""Where a run works and where its results go.

A run works in a folder of its own, outside what the workflow declares, so that a killed job resumes; its results are
moved to their place at the end, the record last.
"""

import contextlib
import hashlib
import shutil
from pathlib import Path

import yaml

from lib.core.errors import RunError
from lib.core.files import atomic_path, write_text
from lib.core.record import CONFIG, RUN
from lib.core.settings.run import Run


class RunFolders:
    """Folders of one run.

    Args:
        run: the run's settings.
        out: folder of the results; refused if it holds a finished run.
        work: folder under which runs keep their working checkpoints; None = beside `out`.

    Raises:
        RunError: there is a finished run, or a folder cannot be made.
    """

    def __init__(self, run: Run, out: str | Path, work: str | Path | None):
        self.run = run
        self.out = Path(out)
        if (self.out / RUN).exists():
            raise RunError(
                f"{self.out / RUN}: there is a finished run. Expected a new folder, since nothing is overwritten; "
                "give --out another one, or delete this one."
            )
        settings = run.model_dump_json(exclude={"execution"})
        key = hashlib.sha256(settings.encode()).hexdigest()[:12]
        name = f"{run.stage}-{run.model}-{run.dataset}-seed-{run.seed}-{key}"
        self.work = Path(work or self.out.parent / f".{self.out.name}.work") / name
        try:
            self.work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                f"{self.work}: cannot be made ({error.strerror}). Expected a folder with write permission and space."
            ) from error

    def stage(self) -> Path:
        """Return an empty folder for the results, with the run's own configuration in it."""
        staged = self.work / "results"
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir()
        settings = self.run.model_dump(mode="json")
        write_text(staged / CONFIG, yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
        return staged

    def publish(self, staged: Path) -> None:
        """Move the finished results to their place, the record last, and drop the working folder."""
        self.out.mkdir(parents=True, exist_ok=True)
        for path in sorted(staged.iterdir(), key=lambda path: path.name == RUN):
            with atomic_path(self.out / path.name) as partial:
                shutil.move(path, partial)
        shutil.rmtree(self.work)
        with contextlib.suppress(OSError):  # other runs are at work there
            self.work.parent.rmdir()
