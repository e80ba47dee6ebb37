"""A tiny study from generated raw text to tables and a figure, what a change makes stale, and a call that is killed."""

import os
import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest
from code_digests import restored
from small_studies import QUICK, TINY, changed

from lib.core.attempts import read_heartbeat
from lib.core.record import digest_of, read_record

CONFIG = "config.test.yaml"
MODELS = ["sdpa", "lsh-h1-c16"]


def run(project, stage, model, seed=1):
    return project.results / "runs" / stage / model / "imdb" / f"seed-{seed}"


def test_records_of_all_runs(finished):
    kept = {path.stem for path in (finished.results / "code").glob("*.json")}
    tokenizer = digest_of(finished.results / "tokenizers/wordpiece")
    for stage in ("adapt", "score"):
        for model in MODELS:
            folder = run(finished, stage, model)
            record = read_record(folder)
            assert (record.stage, record.model, record.dataset, record.seed) == (stage, model, "imdb", 1)
            assert (folder / "model" / "model.safetensors").is_file()
            assert (folder / "predictions.parquet").is_file() == (stage == "score")
            assert record.code in kept
            assert record.parents["tokenizer"].digest == tokenizer
    for model in MODELS:
        start = read_record(run(finished, "score", model)).parents["start"]
        assert start.path.endswith(f"adapt/{model}/imdb/seed-1/model")
        assert start.digest == digest_of(run(finished, "adapt", model) / "model")
    assert not (finished.results / "work").exists(), "working checkpoints stay behind"
    folder = run(finished, "score", "tfidf")
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "model", "predictions.parquet", "run.json"]
    record = read_record(folder)
    assert (record.task, record.epochs, record.seconds_per_epoch) == ("sequence_classification", 0, None)
    assert record.metrics["test_f1_macro"] > 0


def test_tables_and_figure_of_all_runs(finished):
    tables = finished.results / "tables"
    assert {path.stem for path in tables.glob("*.csv")} == {"lengths", "adapt", "f1", "classes_imdb"}
    for path in tables.glob("*.csv"):
        assert pd.read_csv(path).notna().all(axis=None), path.name
        assert path.with_suffix(".md").read_text().startswith("|")
        assert path.with_suffix(".tex").read_text().startswith("\\begin{tabular}")
        assert "</table>" in path.with_suffix(".html").read_text()
    assert pd.read_csv(tables / "f1.csv")["model"].tolist() == ["tfidf", *MODELS]
    for suffix in ("svg", "png", "pdf"):
        assert (finished.results / f"figures/f1_time.{suffix}").stat().st_size > 5_000
    assert finished.stale(CONFIG) == {}


LATER = {"backbone": "encoder", "mechanism": "sdpa", "changes": {"score": {"recipe": QUICK | {"epochs": 2}}}}
SHOWN = {"table_adapt", "table_f1", "figure_f1_time"}
# What a change of the study makes again, besides tables and figures, and which of these.
CHANGES = {
    "nothing": ([], {}, set()),
    "a parameter of a mechanism": (
        [("experiment/mechanisms/lsh-h1-c16/mask_within_chunks", True)], {"train": 2}, SHOWN,
    ),
    "a parameter of the baseline": (
        [("experiment/backbones/tfidf/max_features", 7)],
        {"evaluate": 1},
        {"table_f1", "figure_f1_time", "table_classes_imdb"},
    ),
    "a model more, whose first run is shared": ([("experiment/models/later", LATER)], {"train": 1}, SHOWN),
    "a setting of one task": (
        [("experiment/stages/score/data/imdb", {"task": {"classifier_dropout": 0.3}})],
        {"train": 2, "evaluate": 1},
        {"table_f1", "figure_f1_time", "table_classes_imdb"},
    ),
    "a recipe of the first stage": ([("experiment/stages/adapt/recipe/epochs", 2)], {"train": 4}, SHOWN),
    "a recipe that is written elsewhere": ([("experiment/stages/score/data/imdb", {"recipe": QUICK})], {}, set()),
    "the preparation of the dataset": (
        [("experiment/datasets/imdb/remove", "<br>")],
        {"prepare_dataset": 1, "train_tokenizer": 1, "tokenize_dataset": 1, "train": 4, "evaluate": 1},
        {*SHOWN, "table_lengths", "table_classes_imdb"},
    ),
    "one more seed": ([("experiment/seeds", [1, 2])], {"train": 4, "evaluate": 1}, {*SHOWN, "table_classes_imdb"}),
    "how it is executed": (
        [("execution/training/micro_batch_tokens", 1024), ("execution/training/checkpoint_minutes", 1),
         ("execution/job/mem_mb", 500)],
        {},
        set(),
    ),
}  # fmt: skip


