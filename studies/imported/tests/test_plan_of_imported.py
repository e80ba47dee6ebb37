"""A study whose runs are imported: no rule makes them, and their records are checked before anything is read."""

import itertools
import json
from pathlib import Path

import pandas as pd
import pytest
import yaml
from small_studies import study

from lib.core.errors import DataError
from lib.core.record import read_record
from lib.study.configuration import load_study, read_layers
from lib.workflow.planning.plan import Plan
from studies.imported.importing import import_runs

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[3]
REPORT = {"tables": {"loss": {"stage": "pretrain", "columns": ["loss"]}}}


@pytest.fixture
def plan(tmp_path):
    """Return the plan of a study whose runs are imported to a folder of the test."""
    values = {"report": REPORT, "execution": {"runs": "imported", "results": str(tmp_path / "results")}}
    return Plan(study(layers=[("imported.yaml", values)]))


def bring(plan, run, **changes):
    folder = Path(plan.paths.folder(run.id))
    settings = json.loads(run.settings)
    known = {name: settings[name] for name in ("stage", "model", "dataset", "seed")}
    known |= {"backbone": {"mechanism": settings["backbone"]["mechanism"]}, "recipe": {"epochs": 2}} | changes
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("run.json", "{}"), ("config.yaml", yaml.safe_dump(known))):
        (folder / name).write_text(text)


def pretrained(plan):
    return [run for run in plan.runs if run.id.stage == "pretrain"]


def test_plan_of_runs_that_are_shown(plan):
    for run in pretrained(plan):
        bring(plan, run)
    plan.check()


def test_plan_of_missing_runs(plan):
    for run in pretrained(plan)[2:]:
        bring(plan, run)
    with pytest.raises(DataError) as error:
        plan.check()
    assert str(error.value).count("no record") == 2
    assert "runs/pretrain/sdpa/wikipedia/seed-1: no record" in str(error.value)


def test_plan_of_runs_with_other_settings(plan):
    for run in pretrained(plan):
        bring(plan, run)
    bring(plan, pretrained(plan)[0], recipe={"epochs": 3}, backbone={"mechanism": {"kind": "favor"}})
    with pytest.raises(
        DataError, match=r"config.yaml: backbone.mechanism.kind is favor, in the study sdpa; .*recipe.epochs is 3, .* 2"
    ):
        plan.check()


# All records of the reproduced study

RECIPES = {  # epochs of adaptation and fine-tuning, batch size and learning rate of fine-tuning, what was chosen
    "imdb": (15, 8, 64, 3e-5, (2, 0.2, "mean"), (42, 123, 420)),
    "hyperpartisan": (6, 7, 64, 2e-5, (1, 0.1, "mean"), (420,)),
    "arxiv": (2, 4, 16, 3e-4, (1, 0.2, "mean"), (420,)),
}
TUNED = ["freeze_n_layers", "classifier_dropout", "pooling"]
MECHANISMS = {"mha": {"attention": "mha"}}
LSH = {"attention": "lsh", "mask_within_chunks": False}
MECHANISMS |= {
    f"lsh_{hashes}_{chunk}": LSH | {"num_hashes": hashes, "chunk_size": chunk}
    for hashes, chunk in itertools.product((2, 4), (64, 128))
}
MECHANISMS |= {f"favor_{size}": {"attention": "favor", "nb_features": size} for size in (64, 128, 256, 512)}


def foreign_runs():
    """Yield a row for each of the 123 runs: the grid, the search of SDPA, a hybrid, and the mask of LSH."""
    masked = MECHANISMS["lsh_2_64"] | {"mask_within_chunks": True}
    for name, mechanism in (MECHANISMS | {"masked": masked}).items():
        yield {"run": f"pre_{name}", "stage": "pretrain", "dataset": "wikipedia", "epochs": 10, **mechanism}
    for dataset, (adapted, epochs, batch_size, rate, chosen, seeds) in RECIPES.items():
        recipe = {"stage": "finetune", "dataset": dataset, "epochs": epochs, "batch_size": batch_size}
        recipe |= {"learning_rate": rate, **dict(zip(TUNED, chosen, strict=True))}
        adapting = {"stage": "tapt", "dataset": dataset, "epochs": adapted}
        ways = [(name, f"pre_{name}", mechanism) for name, mechanism in MECHANISMS.items()]
        if dataset == "arxiv":
            ways.append(("hybrid", "pre_mha", MECHANISMS["favor_128"]))
        for name, start, mechanism in ways:
            yield {"run": f"tapt_{dataset}_{name}", "starts_from": start, **adapting, **mechanism}
            if name != "mha":
                yield {"run": f"fine_{dataset}_{name}", "starts_from": f"tapt_{dataset}_{name}", **recipe, **mechanism}
        for number, tried in enumerate(itertools.product((0, 1, 2), (0.1, 0.2), ("cls", "mean"), seeds)):
            row = recipe | dict(zip([*TUNED, "seed"], tried, strict=True))
            yield row | {"run": f"search_{dataset}_{number}", "starts_from": f"tapt_{dataset}_mha", "attention": "mha"}


@pytest.fixture
def all_imported(tmp_path):
    """The plan of the study of all records, which have been imported, and the folders of the records."""
    usual = {"seed": 420, "peak_gpu_mem_mb": 2048.0, "runtime_s": 1200.0}
    runs = pd.DataFrame([usual | run for run in foreign_runs()])
    scores = {"eval/f1_macro": 0.9, "test/f1_macro": 0.8}
    history = [
        {"run": run.run, "elapsed_s": 60.0 * epoch, "train/epoch": float(epoch), "train/avg_epoch_loss": 3.0}
        | (scores if run.stage == "finetune" else {})
        for run in runs.itertuples()
        for epoch in range(1, run.epochs + 1)
    ]
    runs.to_parquet(tmp_path / "runs.parquet")
    columns = [*history[-1], "eval/epoch", "test/epoch"]
    pd.DataFrame(history, columns=list(dict.fromkeys([*columns, *scores]))).to_parquet(tmp_path / "history.parquet")
    folders = import_runs(tmp_path / "runs.parquet", tmp_path / "history.parquet", tmp_path / "results")
    layers = read_layers([ROOT / "studies/imported/imported.yaml"])
    return Plan(load_study([*layers, ("test", {"execution": {"results": str(tmp_path / "results")}})])), folders


def test_records_of_the_reproduced_study(all_imported):
    plan, folders = all_imported
    plan.check()
    runs = {Path(plan.paths.record(run.id)) for run in plan.runs}
    records = {folder / "run.json": read_record(folder).imported for folder in folders}
    assert len(set(records.values())) == 123
    assert runs <= records.keys(), "no run of the study lacks its record"
    shown = {
        Path(file)
        for result in [*plan.report.tables.values(), *plan.report.figures.values()]
        for file in plan.report.inputs(result["scope"])
    }
    assert shown == runs
    assert {records[path] for path in runs} == set(records.values())
