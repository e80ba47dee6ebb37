"""Synthetic run records, written as a finished run writes them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from lib.core.files import file_digest
from lib.core.record import CONFIG, GEOMETRY, HISTORY, PREDICTIONS, RUN, TRIALS, RunRecord, read_record
from lib.core.record import write_run as write_record
from lib.core.search_space import variant_name
from lib.results.scope import Scope

MODELS = ["sdpa", "lsh-h2-c64", "lsh-h4-c64", "favor-m64"]
UNTRAINED = {"epochs": 0, "steps": 0, "tokens": 0, "seconds_per_epoch": None, "tokens_per_second": None}


def write_run(root: Path, stage: str, model: str, dataset: str, seed: int = 0, **values: object) -> Path:
    """Write a record below `root` and return its folder; `values` replace fields, or else are metrics."""
    fields = {
        "stage": stage,
        "model": model,
        "dataset": dataset,
        "variant": {},
        "seed": seed,
        "task": "sequence_classification" if stage == "finetune" else "masked_lm",
        "parents": {"tokenizer": {"path": "tokenizer", "digest": "0"}},
        "parameters": {"total": 100, "backbone": 90, "head": 10},
        "epochs": 2,
        "steps": 20,
        "tokens": 4000,
        "seconds": 120.0,
        "seconds_per_epoch": 60.0,
        "tokens_per_second": 33.3,
        "peak_memory_mb": 1024.0,
        "peak_memory_kind": "resident",
        "precision": "fp32",
        "device": "cpu",
        "hardware": "a laptop",
        "processes": 1,
        "approximated": None,
        "instruction_set": None,
        "stretches": [],
        "shared": {},
        "hardly_learnt": "",
        "versions": {"torch": "2"},
        "git_commit": None,
        "code": None,
        "files": {},
        "accepted": [],
        "score": None,
    }
    metrics = {"test_f1_macro": 0.8, "eval_f1_macro": 0.8} if stage == "finetune" else {"train_loss": 3.0}
    metrics |= {name: value for name, value in values.items() if name not in fields}
    fields |= {name: value for name, value in values.items() if name in fields}
    folder = root / "runs" / stage / model / dataset / variant_name(fields["variant"]) / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text("{}\n")
    fields["files"] = {CONFIG: file_digest(folder / CONFIG), **fields["files"]}
    write_record(folder, RunRecord(**fields, metrics=metrics))
    if fields["epochs"]:
        (folder / HISTORY).write_text("epoch,train_loss\n1,3.5\n2,3.0\n")
    return folder


def write_baseline(root: Path, dataset: str, f1: float, seed: int = 0, **values: object) -> Path:
    """Write the record of a run of `finetune` that does not train below `root` and return its folder."""
    values = UNTRAINED | {"parameters": {"total": 10}, "test_f1_macro": f1} | values
    return write_run(root, "finetune", "tfidf", dataset, seed, **values)


def write_predictions(folder: Path, names: Sequence[str], labels: Sequence[int], predictions: Sequence[int]) -> Path:
    """Write predictions of test documents, and wrong ones of validation documents, to a run's folder."""
    right = pd.DataFrame({"id": range(len(labels)), "label": labels, "prediction": predictions, "split": "test"})
    wrong = pd.DataFrame({"id": [0, 1], "label": [0, 1], "prediction": [1, 0], "split": "validation"})
    pd.concat([wrong, right], ignore_index=True).to_parquet(folder / PREDICTIONS, index=False)
    (folder / CONFIG).write_text(yaml.safe_dump({"labels": list(names)}))
    return note_predictions(folder)


def note_predictions(folder: Path) -> Path:
    """Note the digest of a run's predictions in its record, and return its folder."""
    record = read_record(folder)
    files = record.files | {PREDICTIONS: file_digest(folder / PREDICTIONS)}
    write_record(folder, record.model_copy(update={"files": files}))
    return folder