def assert_stale(project, config, steps, shown):
    """Fail unless these steps are stale, with these tables and figures, and nothing else."""
    stale = project.stale(config)
    found = {rule for rule in stale if rule.startswith(("table", "figure"))}
    assert {rule: stale[rule] for rule in stale.keys() - found - {"all", "total"}} == steps, config
    assert found == shown, config


def test_stale_after_change_of_study(finished):
    for name, (changes, steps, shown) in CHANGES.items():
        assert_stale(finished, finished.configure(changed(TINY, *changes), f"{name}.yaml"), steps, shown)


COMMENTED = ["lib/attention/lsh/mechanism.py", "lib/training/run.py", "lib/tasks/masked_lm.py", "scripts/train.py"]
EDITS = {
    "a mechanism": ([("lib/attention/lsh/mechanism.py", "\nBLOCK = 16\n", "\nBLOCK = 8\n")], {"train": 2}, SHOWN),
    "the classification head": (
        [("lib/backbones/heads/sequence_classification.py", "nn.Tanh()", "nn.GELU()")],
        {"train": 2},
        {"table_f1", "figure_f1_time"},
    ),
    "a comment": ([(name, "\nfrom ", "\n# a comment, and a line\n\nfrom ") for name in COMMENTED], {}, set()),
}


@pytest.mark.extended
def test_stale_after_edit_of_code(finished):
    for edits, steps, shown in EDITS.values():
        with restored(*(finished.folder / file for file, *_ in edits)):
            for file, old, new in edits:
                text = (finished.folder / file).read_text()
                assert old in text
                (finished.folder / file).write_text(text.replace(old, new, 1))
            assert_stale(finished, CONFIG, steps, shown)


LONGER = changed(
    TINY, ("experiment/seeds", [8]), ("experiment/stages/adapt/recipe", QUICK | {"epochs": 15, "batch_size": 8})
)


def begin(project, *arguments):
    """Start Snakemake and wait until a run is at work; return the process and the run's heartbeat."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(["snakemake", *arguments], cwd=project.folder, env=project.environment, **quiet)
    while True:
        for path in (project.results / "work").glob("*/*"):
            if (beat := read_heartbeat(path)) and beat.step:
                return process, beat
        assert process.poll() is None
        time.sleep(0.02)


def test_killed_call_goes_on(finished):
    """Its run ends all the same; the next call takes nothing half-made for done, and goes on from the checkpoint."""
    folder = run(finished, "adapt", "sdpa", 8)
    target = str((folder / "run.json").relative_to(finished.folder))
    config = finished.configure(LONGER, "longer.yaml")
    call = ("--cores", "1", "--configfile", config, "--", target)
    first, beat = begin(finished, *call)
    first.kill()
    first.wait()
    work = finished.results / "work"
    while not (
        (folder / "run.json").exists() and {read_heartbeat(path).state for path in work.glob("*/*")} == {"finished"}
    ):
        time.sleep(0.1)
    model = (folder / "model" / "model.safetensors").read_bytes()
    os.utime(folder / "run.json", (0, 0))  # long ago
    assert finished.stale(config, target=target) == {"train": 1, "total": 1}
    assert finished.ask("accept", target, "--configfile", config)[1] == 2
    finished.snakemake("--nolock", "--rerun-incomplete", *call)
    assert "checkpoint-" in (finished.results / "logs/adapt/sdpa/imdb/seed-8.log").read_text()
    assert (folder / "model" / "model.safetensors").read_bytes() == model
    assert not work.exists()
    assert Path(beat.out) == folder
