"""Run records as tidy frames: one row per run."""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lib.core.errors import ConfigError, DataError
from lib.core.files import read_mapping
from lib.core.record import COMPARED_PACKAGES, CONFIG, PREDICTIONS, RUN, RunRecord, read_record
from lib.results.quantities import F1_NAMES, OF_CLASS

INSTRUCTIONS, HARDWARE, PRECISION = "instruction set", "hardware", "precision"
SHOWN = 6
"""How many runs a note describes one by one."""
SPLITS = ("eval", "test")
SCORES = {f"{split}_score": " or ".join(f"{split}_{name}" for name in F1_NAMES) for split in SPLITS}
"""Columns of scores, and the metrics that they hold."""
METRIC = re.compile(f"(train|eval|test)_(?!.*{OF_CLASS})")
"""Beginning of the name of a metric that is not of one class."""
KEY = ["stage", "model", "dataset", "variant", "seed"]


def load_runs(folders: Iterable[str | Path]) -> pd.DataFrame:
    """Return one row per run: the fields of its record, each metric under its own name, weights as `parameters_*`.

    `score` names the metric that is the F1 of the run, one of `lib.results.quantities.F1_NAMES`; `test_score` and
    `eval_score` (validation) are its values. `variant` is the name of the run's variant, `start` the digest of the run
    whose weights it starts from, if any; `lora_rank` is 0 without adapters. `original` is the folder of the run, or of
    the first seed that it is a copy of: without a training loop, seeds with the same start and the same predictions are
    one evaluation. `machine` is the hardware and, if there are several, the number of processes that shared it: times
    on different machines cannot be compared. `training_seconds` is `seconds`, and missing without a training loop; so
    are `trained_parameters`, the weights that train, and `trained_share` of all.

    Raises:
        DataError: records are missing or damaged (all of them are named), or two belong to the same run.
    """
    rows, problems = [], []
    for folder in folders:
        try:
            record = read_record(folder)
        except DataError as error:
            problems.append(str(error))
            continue
        fields = record.model_dump(exclude={"metrics", "parameters", "parents", "stretches", "variant", "versions"})
        fields |= record.id._asdict()
        start = record.parents.get("start")
        fields["start"] = start.digest if start else None
        evaluated = {"start": fields["start"], "predictions": record.files.get(PREDICTIONS)}
        fields["evaluation"] = None if record.epochs or not any(evaluated.values()) else str(evaluated)
        fields["machine"] = _machine(record)
        fields["lora_rank"] = _lora_rank(folder) if record.epochs else None
        fields["training_seconds"] = record.seconds if record.epochs else None
        trained = record.parameters.get("trainable", record.parameters.get("total")) if record.epochs else None
        fields["trained_parameters"] = trained
        fields["trained_share"] = None if trained is None else trained / record.parameters["total"]
        parameters = {f"parameters_{part}": number for part, number in record.parameters.items()}
        rows.append({"folder": str(folder), **fields, **parameters, **record.metrics, **_scores(record)})
    if problems:
        raise DataError("\n".join(problems))
    runs = pd.DataFrame(rows)
    if rows and (twice := runs[runs.duplicated(KEY, keep=False)]["folder"].tolist()):
        raise DataError(f"{', '.join(twice)}: records of the same run. Expected one each; name every run once.")
    if rows:
        same = runs.groupby([*(name for name in KEY if name != "seed"), "evaluation"], dropna=False)["folder"]
        runs["original"] = same.transform("first").where(runs["evaluation"].notna(), runs["folder"])
    return runs


