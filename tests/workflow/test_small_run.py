"""The workflow from generated raw text to tables, figure and report, and what an edit makes stale."""

import copy
import json
import os
import signal
import subprocess
import time

import pandas as pd
import pytest

from lib.core.attempts import read_heartbeat
from lib.core.record import read_record

CONFIG = "config.test.yaml"
MODELS = ["sdpa", "lsh-h2-c64", "favor-m64"]


def test_every_run_leaves_its_record(finished):
    for stage, dataset in (("pretrain", "wikipedia"), ("tapt", "imdb"), ("finetune", "imdb")):
        for model in MODELS:
            folder = finished.results / "runs" / stage / model / dataset / "seed-420"
            record = read_record(folder)
            assert (record.stage, record.model, record.dataset, record.seed) == (stage, model, dataset, 420)
            assert (folder / "model" / "model.safetensors").is_file()
            assert (folder / "predictions.parquet").is_file() == (stage == "finetune")
    assert not (finished.results / "work").exists(), "working checkpoints stay behind"


def test_a_run_without_training_leaves_a_record_and_predictions(finished):
    folder = finished.results / "runs" / "finetune" / "tfidf" / "imdb" / "seed-420"
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "predictions.parquet", "run.json"]
    record = read_record(folder)
    assert (record.stage, record.model, record.task) == ("finetune", "tfidf", "sequence_classification")
    assert (record.epochs, record.seconds_per_epoch) == (0, None)
    assert record.metrics["test_f1_macro"] > 0


def test_a_run_names_its_parents_by_their_digests(finished):
    def digest(stage, dataset, name):
        run = finished.results / "runs" / stage / "favor-m64" / dataset / "seed-420"
        return json.loads((run / "run.json").read_text())["parents"][name]

    assert digest("tapt", "imdb", "start")["path"].endswith("pretrain/favor-m64/wikipedia/seed-420/model")
    assert digest("tapt", "imdb", "tokenizer") == digest("finetune", "imdb", "tokenizer")
    assert digest("tapt", "imdb", "start")["digest"] != digest("finetune", "imdb", "start")["digest"]


def test_the_tables_have_no_hole(finished):
    tables = finished.results / "tables"
    names = {path.stem for path in tables.glob("*.csv")}
    whole = {"token_lengths", "pretrain", "tapt", "finetune", "f1", "baseline_imdb", "parameters"}
    # Where nothing can stand by its nature: no spread of one seed, no difference of the reference from itself.
    assert names - whole == {
        "answer", "approximation", "attention_patterns", "compute", "f1_delta", "memory_delta", "pareto",
        "requirements", "significance", "time_delta",
    }  # fmt: skip
    for name in names:
        assert (tables / f"{name}.md").read_text().startswith("|")
        assert (tables / f"{name}.tex").read_text().startswith("\\begin{tabular}")
        assert "</table>" in (tables / f"{name}.html").read_text()
    for name in whole:
        frame = pd.read_csv(tables / f"{name}.csv")
        if name == "finetune":  # the baseline has no epochs
            assert frame.loc[frame["model"] == "tfidf", "imdb_minutes_per_epoch"].isna().all()
            frame = frame[frame["model"] != "tfidf"]
        assert frame.notna().all(axis=None), name
    f1 = pd.read_csv(tables / "f1.csv")
    assert f1["model"].tolist() == ["tfidf", *MODELS]


def test_the_figure_and_the_report(finished):
    for suffix in ("svg", "png", "pdf"):
        assert (finished.results / f"figures/f1_time.{suffix}").stat().st_size > 5_000
    report = finished.results / "report.html"
    finished.snakemake("--configfile", CONFIG, "--report", report)
    text = report.read_text()
    assert "f1_time" in text
    assert "Reformer" in text


def test_a_second_start_has_nothing_to_do(finished):
    output = finished.snakemake("--cores", 1, "--configfile", CONFIG).stdout
    assert "Nothing to be done" in output


DOWNSTREAM = {"table_finetune", "table_f1", "table_tapt", "table_pretrain", "table_significance", "figure_f1_time"}


def changed(finished, experiment, name, **sections):
    """Write a study that extends the finished one and return its name."""
    return finished.configure({"extends": CONFIG, "experiment": experiment, **sections}, name)


def test_a_mechanisms_parameter_makes_its_own_runs_stale_and_no_others(finished):
    mask = {"mechanisms": {"lsh-h2-c64": {"mask_within_chunks": True}}}
    stale = finished.stale(changed(finished, mask, "mask.yaml"))
    shown = {rule for rule in stale if rule.startswith(("table", "figure", "analysis"))}
    assert shown >= DOWNSTREAM
    assert not shown & {"table_token_lengths", "table_baseline_imdb"}
    assert {rule: stale[rule] for rule in stale.keys() - shown - {"total"}} == {
        "train": 3, "all": 1,
    }  # fmt: skip


