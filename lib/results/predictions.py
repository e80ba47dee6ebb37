"""Predictions of finished runs: one by one, by group of documents, and side by side as statistics compare them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.core.record import CONFIG, PREDICTIONS, RUN, read_record
from lib.evaluation.statistics import FEW_DOCUMENTS, Paired, PairedPredictions, PairedSpans
from lib.results.quantities import CHARACTERS, MACRO, MICRO

CLASSES = ["label", "prediction"]
"""Columns of true and predicted classes."""
HELD = {MACRO: "in the rarest class", CHARACTERS: "with a span", MICRO: "with a label"}
"""Which documents an F1 rests on, by its metric."""
SPANS = ["true_positives", "false_positives", "false_negatives"]
"""Numbers of characters, which a run that finds spans leaves of every document."""


def finds_spans(folder: str | Path) -> bool:
    """Whether a run found spans; not if its predictions cannot be read, which loading them reports."""
    return set(SPANS) <= set(_types(folder))


def has_sets(folder: str | Path) -> bool:
    """Whether a run gave sets of classes: a list per document, as labels of words are, but with probabilities."""
    types = _types(folder)
    return "probabilities" in types and types["label"].startswith("list")


def _types(folder: str | Path) -> dict[str, str]:
    """Return the types of the columns of a run's predictions; of none if they cannot be read."""
    try:
        schema = pq.read_schema(_files(folder, PREDICTIONS)[0])
    except (OSError, ValueError):
        return {}
    return dict(zip(schema.names, map(str, schema.types), strict=True))


def _files(folder: str | Path, name: str) -> list[Path]:
    """Return the files of a run of this name: one, or those of its folds if it is `lib.results.records.pooled`."""
    return [Path(each) / name for each in str(folder).splitlines()]


def load_predictions(folder: str | Path, columns: Sequence[str], split: str = "test") -> pd.DataFrame:
    """Return the predictions of a run on a split, one row per document.

    Args:
        folder: of the run, or several lines with those of its folds, whose documents are joined.
        columns: of `id`, `label`, `prediction`, `probabilities`, `group`; of spans, also of `SPANS`.
        split: `validation` or `test`.

    Raises:
        DataError: the file cannot be read, or has no such column, an id twice, or no document of the split.
    """
    parts = []
    for path in _files(folder, PREDICTIONS):
        try:
            parts.append(pd.read_parquet(path, filters=[("split", "==", split)])[list(columns)])
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"{path}: lacks predictions ({error!r}). Repeat the run.") from error
        if parts[-1].empty:
            raise DataError(f"{path}: has no document of the split {split}. Repeat the run.")
    documents = pd.concat(parts, ignore_index=True)
    if "id" in documents and documents["id"].duplicated().any():
        twice = documents.loc[documents["id"].duplicated(), "id"].iloc[0]
        raise DataError(f"{path}: has document {twice} twice. Check the ids of the dataset.")
    return documents


def class_probabilities(folder: str | Path, split: str = "test") -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of documents [n], and their predicted probabilities [n, C].

    Of sets, each class of a document is a decision of its own, see `decided`, with two probabilities: [n * C, 2].

    Raises:
        DataError: see `load_predictions`, or the predictions hold no probabilities.
    """
    documents = load_predictions(folder, ["label", "probabilities"], split)
    try:
        probabilities = np.stack(documents["probabilities"].to_list())
        if probabilities.ndim == 2 and ((probabilities >= 0) & (probabilities < 1.001)).all():
            labels = decided(documents["label"], probabilities.shape[1])
            if has_sets(folder):
                without = np.maximum(1 - probabilities, 2.0**-25)  # a float32 of 1 may be so far from it
                probabilities = np.stack([without, probabilities], axis=-1).reshape(-1, 2)
            return labels, probabilities
        raise ValueError("expected numbers between 0 and 1")
    except (ValueError, TypeError) as error:
        raise DataError(f"{folder}: its predictions hold no probabilities ({error}). Repeat the run.") from error


def decided(classes: pd.Series, number: int) -> np.ndarray:
    """Return the classes of documents [n]; of sets whether documents have each class, 1 or 0 [n * C], by documents.

    Args:
        classes: true or predicted ones of each document [n].
        number: C.
    """
    if pd.api.types.is_numeric_dtype(classes):
        return classes.to_numpy(dtype=int)
    from lib.evaluation.label_sets import indicators  # scikit-learn starts slowly

    return indicators(classes, number).toarray().ravel().astype(int)


def scores_note(files: Iterable[str | Path]) -> str | None:
    """Return a sentence on how many test documents and seeds the scores of runs are of; None = none has scores on test.

    Args:
        files: of a table or figure; other files than run records are skipped.

    Raises:
        DataError: a record or predictions cannot be read.
    """
    folders: dict[tuple[str, str], dict[int, Path]] = {}
    for folder in (Path(file).parent for file in files if Path(file).name == RUN):
        record = read_record(folder)
        if any(name.startswith("test_") for name in record.metrics):
            folders.setdefault((record.stage, record.dataset), {}).setdefault(record.seed, folder)
    of_one_stage = len({stage for stage, _ in folders}) == 1
    places: dict[str, list[str]] = {}
    for (stage, dataset), of_seeds in folders.items():
        first = next(iter(of_seeds.values()))
        known = (first / PREDICTIONS).exists()  # imported runs leave none
        documents = f"{len(load_predictions(first, ['split'])):,} documents, " if known else ""
        size = f"{documents}{len(of_seeds)} seed{'s' * (len(of_seeds) > 1)}"
        places.setdefault(size, []).append(dataset if of_one_stage else f"{stage}/{dataset}")
    found = "; ".join(f"{', '.join(names)} ({size})" for size, names in places.items())
    return f"Scores on test: {found}." if found else None


def load_items(folder: str | Path, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Return `label` and `prediction` of every labelled item on test: a document, or a labelled word of one.

    Args:
        folder: of the run.
        columns: further ones of each document: `id`, `group`.

    Raises:
        DataError: the file cannot be read, has no such column, an id twice, or no labelled item of test.
    """
    documents = load_predictions(folder, [*CLASSES, *columns])
    path = Path(folder) / PREDICTIONS
    try:
        items = documents.explode(CLASSES).dropna(subset="label")
        items = items.astype({"label": int, "prediction": int})
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: its predictions are no classes ({error}). Repeat the run.") from error
    if items.empty:
        raise DataError(f"{path}: has no labelled item of the split test. Check the labels of the dataset.")
    return items


