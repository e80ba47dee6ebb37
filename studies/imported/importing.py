"""Run records of other code, imported so that tables and figures can be made from them.

A study with `execution.runs: imported` reads the imported records.
"""

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from lib.attention.settings import MECHANISMS, MechanismSettings
from lib.core.errors import MOST_OF_VALUE, DataError, cut
from lib.core.files import atomic_path, mapping_text
from lib.core.record import CONFIG, HISTORY, Parent, RunId, RunRecord, write_run
from lib.core.search_space import Setting, laid_over, variant_name
from lib.core.settings import (
    FewOrZero,
    FolderName,
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Probability,
    Seed,
)

logger = logging.getLogger(__name__)

TASKS = {"pretrain": "masked_lm", "tapt": "masked_lm", "finetune": "sequence_classification"}
"""Task of each stage."""
ATTENTION: dict[str, tuple[str, list[str]]] = {
    "mha": ("sdpa", []),
    "lsh": ("lsh", ["num_hashes", "chunk_size", "mask_within_chunks"]),
    "favor": ("favor", ["nb_features"]),
}
"""Mechanisms: ours, and the columns with its parameters."""
SEARCH = "search"
"""Stage of the runs of a model and dataset that were made with several settings."""
VARIANTS = {
    "freeze_n_layers": "recipe.freeze_layers",
    "classifier_dropout": "task.classifier_dropout",
    "pooling": "task.classifier_pooling",
}
"""Columns of the settings that a search varies, and our names of them."""
NEEDED = ["run", "stage", "dataset", "attention", "seed", "epochs", "peak_gpu_mem_mb", "runtime_s"]
"""Columns that need a value in every run."""
OPTIONAL = ["num_hashes", "chunk_size", "mask_within_chunks", "nb_features", "batch_size", "grad_accum_steps"]
OPTIONAL += ["learning_rate", "starts_from", *VARIANTS]
"""Columns that may be empty."""
Text = Annotated[str, Field(strict=True)]
COLUMNS: dict[str, TypeAdapter[Any]] = {
    **dict.fromkeys(["run", "stage", "attention", "starts_from"], TypeAdapter(Text)),
    **dict.fromkeys(["dataset", "pooling"], TypeAdapter(Annotated[FolderName, Field(strict=True)])),
    **dict.fromkeys(["epochs", "batch_size", "grad_accum_steps"], TypeAdapter(PositiveInt)),
    **dict.fromkeys(["num_hashes", "chunk_size", "nb_features"], TypeAdapter(PositiveInt)),
    **dict.fromkeys(["runtime_s", "learning_rate"], TypeAdapter(PositiveFloat)),
    "mask_within_chunks": TypeAdapter(bool),
    "seed": TypeAdapter(Seed),
    "peak_gpu_mem_mb": TypeAdapter(NonNegativeFloat),
    "freeze_n_layers": TypeAdapter(FewOrZero),
    "classifier_dropout": TypeAdapter(Probability),
}
"""Types of `NEEDED` and `OPTIONAL`: those of the same settings in a configuration. Texts become parts of paths."""
EPOCHS = ["train/epoch", "eval/epoch", "test/epoch"]
METRIC = re.compile(r"(train|eval|test)/(?!epoch$).+", re.DOTALL)
"""Columns of a history that are imported, besides the epochs and the time."""
SHARE = re.compile("f1|accuracy|precision|recall|confidence")
"""Parts of the names of metrics from 0 to 1."""
METRICS = {
    "train/avg_epoch_loss": "train_loss",
    "avg_prediction_confidence": "mean_confidence",
    "avg_prediction_entropy": "mean_entropy",
    "top3_accuracy": "top_3_accuracy",
    "top5_accuracy": "top_5_accuracy",
}
"""Parts of their names of metrics, and ours."""


