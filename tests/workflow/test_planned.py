"""A job does what was planned, whatever becomes of configuration, code, inputs and other calls while it waits."""

import copy
import os
import re
import signal
import subprocess
import threading
import time

import pyarrow.parquet as pq
import pytest
import yaml
from small_studies import QUICK, TINY, changed

from lib.core.attempts import read_heartbeat

pytestmark = pytest.mark.extended

CONFIG = "config.test.yaml"
GENERATED = "results/alone/data/imdb/raw"
RUN = "results/alone/runs/score/words/imdb/seed-1"
AS_A_CLUSTER_DOES = ("--groups", "run=runs")
"""The jobs of a group run in another snakemake, which reads the configuration and the rules again."""


@pytest.fixture
def project(copy_of_repository, alone):
    project = copy_of_repository("planned")
    values = copy.deepcopy(alone)
    values["experiment"]["backbones"]["tfidf"]["max_features"] = 500
    project.configure(values)
    return project


def run_and_edit(project, edit, *options, begun=GENERATED):
    """Run the study, make an edit as soon as a file is there, and return snakemake's process."""

    def wait_and_edit():
        while not (project.folder / begun).exists():
            time.sleep(0.01)
        edit()

    editor = threading.Thread(target=wait_and_edit, daemon=True)
    editor.start()
    process = project.snakemake("--cores", 1, "--configfile", CONFIG, *options, check=False)
    editor.join(timeout=10)
    assert not editor.is_alive(), (process.returncode, process.stdout, project.logs())
    return process


@pytest.mark.parametrize("options", [(), AS_A_CLUSTER_DOES], ids=["here", "as a cluster does"])
def test_configuration_edited_meanwhile(project, options):
    def edit():
        file = project.folder / CONFIG
        file.write_text(file.read_text().replace("max_features: 500", "max_features: 7"))

    process = run_and_edit(project, edit, *options)
    assert process.returncode == 0, process.stdout + project.logs()
    settings = yaml.safe_load((project.folder / RUN / "config.yaml").read_text())
    assert settings["backbone"]["max_features"] == 500
    assert project.stale(CONFIG)["evaluate"] == 2


@pytest.mark.parametrize("options", [(), AS_A_CLUSTER_DOES], ids=["here", "as a cluster does"])
def test_code_edited_meanwhile_is_refused(project, options):
    code = project.folder / "lib/backbones/tfidf/backbone.py"
    before = code.read_text()
    after = before.replace("ngram_range=(1, ", "ngram_range=(2, ")
    assert after != before

    def edit():
        code.write_text(after)

    process = run_and_edit(project, edit, *options)
    assert process.returncode
    assert "the code has changed since this job was planned: code of lib/backbones/tfidf/backbone.py: " in (
        process.stdout + project.logs()
    )
    assert "stop snakemake and start it again" in process.stdout + project.logs()
    assert "Traceback" not in project.logs()
    assert not (project.folder / RUN).exists()
    project.snakemake("--cores", 1, "--configfile", CONFIG)  # the remedy


def test_file_replaced_meanwhile_is_refused(project, alone):
    """Its time says nothing: a file that is copied with its time may be older than the one that it replaces."""
    files = [project.folder / name for name in ("texts.csv", "other.csv")]
    for file, word in zip(files, ("bright", "cold"), strict=True):
        file.write_text("label,text\n" + "".join(f"{row % 2},{word} {'abcdef'[row % 6] * row}\n" for row in range(60)))
        os.utime(file, (1e9, 1e9))
    values = copy.deepcopy(alone)
    mine = {"source": "local", "local": {"files": {"all": ["texts.csv"]}}, "labels": ["0", "1"], "max_tokens": 48}
    values["experiment"]["datasets"]["mine"] = mine
    values["experiment"]["stages"]["score"]["data"]["mine"] = {}
    project.configure(values)
    target, begun = "results/alone/data/mine/prepared/train.parquet", "results/alone/logs/prepare_dataset/mine.log"
    process = run_and_edit(project, lambda: files[1].replace(files[0]), "--", target, begun=begun)
    assert process.returncode
    assert "texts.csv: changed while this call ran" in process.stdout
    assert not (project.folder / target).exists()
    project.snakemake("--cores", 1, "--configfile", CONFIG, "--", target)  # the remedy
    assert all("cold" in text for text in pq.read_table(project.folder / target)["text"].to_pylist())


