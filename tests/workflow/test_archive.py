"""A finished study in one file: another checkout remakes its tables and figures from it, and they are the same."""

import shutil
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.extended

CONFIG, STUDY = "config.test.yaml", "results/tiny/study.yaml"
KEPT = {"lengths"}
"""Results that need texts or models, which the archive has as they are."""


@pytest.fixture(scope="module")
def project(clone):
    project = clone("archiving")
    shutil.copy(Path(__file__).parents[2] / "CITATION.cff", project.folder)
    return project


@pytest.fixture(scope="module")
def packed(project):
    said, status = project.ask("archive", "--configfile", CONFIG, "--out", "tiny.tar.gz")
    assert (status, said.startswith("tiny.tar.gz: 5 runs, ")) == (0, True), said
    return project.folder / "tiny.tar.gz"


def test_tables_and_figures_made_elsewhere(packed, copy_of_repository):
    other = copy_of_repository("reader")
    other.results = other.folder / "results/tiny"
    with tarfile.open(packed) as tar:
        names = tar.getnames()
    shutil.unpack_archive(packed, other.folder)
    assert not any("/model/" in name or "/data/" in name for name in names)
    whole = "results/tiny: 5 finished runs, 5 as recorded, 0 differ.\n", 0
    assert other.ask("verify", "--configfile", STUDY) == whole
    made = sorted(path for place in ("tables", "figures") for path in (other.results / place).iterdir())
    made = [path for path in made if path.stem not in KEPT]
    for path in made:
        path.unlink()
    said, status = other.ask("verify", "--configfile", STUDY)
    assert (f"{made[-1].name} is gone" in said, status) == (True, 1)
    other.snakemake("--cores", 1, "--configfile", STUDY)
    assert other.ask("verify", "--configfile", STUDY) == whole  # byte by byte, by the manifest


def test_unfinished_study_is_not_archived(project, packed):
    record = next(project.results.glob("runs/score/*/imdb/*/run.json"))
    kept = record.rename(record.with_suffix(".kept"))
    said, status = project.ask("archive", "--configfile", CONFIG, "--out", "other.tar.gz")
    kept.rename(record)
    assert (status, "run.json: no such file" in said) == (2, True), said
    assert not (project.folder / "other.tar.gz").exists()
