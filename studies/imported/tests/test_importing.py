"""Foreign run records as ours: names, scores, searches, and what is refused."""

import itertools
import json
import logging
import math
import re
import shutil
from datetime import date, datetime, timedelta
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.core.errors import DataError, ProjectError
from lib.core.record import HISTORY
from lib.results.records import load_runs, load_tables
from studies.imported.importing import COLUMNS, import_runs

PRETRAINED = {"run": "E1_pre_mha_aa", "stage": "pretrain", "dataset": "wikipedia", "attention": "mha", "epochs": 2}
ADAPTED = {"run": "E1_tapt_mha_bb", "stage": "tapt", "dataset": "imdb", "attention": "mha", "epochs": 2}
ADAPTED |= {"starts_from": "E1_pre_mha"}
TUNED = {"run": "E1_fine_mha_cc", "stage": "finetune", "dataset": "imdb", "attention": "mha", "epochs": 3}
TUNED |= {"starts_from": "E1_tapt_mha", "batch_size": 8, "grad_accum_steps": 4, "learning_rate": 2e-5}
TUNED |= {"freeze_n_layers": 1, "classifier_dropout": 0.5, "pooling": "cls"}
LSH = {"attention": "lsh", "num_hashes": 2, "chunk_size": 64, "mask_within_chunks": False}
FAVOR = {"attention": "favor", "nb_features": 128}
SHARED = {"seed": 420, "peak_gpu_mem_mb": 2048.0, "runtime_s": 360.0}

VALIDATION, TEST = [0.5, 0.75, 0.25], [0.1, 0.2, 0.9]


def rows_of(run):
    """Return the history of a run; training and evaluation of an epoch are rows of their own, as trackers write."""
    rows = []
    for index in range(run["epochs"]):
        place = {"run": run["run"], "step": index, "elapsed_s": 100.0 * (index + 1)}
        rows.append(place | {"train/epoch": index + 1.0, "train/avg_epoch_loss": [3.0, 1.0, 2.0][index]})
        if run["stage"] == "finetune":
            scores = {"eval/f1_macro": VALIDATION[index], "test/f1_macro": TEST[index], "test/class_1_f1": TEST[index]}
            rows.append(place | {"eval/epoch": index + 1.0, "test/avg_prediction_entropy": 0.5} | scores)
        else:
            rows.append(place | {"eval/epoch": index + 1.0, "eval/loss": 5.0 - index})
    return rows


@pytest.fixture
def bring(tmp_path):
    """Import runs, with their histories or the rows given, and return their records by place."""

    def run(*runs, history=None):
        rows = [row for run in runs for row in rows_of(run)] if history is None else history
        pd.DataFrame([SHARED | run for run in runs]).to_parquet(tmp_path / "runs.parquet")
        # Columns that every tracker has, even if no run here fills them.
        table = pd.DataFrame(
            rows, columns=[*dict.fromkeys([*rows[0], *(key for row in rows for key in row), "test/epoch"])]
        )
        table.to_parquet(tmp_path / "history.parquet")
        folders = import_runs(tmp_path / "runs.parquet", tmp_path / "history.parquet", tmp_path / "out", "a machine")
        return {
            str(folder.relative_to(tmp_path / "out/runs")): json.loads((folder / "run.json").read_text())
            for folder in folders
        }

    return run


def test_places_and_scores_of_runs(bring, tmp_path):
    records = bring(PRETRAINED, ADAPTED, TUNED)
    assert list(records) == [
        "pretrain/sdpa/wikipedia/seed-420", "tapt/sdpa/imdb/seed-420", "finetune/sdpa/imdb/seed-420"
    ]  # fmt: skip
    record = records["finetune/sdpa/imdb/seed-420"]
    assert record["metrics"] == {
        "eval_f1_macro": 0.75,
        "test_f1_macro": 0.2,
        "test_f1_class_1": 0.2,
        "test_mean_entropy": 0.5,
        "train_loss": 1.0,
        "best_epoch": 2.0,
    }
    assert (record["seconds"], record["seconds_per_epoch"], record["peak_memory_mb"]) == (360, 120, 2048)
    assert (record["imported"], record["hardware"], record["task"]) == (
        "E1_fine_mha_cc", "a machine", "sequence_classification"
    )  # fmt: skip
    assert record["parents"] == {"start": {"path": "E1_tapt_mha_bb", "digest": None}}
    assert records["tapt/sdpa/imdb/seed-420"]["metrics"] == {"eval_loss": 4.0, "train_loss": 1.0}


