"""Run records of other code, imported so that tables and figures can be made from them.

A study with `execution.runs: imported` reads the imported records.
"""

import json
import logging
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from pydantic import Field, TypeAdapter, ValidationError

from lib.attention.settings import MECHANISMS, MechanismSettings
from lib.core.errors import DataError
from lib.core.files import atomic_path, mapping_text
from lib.core.identity import RunId
from lib.core.record import CONFIG, HISTORY, Parent, RunRecord, write_run
from lib.core.search_space import Setting, laid_over, variant_name
from lib.core.settings import Name, PositiveInt, Seed

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
"""Columns in which every run needs a value."""
OPTIONAL = ["num_hashes", "chunk_size", "mask_within_chunks", "nb_features", "batch_size", "grad_accum_steps"]
OPTIONAL += ["learning_rate", "starts_from", *VARIANTS]
"""Columns in which a run may have none."""
INTEGERS = ["seed", "epochs", "num_hashes", "chunk_size", "nb_features", "batch_size", "grad_accum_steps"]
INTEGERS += ["freeze_n_layers"]
"""Columns of integers, which a column with gaps may hold as floats."""
NUMBERS = ["peak_gpu_mem_mb", "runtime_s", "learning_rate", "classifier_dropout"]
TEXTS = ["run", "stage", "dataset", "attention", "starts_from", "pooling"]
FolderName = Annotated[Name, Field(max_length=100)]
CHECKED: dict[str, TypeAdapter[Any]] = {
    "dataset": TypeAdapter(FolderName),
    "pooling": TypeAdapter(FolderName | None),
    "seed": TypeAdapter(Seed),
    "epochs": TypeAdapter(PositiveInt),
}
"""Columns that become parts of paths or counts, with the type of the same setting in a configuration."""
EPOCHS = ["train/epoch", "eval/epoch", "test/epoch"]
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
            and `eval/` (validation) and `test/` likewise; metrics are shares, not per cent.
        out: folder of the results.
        hardware: that of the runs, which their records lack.

    Returns:
        Folders of the records.

    Raises:
        DataError: a file cannot be read, or runs are incomplete, ambiguous or duplicated (all of them are named), or
            `out` has runs already. Nothing is written then.
    """
    target = Path(out) / "runs"
    if target.exists():
        raise DataError(f"{target}: exists. Expected a folder without runs; delete them, or name another folder.")
    table = _table(runs, NEEDED, OPTIONAL)
    epochs = _epochs(_table(history, ["run", "elapsed_s", *EPOCHS], []))
    if problems := [*_incomplete(table, epochs)]:
        raise _refusal(runs, problems)
    mechanisms = {run["run"]: _mechanism(run) for run in _rows(table)}
    starts, problems = _starts(table)
    if problems:
        raise _refusal(runs, problems)
    table["model"] = ["-then-".join(_path(run, starts, mechanisms)) for run in table["run"]]
    cells = _cells(table)
    if twice := cells[cells.duplicated(["place"], keep=False)].groupby("place")["run"].agg(", ".join).to_dict():
        raise _refusal(runs, [f"{place}: {names} are the same run" for place, names in twice.items()])
    with atomic_path(target) as partial:
        for run in _rows(cells):
            name = run["run"]
            _write(partial / run["place"], run, starts[name], mechanisms[name], epochs.loc[[name]], hardware)
    return [target / place for place in cells["place"]]


def _refusal(path: str | Path, problems: Sequence[str]) -> DataError:
    shown = "; ".join(problem if len(problem) <= 400 else f"{problem[:400]}..." for problem in problems)
    shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in shown)
    return DataError(
        f"{path}: {shown}. Expected one complete record per run, and nothing was imported. Complete "
        "these rows or take them out of the table, and leave what is missing then out of the study."
    )


def _table(path: str | Path, needed: Sequence[str], optional: Sequence[str]) -> pd.DataFrame:
    """Return the table in a Parquet file, with null columns for what it may leave out."""
    try:
        table = pd.read_parquet(path)
        table = table.astype({name: "Int64" for name in INTEGERS if name in table})
        table = table.astype({name: "float64" for name in NUMBERS if name in table})
        for name in TEXTS:
            if name in table and (wrong := [value for value in table[name].dropna() if not isinstance(value, str)]):
                raise ValueError(f"column {name} holds {str(wrong[0])[:80]!r}, which is no text")
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path}: cannot be read ({error}). Expected a Parquet file of run records.") from error
    if missing := [name for name in needed if name not in table]:
        raise DataError(f"{path}: has no column {', '.join(missing)}. Expected one for each of {', '.join(needed)}.")
    return table.reindex(columns=[*table, *(name for name in optional if name not in table)])


def _epochs(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run and epoch, under our names of metrics."""
    # The tracker may have written training and evaluation of an epoch as separate rows, each with its own epoch.
    rows = rows.assign(epoch=rows[EPOCHS].bfill(axis=1).iloc[:, 0]).drop(columns=[*EPOCHS, "step"], errors="ignore")
    merged = rows.groupby(["run", "epoch"]).first()  # the first that is not null, by column
    merged = merged.assign(seconds=merged["elapsed_s"].groupby("run").transform(_differences))
    return merged.drop(columns="elapsed_s").rename(columns=_metric).reset_index("epoch")