def test_a_new_model_makes_its_run_and_the_tables_that_name_it_stale(finished):
    """It shares its earlier runs with `sdpa`, which notes of their tables say."""
    new = {"models": {"swap": {"backbone": "encoder", "mechanism": "sdpa", "changes": {}}}}
    new["models"]["swap"]["changes"] = {"finetune": {"mechanism": "favor-m64"}}
    stale = finished.stale(changed(finished, new, "new.yaml"))
    assert stale["train"] == 1
    assert "table_pretrain" in stale
    assert not {"tokenize_dataset", "evaluate"} & set(stale)


def test_execution_settings_make_nothing_stale(finished):
    how = {"training": {"micro_batch_tokens": 1024, "checkpoint_minutes": 1}, "job": {"mem_mb": 1000}}
    assert finished.stale(changed(finished, {}, "how.yaml", execution=how)) == {}


def test_a_recipe_makes_its_stage_stale(finished):
    recipe = {"stages": {"finetune": {"data": {"imdb": {"task": {"classifier_dropout": 0.3}}}}}}
    stale = finished.stale(changed(finished, recipe, "recipe.yaml"))
    assert stale["train"] == 3
    assert "tokenize_dataset" not in stale


def test_the_preparation_of_a_dataset_makes_all_that_reads_it_stale(finished):
    prepared = {"datasets": {"imdb": {"remove": "<br>"}}}
    stale = finished.stale(changed(finished, prepared, "prepared.yaml"))
    steps = {rule: number for rule, number in stale.items() if not rule.startswith(("table", "figure", "analysis"))}
    assert steps == {
        "prepare_dataset": 1, "tokenize_dataset": 1, "train": 3 + 3, "evaluate": 1, "all": 1,
        "total": stale["total"],
    }  # fmt: skip
    assert "table_pretrain" not in stale


def test_one_more_seed_makes_new_runs_and_none_again(finished):
    stale = finished.stale(changed(finished, {"seeds": [420, 421]}, "seeds.yaml"))
    assert (stale["train"], stale["evaluate"]) == (6 + 3, 1)
    assert not {"prepare_dataset", "tokenize_dataset", "tokenize_corpus", "table_token_lengths"} & set(stale)


def test_a_setting_of_all_entries_counts_as_one_of_each(finished):
    """Where a setting is written decides nothing: only what it comes to."""
    shared = {"stages": {"tapt": {"recipe": {"epochs": 1}}}}
    assert finished.stale(changed(finished, shared, "shared.yaml")) == {}


@pytest.fixture
def edit(finished):
    """Edit a file of the project for the time of a test."""
    originals = {}

    def replace(name, old, new):
        path = finished.folder / name
        originals.setdefault(path, path.read_text())
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    yield replace
    for path, text in originals.items():
        path.write_text(text)


def test_an_edit_of_one_mechanism_makes_its_runs_stale(finished, edit):
    edit("lib/attention/lsh/mechanism.py", "\nBLOCK = 16\n", "\nBLOCK = 8\n")
    stale = finished.stale(CONFIG)
    assert stale["train"] == 2 + 1
    assert not {"tokenize_dataset", "evaluate", "prepare_dataset"} & set(stale)


def test_an_edit_of_the_classification_head_leaves_pretraining_alone(finished, edit):
    edit("lib/backbones/heads/sequence_classification.py", "nn.Tanh()", "nn.GELU()")
    stale = finished.stale(CONFIG)
    assert stale["train"] == 3
    assert "evaluate" not in stale


def test_an_edit_of_the_baseline_leaves_training_alone(finished, edit):
    edit("lib/backbones/logistic.py", "LogisticRegression(**each,", 'LogisticRegression(**each, solver="saga",')
    stale = finished.stale(CONFIG)
    assert stale["evaluate"] == 1
    assert "train" not in stale


def test_a_comment_makes_nothing_stale(finished, edit):
    names = ["attention/lsh/mechanism", "training/run", "backbones/encoder/model", "tasks/masked_lm"]
    for name in [*(f"lib/{name}.py" for name in names), "scripts/train.py"]:
        edit(name, "\nfrom ", "\n# a comment, and a line\n\nfrom ")
    assert finished.stale(CONFIG) == {}