def test_imported_records_read_by_our_code(bring, tmp_path):
    records = bring(PRETRAINED, ADAPTED, TUNED)
    runs = load_runs(tmp_path / "out/runs" / place for place in records)
    histories = load_tables(runs, HISTORY)
    assert runs["training_seconds"].tolist() == [360] * 3
    tuned = histories[histories["stage"] == "finetune"]
    assert tuned["epoch"].tolist() == [1, 2, 3]
    assert tuned["seconds"].tolist() == [100] * 3
    assert tuned["train_loss"].tolist() == [3, 1, 2]
    assert tuned["test_f1_macro"].tolist() == TEST


def test_names_of_models(bring):
    masked = PRETRAINED | LSH | {"run": "E2_pre_mask_dd", "mask_within_chunks": True}
    unmasked = PRETRAINED | LSH | {"run": "E2_pre_ee"}
    hybrid = ADAPTED | FAVOR | {"run": "E3_tapt_ff"}
    tuned = TUNED | FAVOR | {"run": "E3_fine_gg", "starts_from": "E3_tapt_ff"}
    assert {place.split("/")[1] for place in bring(PRETRAINED, masked, unmasked, ADAPTED, hybrid, tuned)} == {
        "sdpa", "lsh-h2-c64-masked", "lsh-h2-c64", "sdpa-then-favor-m128"
    }  # fmt: skip


def searched(pooling, seed, run):
    return TUNED | {"pooling": pooling, "seed": seed, "run": f"E1_search_{run}"}


def test_runs_of_a_search(bring, caplog):
    others = [
        ADAPTED | LSH | {"run": "E2_tapt_hh", "starts_from": None},
        TUNED | LSH | {"run": "E2_fine_ii", "starts_from": "E2_tapt", "pooling": "mean"},
    ]
    runs = [searched(pooling, seed, f"{pooling}{seed}") for pooling in ("cls", "mean") for seed in (1, 2)]
    with caplog.at_level(logging.INFO):
        records = bring(PRETRAINED, ADAPTED, *runs, *others)
    assert "finetune/sdpa/imdb: 2 settings, a search" in caplog.text
    place = "search/sdpa/imdb/freeze_layers-1+classifier_dropout-0.5+classifier_pooling"
    assert {name for name in records if name.startswith(("search", "finetune/sdpa"))} == {
        f"{place}-cls/seed-1", f"{place}-cls/seed-2", f"{place}-mean/seed-1", f"{place}-mean/seed-2",
        "finetune/sdpa/imdb/seed-1", "finetune/sdpa/imdb/seed-2",
    }  # fmt: skip
    assert records[f"{place}-cls/seed-2"]["variant"] == {
        "recipe.freeze_layers": 1, "task.classifier_dropout": 0.5, "task.classifier_pooling": "cls"
    }  # fmt: skip
    assert records["finetune/sdpa/imdb/seed-1"]["imported"] == "E1_search_mean1"
    assert records["finetune/sdpa/imdb/seed-1"]["variant"] == {}


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([PRETRAINED | {"runtime_s": None}], "runtime_s"),
        ([PRETRAINED | {"runtime_s": -5.0}], "runtime_s is -5.0"),
        ([PRETRAINED | {"seed": -1}], "seed is -1"),
        ([PRETRAINED | {"classifier_dropout": 5.0}], "classifier_dropout is 5.0"),
        ([PRETRAINED | {"epochs": 10**9}], "epochs"),
        ([PRETRAINED, PRETRAINED], "duplicated"),
        ([PRETRAINED | {"stage": "warm"}], "'warm'"),
        ([PRETRAINED | {"attention": "linear"}], "'linear'"),
        ([PRETRAINED | {"attention": "favor"}], "nb_features"),
        ([ADAPTED], "starts from E1_pre_mha"),
        ([PRETRAINED, PRETRAINED | {"run": "E1_pre_mha_zz", "seed": 1}, ADAPTED], "E1_pre_mha_aa, E1_pre_mha_zz"),
        ([PRETRAINED, PRETRAINED | {"run": "another"}], "E1_pre_mha_aa, another"),
    ],
)
def test_runs_that_are_unclear(bring, tmp_path, runs, message):
    with pytest.raises(DataError, match=message):
        bring(*runs, history=rows_of(PRETRAINED) if "epochs" in message else None)
    assert not (tmp_path / "out/runs").exists()


