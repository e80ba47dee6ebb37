"""The name of a run, and its record: written by every finished run, read by tables and figures."""

import hashlib
import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field

from lib.core.errors import DataError
from lib.core.files import file_digest, files_in, write_json
from lib.core.search_space import Setting, variant_name
from lib.core.settings import unset

CONFIG = "config.yaml"
MODEL = "model"
HISTORY = "history.csv"
GEOMETRY = "geometry.csv"
RUN = "run.json"
PREDICTIONS = "predictions.parquet"
TRIALS = "trials.csv"
BEST = "best.json"
VOCABULARIES = ("vocab.txt", "tokenizer.json", "words.json")
"""Names of files of vocabularies, whose digest is that of their folder, next to weights and tables."""
KEPT = ("best", "last", "state")
"""Folders inside that of a model, by `recipe.keep`: weights of other epochs, and the state of the training."""
ADAPTER = "adapter"
"""Subfolder of a model folder: only low-rank adapters and the head, in the format of peft."""

COMPARED_PACKAGES = ("torch", "transformers", "tokenizers")
"""Packages whose versions are compared between runs, and with those installed."""


class RunId(NamedTuple):
    """Name of a run: one execution of a stage."""

    stage: str
    model: str
    dataset: str
    """Entry of the stage's `data`: a corpus or a dataset."""
    seed: int
    variant: str = ""
    """The settings of the search that the run uses; empty without a search."""

    @property
    def place(self) -> str:
        """The part of the path that all seeds share: `finetune/sdpa/imdb`."""
        return "/".join(filter(None, (self.stage, self.model, self.dataset, self.variant)))

    @property
    def path(self) -> str:
        """Folder of the run, relative to that of all runs: `finetune/sdpa/imdb/seed-420`."""
        return f"{self.place}/seed-{self.seed}"


class NamesRun(BaseModel):
    """Base of the heartbeat and the record of a run: the fields that name it."""

    stage: str
    model: str
    """Row of the tables."""
    dataset: str
    variant: dict[str, Setting] = {}
    """Settings by dotted name that distinguish it from other runs of a search; not part of the model's name."""
    seed: int

    @classmethod
    def of(cls, run: object) -> Self:
        """Return the name of a run from its settings, an object with these attributes."""
        return cls.model_validate(run, from_attributes=True)

    @property
    def id(self) -> RunId:
        """The name of the run as one value."""
        return RunId(self.stage, self.model, self.dataset, self.seed, variant_name(self.variant))


class Parent(BaseModel):
    """An artifact that a run started from."""

    model_config = ConfigDict(extra="forbid")

    path: str
    digest: str | None
    """None = unknown (imported run)."""


class Stretch(BaseModel):
    """A part of a training run under constant conditions. A run resumed under other conditions has several."""

    model_config = ConfigDict(extra="forbid")

    step: int
    """Optimiser steps done when it began."""
    device: str
    hardware: str
    instruction_set: str | None
    threads: int
    """CPU threads of each process."""
    processes: int
    versions: dict[str, str]
    git_commit: str | None = None
    """Commit when its process began; None = unknown."""
    execution: dict[str, Any]
    """Settings of the execution that can change a number."""


def with_stretch(before: Sequence[Stretch], new: Stretch) -> list[Stretch]:
    """Append a stretch of a training run, or extend the last one if the conditions are the same."""
    continues = before and before[-1].model_copy(update={"step": new.step}) == new
    return [*before] if continues else [*before, new]