def import_runs(runs: str | Path, history: str | Path, out: str | Path, hardware: str | None = None) -> list[Path]:
    """Write a record for every foreign run to `<out>/runs`, where ours would be.

    A model is called by its mechanism (`lsh-h2-c64`, `lsh-h2-c64-masked`), or by all that it had on its way
    (`sdpa-then-favor-m128`). Runs of one model, dataset and stage `finetune` that differ in the settings of `VARIANTS`
    are a search: each becomes a variant of the stage `search`, and those with the settings that all other models of
    the dataset have count as `finetune`, too.

    Scores are those of the epoch with the best macro-F1 on validation; of a run that classifies nothing, of the last
    epoch. Times are the wall time of the whole run, evaluations included, as no others are recorded. What foreign
    records lack, such as numbers of weights and tokens, is null in ours.

    Args:
        runs: Parquet file with one row per run: `NEEDED` and `OPTIONAL`. `ATTENTION` says which of them its
            mechanism needs; `peak_gpu_mem_mb` is in MiB, `runtime_s` in seconds; `starts_from` is the name of another
            run, with or without what follows its last underscore.
        history: Parquet file with rows for each run and epoch: `run`, `elapsed_s`, `train/epoch`, `train/<metric>`,
            and `eval/` (validation) and `test/` likewise; metrics are numbers, and shares, not per cent. Other
            columns, and rows of other runs, are not read.
        out: folder of the results.
        hardware: that of the runs, which their records lack.

    Returns:
        Folders of the records.

    Raises:
        DataError: a file cannot be read, or has no rows; runs are incomplete, ambiguous or duplicated, or have values
            that cannot be (all of them are named); or `out` has runs already. Nothing is written then.
    """
    target = Path(out) / "runs"
    if target.exists():
        raise DataError(f"{target}: exists. Expected a folder without runs; delete them, or name another folder.")
    table = _runs(runs)
    epochs = _epochs(history, set(table["run"]))
    if problems := [*_incomplete(table, epochs)]:
        raise _refusal(runs, problems)
    mechanisms = {run["run"]: _mechanism(run) for run in table.to_dict("records")}
    starts, problems = _starts(table)
    if problems := problems or [*_circles(starts)]:
        raise _refusal(runs, problems)
    table["model"] = ["-then-".join(_path(run, starts, mechanisms)) for run in table["run"]]
    if problems := [*_long(table)]:
        raise _refusal(runs, problems)
    cells = _cells(table)
    if twice := cells[cells.duplicated(["place"], keep=False)].groupby("place")["run"].agg(", ".join).to_dict():
        raise _refusal(runs, [f"{place}: {names} are the same run" for place, names in twice.items()])
    with atomic_path(target) as partial:
        for run in cells.to_dict("records"):
            name = run["run"]
            _write(partial / run["place"], run, starts[name], mechanisms[name], epochs.loc[[name]], hardware)
    return [target / place for place in cells["place"]]


def _refusal(path: str | Path, problems: Sequence[str]) -> DataError:
    shown = "; ".join(cut(problem, 400) for problem in problems)
    shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in shown)
    return DataError(
        f"{path}: {shown}. Expected one complete record per run, and nothing was imported. Correct or complete what "
        "is named or take it out of the table, and leave what is missing then out of the study."
    )