def class_names(folder: str | Path) -> list[str]:
    """Return the names of a run's classes, in the order of their numbers.

    Raises:
        ConfigError: its settings cannot be read.
        DataError: they name no classes.
    """
    path = _files(folder, CONFIG)[0]
    try:
        return list(read_mapping(path)["labels"])
    except (KeyError, TypeError) as error:
        raise DataError(f"{path}: names no classes ({error!r}). Repeat the run.") from error


def printed_classes(names: Sequence[str], made: Collection[str]) -> list[str]:
    """Return what classes are called where a table or figure also has rows or columns of its own, called `made`.

    A class of such a name becomes `class <name>`; all others keep their names.
    """
    printed: list[str] = []
    for name in names:
        shown = name
        while shown in made or (shown != name and shown in [*names, *printed]):
            shown = f"class {shown}"
        printed.append(shown)
    return printed


def accuracy_by_group(grid: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy on test in percent of every row and group of documents, such as their distance or length.

    The accuracy of a group is the share of right ones among the labelled items of all its documents: the documents
    themselves, or their labelled tokens.

    Args:
        grid: runs, as `Scope.grid` gives them.

    Returns:
        `mean` and standard deviation `std` over the seeds (NaN with one seed), by `dataset`, `row` and `group`.

    Raises:
        DataError: a run has no predictions by group.
    """
    shares = {}
    for run in without_copies(grid).itertuples():
        items = load_items(run.folder, ["group"])
        shares[run.dataset, run.row, run.seed] = (items["label"] == items["prediction"]).groupby(items["group"]).mean()
    percent = 100 * pd.concat(shares, names=["dataset", "row", "seed"])
    return percent.groupby(["dataset", "row", "group"]).agg(["mean", "std"])


def paired_predictions(grid: pd.DataFrame) -> Paired:
    """Return what runs predicted on the test documents of one dataset, models in the order of the grid's rows.

    Args:
        grid: runs on one dataset, as `Scope.grid` gives them.

    Raises:
        DataError: a run has no predictions, or other test documents or labels than the first.
    """
    by_row = grid.sort_values("seed", kind="stable").groupby("row", sort=False)
    folders, originals = (by_row[name].agg(list).reindex(grid["row"].unique()) for name in ("folder", "original"))
    distinct = np.transpose([*originals])  # [S, M]
    in_order = [Path(folder) for of_seeds in zip(*folders, strict=True) for folder in of_seeds]
    if finds_spans(in_order[0]):
        runs = _alike(in_order, _spans)
        counts = np.reshape([run[SPANS].to_numpy().T for run in runs], (-1, len(folders), 3, len(runs[0])))
        return PairedSpans(list(folders.index), *np.moveaxis(counts, 2, 0), runs=distinct)
    models, classes, runs = list(folders.index), len(class_names(in_order[0])), _alike(in_order, _items)
    predictions = np.reshape([run["prediction"].to_numpy() for run in runs], (-1, len(folders), len(runs[0])))
    labels, documents = runs[0]["label"].to_numpy(), pd.factorize(runs[0].index)[0]
    if has_sets(in_order[0]):
        return PairedPredictions.of_sets(models, labels, predictions, classes, grid["score"].iloc[0], runs=distinct)
    return PairedPredictions(models, labels, predictions, documents, classes, runs=distinct)


def scores_of(paired: Paired, confidence: float) -> pd.DataFrame:
    """Return F1 in percent and the ends of its interval: `score`, `low` and `high`, a row per model."""
    scores = {model: paired.score(number) for number, model in enumerate(paired.models)}
    rows = {model: [score.mean, *score.score_interval(confidence)] for model, score in scores.items()}
    return 100 * pd.DataFrame.from_dict(rows, orient="index", columns=["score", "low", "high"])


def by_validation(grid: pd.DataFrame) -> list[str]:
    """Return the rows of a grid, as `Scope.grid` gives it, the highest F1 on validation first, as mean of the runs."""
    means = grid.reindex(columns=["row", "eval_score"]).groupby("row", sort=False)["eval_score"].mean()
    return list(means.sort_values(ascending=False, kind="stable").index)


def without_copies(grid: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of a grid, as `Scope.grid` gives it, without copies of the evaluation of another seed."""
    return grid[grid["folder"] == grid["original"]]


def repetitions(grid: pd.DataFrame, by: Sequence[str] = ("dataset", "row")) -> pd.Series:
    """Return how many different runs a model has; copies of one evaluation are one.

    Args:
        grid: as `Scope.grid` gives it.
        by: columns that tell models and their places apart.
    """
    return without_copies(grid).groupby(list(by), sort=False).size()


def interval_notes(grid: pd.DataFrame, confidence: float) -> Iterator[str]:
    """Yield what intervals of `lib.evaluation.statistics.Estimate` are, and why those of these runs may be too short.

    Args:
        grid: runs that have intervals, as `Scope.grid` gives them.
        confidence: of the intervals.

    Raises:
        DataError: a run has no predictions.
    """
    percent = f"Intervals: {100 * confidence:g} %"
    if (repetitions(grid) > 1).any():
        yield f"{percent}, seeds by Student's t and test documents by the jackknife, their variances together."
    else:
        yield f"{percent}, test documents by the jackknife."
    yield from independence_notes(grid)
    few, absent = [], []
    for dataset, runs in grid.groupby("dataset", sort=False):
        paired = paired_predictions(runs.head(1))
        held = paired.documents_of_classes
        documents = min(held[held > 0], default=0)
        if documents < FEW_DOCUMENTS:
            few.append(f"{dataset} ({documents} {HELD[paired.metric]})")
        if documents and not held.all():
            absent.append(f"{dataset} ({np.count_nonzero(held == 0):,} of {len(held):,})")
    if absent:
        yield f"Classes without a test document: {', '.join(absent)}. Each counts as 0 in macro-F1."
    if few:
        said = f"Classes with fewer than {FEW_DOCUMENTS} test documents: {', '.join(few)}"
        yield f"{said}. Intervals of F1 can be too short there."


def independence_notes(grid: pd.DataFrame) -> Iterator[str]:
    """Yield why seeds may say too little: there is one alone, or they start from the same weights.

    Args:
        grid: as `Scope.grid` gives it.
    """
    several = repetitions(grid).groupby("dataset").max() > 1
    if not several.all():
        on = "" if not several.any() else f" on {', '.join(several.index[~several])}"
        yield f"One seed{on}: there is no variance over seeds, so intervals and tests hold for the trained models as"
        yield "they are, not for what other seeds would give."
    if shared := sorted({row for _, row in shared_starts(grid)}):
        yield f"The seeds of {', '.join(shared)} start from the same weights, at once or stages earlier, so they are no"
        yield "independent repetitions: intervals and tests leave out how much another pretraining would change the"
        yield "scores."


def shared_starts(grid: pd.DataFrame) -> set[tuple[str, str]]:
    """Return dataset and row of the runs, as `Scope.grid` gives them, whose seeds start from the same weights."""
    starts = grid.dropna(subset="start").groupby(["dataset", "row"])["start"]
    narrowed = starts.nunique()[starts.size() > starts.nunique()].index
    return {*narrowed, *grid.loc[grid["one_start"], ["dataset", "row"]].itertuples(index=False, name=None)}


def _spans(folder: Path) -> pd.DataFrame:
    """Return the counts of a run by document, and its true spans as text, which can be compared."""
    documents = load_predictions(folder, ["id", "label", *SPANS]).set_index("id").sort_index()
    return documents.assign(label=[str([span.tolist() for span in spans]) for spans in documents["label"]])


def _items(folder: Path) -> pd.DataFrame:
    """Return the true and the predicted class of each labelled item, or the sets of each document."""
    if has_sets(folder):
        return load_predictions(folder, ["id", *CLASSES]).set_index("id").map(tuple).sort_index()
    return load_items(folder, ["id"]).set_index("id").sort_index(kind="stable")


def _alike(folders: Sequence[Path], read: Callable[[Path], pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the predictions of each run, all for the same documents with the same labels."""
    runs = [read(folder) for folder in folders]
    for folder, run in zip(folders, runs, strict=True):
        if not run["label"].equals(runs[0]["label"]):
            said = f"{folder / PREDICTIONS}: other test documents, or other labels, than those of {folders[0]}."
            raise DataError(f"{said} Repeat the run that is older than its data.")
    return runs