class RunRecord(NamesRun):
    """The content of `run.json`. In an imported record, fields that the foreign records lack are null."""

    model_config = ConfigDict(extra="forbid")

    task: str
    parents: dict[str, Parent]
    """`start` (the run that gives the initial weights), `tokenizer`, `teacher` (the model whose states are learnt), and
    the data by split."""
    parameters: dict[str, int]
    """Numbers of weights: `total` and, with a head, `backbone` and `head`; also those of the parts of the backbone, see
    `lib.training.record.count_parameters`. Also `trainable`, those that the training moves, if they
    are others: with adapters, theirs and those of the head. Empty = unknown."""
    epochs: int | float
    """Passes over the training documents, the last one perhaps partial; 0 without a training loop, as in the next
    two."""
    steps: int | None
    """Optimiser steps."""
    # Left out where it is not set, so that earlier versions read the record.
    saved_steps: int | None = Field(None, exclude_if=unset)
    """Further steps of the recipe that were not done, since `recipe.patience` ended the training; of a search, those of
    its best trial. None = all were done."""
    tokens: int | None
    """Tokens without padding seen in training, over all epochs."""
    seconds: float
    """Wall time of the training loop without evaluations; without a loop, of the evaluation and the fit; of an imported
    run, of the whole run, evaluations included."""
    seconds_per_epoch: float | None
    tokens_per_second: float | None
    peak_memory_mb: float
    """MiB."""
    peak_memory_kind: Literal["gpu", "resident"]
    """GPU memory allocated by torch, or resident memory of the process on a CPU."""
    precision: Literal["fp32", "bf16", "fp16"] | None
    device: str
    hardware: str | None
    instruction_set: str | None = None
    """CPU instruction set that torch reports; last digits may depend on it. None = unknown, or torch was not used."""
    kernels: Literal["torch", "triton"] | None = None
    """Implementation that a mechanism or state space with Triton kernels used; None = it has none, or unknown."""
    approximated: float | None = None
    """Share of the training documents longer than the attention mechanism computes exactly
    (`MechanismSettings.exact_up_to`), for LSH of those that were hashed; 0 without a mechanism. None = no training
    loop, or unknown."""
    shared: dict[str, float] = Field(default_factory=dict)
    """Share of the documents of validation and test whose text training has as well, as far as it is read. Empty =
    unknown, or nothing was fitted."""
    hardly_learnt: str = ""
    """What shows that a classifier of documents has hardly learnt, in words. Empty = nothing, or unknown."""
    chosen: dict[str, Any] = Field(default_factory=dict)
    """Settings of the backbone that were chosen on validation, by name. Empty = none."""
    candidates: list[dict[str, Any]] = Field(default_factory=list)
    """Settings that they were chosen from, each with its `score`, the metric of validation that selects epochs."""
    processes: int = 1
    """Processes that trained together, each on its own GPU, or all on one CPU. Time is wall time, memory the maximum
    over them."""
    versions: dict[str, str]
    # Left out where there are none, so that earlier versions read the record.
    extensions: dict[str, dict[str, str]] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """Extensions in use that are not of the project, as configurations name them: `digest` of the Python files, and the
    version of each installed distribution that has the package, by its name."""
    git_commit: str | None
    """Commit when the process began that finished the run."""
    code: str | None = None
    """Digest of the code that the run executed; None = run by hand, or imported."""
    stretches: list[Stretch] = Field(default_factory=list)
    """Parts of the training under different conditions, in order; device, versions and the like above are those of the
    last one. One entry = the same conditions throughout. Empty = unknown, or no training loop."""
    files: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of every other file of the run, by its path in the run's folder. Empty = unknown."""
    accepted: list[dict[str, Any]] = Field(default_factory=list)
    """Changes since then that an earlier version of this project accepted; it wrote them here."""
    imported: str | None = None
    """Name of an imported run in its original records; None = a run of this project."""
    digest: str | None = None
    """SHA-256 of all other fields, to detect edits; None = unknown."""
    score: str | None = Field(None, exclude_if=unset)
    """Metric that tables call F1; None = the only one of such a name."""
    metrics: dict[str, float | None]
    """`train_loss` (lowest mean of a history row); `eval_*` (validation) and `test_*` of the model kept, as far as its
    task scores them; `featureless_*` of a classifier of texts, the share of the documents of a split without a feature;
    `best_epoch` if the best model is kept, a fraction within an epoch. A search records those of
    its best trial, whose number is `best_trial`; epochs, steps, tokens and time are summed over all trials."""

    @property
    def mixed(self) -> str | None:
        """Description of the conditions that differ between stretches; None if there is at most one stretch."""
        first = self.stretches[0].step if self.stretches else 0
        if len(self.stretches) < 2 and not first:
            return None
        conditions = []
        for stretch in self.stretches:
            found = stretch.model_dump(exclude={"git_commit"})  # the code that counts is the same
            nested = found.pop("versions") | found.pop("execution")
            conditions.append({name.replace("_", " "): value for name, value in (found | nested).items()})
        names = [name for name in dict(chain.from_iterable(map(dict.items, conditions))) if name != "step"]
        differing = [name for name in names if len({str(each.get(name)) for each in conditions}) > 1]
        if "hardware" in differing:  # says the threads, too
            differing = [name for name in differing if name != "threads"]
        parts = [f"up to step {first}: unknown"] if first else []
        for each in conditions:
            parts.append(f"from step {each['step']}: {', '.join(f'{name} {each.get(name)}' for name in differing)}")
        return "; ".join(parts if differing else parts[: bool(first)]) or None