def test_gaps_in_a_history(bring, tmp_path):
    rows = rows_of(PRETRAINED) + rows_of(ADAPTED) + rows_of(TUNED)
    holes = [
        row
        for row in rows
        if not (row["run"] == "E1_pre_mha_aa" and 2.0 in (row.get("train/epoch"), row.get("eval/epoch")))
        and not (row["run"] == "E1_fine_mha_cc" and row.get("eval/epoch") == 3.0)
    ]
    with pytest.raises(DataError) as error:
        bring(PRETRAINED, ADAPTED, TUNED, history=holes)
    assert "E1_pre_mha_aa: 2 epochs, but the history has 1" in str(error.value)
    assert "E1_fine_mha_cc: no eval_f1_macro of epoch 3; E1_fine_mha_cc: no test_f1_macro of epoch 3" in str(
        error.value
    )
    assert "E1_tapt" not in str(error.value)
    assert not (tmp_path / "out/runs").exists()


def test_runs_that_are_there(bring):
    bring(PRETRAINED)
    with pytest.raises(DataError, match="out/runs"):
        bring(PRETRAINED)


HOSTILE = [
    "../../../../escaped", "/tmp/escaped", "..", ".a", "a/b", "imdb\nseed: 7", "imdb\n", "a\rb", "a\0b", "a'b\"c",
    "&a", "!!python/object:os.system", "a\u2028b", "a\u202eb", "", "a" * 5000,
]  # fmt: skip
"""Names that leave a folder, break a line or a configuration, or run code where it is read."""


@pytest.mark.extended
@pytest.mark.parametrize("column", ["dataset", "pooling", "stage", "attention", "starts_from"])
def test_hostile_names_in_columns(column, bring, tmp_path):
    """Each is refused, and nothing is written."""
    before = {tmp_path / "runs.parquet", tmp_path / "history.parquet"}
    for value in HOSTILE:
        with pytest.raises(ProjectError) as error:
            bring(PRETRAINED, ADAPTED, TUNED | {column: value}, searched("mean", 1, "x"))
        assert len(str(error.value)) < 2000
        assert str(error.value).isprintable()
        assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
        assert not (tmp_path / "out/runs").exists()


def test_hostile_names_of_runs(bring, tmp_path):
    """What foreign code calls a run is data."""
    for value in HOSTILE:
        records = bring(PRETRAINED | {"run": value}, ADAPTED | {"starts_from": value or None})
        assert records["pretrain/sdpa/wikipedia/seed-420"]["imported"] == value
        assert not value or records["tapt/sdpa/imdb/seed-420"]["parents"]["start"]["path"] == value
        text = (tmp_path / "out/runs/pretrain/sdpa/wikipedia/seed-420/config.yaml").read_text()
        assert list(yaml.safe_load(text)) == ["stage", "model", "dataset", "seed", "task", "backbone", "recipe"]
        assert len(text.split("\n")) == len(text.splitlines()) + 1
        shutil.rmtree(tmp_path / "out")


def test_epoch_with_two_values_of_a_metric(bring, tmp_path):
    """It is refused; the same value twice is one."""
    metric = "eval/f1_macro"
    rows = rows_of(TUNED | {"starts_from": None})
    changed = next(row for row in rows if metric in row)
    with pytest.raises(DataError, match=f"{metric} of epoch 1"):
        bring(TUNED | {"starts_from": None}, history=[*rows, changed | {metric: 0.625}])
    assert not (tmp_path / "out/runs").exists()
    assert bring(TUNED | {"starts_from": None}, history=[*rows, changed])


VALUES = [
    *("text", "", "\u2028", b"bytes", True, None, 0, -1, 2, 2**62, 0.5, -0.5, 1e300, math.inf, -math.inf, math.nan),
    *(date(2024, 1, 2), datetime(2024, 1, 2), timedelta(days=1), Decimal("0.5"), [1.0], ["a"], [], {"a": 1.0}),
]  # fmt: skip
"""What a Parquet file may hold in any column."""


