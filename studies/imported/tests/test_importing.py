"""Foreign run records as ours: names, scores, searches, and what is refused."""

import json
import logging
import math
import re
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


def test_runs_stand_where_ours_would_with_the_scores_of_the_best_epoch(bring, tmp_path):
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


def test_what_is_not_known_is_null(bring):
    record = bring(PRETRAINED)["pretrain/sdpa/wikipedia/seed-420"]
    unknown = [name for name, value in record.items() if value in (None, {})]
    assert unknown == [
        "variant", "parents", "parameters", "steps", "tokens", "tokens_per_second", "precision", "instruction_set",
        "kernels", "approximated", "shared", "chosen", "versions", "git_commit", "code", "files",
    ]  # fmt: skip


def test_our_code_reads_what_was_imported(bring, tmp_path):
    records = bring(PRETRAINED, ADAPTED, TUNED)
    runs = load_runs(tmp_path / "out/runs" / place for place in records)
    histories = load_tables(runs, HISTORY)
    assert runs["training_seconds"].tolist() == [360] * 3
    tuned = histories[histories["stage"] == "finetune"]
    assert tuned["epoch"].tolist() == [1, 2, 3]
    assert tuned["seconds"].tolist() == [100] * 3
    assert tuned["train_loss"].tolist() == [3, 1, 2]
    assert tuned["test_f1_macro"].tolist() == TEST


def test_settings_are_kept_as_far_as_they_are_known(bring, tmp_path):
    bring(PRETRAINED, ADAPTED, TUNED)
    settings = yaml.safe_load((tmp_path / "out/runs/finetune/sdpa/imdb/seed-420/config.yaml").read_text())
    assert settings == {
        "stage": "finetune", "model": "sdpa", "dataset": "imdb", "seed": 420,
        "task": {"kind": "sequence_classification", "classifier_dropout": 0.5, "classifier_pooling": "cls"},
        "backbone": {"mechanism": {"kind": "sdpa"}},
        "recipe": {"epochs": 3, "learning_rate": 2e-5, "batch_size": 32, "freeze_layers": 1},
    }  # fmt: skip


def test_a_model_is_called_by_every_mechanism_on_its_way(bring):
    masked = PRETRAINED | LSH | {"run": "E2_pre_mask_dd", "mask_within_chunks": True}
    unmasked = PRETRAINED | LSH | {"run": "E2_pre_ee"}
    hybrid = ADAPTED | FAVOR | {"run": "E3_tapt_ff"}
    tuned = TUNED | FAVOR | {"run": "E3_fine_gg", "starts_from": "E3_tapt_ff"}
    assert {place.split("/")[1] for place in bring(PRETRAINED, masked, unmasked, ADAPTED, hybrid, tuned)} == {
        "sdpa", "lsh-h2-c64-masked", "lsh-h2-c64", "sdpa-then-favor-m128"
    }  # fmt: skip


def searched(pooling, seed, run):
    return TUNED | {"pooling": pooling, "seed": seed, "run": f"E1_search_{run}"}


def test_runs_with_several_settings_are_a_search_and_those_of_the_other_models_count(bring, caplog):
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


def test_a_search_whose_choice_nothing_tells_counts_as_nothing_else(bring):
    records = bring(PRETRAINED, ADAPTED, searched("cls", 1, "x"), searched("mean", 1, "y"))
    assert not [name for name in records if name.startswith("finetune")]
    assert len([name for name in records if name.startswith("search")]) == 2


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([PRETRAINED | {"runtime_s": None}], "E1_pre_mha_aa: no value of runtime_s"),
        ([PRETRAINED, PRETRAINED], "E1_pre_mha_aa: duplicated"),
        ([PRETRAINED | {"stage": "warm"}], "stage 'warm' is none of pretrain, tapt, finetune"),
        (
            [PRETRAINED | {"attention": "linear"}],
            "E1_pre_mha_aa: attention and its parameters make no mechanism .'linear' is none of mha, lsh, favor",
        ),
        (
            [PRETRAINED | {"attention": "favor"}],
            "E1_pre_mha_aa: attention and its parameters make no mechanism .no value of nb_features",
        ),
        ([ADAPTED], "E1_tapt_mha_bb: starts from E1_pre_mha, which is not there"),
        (
            [PRETRAINED, PRETRAINED | {"run": "E1_pre_mha_zz", "seed": 1}, ADAPTED],
            "starts from E1_pre_mha, which is E1_pre_mha_aa, E1_pre_mha_zz",
        ),
        (
            [PRETRAINED, PRETRAINED | {"run": "another"}],
            "pretrain/sdpa/wikipedia/seed-420: E1_pre_mha_aa, another are the same run",
        ),
    ],
)
def test_unclear_runs_are_refused_and_nothing_is_written(bring, tmp_path, runs, message):
    with pytest.raises(DataError, match=f"{message}.*nothing was imported"):
        bring(*runs)
    assert not (tmp_path / "out/runs").exists()