def read_record(folder: str | Path) -> RunRecord:
    """Return the record in `folder`.

    Raises:
        DataError: `run.json` is missing or not a run record.
    """
    path = Path(folder) / RUN
    try:
        return RunRecord.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataError(f"{path}: no such file. Expected the record of a finished run; finish it.") from error
    except (IsADirectoryError, ValueError, RecursionError) as error:
        remedy = "Use the version that wrote it, or delete the run's folder; make why says how to make it again"
        raise DataError(f"{path}: not a run record of this version ({error}). {remedy}.") from error


def write_run(folder: str | Path, record: RunRecord) -> None:
    """Write a record to the folder of its run, with a digest of its fields."""
    values = record.model_dump(mode="json")
    write_json(Path(folder) / RUN, values | {"digest": _digest_of_fields(values)})


def _digest_of_fields(values: dict[str, Any]) -> str:
    fields = {name: value for name, value in values.items() if name != "digest"}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def missing_files(folder: str | Path, record: RunRecord) -> list[str]:
    """Return the files of a run that are missing from `folder`; every run must have its settings file."""
    return [name for name in dict.fromkeys([CONFIG, *record.files]) if not Path(folder, name).is_file()]


def differing_files(folder: str | Path, record: RunRecord, below: str = "") -> list[str]:
    """Describe the files of a run in `folder` that are missing, differ or are not in its record.

    Args:
        folder: folder of the run.
        record: its record.
        below: how the names of the files begin that are compared.
    """
    values = json.loads((Path(folder) / RUN).read_text(encoding="utf-8"))
    is_unchanged = values.get("digest") in (None, _digest_of_fields(values))
    problems = [] if is_unchanged else [f"{RUN} has changed since the run"]
    if record.imported is None and CONFIG not in record.files:
        problems.append(f"{RUN} does not name {CONFIG}, which every run leaves")
    gone = [name for name in missing_files(folder, record) if name.startswith(below)]
    there = [name for name in record.files if name.startswith(below) and name not in gone]
    changed = [name for name in there if file_digest(Path(folder, name)) != record.files[name]]
    return [*problems, *(f"{name} is gone" for name in gone), *(f"{name} is not what the run left" for name in changed)]


def digest_of(place: Path) -> str:
    """Return a digest of a file, or of the weights, tables or vocabulary in a folder; logs do not count."""
    files = files_in(place, "*") if place.is_dir() else [place]
    digest = hashlib.sha256()
    for path in files:
        if path == place or path.suffix in (".safetensors", ".bin", ".arrow") or path.name in VOCABULARIES:
            digest.update(bytes.fromhex(file_digest(path)))
    return digest.hexdigest()
