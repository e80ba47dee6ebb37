"""An archive holds what its manifest says, in the same bytes each time; verification finds whatever differs from it."""

import json
import os
import re
import socket
import tarfile
from pathlib import Path

import pytest
from run_records import write_run

from lib.core.errors import ConfigError, DataError
from lib.study.configuration import load_study, merged, read_layers
from lib.workflow.commands.archive import _all, _archived, archive, pack
from lib.workflow.commands.verification import verification_report, verify
from lib.workflow.planning.plan import Plan

MANIFEST = "MANIFEST.json"


@pytest.fixture
def study(tmp_path, monkeypatch):
    """The folder of a study with two runs and a table, from which the working folder sees it."""
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results"
    for seed in (0, 1):
        write_run(results, "finetune", "sdpa", "imdb", seed=seed)
    (results / "tables").mkdir()
    (results / "tables/f1.csv").write_text("a\n1\n")
    return results


def packed(results, out):
    files = sorted(_all(results / "runs") | _all(results / "tables"))
    pack(
        out,
        results.relative_to(results.parent),
        [file.relative_to(results.parent) for file in files],
        {"study.yaml": "{}\n"},
    )
    return out


@pytest.fixture
def archived(study, tmp_path):
    """The same study, unpacked elsewhere."""
    with tarfile.open(packed(study, tmp_path / "a.tar.gz")) as tar:
        tar.extractall(tmp_path / "elsewhere", filter="data")
    return tmp_path / "elsewhere/results"


def found(results):
    return verify(str(results), str(results / "code"))


def said(results):
    return verification_report(found(results), "results").splitlines()[0]


def test_a_part_of_a_study_is_not_archived(tmp_path):
    plan = Plan(load_study([*read_layers(["config/demo.yaml"]), ("", {"only": {"models": ["sdpa"]}})]))
    with pytest.raises(ConfigError, match='only: {"models":\\["sdpa"\\]} asks for a part'):
        archive(plan, {}, tmp_path / "CITATION.cff", tmp_path / "a.tar.gz")


@pytest.mark.parametrize("results", ["/nowhere/demo", "../outside", "a/../../outside"])
def test_a_study_whose_results_lie_elsewhere_is_not_archived(tmp_path, results):
    """Unpacked at the root of another checkout, it would lie outside it."""
    plan = Plan(load_study([*read_layers(["config/demo.yaml"]), ("", {"execution": {"results": results}})]))
    with pytest.raises(ConfigError, match=rf"execution.results: {re.escape(results)} .*a folder below this one"):
        archive(plan, {}, tmp_path / "CITATION.cff", tmp_path / "a.tar.gz")


def test_two_archives_of_a_study_are_the_same_bytes(study, tmp_path):
    first = packed(study, tmp_path / "first.tar.gz").read_bytes()
    for file in study.rglob("*.csv"):
        file.chmod(0o600)
    assert packed(study, tmp_path / "a second name.tar.gz").read_bytes() == first


def test_links_are_packed_as_what_they_lead_to(study, tmp_path):
    table = study / "tables/f1.csv"
    table.rename(tmp_path / "far.csv")
    table.symlink_to(tmp_path / "far.csv")
    os.link(tmp_path / "far.csv", study / "tables/twice.csv")
    with tarfile.open(packed(study, tmp_path / "a.tar.gz")) as tar:
        assert all(entry.isreg() for entry in tar)
        manifest = json.load(tar.extractfile(f"results/{MANIFEST}"))["files"]
        assert sorted(manifest) == sorted(
            name.removeprefix("results/") for name in tar.getnames() if MANIFEST not in name
        )
        for name in ("f1", "twice"):
            assert tar.extractfile(f"results/tables/{name}.csv").read() == b"a\n1\n"


def fifo(path):
    os.mkfifo(path)


def listening(path):
    socket.socket(socket.AF_UNIX).bind(os.path.relpath(path))