def pooled(runs: pd.DataFrame, folds: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return runs where those of all folds of a dataset, of one model and seed, are one run on this dataset.

    Its folders are those of the folds, one per line; its scores are their means, and all else is that of the first.

    Args:
        runs: frame of `load_runs`.
        folds: datasets that are folds, by the name of the dataset.

    Raises:
        DataError: a fold has no run of a model and seed that others have.
    """
    if not folds:
        return runs
    name_of = {each: name for name, names in folds.items() for each in names}
    groups = runs.assign(dataset=runs["dataset"].replace(name_of)).groupby(KEY, sort=False)
    for (*_, dataset, _, _), found in groups["folder"]:
        if len(found) < len(folds.get(dataset, "1")):
            raise DataError(f"{', '.join(found)}: some folds of {dataset} alone. Expected all {len(folds[dataset])}.")
    joined: dict[str, Any] = {"folder": "\n".join, "original": "\n".join, **dict.fromkeys(SCORES, "mean")}
    return groups.agg({name: joined.get(name, "first") for name in runs if name not in KEY}).reset_index()


def _machine(record: RunRecord) -> str:
    """Return the hardware of a run, and how many processes shared it."""
    hardware = record.hardware or "unknown hardware"
    return f"{hardware}, {record.processes} processes" if record.processes > 1 else hardware


def _lora_rank(folder: str | Path) -> int | None:
    """Return the rank of a run's adapters, 0 where it trains the weights themselves; None if its settings are gone."""
    try:
        lora = (read_mapping(Path(folder) / CONFIG).get("recipe") or {}).get("lora")
    except ConfigError:
        return None
    return lora["r"] if lora else 0


def _scores(record: RunRecord) -> dict[str, Any]:
    """Return the metric that is the F1 of a run, and its values, as far as it has any."""
    metrics = record.metrics
    for name in [record.score] if record.score else F1_NAMES:
        found = {f"{split}_score": metrics[each] for split in SPLITS if (each := f"{split}_{name}") in metrics}
        if found:
            return {"score": name, **found}
    return {}


def conditions_note(files: Iterable[str | Path]) -> str | None:
    """Return sentences on runs that have hardly learnt, and on how conditions differ: versions, processors, precision.

    Hardware and precision count where trainings of one stage on one dataset differ in it.

    Args:
        files: of a table; other files than run records are skipped.

    Returns:
        The sentences, with the models of each version, instruction set, machine and precision; None if there are none.
    """
    records = [read_record(Path(file).parent) for file in files if Path(file).name == RUN]
    facts: list[tuple[str, str, str | None, str]] = []
    for record in records:
        place, model = f"{record.stage}/{record.dataset}", record.model
        facts += [(name, "", value, model) for name, value in record.versions.items()]
        facts.append((INSTRUCTIONS, "", record.instruction_set, model))
        if record.epochs:
            facts += [(HARDWARE, place, _machine(record), model), (PRECISION, place, record.precision, model)]
    frame = pd.DataFrame(facts, columns=["name", "place", "value", "model"]).dropna(subset="value")
    frame = frame[frame.groupby(["name", "place"])["value"].transform("nunique") > 1]
    differing: dict[str, list[str]] = {}
    for (name, value), models in frame.groupby(["name", "value"], sort=False)["model"]:
        differing.setdefault(name, []).append(f"{value} ({', '.join(models.unique())})")
    versions = [f"{package} {value}" for package in COMPARED_PACKAGES for value in differing.get(package, [])]
    precisions = differing.get(PRECISION, [])
    mixed = [f"{record.id.path} ({words})" for record in records if (words := record.mixed)]
    sentences = {
        "The runs were made with different versions": versions,
        "The processors had different instruction sets": differing.get(INSTRUCTIONS, []),
        "Trainings ran on different hardware, so their times cannot be compared": differing.get(HARDWARE, []),
        "Trainings computed in different precision, so their times and memory differ by that, too": precisions,
        "Hardly learnt": _listed([f"{each.id.path} ({each.hardly_learnt})" for each in records if each.hardly_learnt]),
        "Trainings resumed under other conditions": _listed(mixed, ", which make verify names"),
    }
    return " ".join(f"{said}: {', '.join(named)}." for said, named in sentences.items() if named) or None


def _listed(runs: Sequence[str], more: str = "") -> Sequence[str]:
    """Return the first of the descriptions of runs, and how many `more` there are."""
    return runs if len(runs) <= SHOWN else [*runs[:SHOWN], f"and {len(runs) - SHOWN} more{more}"]


def shared_note(files: Iterable[str | Path]) -> str | None:
    """Return a sentence on the test documents whose text training has as well, by dataset; None = there are none.

    Args:
        files: of a table or figure; other files than run records are skipped.
    """
    shares: dict[str, float] = {}
    for record in (read_record(Path(file).parent) for file in files if Path(file).name == RUN):
        shares[record.dataset] = max(shares.get(record.dataset, 0), record.shared.get("test", 0))
    sizes = {dataset: f"{100 * share:.1f}" for dataset, share in shares.items() if share}
    found = [f"{dataset} {'less than 0.1' if size == '0.0' else size} %" for dataset, size in sizes.items()]
    return f"Test documents whose text is in training, too: {', '.join(found)}." if found else None


def copies_note(files: Iterable[str | Path]) -> str | None:
    """Return a sentence on seeds that are copies of one evaluation, by model and dataset; None = there are none.

    Args:
        files: of a table or figure; other files than run records are skipped.
    """
    runs = load_runs(Path(file).parent for file in files if Path(file).name == RUN)
    if runs.empty:
        return None
    cells = runs.groupby(["stage", "model", "dataset", "variant"], sort=False)
    counts = pd.DataFrame({"runs": cells["original"].nunique(), "seeds": cells.size()}).reset_index()
    copied = counts[counts["runs"] < counts["seeds"]].itertuples()
    found = [f"{each.model} on {each.dataset} ({each.runs} of {each.seeds} seeds)" for each in copied]
    return f"Seeds that repeat one evaluation count once: {', '.join(dict.fromkeys(found))}." if found else None


def load_tables(runs: pd.DataFrame, name: str, types: Mapping[str, type] | None = None) -> pd.DataFrame:
    """Return the rows of the table called `name` of every run that trained, with what names the run.

    Args:
        runs: frame of `load_runs`; those without a training loop have no such table.
        name: of the file, such as `history.csv`.
        types: of columns that are not read as numbers.

    Raises:
        DataError: tables are missing or damaged; all of them are named.
    """
    frames, problems = [], []
    for run in runs[runs["epochs"] > 0].itertuples():
        path = Path(run.folder) / name
        try:
            table = pd.read_csv(path, dtype=dict(types or {}))
        except (OSError, ValueError) as error:
            problems.append(f"{path}: not a table ({error}). Delete the run's folder and run it again.")
            continue
        frames.append(table.assign(**{field: getattr(run, field) for field in KEY}))
    if problems:
        raise DataError("\n".join(problems))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*KEY, "epoch"])


