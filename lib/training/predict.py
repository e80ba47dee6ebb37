"""Predict the class, or the number, of each document in a file with a fine-tuned model.

Documents are read, tokenised and predicted in chunks, each of which is written as it is finished. So memory does not
grow with the file, and a prediction that was killed resumes.
"""

import fcntl
import itertools
import json
import logging
import math
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import torch
import transformers
from accelerate.utils import send_to_device
from tqdm import tqdm
from transformers import PretrainedConfig, PreTrainedModel

from lib.backbones.configuration import BackboneConfig
from lib.backbones.faster import use_onednn
from lib.backbones.heads.model import TaskModel
from lib.backbones.heads.pair_classification import PairClassification
from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.backbones.stored import open_config, open_model
from lib.core.errors import ConfigError, DataError, ProjectError, RunError
from lib.core.files import atomic_path, check_target, csv_cell, is_stream, read_mapping, write_json
from lib.core.inputs import check_name
from lib.core.record import RUN, differing_files, read_record
from lib.preparing.labelled import SUMMARY
from lib.preparing.settings.sources import Dialect
from lib.reading.formats import column_names
from lib.reading.readers import Record, read_records
from lib.tokens.batches import pad_examples, within_budget
from lib.tokens.cutting import WHOLE, encode_cut, encode_cut_pairs
from lib.tokens.stored import TEXTS
from lib.tokens.tokenizer import TextTokenizer

logger = logging.getLogger(__name__)

PREFIX = "probability_"
"""Prefix of the columns of all classes if a class has the name of another column."""
CHUNK = 50_000
"""Documents that are held in memory, and written, at a time."""
BATCH_SIZE = 8
"""Documents of the full length at once, unless told otherwise."""
LARGEST = 2_048
"""Most tokens of a batch on a CPU, whose cache larger ones leave."""


Example = dict[str, Any]


def predict(
    model: str | Path,
    source: str | Path,
    target: str | Path,
    *,
    column: str | None = None,
    pair_column: str | None = None,
    id: str | None = None,
    dialect: Dialect | None = None,
    max_tokens: int | None = None,
    batch_size: int = BATCH_SIZE,
    device: str | None = None,
) -> None:
    """Write the predicted label and the probability of every class of each document, or its predicted number.

    Chunks that an earlier call with the same arguments and files has finished are taken over.

    Args:
        model: model folder of a fine-tuning run.
        source: documents, in any format of `lib.reading.formats`; a text file has one per line.
        target: CSV to appear, in the order of `source`: `id`, `label` and a column for each class, or, of a regression,
            `id` and `prediction`. Columns of classes begin with `PREFIX` if a class is called `id` or `label`. A class
            that a spreadsheet would take for a formula has ' before its name.
        column: column of the text, where the format has columns; None = that of the study if the documents have it,
            else `text`.
        pair_column: column of the second texts, if documents are pairs; read as in the run of the model. None = that of
            the study if the documents have it.
        id: column of the ids to write; None = documents are numbered.
        dialect: how text files are written; None = as by default.
        max_tokens: tokens that a document is cut to, or each text of a pair that is read separately; None = as in the
            run of the model.
        batch_size: documents of `max_tokens` at once; of shorter ones, as many as have no more tokens.
        device: `cpu`, `cuda`, ...; None = a GPU if there is one.

    Raises:
        RunError: the folder has no complete fine-tuned model, or another one than its run left; or the model was
            trained on pairs and none are given, or the other way round; or the device cannot be used; or a prediction
            is NaN or inf; or another process predicts into `target`.
        ConfigError: pairs leave no room for their tokens, or the model cannot read texts of `max_tokens`; or
            `target` is `source`.
        DataError: the documents or the tokeniser cannot be read, or a file has a name that is not UTF-8.
    """
    path, source, target = Path(model), Path(source), Path(target)
    for name in (path, source, target):
        check_name(name)
    check_target(target, source)
    run = _run_of(path)
    own = _columns_of(run, source, dialect or Dialect()) if run and source.is_file() else {}
    column, pair_column = column or own.get("text", "text"), pair_column or own.get("text_pair")
    classifier = Classifier(
        path, paired=pair_column is not None, max_tokens=max_tokens, batch_size=batch_size, device=device
    )

    def records() -> Iterator[Record]:
        return read_records({source.stem: [source]}, text=column, text_pair=pair_column, id=id, dialect=dialect)

    try:  # finds what cannot be read before anything is computed
        empty = Counter("" in (record.text.strip(), (record.text_pair or "-").strip()) for record in records())
    except DataError as error:
        raise DataError(f"{error} Here, say so by --column, --pair-column, --id and --dialect '{{...}}'.") from error
    if empty[True]:
        logger.warning("%s: %d documents without text get a row all the same", source, empty[True])
    total, arguments = empty.total(), [column, pair_column, id, repr(dialect), classifier.limit, batch_size]
    bar = tqdm(total=total, unit=" documents", disable=not sys.stderr.isatty())
    with _parts(target, [path, source], arguments) as folder, closing(bar):
        documents = records()
        parts = [folder / f"{number:06d}.csv" for number in range(max(1, math.ceil(total / CHUNK)))]
        for part in parts:  # without documents, there is a header
            chunk = list(itertools.islice(documents, CHUNK))
            if part.exists():
                bar.update(len(chunk))
            else:
                rows = classifier.rows(chunk, bar.update)
                with atomic_path(part) as partial:
                    pd.DataFrame(rows, columns=classifier.columns).to_csv(partial, index=False, header=part == parts[0])
        with atomic_path(target) as partial, partial.open("wb") as file:
            for part in parts:
                file.write(part.read_bytes())
        shutil.rmtree(folder)
    logger.info("%s: %d documents, cut to %d tokens", target, total, classifier.limit)


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