@pytest.mark.parametrize(
    "make",
    [
        fifo,
        listening,
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.symlink_to(path.parent),
        lambda path: path.symlink_to(path),
    ],
)
def test_what_is_no_file_is_refused(make, study, tmp_path):
    make(study / "runs/finetune/x")
    with pytest.raises(DataError, match="runs/finetune/x: is no file, so it cannot be archived"):
        packed(study, tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_the_configuration_in_an_archive_loads(repository):
    """Tables and figures of other things than runs are not made from an archive."""
    for file in sorted((repository / "config").glob("*.yaml")):
        layers = read_layers([file])
        plan = Plan(load_study(layers))
        study = load_study([("archived.yaml", _archived(plan, merged(layers)))])
        assert study.report.opens_with or not plan.study.report.opens_with, file
        shown = {**study.report.tables, **study.report.figures}
        assert {each.reads for each in shown.values()} <= {"runs"}, file


def test_an_archive_is_as_it_was_packed(archived):
    assert not found(archived).differing
    assert said(archived) == "results: 2 finished runs, 2 as recorded, 0 differ."
    (archived / "logs").mkdir()
    (archived / "logs/table.log").write_text("remade")
    (archived / ".DS_Store").write_text("of a file browser")
    assert not found(archived).differing


def manifest(results, change):
    path = results / MANIFEST
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


ONE = "runs/finetune/sdpa/imdb/seed-0"


def without(name):
    def change(content):
        del content["files"][name]

    return lambda results: manifest(results, change)


def away(place):
    return lambda results: [path.unlink() for path in (results / place).rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("change", "place", "counts"),
    [
        (lambda results: (results / ONE / "history.csv").write_text(""), ONE, "2 finished runs, 1 as recorded, 1"),
        (lambda results: (results / ONE / "history.csv").unlink(), ONE, "2 finished runs, 1 as recorded, 1"),
        (away(ONE), ONE, "1 finished runs, 1 as recorded, 0"),
        (away("runs"), ONE, "0 finished runs, 0 as recorded, 0"),
        (away("tables"), "tables", "2 finished runs, 2 as recorded, 0"),
        (lambda results: (results / "study.yaml").unlink(), "", "2 finished runs, 2 as recorded, 0"),
        (without(f"{ONE}/run.json"), ONE, "2 finished runs, 1 as recorded, 1"),
        (without(f"{ONE}/config.yaml"), ONE, "2 finished runs, 1 as recorded, 1"),
        (without("tables/f1.csv"), "tables", "2 finished runs, 2 as recorded, 0"),
        (without("study.yaml"), "", "2 finished runs, 2 as recorded, 0"),
        (lambda results: (results / "tables/f2.csv").write_text("a\n"), "tables", "2 finished runs, 2 as recorded, 0"),
        (
            lambda results: write_run(results, "finetune", "sdpa", "imdb", seed=2),
            "runs/finetune/sdpa/imdb/seed-2",
            "3 finished runs, 2 as recorded, 1",
        ),
        (
            lambda results: (results / "runs/finetune/other").symlink_to(results / "runs/finetune/sdpa"),
            "runs/finetune",
            "2 finished runs, 2 as recorded, 0",
        ),
        (
            lambda results: [
                (results / "tables/f1.csv").rename(results.parent / "f1.csv"),
                (results / "tables/f1.csv").symlink_to(results.parent / "f1.csv"),
            ],
            "tables",
            "2 finished runs, 2 as recorded, 0",
        ),
    ],
)
def test_what_is_changed_removed_or_added_is_found(change, place, counts, archived):
    change(archived)
    assert str(archived / place) in found(archived).differing
    assert counts in said(archived)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.clear(),
        lambda content: content.update(files={}),
        lambda content: content.update(files=["a"]),
        lambda content: content.update(files={"a": 1}),
    ],
)
def test_a_manifest_that_describes_no_archive_is_refused(change, archived):
    manifest(archived, change)
    with pytest.raises(DataError, match="no manifest"):
        found(archived)


@pytest.mark.parametrize("name", ["/etc/passwd", "runs/../../a", "a\0b"])
def test_what_a_manifest_names_outside_the_study_is_not_there(name, archived):
    (archived.parent / "a").write_text("")
    manifest(archived, lambda content: content["files"].update({name: ""}))
    assert [f"{Path(name).name} is gone"] in found(archived).differing.values()