def test_a_foreign_damage_stops_the_job_and_leaves_no_half_result(finished, edit):
    """A job that fails for want of its input says so in its log and leaves none of its outputs."""
    tokens = finished.results / "data" / "imdb" / "tokens" / "wordpiece" / "test"
    (data,) = tokens.glob("*.arrow")
    content = data.read_bytes()
    target = "results/demo/runs/finetune/sdpa/imdb/seed-420/run.json"
    run = (finished.folder / target).parent
    try:
        data.write_bytes(content[: len(content) // 2])
        process = finished.snakemake(
            "--cores", 1, "--configfile", CONFIG, "--forcerun", "run", "--", target, check=False
        )
        assert process.returncode
        assert "not a tokenised split" in (finished.results / "logs/finetune/sdpa/imdb/seed-420.log").read_text()
        assert not (run / "run.json").exists()
    finally:
        data.write_bytes(content)
        finished.snakemake("--cores", 1, "--configfile", CONFIG, "--", target)


def test_two_snakemakes_on_one_folder_end_in_one_right_result(finished):
    """The second one refuses. Where the lock is missing, both make the run, and the older process leaves."""
    longer = {"seeds": [7], "stages": {"pretrain": {"recipe": {"epochs": 200, "batch_size": 8}}}}
    target = "results/demo/runs/pretrain/sdpa/wikipedia/seed-7/run.json"
    configured = ("--cores", "1", "--configfile", changed(finished, longer, "longer.yaml"), "--", target)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    first = subprocess.Popen(["snakemake", *configured], cwd=finished.folder, env=finished.environment, **quiet)
    work = finished.results / "work"
    while not (
        begun := [beat for path in work.glob("pretrain-*-seed-7-*/*") if (beat := read_heartbeat(path)) and beat.step]
    ):
        assert first.poll() is None
        time.sleep(0.02)
    os.kill(begun[0].process, signal.SIGSTOP)
    try:
        refused = finished.snakemake(*configured, check=False)
        assert refused.returncode
        assert "Directory cannot be locked" in refused.stdout
        finished.snakemake("--nolock", "--rerun-incomplete", *configured)
        record = finished.folder / target
        model = record.parent / "model" / "model.safetensors"
        found = model.read_bytes()
    finally:
        os.kill(begun[0].process, signal.SIGCONT)
    assert first.wait(60), "its job has been taken over"
    assert not record.exists(), "its Snakemake removes what the rule makes, as of any job that failed"
    finished.snakemake("--rerun-incomplete", *configured)  # undisturbed: the working folder was swept before
    assert model.read_bytes() == found


def test_a_run_that_ends_without_snakemake_keeps_its_checkpoints(finished):
    """The next call makes another run, and the one after that continues from the end of this one."""
    longer = {"seeds": [8, 9], "stages": {"pretrain": {"recipe": {"epochs": 60, "batch_size": 8}}}}
    configured = ("--cores", "1", "--configfile", changed(finished, longer, "killed.yaml"))
    alone, other = (f"results/demo/runs/pretrain/sdpa/wikipedia/seed-{seed}/run.json" for seed in (8, 9))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = ["snakemake", *configured, "--", alone]
    first = subprocess.Popen(command, cwd=finished.folder, env=finished.environment, **quiet)
    work, record = finished.results / "work", finished.folder / alone
    while not list(work.glob("pretrain-*-seed-8-*/*/heartbeat.json")):
        assert first.poll() is None
        time.sleep(0.02)
    first.kill()
    first.wait()
    while not (record.exists() and all(read_heartbeat(path).state == "finished" for path in work.glob("*-seed-8-*/*"))):
        time.sleep(0.1)
    model = (record.parent / "model" / "model.safetensors").read_bytes()
    os.utime(record, (0, 0))  # long ago
    finished.snakemake("--unlock", *configured)
    finished.snakemake(*configured, "--", other)
    assert list(work.glob("pretrain-*-seed-8-*/*/checkpoint-*"))
    assert not list(work.glob("pretrain-*-seed-9-*"))
    finished.snakemake("--rerun-incomplete", *configured, "--", alone)
    log = finished.results / "logs/pretrain/sdpa/wikipedia/seed-8.log"
    assert "checkpoint-" in log.read_text()
    assert (record.parent / "model" / "model.safetensors").read_bytes() == model
    assert not work.exists()


def test_a_study_without_training_runs_alone(copy_of_repository, alone):
    """No stage, table or tokeniser of the grid is needed; its results lie in their own folder."""
    project = copy_of_repository("alone")
    config = project.configure(alone, "alone.yaml")
    project.snakemake("--cores", 1, "--configfile", config)
    results = project.folder / "results" / "alone"
    assert {path.name for path in (results / "tables").iterdir()} == {
        f"{name}.{suffix}" for name in ("scores", "classes_imdb") for suffix in ("csv", "md", "tex", "html")
    }
    scores = pd.read_csv(results / "tables" / "scores.csv").iloc[0]
    assert scores["model"] == "words"
    assert scores["imdb_f1_macro_percent"] > 0
    assert "| words" in (results / "tables" / "scores.md").read_text()
    project.snakemake("--configfile", config, "--report", results / "report.html")
    assert "<th>Models" in (results / "report.html").read_text()


def test_a_file_that_is_copied_again_makes_nothing_stale(copy_of_repository, alone):
    project = copy_of_repository("copied")
    rows = [f"{number % 2},{'word ' * 200}{number}" for number in range(1200)]
    file = project.folder / "notes.csv"
    file.write_text("\n".join(["label,text", *rows]))
    assert file.stat().st_size > 10**6  # up to which Snakemake compares contents by itself
    values = copy.deepcopy(alone)
    values["experiment"]["datasets"]["imdb"] |= {
        "source": "local",
        "local": {"files": {"all": ["notes.csv"]}},
        "generated": None,
    }
    project.configure(values)
    target = "results/alone/data/imdb/prepared/train.parquet"
    project.snakemake("--cores", 1, "--configfile", "config.test.yaml", "--", target)

    file.write_bytes(file.read_bytes())
    assert project.stale("config.test.yaml", target=target) == {}
    file.write_text(file.read_text().replace("word", "else", 1))
    assert project.stale("config.test.yaml", target=target)["prepare_dataset"] == 1