def select_grid(
    runs: pd.DataFrame,
    stage: str,
    models: Mapping[str, Collection[str]],
    columns: Sequence[str],
    variants: Sequence[str] = ("",),
) -> pd.DataFrame:
    """Return the runs of `stage` for every dataset and model, variant and seed.

    A seed is wanted if any run of the grid on that dataset has it.

    Args:
        runs: frame of `load_runs`.
        stage: name of the stage.
        models: models of the grid by dataset.
        columns: columns that each run needs a value in, unless it has no training loop.
        variants: names of the variants of the grid; that of a run without a search is empty.

    Raises:
        DataError: runs are missing, lack a value, or exist twice; all of them are named.
    """
    grid = runs.reindex(columns=list(dict.fromkeys([*runs, *KEY, "epochs", *columns])))
    cells = {(model, dataset) for dataset, names in models.items() for model in names}
    named = [pair in cells for pair in zip(grid["model"], grid["dataset"], strict=True)]
    grid = grid[pd.Series(named, grid.index, bool) & (grid["stage"] == stage) & grid["variant"].isin(variants)]
    cell = ["model", "dataset", "variant", "seed"]
    keys = [tuple(key) for key in grid[cell].itertuples(index=False)]
    seeds = {dataset: sorted({seed for _, other, _, seed in keys if other == dataset}) or ["any"] for dataset in models}
    places = [(names, [dataset], variants, seeds[dataset]) for dataset, names in models.items()]
    expected = [key for place in places for key in itertools.product(*place)]
    problems = [f"{_name(stage, *key)}: no record" for key in expected if key not in set(keys)]
    problems += [f"{_name(stage, *key)}: {count} records" for key, count in Counter(keys).items() if count > 1]
    trained = grid["epochs"].fillna(1) > 0
    for column in columns:
        empty, called = grid.loc[grid[column].isna() & trained, cell], SCORES.get(column, column)
        problems += [f"{_name(stage, *key)}: no value of {called}" for key in empty.itertuples(index=False)]
    if problems:
        unknown = [SCORES.get(column, column) for column in columns if len(grid) and grid[column].isna().all()]
        metrics = [name for name in grid.dropna(axis=1, how="all") if METRIC.match(name) and name not in SCORES]
        others = f" No run has {', '.join(unknown)}: name a quantity such as f1, or of {', '.join(metrics)}."
        remedy = "Let the missing runs finish, or leave their models or datasets out."
        raise DataError(f"the grid of {stage} has holes: {'; '.join(problems)}. {remedy}{others if unknown else ''}")
    return grid


def _name(stage: str, model: str, dataset: str, variant: str, seed: int | str) -> str:
    return "/".join([stage, model, dataset, *([variant] if variant else []), f"seed-{seed}"])