def _differences(elapsed: pd.Series) -> pd.Series:
    return elapsed.diff().fillna(elapsed)


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
    for run in _rows(table):
        name, needed = run["run"], [column for column in NEEDED if run[column] is None]
        if needed:
            yield f"{name}: no value of {', '.join(needed)}"
            continue
        if run["stage"] not in TASKS:
            yield f"{name}: stage '{run['stage']}' is none of {', '.join(TASKS)}"
            continue
        wrong = [*_refused(run)]
        yield from wrong
        if wrong:
            continue
        try:
            _mechanism(run)
        except ValueError as error:
            yield f"{name}: no mechanism ({error})"
        history = epochs.loc[epochs.index == name]
        there = sorted(history["epoch"])
        if len(there) != run["epochs"] or there != [*range(1, len(there) + 1)]:
            found = ", ".join(f"{epoch:g}" for epoch in sorted(history["epoch"])) or "none"
            yield f"{name}: {run['epochs']} epochs, but the history has {found}"
        scores = ["train_loss"]
        if TASKS[run["stage"]] == "sequence_classification":
            scores += ["eval_f1_macro", "test_f1_macro"]
        for score in scores:
            values = history.reindex(columns=["epoch", score])
            for epoch in values.loc[values[score].isna(), "epoch"]:
                yield f"{name}: no {score} of epoch {epoch:g}"


def _refused(run: dict[str, Any]) -> Iterator[str]:
    """Yield which values of a run no configuration would take."""
    for column, kind in CHECKED.items():
        try:
            kind.validate_python(run[column])
        except ValidationError as error:
            yield f"{run['run']}: {column} is {str(run[column])[:80]!r} ({error.errors()[0]['msg']})"
    for column in NUMBERS:
        if run[column] is not None and not math.isfinite(run[column]):
            yield f"{run['run']}: {column} is {run[column]}, no finite number"


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows with plain values, None where there is none."""
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()} for row in table.to_dict("records")
    ]


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
    for run in _rows(table):
        start, found = run["starts_from"], known.get(run["starts_from"], set()) - {run["run"]}
        if start is not None and len(found) != 1:
            there = ", ".join(sorted(found)) or "not there"
            problems.append(f"{run['run']}: starts from {start}, which is {there}; the run is needed to name the model")
        starts[run["run"]] = next(iter(found), None)
    return starts, problems


def _path(run: str, starts: dict[str, str | None], mechanisms: dict[str, MechanismSettings]) -> list[str]:
    """Return the spelling of a run's mechanism after those of the runs that it goes back to, without repetitions."""
    start = starts[run]
    before = _path(start, starts, mechanisms) if start else []
    own = _spelling(mechanisms[run])
    return before if before[-1:] == [own] else [*before, own]


def _cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each record to write: the runs, with `variant` and `place`, and those of a search as such."""
    table = table.assign(variant=[_variant(run) for run in _rows(table)])
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
