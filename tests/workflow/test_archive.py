"""A finished study in one file: another checkout remakes its tables and figures from it, and they are the same."""

import shutil
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.study

CONFIG, STUDY = "config.test.yaml", "results/demo/study.yaml"
KEPT = {"token_lengths", "approximation", "attention_patterns"}
"""Results that need texts or models, which the archive has as they are."""


@pytest.fixture(scope="module")
def project(clone):
    project = clone("archiving", "results", ".snakemake")
    shutil.copy(Path(__file__).parents[2] / "CITATION.cff", project.folder)
    return project


@pytest.fixture(scope="module")
def packed(project):
    done = project.program("archive", "--configfile", CONFIG, "--out", "demo.tar.gz")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("demo.tar.gz: 10 runs, ")
    return project.folder / "demo.tar.gz"


def test_another_checkout_makes_the_same_tables_and_figures(packed, copy_of_repository):
    other = copy_of_repository("reader")
    with tarfile.open(packed) as tar:
        names = tar.getnames()
        tar.extractall(other.folder, filter="data")
    assert not any("/model/" in name or "/data/" in name for name in names)

    def verify():
        done = other.program("verify", "--configfile", STUDY)
        return done.stdout, done.returncode

    whole = "results/demo: 10 finished runs, 10 as recorded, 0 differ.\n", 0
    assert verify() == whole
    made = sorted(path for place in ("tables", "figures") for path in (other.results / place).iterdir())
    made = [path for path in made if path.stem not in KEPT]
    assert made
    for path in made:
        path.unlink()
    said, status = verify()
    assert (f"{made[-1].name} is gone" in said, status) == (True, 1)
    other.snakemake("--cores", 1, "--configfile", STUDY)
    assert verify() == whole  # byte by byte, by the manifest
    table = next(path for path in made if path.suffix == ".csv")
    table.write_text(table.read_text() + "x")
    record = next(other.results.glob("runs/finetune/*/imdb/*/run.json"))
    record.write_text(record.read_text() + " ")
    said, _ = verify()
    assert said.startswith("results/demo: 10 finished runs, 9 as recorded, 1 differ.")
    assert f"results/demo/tables\n    {table.name} differs from the archived file" in said


def test_an_unfinished_study_is_not_archived(project, packed):
    record = next(project.results.glob("runs/finetune/*/imdb/*/run.json"))
    kept = record.with_suffix(".kept")
    shutil.move(record, kept)
    try:
        done = project.program("archive", "--configfile", CONFIG, "--out", "other.tar.gz")
    finally:
        shutil.move(kept, record)
    assert done.returncode == 1
    assert "run.json: no such file" in done.stderr
    assert "Finish the study" in done.stderr
    assert not (project.folder / "other.tar.gz").exists()