def written(folder, runs, history):
    """Write tables of any values, and return their paths and that of the results."""
    for name, rows in (("runs", runs), ("history", history)):
        pa.parquet.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder / "runs.parquet", folder / "history.parquet", folder / "out"


def outcome(folder, runs, history):
    """Return the message of a refused import, else None; what was imported holds finite and possible numbers."""
    paths = written(folder, runs, history)
    try:
        places = import_runs(*paths)
    except DataError as error:
        assert not (folder / "out").exists()
        return str(error)
    for place in places:
        record = json.loads((place / "run.json").read_text())
        assert record["seconds"] > 0 <= record["peak_memory_mb"]
        assert all(math.isfinite(number) for number in record["metrics"].values())
        assert 0 <= record["variant"].get("task.classifier_dropout", 0) < 1
        assert 0 <= record["metrics"]["test_f1_macro"] <= 1
    return None


COMPLETE = SHARED | TUNED | LSH | {"starts_from": None}
WHOLE = [
    {"run": COMPLETE["run"], "elapsed_s": 60.0 * epoch, "train/epoch": epoch, "eval/epoch": epoch, "test/epoch": epoch}
    | {"train/avg_epoch_loss": 1.0, "eval/f1_macro": 0.5, "test/f1_macro": 0.5, "eval/note": 0.5}
    for epoch in (1, 2, 3)
]


@pytest.mark.extended
def test_any_value_in_a_run(tmp_path_factory):
    """It is imported, or refused by run and column."""
    assert outcome(tmp_path_factory.mktemp("complete"), [COMPLETE], WHOLE) is None
    for column, value in itertools.product(COLUMNS, VALUES):
        message = outcome(tmp_path_factory.mktemp("value"), [COMPLETE | {column: value}], WHOLE)
        if message is not None:
            run = value if isinstance(value, str) else "row 1"
            assert ascii(run if column == "run" else COMPLETE["run"])[1:-1] in message, value
            assert column in message or column.replace("_", " ") in message or column == "run", value


@pytest.mark.extended
def test_any_value_in_a_history(tmp_path_factory):
    """It is imported, or refused by run and column."""
    for column, value in itertools.product([*WHOLE[0], "any other", "eval/", "train/x/y"], VALUES):
        ours = column.replace("/", "_").replace("avg_epoch_loss", "loss")
        message = outcome(tmp_path_factory.mktemp("value"), [COMPLETE], [row | {column: value} for row in WHOLE])
        if message is not None:
            assert COMPLETE["run"] in message, value
            assert column in message or ours in message or (column == "run" and "history has none" in message), value


@pytest.mark.parametrize(("table", "fault"), [("runs", "several"), ("history", "no rows"), ("runs", "cannot be read")])
def test_tables_without_rows_or_with_doubled_columns(table, fault, tmp_path):
    *paths, out = written(tmp_path, [COMPLETE], WHOLE)
    path = tmp_path / f"{table}.parquet"
    found = pa.parquet.read_table(path)
    if fault == "no rows":
        pa.parquet.write_table(found.slice(0, 0), path)
    elif fault == "several":
        pa.parquet.write_table(found.append_column("run", found["run"]), path)
    else:
        path.write_text("run,stage\n")
    with pytest.raises(DataError, match=rf"{table}.parquet: .*{fault}"):
        import_runs(*paths, out)
    assert not out.exists()


@pytest.mark.extended
@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.integers(0, 4), min_size=5, max_size=5))
def test_runs_that_start_in_a_circle(tmp_path_factory, starts):
    folder = tmp_path_factory.mktemp("circles")
    runs = [
        COMPLETE | {"run": f"run{index}", "seed": index, "starts_from": None if start is None else f"run{start}"}
        for index, start in enumerate(starts)
    ]
    message = outcome(folder, runs, [row | {"run": run["run"]} for run in runs for row in WHOLE])
    circles = set()
    for index in range(5):
        place, steps = starts[index], 1
        while place is not None and place != index and steps < 5:
            place, steps = starts[place], steps + 1
        circles |= {f"run{index}"} if place == index else set()
    named = set(re.findall(r"(run\d): starts", message or ""))
    assert bool(named) == (message is not None) == bool(circles)
    assert named <= circles
