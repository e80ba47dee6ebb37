"""Predict the class, the number, the labels of words or the spans of each document in a file with any model of a study.

Documents are read and predicted in chunks, each of which is written as it is finished. So memory does not grow with the
file, and a prediction that was killed resumes.
"""

import fcntl
import itertools
import json
import logging
import math
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tqdm import tqdm

from lib.core.errors import DataError, RunError
from lib.core.files import atomic_path, check_target, is_stream, write_json
from lib.core.inputs import check_name
from lib.predicting.decisions import Decisions, Wanted
from lib.predicting.reader import open_reader
from lib.preparing.settings.sources import Dialect
from lib.reading.formats import column_names
from lib.reading.readers import Record, read_records

logger = logging.getLogger(__name__)

CHUNK = 50_000
"""Documents that are held in memory, and written, at a time."""


def predict(
    model: str | Path,
    source: str | Path,
    target: str | Path,
    *,
    column: str | None = None,
    pair_column: str | None = None,
    id: str | None = None,
    dialect: Dialect | None = None,
    wanted: Wanted | None = None,
    passages: int = 0,
    max_tokens: int | None = None,
    batch_size: int | None = None,
    device: str | None = None,
) -> None:
    """Write the answers of a model for each document: of a classifier the class, and the probability of every class.

    Chunks that an earlier call with the same arguments and files has finished are taken over.

    Args:
        model: `model` of a run, or the folder of the run, or a shared one.
        source: documents, in any format of `lib.reading.formats`; a text file has one per line.
        target: CSV to appear, in the order of `source`: `id`, and of classes `label` (of sets of them `labels`, as
            JSON) and a column for each class, of numbers `prediction`, of words `labels` (those of the words that were
            read, as JSON), of spans `spans` (pairs [start, end) of characters, as JSON). Columns of classes begin with
            `probability_` if a class is called as another column. A class that a spreadsheet would take for a formula
            has ' before its name. Further columns are `decided`, if documents may be left to a person, and `passages`,
            as JSON: text, weight and places of each, in characters of the text as given.
        column: column of the text, where the format has columns; None = that of the study if the documents have it,
            else `text`.
        pair_column: column of the second texts, if documents are pairs; read as in the run of the model. None = that of
            the study if the documents have it.
        id: column of the ids to write; None = documents are numbered.
        dialect: how text files are written; None = as by default.
        wanted: what decisions of a classifier shall reach on validation; None = each document gets the likeliest class,
            or those that reach the thresholds of the run.
        passages: passages that decided the class of a document, at most; of a linear model its terms, of another one
            segments, each by the loss of probability without it. Documents must be single texts.
        max_tokens: tokens that a document is cut to, or each text of a pair that is read separately; None = as in the
            run of the model.
        batch_size: documents of `max_tokens` at once; of shorter ones, as many as have no more tokens. None = as in the
            run: then the same documents get the same numbers, to the last bit on the same machine.
        device: `cpu`, `cuda`, ...; None = a GPU if there is one.

    Raises:
        RunError: the folder has no model of a run that answers, or a damaged one, or another one than its run left; or
            the model was trained on pairs and none are given, or the other way round; or the device cannot be used; or
            a prediction is NaN or inf; or another process predicts into `target`.
        ConfigError: pairs leave no room for their tokens, or the model cannot read texts of `max_tokens`; or
            `target` is `source`.
        DataError: the documents or the tokeniser cannot be read, or a file has a name that is not UTF-8.
    """
    path, source, target = Path(model), Path(source), Path(target)
    for name in (path, source, target):
        check_name(name)
    check_target(target, source)
    reader = open_reader(path, max_tokens=max_tokens, batch_size=batch_size, device=device)
    own, form = reader.settings.columns, reader.settings.task.label_form
    if passages and not (reader.settings.classifies and form == "class" and reader.settings.texts == "single"):
        raise RunError(f"{path}: has no passages, since it gives single texts no class each. Leave --passages out.")
    reader.decisions = Decisions.chosen(wanted or Wanted(), reader.folder, reader.settings)
    reader.passages = passages
    there = column_names(source, dialect or Dialect()) if source.is_file() else []
    column = column or (own.text if own.text in there else "text")
    pair_column = pair_column or (own.text_pair if own.text_pair in there else None)
    reader.check_form(paired=pair_column is not None)

    def records() -> Iterator[Record]:
        return read_records({source.stem: [source]}, text=column, text_pair=pair_column, id=id, dialect=dialect)

    try:  # finds what cannot be read before anything is computed
        empty = Counter("" in (record.text.strip(), (record.text_pair or "-").strip()) for record in records())
    except DataError as error:
        raise DataError(f"{error} Here, say so by --column, --pair-column, --id and --dialect '{{...}}'.") from error
    if empty[True]:
        logger.warning("%s: %d documents without text get a row all the same", source, empty[True])
    total, arguments = empty.total(), [column, pair_column, id, repr((dialect, wanted)), passages]
    arguments += [reader.limit, batch_size]
    bar = tqdm(total=total, unit=" documents", disable=not sys.stderr.isatty())
    with _parts(target, [path, source], arguments) as folder, closing(bar):
        documents = records()
        parts = [folder / f"{number:06d}.csv" for number in range(max(1, math.ceil(total / CHUNK)))]
        for part in parts:  # without documents, there is a header
            chunk = list(itertools.islice(documents, CHUNK))
            if part.exists():
                bar.update(len(chunk))
            else:
                found = reader.answers(chunk, bar.update)
                with atomic_path(part) as partial:
                    found.to_csv(partial, index=False, header=part == parts[0])
        with atomic_path(target) as partial, partial.open("wb") as file:
            for part in parts:
                file.write(part.read_bytes())
        shutil.rmtree(folder)
    cut = "" if reader.limit is None else f", cut to {reader.limit} tokens"
    logger.info("%s: %d documents%s", target, total, cut)


@contextmanager
def _parts(target: Path, files: Sequence[Path], arguments: Sequence[Any]) -> Iterator[Path]:
    """Yield the folder of a prediction's finished chunks, next to its target, while no other process uses it.

    Args:
        target: file to appear; chunks of what cannot be replaced are in a temporary folder.
        files: model folder and documents; chunks that were made from other files are removed.
        arguments: others that the predictions depend on.

    Raises:
        RunError: another process uses it.
    """
    stats = [each.stat() for path in files for each in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    made_from = [*map(str, files), *arguments, CHUNK, *([each.st_size, each.st_mtime_ns] for each in stats)]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, "parts") if is_stream(target) else target.with_name(f".{target.name}.parts")
        folder.mkdir(parents=True, exist_ok=True)
        note, lock = folder / "made_from.json", folder / "lock"
        with lock.open("w") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock.stat()  # the other process may have just removed it
            except (BlockingIOError, FileNotFoundError) as error:
                raise RunError(f"{target}: another process predicts into it. Wait, or name another file.") from error
            except OSError:
                logger.warning("%s: its file system has no locks; give each prediction a file of its own", target)
            if note.exists() and json.loads(note.read_text(encoding="utf-8")) == made_from:
                logger.info("%s: takes over %d chunks", target, len(list(folder.glob("*.csv"))))
            else:
                for part in folder.glob("*.csv"):
                    part.unlink()
                write_json(note, made_from)
            yield folder
