"""A job does what was planned, whatever becomes of the configuration and the code while it waits."""

import copy
import fcntl
import os
import re
import threading
import time

import pyarrow.parquet as pq
import pytest
import yaml

from lib.core.files import mapping_text
from lib.study.configuration import SHIPPED, load_study, merged, read_layers

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
    process = project.snakemake("--cores", 1, "--configfile", "config.test.yaml", *options, check=False)
    editor.join(timeout=10)
    assert not editor.is_alive(), (process.returncode, process.stdout, project.logs())
    return process


@pytest.mark.parametrize("options", [(), AS_A_CLUSTER_DOES], ids=["here", "as a cluster does"])
def test_a_configuration_edited_meanwhile_changes_no_job(project, options):
    def edit():
        file = project.folder / "config.test.yaml"
        file.write_text(file.read_text().replace("max_features: 500", "max_features: 7"))

    process = run_and_edit(project, edit, *options)
    assert process.returncode == 0, process.stdout + project.logs()
    settings = yaml.safe_load((project.folder / RUN / "config.yaml").read_text())
    assert settings["backbone"]["max_features"] == 500
    assert project.stale("config.test.yaml")["evaluate"] == 2


@pytest.mark.parametrize("options", [(), AS_A_CLUSTER_DOES], ids=["here", "as a cluster does"])
def test_a_job_is_refused_when_its_code_has_changed_meanwhile(project, options):
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
    project.snakemake("--cores", 1, "--configfile", "config.test.yaml")  # the remedy


def test_what_was_made_of_a_file_replaced_meanwhile_is_refused(project, alone):
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
    project.snakemake("--cores", 1, "--configfile", "config.test.yaml", "--", target)  # the remedy
    assert all("cold" in text for text in pq.read_table(project.folder / target)["text"].to_pylist())


def test_a_call_on_results_that_another_folder_works_on_is_refused(project):
    """Snakemake's own lock is of the folder that it is started in. That of a process that was killed ends with it."""
    results = project.folder / "results/alone"
    results.mkdir(parents=True)
    with open(results / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("snakemake in /elsewhere (process 7 on a node)")
        lock.flush()
        process = project.snakemake("--cores", 1, "--configfile", "config.test.yaml", check=False)
        assert process.returncode
        assert "results/alone: snakemake in /elsewhere (process 7 on a node) works on these results" in process.stdout
    project.snakemake("--cores", 1, "--configfile", "config.test.yaml", "--until", "generate_imdb")
    assert f"snakemake in {project.folder} (process" in (results / ".lock").read_text()


def test_a_file_in_the_working_folder_or_the_projects_is_no_module_of_python(project, monkeypatch):
    monkeypatch.delitem(project.environment, "PYTHONPATH")
    for folder in (project.folder / "elsewhere", project.folder):
        folder.mkdir(exist_ok=True)
        (folder / "json.py").write_text("raise SystemExit('a stranger')")
        configured = ("--directory", folder, "--configfile", "config.test.yaml", "--until", "generate_imdb")
        process = project.snakemake("--cores", 1, *configured, check=False)
        assert "a stranger" not in process.stdout
        assert process.returncode == (folder == project.folder), process.stdout
    assert f"{folder}/json.py: hides another module json" in process.stdout


def test_no_command_grows_with_what_it_is_told(project):
    names = [f"{'class':-<44}{number:04d}" for number in range(2_700)]
    values = yaml.safe_load((project.folder / "config.test.yaml").read_text())
    rows = [f"{name},text {number} of {name}" for name in names for number in range(10)]
    (project.folder / "many.csv").write_text("\n".join(["label,text", *rows]))
    parts = [f"part-{number:04d}-{'of-many' * 10}.csv" for number in range(2_000)]
    for name in parts:
        (project.folder / name).write_text("label,text\n0,word\n1,words\n")
    for name, files, labels in (("many", ["many.csv"], names), ("parts", parts, ["0", "1"])):
        values["experiment"]["datasets"][name] = {
            "source": "local",
            "local": {"files": {"all": files}},
            "labels": labels,
            "max_tokens": 48,
        }
    project.configure(values)
    targets = [f"results/alone/data/{name}/prepared/train.parquet" for name in ("many", "parts")]
    process = project.snakemake("--cores", 1, "-p", "--configfile", "config.test.yaml", "--", *targets)
    commands = re.findall(r"exec .*scripts/prepare_dataset.*", process.stdout)
    assert len(commands) == 2
    assert max(map(len, commands)) < 1_000


def test_a_study_is_read_from_its_copy_as_from_its_files(tmp_path):
    for path in SHIPPED.values():
        layers = read_layers([path])
        (tmp_path / "copy.yaml").write_text(mapping_text(merged(layers)))
        assert load_study(read_layers([tmp_path / "copy.yaml"])) == load_study(layers)