def test_file_in_folder_is_no_module(project, monkeypatch):
    monkeypatch.delitem(project.environment, "PYTHONPATH")
    for folder in (project.folder / "elsewhere", project.folder):
        folder.mkdir(exist_ok=True)
        (folder / "json.py").write_text("raise SystemExit('a stranger')")
        configured = ("--directory", folder, "--configfile", CONFIG, "--until", "generate_imdb")
        process = project.snakemake("--cores", 1, *configured, check=False)
        assert "a stranger" not in process.stdout
        assert process.returncode == (folder == project.folder), process.stdout
    assert f"{folder}/json.py: hides another module json" in process.stdout


def test_length_of_commands_is_bounded(project, alone):
    """However many classes and files a dataset has."""
    names = [f"{'class':-<44}{number:04d}" for number in range(2_700)]
    parts = [f"part-{number:04d}-{'of-many' * 10}.csv" for number in range(1_000)]
    rows = [f"{name},text {number} of {name}" for name in names for number in range(10)]
    for number, name in enumerate(parts):
        (project.folder / name).write_text("\n".join(["label,text", *rows[27 * number : 27 * number + 27]]))
    many = {"source": "local", "local": {"files": {"all": parts}}, "labels": names, "max_tokens": 48}
    project.configure(changed(alone, ("experiment/datasets/many", many)))
    target = "results/alone/data/many/prepared/train.parquet"
    process = project.snakemake("--cores", 1, "-p", "--configfile", CONFIG, "--", target)
    (command,) = re.findall(r"exec .*scripts/prepare_dataset.*", process.stdout)
    assert len(command) < 1_000


def test_large_file_copied_again_is_not_stale(project, alone):
    """Above one megabyte, up to which Snakemake compares contents by itself."""
    rows = [f"{number % 2},{'word ' * 200}{number}" for number in range(1200)]
    file = project.folder / "notes.csv"
    file.write_text("\n".join(["label,text", *rows]))
    assert file.stat().st_size > 10**6
    dataset = alone["experiment"]["datasets"]["imdb"] | {
        "source": "local",
        "local": {"files": {"all": ["notes.csv"]}},
        "generated": None,
    }
    project.configure(changed(alone, ("experiment/datasets/imdb", dataset)))
    target = "results/alone/data/imdb/prepared/train.parquet"
    project.snakemake("--cores", 1, "--configfile", CONFIG, "--", target)
    file.write_bytes(file.read_bytes())
    assert project.stale(CONFIG, target=target) == {}
    assert "Nothing to be done" in project.snakemake("--cores", 1, "--configfile", CONFIG, "--", target).stdout
    file.write_text(file.read_text().replace("word", "else", 1))
    assert project.stale(CONFIG, target=target)["prepare_dataset"] == 1


def test_two_calls_end_in_one_right_result(clone):
    """The second one refuses. Where the lock is missing, both make the run, and the older process leaves."""
    project = clone("twice")
    longer = QUICK | {"epochs": 100, "batch_size": 8}
    project.configure(changed(TINY, ("experiment/seeds", [7]), ("experiment/stages/adapt/recipe", longer)))
    target = "results/tiny/runs/adapt/sdpa/imdb/seed-7/run.json"
    call = ("--cores", "1", "--configfile", CONFIG, "--", target)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    first = subprocess.Popen(["snakemake", *call], cwd=project.folder, env=project.environment, **quiet)
    work = project.results / "work"
    while not (begun := [beat for path in work.glob("*-seed-7-*/*") if (beat := read_heartbeat(path)) and beat.step]):
        assert first.poll() is None
        time.sleep(0.02)
    os.kill(begun[0].process, signal.SIGSTOP)
    try:
        refused = project.snakemake(*call, check=False)
        assert refused.returncode
        assert "Directory cannot be locked" in refused.stdout
        (project.results / ".lock").unlink()  # as on a file system without locks
        project.snakemake("--nolock", "--rerun-incomplete", *call)
        record = project.folder / target
        model = record.parent / "model" / "model.safetensors"
        found = model.read_bytes()
    finally:
        os.kill(begun[0].process, signal.SIGCONT)
    assert first.wait(60), "its job has been taken over"
    assert not record.exists(), "its Snakemake removes what the rule makes, as of any job that failed"
    project.snakemake("--rerun-incomplete", *call)  # undisturbed: the working folder was swept before
    assert model.read_bytes() == found
