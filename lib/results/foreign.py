"""The published records of the reproduced study, brought into the frames that our own records give."""

from pathlib import Path

import pandas as pd

from lib.core.errors import DataError
from lib.core.kinds import MECHANISMS

METRICS = {
    "train_avg_epoch_loss": "train_loss",
    "avg_prediction_confidence": "mean_confidence",
    "avg_prediction_entropy": "mean_entropy",
    "top3_accuracy": "top_3_accuracy",
    "top5_accuracy": "top_5_accuracy",
}


def load_foreign(folder: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the runs and the histories of a folder that holds `runs.parquet` and `history.parquet`.

    The runs have the columns of `lib.results.records.load_runs` as far as the study recorded them, and the settings
    of its search (`freeze_n_layers`, `pooling`, `classifier_dropout`), by which to choose among runs of one key.
    `train_loss` is the lowest of the epochs; other metrics are those of the epoch with the best validation macro-F1.
    Times cover the whole run, evaluations included, since the study recorded no others.

    Raises:
        DataError: a file is missing or lacks a column.
    """
    folder = Path(folder)
    try:
        runs = pd.read_parquet(folder / "runs.parquet")
        histories = _histories(pd.read_parquet(folder / "history.parquet"))
        runs["model"] = runs.apply(_model, axis=1)
        runs["seconds"] = runs["runtime_s"]
        runs["seconds_per_epoch"] = runs["runtime_s"] / runs["epochs"]
        runs["peak_memory_mb"] = runs["peak_gpu_mem_mb"]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{folder}: not the published records ({error!r}). Expected runs and history.parquet."
        ) from error
    runs["peak_memory_kind"] = "gpu"

    best = histories.dropna(subset="eval_f1_macro").sort_values("eval_f1_macro", ascending=False, kind="stable")
    best = best.groupby("run").first().rename(columns={"epoch": "best_epoch"}).drop(columns="train_loss")
    lowest = histories.groupby("run")["train_loss"].min()
    runs = runs.join(best, on="run").join(lowest, on="run")
    return runs, histories.join(runs.set_index("run")[["stage", "model", "dataset", "seed"]], on="run")


def _histories(rows: pd.DataFrame) -> pd.DataFrame:
    # The tracker wrote training and evaluation of an epoch as separate rows, each with an epoch column of its own.
    epochs = [f"{part}/epoch" for part in ("train", "eval", "test")]
    rows = rows.assign(epoch=rows[epochs].bfill(axis=1).iloc[:, 0]).drop(columns=epochs)
    merged = rows.groupby(["run", "epoch"], as_index=False).first()  # the first that is not null, by column
    names = {column: column.replace("/", "_") for column in merged.columns}
    for column, name in names.items():
        for foreign, ours in METRICS.items():
            name = name.replace(foreign, ours)
        names[column] = name
    return merged.rename(columns=names)


def _model(run: pd.Series) -> str:
    parameters = {
        "mha": {"kind": "sdpa"},
        "lsh": {"kind": "lsh", "num_hashes": run["num_hashes"], "chunk_size": run["chunk_size"]},
        "favor": {"kind": "favor", "nb_features": run["nb_features"]},
    }[run["attention"]]
    name = MECHANISMS.parse(parameters).name()
    return f"{name}-masked" if run["mask_within_chunks"] is True else name