def write_spans(folder: Path, counts: Sequence[tuple[int, int, int]]) -> Path:
    """Write spans of test documents, told by counts of characters (true and false positives, false negatives)."""
    names = ["true_positives", "false_positives", "false_negatives"]
    rows = pd.DataFrame(counts, columns=names)
    rows["label"] = [[[0, right + missed]] for right, _, missed in counts]
    rows["prediction"] = [
        [[missed, missed + right + wrong]] if right + wrong else [] for right, wrong, missed in counts
    ]
    rows.insert(0, "id", [f"d{number}" for number in range(len(rows))])
    rows.assign(split="test").to_parquet(folder / PREDICTIONS, index=False)
    return folder


def write_sets(folder: Path, names: Sequence[str], labels: Any, predictions: Any, probabilities: Any) -> Path:
    """Write sets of classes of test documents, called by letters, to a run's folder."""
    rows = pd.DataFrame({"label": labels, "prediction": predictions, "probabilities": probabilities, "split": "test"})
    rows.assign(id=list("abcdefghij"[: len(rows)])).to_parquet(folder / PREDICTIONS, index=False)
    (folder / CONFIG).write_text(yaml.safe_dump({"labels": list(names)}))
    return folder


def write_group_predictions(folder: Path, documents: Sequence[tuple[int | str, Any, Any]]) -> Path:
    """Write test documents (group, label, prediction), and wrong ones of validation, to a run's folder."""
    rows = pd.DataFrame(documents, columns=["group", "label", "prediction"])
    nothing_right = rows.assign(
        prediction=[[9] * len(label) if isinstance(label, list) else 9 for label in rows["label"]]
    )
    table = pd.concat([nothing_right.assign(split="validation"), rows.assign(split="test")], ignore_index=True)
    table.to_parquet(folder / PREDICTIONS, index=False)
    return folder


def write_geometry(folder: Path, *rows: Mapping[str, Any]) -> Path:
    """Write what a run measured to its folder; a row without them is of merged weights of whole layer 0 at step 0."""
    usual = {"step": 0, "source": "model", "weights": "merged", "position": 0, "layer": 0, "head": "all"}
    names = ("symmetry", "directionality", "norm", "bound", "upper_triangle", "gradient_norm")
    pd.DataFrame([usual | dict.fromkeys(names) | row for row in rows]).to_csv(folder / GEOMETRY, index=False)
    return folder


def write_trials(folder: Path, space: Mapping[str, Any], *rows: Mapping[str, Any]) -> Path:
    """Write trials, numbered in their order, to the folder of a run that drew them from `space`."""
    usual = {"state": "complete", "epochs": 2, "seconds": 60.0}
    table = pd.DataFrame([{"number": number, **usual, **row} for number, row in enumerate(rows)])
    table.to_csv(folder / TRIALS, index=False)
    tuning = {"trials": len(rows), "space": dict(space)}
    (folder / CONFIG).write_text(yaml.safe_dump({"tuning": tuning}, sort_keys=False))
    return folder


def by_dataset(owners: Mapping[str, Mapping[str, Any]], stages: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the owners of a scope by dataset, where one model may be given for all datasets of a stage."""
    return {
        stage: {
            row: own if isinstance(own, Mapping) else dict.fromkeys(stages[stage], own) for row, own in rows.items()
        }
        for stage, rows in owners.items()
    }


def scope_of(
    folders: Iterable[Path], stages: Mapping[str, Sequence[str]], models: Sequence[str], **fields: Any
) -> Scope:
    """Return the scope of these runs, in which every model has runs of its own at all stages.

    `fields` replace what the scope says, `owners` as `by_dataset` takes them; without them a family is what the name of
    a model begins with.
    """
    beside = [fields[name] for name in ("reference", "baseline") if fields.get(name)]
    owners = {row: row for row in dict.fromkeys([*models, *beside])}
    usual: dict[str, Any] = {
        "owners": dict.fromkeys(stages, owners),
        "families": {row: row.split("-")[0] for row in models},
    }
    usual["files"] = [folder / RUN for folder in dict.fromkeys(folders)]
    fields = usual | fields
    return Scope(models=models, stages=stages, **fields | {"owners": by_dataset(fields["owners"], stages)})
