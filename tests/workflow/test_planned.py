"""A job does what was planned, whatever becomes of the configuration and the code while it waits."""

import copy
import re
import threading
import time

import pytest
import yaml

from lib.core.files import mapping_text
from lib.study.configuration import load_study, merged, read_layers

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


def run_and_edit(project, edit, *options):
    """Run the study, make an edit as soon as its first job has finished, and return snakemake's process."""

    def wait_and_edit():
        while not (project.folder / GENERATED).exists():
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
    assert "the code has" in process.stdout + project.logs()
    assert "stop snakemake and start it again" in process.stdout + project.logs()
    assert "Traceback" not in project.logs()
    assert not (project.folder / RUN).exists()
    project.snakemake("--cores", 1, "--configfile", "config.test.yaml")  # the remedy


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


def test_a_study_is_read_from_its_copy_as_from_its_files(repository, tmp_path):
    for path in sorted((repository / "config").glob("*.yaml")):
        layers = read_layers([path])
        (tmp_path / "copy.yaml").write_text(mapping_text(merged(layers)))
        assert load_study(read_layers([tmp_path / "copy.yaml"])) == load_study(layers)
