"""Opens the model that a run left, of any kind."""

from pathlib import Path

from lib.core.errors import RunError
from lib.core.record import MODEL, RUN, differing_files, read_record
from lib.predicting.contract import Reader
from lib.predicting.text_reader import TextReader
from lib.study.reader import read_reader


def open_reader(
    folder: str | Path, *, max_tokens: int | None = None, batch_size: int | None = None, device: str | None = None
) -> Reader:
    """Return the model that a run left in a folder; one that reads texts needs no torch.

    Args:
        folder: `model` of a run, or the folder of a run, or a shared one.
        max_tokens: tokens that a document is cut to; None = as in the run.
        batch_size: documents of the full length at once; None = as many tokens as in the run.
        device: `cpu`, `cuda`, ...; None = a GPU if there is one.

    Raises:
        ProjectError: there is none, it is damaged, or another one than its run left, or the arguments do not suit it.
    """
    folder = Path(folder)
    folder = folder / MODEL if (folder / RUN).is_file() else folder
    if (run := run_of(folder)) and (
        problems := differing_files(run, read_record(run), f"{folder.resolve().relative_to(run)}/")
    ):
        raise RunError(f"{run}: {', '.join(problems)}. Change a copy of the model, elsewhere.")
    settings = read_reader(folder)
    if settings.reads_tokens:
        from lib.predicting.token_reader import TokenReader  # imports torch

        return TokenReader(folder, settings, max_tokens=max_tokens, batch_size=batch_size, device=device)
    return TextReader(folder, settings, max_tokens=max_tokens)


def run_of(model: Path) -> Path | None:
    """Return the folder of the run that left a model, which is in `model` or `model/best` there; None = unknown."""
    return next((folder for folder in model.resolve().parents[:2] if (folder / RUN).is_file()), None)