def test_every_gap_in_a_history_is_named(bring, tmp_path):
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


def test_a_missing_column_is_named(bring, tmp_path):
    with pytest.raises(DataError, match=r"runs.parquet: .*attention, epochs"):
        bring(
            {key: value for key, value in PRETRAINED.items() if key not in ("attention", "epochs")},
            history=rows_of(PRETRAINED),
        )


def test_runs_that_are_there_are_not_replaced(bring):
    bring(PRETRAINED)
    with pytest.raises(DataError, match="out/runs"):
        bring(PRETRAINED)


HOSTILE = {
    "above": "../../../../escaped",
    "absolute": "/tmp/escaped",
    "above alone": "..",
    "hidden": ".a",
    "folder": "a/b",
    "key": "imdb\nseed: 7",
    "newline at the end": "imdb\n",
    "carriage return": "a\rb",
    "nul": "a\0b",
    "colon": "a: b",
    "quote": "a'b\"c",
    "anchor": "&a",
    "alias": "*a",
    "tag": "!!python/object:os.system",
    "line separator": "a\u2028b",
    "next line": "a\x85b",
    "direction": "a\u202eb",
    "space": "a b",
    "empty": "",
    "long": "a" * 5000,
}


@pytest.mark.parametrize("column", ["dataset", "pooling", "stage", "attention", "starts_from"])
@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_a_name_that_no_configuration_would_take_is_refused_and_writes_nothing(value, column, bring, tmp_path):
    before = {tmp_path / "runs.parquet", tmp_path / "history.parquet"}
    with pytest.raises(ProjectError) as error:
        bring(PRETRAINED, ADAPTED, TUNED | {column: value}, searched("mean", 1, "x"))
    assert len(str(error.value)) < 2000
    assert str(error.value).isprintable()
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "out/runs").exists()


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_what_foreign_code_calls_a_run_is_data(value, bring, tmp_path):
    records = bring(PRETRAINED | {"run": value}, ADAPTED | {"starts_from": value or None})
    assert records["pretrain/sdpa/wikipedia/seed-420"]["imported"] == value
    assert not value or records["tapt/sdpa/imdb/seed-420"]["parents"]["start"]["path"] == value
    text = (tmp_path / "out/runs/pretrain/sdpa/wikipedia/seed-420/config.yaml").read_text()
    assert list(yaml.safe_load(text)) == ["stage", "model", "dataset", "seed", "task", "backbone", "recipe"]
    assert len(text.split("\n")) == len(text.splitlines()) + 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "E1_pre_mha_aa: seed is -1"),
        ({"seed": 2**40}, "E1_pre_mha_aa: seed is 1099511627776"),
        ({"runtime_s": float("inf")}, "E1_pre_mha_aa: runtime_s is inf"),
        ({"runtime_s": -5.0}, "E1_pre_mha_aa: runtime_s is -5.0"),
        ({"runtime_s": "an hour"}, "E1_pre_mha_aa: runtime_s is 'an hour'"),
        ({"peak_gpu_mem_mb": float("-inf")}, "E1_pre_mha_aa: peak_gpu_mem_mb is -inf"),
        ({"classifier_dropout": 5.0}, "E1_pre_mha_aa: classifier_dropout is 5.0"),
        ({"run": 7}, "row 1: run is 7"),
        ({"run": None}, "row 1: no value of run"),
        ({"dataset": ["imdb"]}, "E1_pre_mha_aa: dataset is .'imdb'."),
        ({"dataset": b"imdb"}, "E1_pre_mha_aa: dataset is b'imdb'"),
    ],
)
def test_values_of_another_kind_are_refused(changes, message, bring, tmp_path):
    with pytest.raises(DataError, match=message):
        bring(PRETRAINED | changes, history=rows_of(PRETRAINED))
    assert not (tmp_path / "out/runs").exists()


@pytest.mark.parametrize("metric", ["train/avg_epoch_loss", "eval/f1_macro", "test/class_1_f1"])
def test_an_epoch_with_two_values_of_a_metric_is_refused_and_the_same_value_twice_is_one(metric, bring, tmp_path):
    rows = rows_of(TUNED | {"starts_from": None})
    changed = next(row for row in rows if metric in row)
    with pytest.raises(DataError, match=f"E1_fine_mha_cc: {metric} of epoch 1 has several values"):
        bring(TUNED | {"starts_from": None}, history=[*rows, changed | {metric: 0.625}])
    assert not (tmp_path / "out/runs").exists()
    assert bring(TUNED | {"starts_from": None}, history=[*rows, changed])


@pytest.mark.parametrize("epochs", [0, -1, 10**9])
def test_epochs_that_the_history_lacks_are_refused_at_once(epochs, bring):
    with pytest.raises(DataError, match="E1_pre_mha_aa: "):
        bring(PRETRAINED | {"epochs": epochs}, history=rows_of(PRETRAINED))


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


def test_complete_tables_are_imported(tmp_path):
    assert outcome(tmp_path, [COMPLETE], WHOLE) is None


