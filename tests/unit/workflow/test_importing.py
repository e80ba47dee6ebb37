"""Foreign run records as ours: names, scores, searches, and what is refused."""

import json
import logging

import pandas as pd
import pytest
import yaml

from lib.core.errors import DataError, ProjectError
from lib.results.records import load_histories, load_runs
from lib.workflow.commands.importing import import_runs

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
        "kernels", "approximated", "shared", "versions", "git_commit", "code", "files",
    ]  # fmt: skip


def test_our_code_reads_what_was_imported(bring, tmp_path):
    records = bring(PRETRAINED, ADAPTED, TUNED)
    runs = load_runs(tmp_path / "out/runs" / place for place in records)
    histories = load_histories(runs)
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
        ([PRETRAINED | {"attention": "linear"}], "E1_pre_mha_aa: no mechanism .'linear' is none of mha, lsh, favor"),
        ([PRETRAINED | {"attention": "favor"}], "E1_pre_mha_aa: no mechanism .no value of nb_features"),
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
        ({"seed": -1}, "seed is '-1'"),
        ({"seed": 2**40}, "seed is '1099511627776'"),
        ({"runtime_s": float("inf")}, "runtime_s is inf, no finite number"),
        ({"peak_gpu_mem_mb": float("-inf")}, "peak_gpu_mem_mb is -inf"),
        ({"run": 7}, "column run holds '7', which is no text"),
        ({"dataset": ["imdb"]}, "column dataset holds .*, which is no text"),
        ({"dataset": b"imdb"}, "column dataset holds .*, which is no text"),
        ({"runtime_s": "an hour"}, "cannot be read"),
    ],
)
def test_values_of_another_kind_are_refused(changes, message, bring, tmp_path):
    with pytest.raises(DataError, match=message):
        bring(PRETRAINED | changes, history=rows_of(PRETRAINED))
    assert not (tmp_path / "out/runs").exists()


@pytest.mark.parametrize("epochs", [0, -1, 10**9])
def test_epochs_that_the_history_lacks_are_refused_at_once(epochs, bring):
    with pytest.raises(DataError, match="E1_pre_mha_aa: "):
        bring(PRETRAINED | {"epochs": epochs}, history=rows_of(PRETRAINED))