def _run_of(model: Path) -> Path | None:
    """Return the folder of the run that left a model, which is in `model` or `model/best` there; None = unknown."""
    return next((folder for folder in model.resolve().parents[:2] if (folder / RUN).is_file()), None)


def _columns_of(run: Path, source: Path, dialect: Dialect) -> dict[str, str]:
    """Return which columns of the documents hold the texts, as the preparation of the run's dataset says."""
    try:
        dataset = Path(read_record(run).parents["train"].path).parents[2]
        summary = read_mapping(dataset / "prepared" / SUMMARY)
    except (ProjectError, LookupError):  # it is gone, or of another kind
        return {}
    names = column_names(source, dialect)
    return {kind: summary[kind] for kind in ("text", "text_pair") if summary.get(kind) in names}


class Classifier:
    """A model, and how it reads documents; errors are those of `predict`.

    Args:
        folder: model folder of a fine-tuning run.
        paired: whether documents are pairs of texts.
        max_tokens: as of `predict`, like the next two.
        batch_size: documents at once.
        device: to compute on.
    """

    def __init__(
        self,
        folder: Path,
        *,
        paired: bool = False,
        max_tokens: int | None = None,
        batch_size: int = BATCH_SIZE,
        device: str | None = None,
    ) -> None:
        run = _run_of(folder)
        if run and (problems := differing_files(run, read_record(run), f"{folder.resolve().relative_to(run)}/")):
            raise RunError(f"{run}: {', '.join(problems)}. Change a copy of the model, elsewhere.")
        config = open_config(folder)
        head = next((head for head in (SequenceClassification, PairClassification) if _has(head, config)), None)
        if head is None:
            kinds = ", ".join(config.architectures or []) or "no known kind"
            raise RunError(f"{folder}: holds a model of {kinds}, which does not classify documents. Name another one.")
        if not isinstance(config, BackboneConfig):
            raise RunError(f"{folder}: is a model of transformers, which its pipeline reads. Expected one of a run.")
        if head is SequenceClassification and paired and not config.parameters.takes_pairs:
            raise RunError(f"{folder}: cannot tell two texts of a document apart. Name no second column.")
        self.tokenizer = TextTokenizer.of_model(folder, config.vocab_size)
        trained_on = self.tokenizer.backend.init_kwargs.get(TEXTS)  # a model of an earlier version does not say
        self.reads_separately = head is PairClassification
        if not paired and (self.reads_separately or trained_on == "together"):
            raise RunError(f"{folder}: was trained on pairs of texts. Name the second column (--pair-column).")
        if trained_on == "single" and paired:
            raise RunError(f"{folder}: was trained on single texts. Name no second column.")
        longest, stored = config.parameters.longest(), self.tokenizer.backend.model_max_length
        self.limit = max_tokens or (stored if stored < WHOLE else longest or WHOLE)  # transformers writes 1e30
        if longest is not None and self.limit > longest:
            raise ConfigError(f"max_tokens = {self.limit}, but {folder} reads at most {longest}. Expected no more.")
        self.device = _device(device)
        self.model: PreTrainedModel = open_model(getattr(transformers, head.auto_model), folder).eval().to(self.device)
        use_onednn(self.model)
        budget = batch_size * (self.limit if self.limit < WHOLE else LARGEST)
        self.budget = min(budget, max(self.limit, LARGEST)) if self.device.type == "cpu" else budget
        self.config = self.model.config
        labels = self.config.id2label.values()
        prefix = PREFIX if {"id", "label"} & set(labels) else ""
        self.names = {label: csv_cell(f"{prefix}{label}") for label in labels}
        regression = self.config.problem_type == "regression"
        classes = ["label", *(self.names[label] for label in sorted(self.names))]
        self.columns = ["id", "prediction"] if regression else ["id", *classes]
        """Columns of a prediction."""

    def rows(
        self, records: Sequence[Record], predicted: Callable[[int], object] = lambda number: None
    ) -> list[dict[str, float | str]]:
        """Return the columns of every document, in order.

        Args:
            records: the documents.
            predicted: told the number of documents of each batch.

        Raises:
            RunError: a score is NaN or inf.
        """
        found: dict[int, dict[str, float | str]] = {}
        examples = self._examples(records)
        # Of pairs, the longer text counts.
        lengths = [max(len(each["input_ids"]), len(each.get("pair_ids", ()))) for each in examples]
        # Shows a lack of memory at once.
        longest_first = sorted(range(len(examples)), key=lambda place: -lengths[place])
        for batch in within_budget([lengths[place] for place in longest_first], self.budget):
            places = [longest_first[number] for number in batch]
            scores = self._scores([examples[place] for place in places])
            for place, row in zip(places, scores, strict=True):
                if not all(map(math.isfinite, row)):
                    where = f"{self.config.name_or_path}: its scores of the document {records[place].id}"
                    raise RunError(f"{where} are NaN or inf. Train it in fp32 or bf16, or with a lower learning rate.")
                found[place] = {"id": records[place].id, **self._named(row)}
            predicted(len(places))
        return [found[place] for place in range(len(records))]

    def _named(self, scores: Sequence[float]) -> dict[str, float | str]:
        if self.config.problem_type == "regression":
            return {"prediction": scores[0]}
        labels = list(self.config.id2label.values())
        named = {self.names[label]: score for label, score in sorted(zip(labels, scores, strict=True))}
        return {"label": csv_cell(labels[scores.index(max(scores))])} | named

    @torch.inference_mode()
    def _scores(self, examples: Sequence[Example]) -> list[list[float]]:
        batch = pad_examples(examples, self.tokenizer.backend.pad_token_id)
        logits = self.model(**send_to_device(batch, self.device)).logits.float()
        return (logits if self.config.problem_type == "regression" else logits.softmax(-1)).tolist()

    def _examples(self, records: Sequence[Record]) -> list[Example]:
        """Return the tokens of documents, or of the texts of pairs that are read separately."""
        examples: list[Example] = [{"id": record.id} for record in records]
        texts, seconds = [record.text for record in records], [record.text_pair or "" for record in records]
        columns: dict[str, list[list[int]]] = {}
        if records and records[0].text_pair is not None and not self.reads_separately:
            pairs = list(zip(texts, seconds, strict=True))
            columns["input_ids"], segments = encode_cut_pairs(self.tokenizer, pairs, self.limit)
            if getattr(self.config, "token_types", 0) > 1:
                columns["token_type_ids"] = segments
        else:
            columns["input_ids"] = encode_cut(self.tokenizer, texts, self.limit)
            if self.reads_separately:
                columns["pair_ids"] = encode_cut(self.tokenizer, seconds, self.limit)
        for name, rows in columns.items():
            for example, row in zip(examples, rows, strict=True):
                example[name] = row
        return examples


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or torch.accelerator.current_accelerator() or "cpu")
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise RunError(f"device {name}: cannot be used ({reason}). Expected one such as cpu or cuda.") from error
    return device


def _has(head: type[TaskModel], config: PretrainedConfig) -> bool:
    """Whether a model was saved with a head."""
    return any(name.endswith(f"For{head.__name__}") for name in config.architectures or [])