@pytest.mark.parametrize("column", COLUMNS)
def test_whatever_a_run_holds_is_imported_or_refused_by_run_and_column(column, tmp_path_factory):
    for value in VALUES:
        message = outcome(tmp_path_factory.mktemp("value"), [COMPLETE | {column: value}], WHOLE)
        if message is not None:
            run = value if isinstance(value, str) else "row 1"
            assert ascii(run if column == "run" else COMPLETE["run"])[1:-1] in message, value
            assert column in message or column.replace("_", " ") in message or column == "run", value


@pytest.mark.parametrize("column", [*WHOLE[0], "any other", "eval/", "train/x/y"])
def test_whatever_a_history_holds_is_imported_or_refused_by_run_and_column(column, tmp_path_factory):
    ours = column.replace("/", "_").replace("avg_epoch_loss", "loss")
    for value in VALUES:
        message = outcome(tmp_path_factory.mktemp("value"), [COMPLETE], [row | {column: value} for row in WHOLE])
        if message is not None:
            assert COMPLETE["run"] in message, value
            assert column in message or ours in message or (column == "run" and "history has none" in message), value


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("train/epoch", "one", "train/epoch is 'one'"),
        ("elapsed_s", "an hour", "elapsed_s is 'an hour'"),
        ("elapsed_s", None, "no elapsed_s of epoch 1"),
        ("eval/note", "good", "eval/note is 'good'"),
        ("eval/note", date(2024, 1, 2), "eval/note is datetime.date(2024, 1, 2)"),
        ("eval/note", [1.0], "eval/note is [1.0]"),
        ("eval/f1_macro", math.inf, "eval/f1_macro is inf"),
        ("test/f1_macro", 93.5, "test/f1_macro is 93.5"),
        ("test/epoch", 9, "train/epoch, eval/epoch, test/epoch of one row are 1, 9"),
    ],
)
def test_what_is_no_number_or_cannot_be_is_refused(column, value, message, tmp_path):
    found = outcome(tmp_path, [COMPLETE], [row | {column: value} for row in WHOLE])
    assert f"{COMPLETE['run']}: {message}" in found
    assert "nothing was imported" in found


def test_rows_of_runs_that_were_taken_out_and_other_columns_are_not_read(tmp_path):
    rows = [row | {"eval/note": "5", "host": "gpu-1"} for row in WHOLE]
    assert outcome(tmp_path, [COMPLETE], [*rows, WHOLE[0] | {"run": "failed", "eval/note": "bad"}]) is None


def test_a_time_that_runs_backwards_is_refused(tmp_path):
    rows = [row | {"elapsed_s": 100.0 - row["elapsed_s"] / 10} for row in WHOLE]
    assert f"{COMPLETE['run']}: elapsed_s decreases" in outcome(tmp_path, [COMPLETE], rows)


@pytest.mark.parametrize(
    "columns",
    [
        ("eval/avg_prediction_confidence", "eval/mean_confidence"),
        ("train/avg_epoch_loss", "train/loss"),
        ("test/class_1_f1", "test/f1_class_1"),
    ],
    ids=" ".join,
)
def test_metrics_of_one_name_are_refused(columns, tmp_path):
    message = outcome(tmp_path, [COMPLETE], [row | dict.fromkeys(columns, 0.5) for row in WHOLE])
    assert all(column in message for column in columns)


@pytest.mark.parametrize("table", ["runs", "history"])
@pytest.mark.parametrize("fault", ["no rows", "several", "cannot be read", "no such file"])
def test_a_table_without_rows_or_with_doubled_columns_or_none_at_all_is_named(table, fault, tmp_path):
    *paths, out = written(tmp_path, [COMPLETE], WHOLE)
    path = tmp_path / f"{table}.parquet"
    found = pa.parquet.read_table(path)
    if fault == "no rows":
        pa.parquet.write_table(found.slice(0, 0), path)
    elif fault == "several":
        pa.parquet.write_table(found.append_column("run", found["run"]), path)
    elif fault == "cannot be read":
        path.write_text("run,stage\n")
    else:
        path.unlink()
    with pytest.raises(DataError, match=rf"{table}.parquet: .*{fault}|{table}.parquet.*No such file"):
        import_runs(*paths, out)
    assert not out.exists()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.integers(0, 4), min_size=5, max_size=5))
def test_runs_that_start_in_a_circle_are_refused_and_no_others(tmp_path_factory, starts):
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


def test_a_model_with_too_many_mechanisms_on_its_way_is_refused_by_name(tmp_path):
    runs = [
        COMPLETE | {"run": f"run{index}", "chunk_size": 64 + index, "starts_from": f"run{index - 1}" if index else None}
        for index in range(12)
    ]
    message = outcome(tmp_path, runs, [row | {"run": run["run"]} for run in runs for row in WHOLE])
    assert "run11: starts_from gives the model the name lsh-h2-c64-then-" in message