def _table(path: str | Path, needed: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file as plain values."""
    try:
        with pa.parquet.ParquetFile(path) as file:
            table = file.read()
        twice = [name for name, count in Counter(table.column_names).items() if count > 1]
        rows = [] if twice else table.to_pylist()
    except (OSError, ValueError, TypeError, ArithmeticError, pa.ArrowException) as error:
        raise DataError(f"{path}: cannot be read ({error}). Expected a Parquet file of run records.") from error
    if twice:
        raise _refusal(path, [f"column {name}: there are several" for name in twice])
    if missing := [name for name in needed if name not in table.column_names]:
        raise DataError(f"{path}: has no column {', '.join(missing)}. Expected one for each of {', '.join(needed)}.")
    if not rows:
        raise DataError(f"{path}: has no rows. Expected run records; write them to the file first.")
    return rows


def _converted(
    row: Mapping[str, Any], columns: Mapping[str, TypeAdapter[Any]], name: str, problems: dict[tuple[str, str], str]
) -> dict[str, Any]:
    """Return the values of a row as their types, None where there is none.

    What is not of its type is None, too, and the first such value of a run and column is added to `problems`.
    """
    result = dict.fromkeys(columns)
    for column, kind in columns.items():
        value = row.get(column)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue
        try:
            result[column] = kind.validate_python(value)
        except ValidationError as error:
            reason = error.errors(include_input=False, include_url=False)[0]["msg"]
            problems.setdefault((name, column), f"{name}: {column} is {cut(repr(value), MOST_OF_VALUE)} ({reason})")
    return result


def _runs(path: str | Path) -> pd.DataFrame:
    """Return the table of runs, with a column for each of `COLUMNS`."""
    problems: dict[tuple[str, str], str] = {}
    rows = []
    for number, row in enumerate(_table(path, NEEDED), 1):
        name = row["run"] if isinstance(row["run"], str) else f"row {number}"
        rows.append(_converted(row, COLUMNS, name, problems))
        if rows[-1]["run"] is None:
            problems.setdefault((name, "run"), f"{name}: no value of run")
    if problems:
        raise _refusal(path, [*problems.values()])
    return pd.DataFrame(rows, dtype=object)  # else a column of integers with gaps would be floats


def _epochs(path: str | Path, runs: set[str]) -> pd.DataFrame:
    """Return one row per run and epoch, under our names of metrics."""
    rows = [
        row for row in _table(path, ["run", "elapsed_s", *EPOCHS]) if isinstance(row["run"], str) and row["run"] in runs
    ]
    metrics = [name for name in rows[0] if METRIC.fullmatch(name)] if rows else []
    names: dict[str, list[str]] = {}
    for metric in metrics:
        names.setdefault(_metric(metric), []).append(metric)
    if twice := {ours: theirs for ours, theirs in names.items() if len(theirs) > 1}:
        raise _refusal(path, [f"columns {', '.join(theirs)}: all are {ours}" for ours, theirs in twice.items()])
    columns = {
        "elapsed_s": TypeAdapter(NonNegativeFloat),
        **dict.fromkeys(EPOCHS, TypeAdapter(NonNegativeFloat)),
        **{name: TypeAdapter(Fraction if SHARE.search(name) else FiniteFloat) for name in metrics},
    }
    problems: dict[tuple[str, str], str] = {}
    converted = []
    for row in rows:
        values = _converted(row, columns, row["run"], problems)
        if len(found := {values[name] for name in EPOCHS} - {None}) > 1:
            text = (
                f"{row['run']}: {', '.join(EPOCHS)} of one row are {', '.join(f'{epoch:g}' for epoch in sorted(found))}"
            )
            problems.setdefault((row["run"], "epoch"), text)
        converted.append({"run": row["run"], **values})
    if problems:
        raise _refusal(path, [*problems.values()])
    table = pd.DataFrame(converted, columns=["run", *columns]).astype(dict.fromkeys(columns, "float64"))
    # The tracker may have written training and evaluation of an epoch as separate rows, each with its own epoch.
    table = table.assign(epoch=table[EPOCHS].bfill(axis=1).iloc[:, 0]).drop(columns=EPOCHS)
    by_epoch = table.groupby(["run", "epoch"])
    several = by_epoch[metrics].nunique().gt(1).stack()
    conflicts = several[several].index
    if len(conflicts):
        texts = [f"{run}: {metric} of epoch {epoch:g} has several values" for run, epoch, metric in conflicts]
        raise _refusal(path, texts)
    merged = by_epoch.first()  # the first that is not null, by column
    return merged.rename(columns=_metric).reset_index("epoch")


def _metric(name: str) -> str:
    for foreign, ours in METRICS.items():
        name = name.replace(foreign, ours)
    part, _, metric = name.partition("/")
    if metric.startswith("class_"):
        number, _, score = metric.removeprefix("class_").partition("_")
        metric = f"{score}_class_{number}"
    return f"{part}_{metric}" if metric else part


def _incomplete(table: pd.DataFrame, epochs: pd.DataFrame) -> Iterator[str]:
    """Yield the gaps and errors in the records of runs."""
    for run in table.loc[table["run"].duplicated(), "run"]:
        yield f"{run}: duplicated"
    for run in table.to_dict("records"):
        name, needed = run["run"], [column for column in NEEDED if run[column] is None]
        if needed:
            yield f"{name}: no value of {', '.join(needed)}"
            continue
        if run["stage"] not in TASKS:
            yield f"{name}: stage '{run['stage']}' is none of {', '.join(TASKS)}"
            continue
        try:
            _mechanism(run)
        except ValueError as error:
            yield f"{name}: attention and its parameters make no mechanism ({error})"
        history = epochs.loc[epochs.index == name]
        there = sorted(history["epoch"])
        if len(there) != run["epochs"] or there != [*range(1, len(there) + 1)]:
            found = ", ".join(f"{epoch:g}" for epoch in sorted(history["epoch"])) or "none"
            yield f"{name}: {run['epochs']} epochs, but the history has {found}"
        scores = ["elapsed_s", "train_loss"]
        if TASKS[run["stage"]] == "sequence_classification":
            scores += ["eval_f1_macro", "test_f1_macro"]
        for score in scores:
            values = history.reindex(columns=["epoch", score])
            for epoch in values.loc[values[score].isna(), "epoch"]:
                yield f"{name}: no {score} of epoch {epoch:g}"
        if history["elapsed_s"].diff().min() < 0:
            yield f"{name}: elapsed_s decreases from one epoch to the next"


def _mechanism(run: dict[str, Any]) -> MechanismSettings:
    """Return the parameters of a run's attention mechanism.

    Raises:
        ValueError: it is unknown, or lacks a parameter that has no default.
    """
    if (kind := run["attention"]) not in ATTENTION:
        raise ValueError(f"'{kind}' is none of {', '.join(ATTENTION)}")
    ours, parameters = ATTENTION[kind]
    if missing := [name for name in parameters if run[name] is None]:
        raise ValueError(f"no value of {', '.join(missing)}")
    return MECHANISMS.parse({"kind": ours} | {name: run[name] for name in parameters})


def _spelling(mechanism: MechanismSettings) -> str:
    masked = getattr(mechanism, "mask_within_chunks", False)
    return f"{mechanism.name()}-masked" if masked else mechanism.name()


def _starts(table: pd.DataFrame) -> tuple[dict[str, str | None], list[str]]:
    """Return the run that each run starts from, None for first weights, and the errors in those named."""
    known: dict[str, set[str]] = {}
    for name in table["run"]:
        for spelling in (name, name.rpartition("_")[0]):
            known.setdefault(spelling, set()).add(name)
    starts: dict[str, str | None] = {}
    problems = []
    for run in table.to_dict("records"):
        start, found = run["starts_from"], known.get(run["starts_from"], set()) - {run["run"]}
        if start is not None and len(found) != 1:
            there = ", ".join(sorted(found)) or "not there"
            problems.append(f"{run['run']}: starts from {start}, which is {there}; the run is needed to name the model")
        starts[run["run"]] = next(iter(found), None)
    return starts, problems


def _circles(starts: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the runs that start, by way of others, from themselves."""
    for run, start in starts.items():
        way = {run: None}
        while start is not None and start not in way:
            way[start] = None
            start = starts[start]
        if start == run:
            yield f"{run}: starts_from leads back to the run itself, by {', '.join([*way][1:])}"


def _path(run: str, starts: Mapping[str, str | None], mechanisms: Mapping[str, MechanismSettings]) -> list[str]:
    """Return the spelling of a run's mechanism after those of the runs that it goes back to, without repetitions."""
    spellings = []
    start: str | None = run
    while start is not None:
        spellings.append(_spelling(mechanisms[start]))
        start = starts[start]
    return [spelling for spelling, _ in groupby(reversed(spellings))]


def _long(table: pd.DataFrame) -> Iterator[str]:
    """Yield the runs whose model has a name that is too long for a folder."""
    for run in table.to_dict("records"):
        try:
            TypeAdapter(FolderName).validate_python(run["model"])
        except ValidationError as error:
            yield f"{run['run']}: starts_from gives the model the name {run['model']} ({error.errors()[0]['msg']})"


def _cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each record to write: the runs, with `variant` and `place`, and those of a search as such."""
    table = table.assign(variant=[_variant(run) for run in table.to_dict("records")])
    # Texts, since a mapping cannot be compared.
    spelt = table["variant"].map(variant_name).where(table["stage"] == "finetune", "")
    settings = spelt.groupby([table["stage"], table["model"], table["dataset"]])
    searched = settings.transform("nunique") > 1
    of_others = spelt[~searched].groupby([table["stage"], table["dataset"]]).unique()
    chosen = [
        not search or list(of_others.get((stage, dataset), ())) == [own]
        for search, stage, dataset, own in zip(searched, table["stage"], table["dataset"], spelt, strict=True)
    ]
    for (stage, model, dataset), own in spelt[searched].groupby([table["stage"], table["model"], table["dataset"]]):
        counted = sorted(set(own[[chosen[index] for index in own.index]]))
        logger.info(
            "%s/%s/%s: %d settings, a search. As %s count those of the other models: %s",
            *(stage, model, dataset, own.nunique(), stage, ", ".join(counted) or "none, since they differ"),
        )
    plain = table[chosen].assign(variant=[{}] * sum(chosen))
    cells = pd.concat([plain, table[searched].assign(stage=SEARCH)], ignore_index=True)
    places = [
        RunId(run.stage, run.model, run.dataset, run.seed, variant_name(run.variant)).path
        for run in cells.itertuples(index=False)
    ]
    return cells.assign(place=places)


def _variant(run: dict[str, Any]) -> dict[str, Setting]:
    return {ours: run[foreign] for foreign, ours in VARIANTS.items() if run[foreign] is not None}


def _write(
    folder: Path,
    run: dict[str, Any],
    start: str | None,
    mechanism: MechanismSettings,
    history: pd.DataFrame,
    hardware: str | None,
) -> None:
    task = TASKS["finetune" if run["stage"] == SEARCH else run["stage"]]
    kept = history["eval_f1_macro"].to_numpy().argmax() if task == "sequence_classification" else -1
    history = history.assign(seconds=history["elapsed_s"].diff().fillna(history["elapsed_s"])).drop(columns="elapsed_s")
    metrics = history.iloc[kept].drop(["epoch", "seconds", "train_loss"]).dropna().astype(float).to_dict()
    metrics["train_loss"] = history["train_loss"].min()
    if task == "sequence_classification":
        metrics["best_epoch"] = history["epoch"].iloc[kept]
    named = {name: run[name] for name in ("stage", "model", "dataset", "seed")}
    record = RunRecord(
        **named,
        variant=run["variant"],
        task=task,
        parents={"start": Parent(path=start, digest=None)} if start else {},
        parameters={},
        epochs=run["epochs"],
        steps=None,
        tokens=None,
        seconds=run["runtime_s"],
        seconds_per_epoch=run["runtime_s"] / run["epochs"],
        tokens_per_second=None,
        peak_memory_mb=run["peak_gpu_mem_mb"],
        peak_memory_kind="gpu",
        precision=None,
        device="cuda",
        hardware=hardware,
        versions={},
        git_commit=None,
        imported=run["run"],
        metrics=metrics,
    )
    write_run(folder, record)
    history = history.dropna(axis=1, how="all").astype({"epoch": int})
    first = ["epoch", "seconds", "train_loss"]
    history[[*first, *sorted(set(history) - set(first))]].to_csv(folder / HISTORY, index=False, lineterminator="\n")
    settings = {**named, **_settings(run, task, mechanism)}
    header = f"# What is known of the imported run {json.dumps(run['run'])}; not enough to repeat it.\n"
    (folder / CONFIG).write_text(header + mapping_text(settings), encoding="utf-8")


def _settings(run: dict[str, Any], task: str, mechanism: MechanismSettings) -> dict[str, Any]:
    """Return the known settings of a run, as its `config.yaml` would name them."""
    settings: dict[str, Any] = {
        "task": {"kind": task},
        "backbone": {"mechanism": mechanism.model_dump(mode="json", exclude_unset=True)},
        "recipe": {"epochs": run["epochs"]},
    }
    if run["learning_rate"] is not None:
        settings["recipe"]["learning_rate"] = run["learning_rate"]
    if run["batch_size"] is not None:
        settings["recipe"]["batch_size"] = run["batch_size"] * (run["grad_accum_steps"] or 1)
    return laid_over(settings, _variant(run))
