"""An archive holds what its manifest says, in the same bytes each time; verification finds whatever differs from it."""

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from run_records import write_run

from lib.core.errors import ConfigError, DataError
from lib.study.configuration import load_study, merged, read_layers
from lib.workflow.commands.archive import _all, _archived, _files, archive, pack
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
    shutil.unpack_archive(packed(study, tmp_path / "a.tar.gz"), tmp_path / "elsewhere")
    return tmp_path / "elsewhere/results"


def found(results):
    return verify(str(results), str(results / "code"))


def said(results):
    return verification_report(found(results), "results").splitlines()[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"only": {"models": ["sdpa"]}},
        *({"execution": {"results": place}} for place in ("/far", "../out", "a/../../out")),
    ],
)
def test_part_or_study_elsewhere_is_not_archived(tmp_path, changes):
    """Unpacked at the root of another checkout, files of a study elsewhere would lie outside it."""
    plan = Plan(load_study([*read_layers(["config/demo.yaml"]), ("", changes)]))
    with pytest.raises(ConfigError, match="only|execution.results"):
        archive(plan, {}, tmp_path / "CITATION.cff", tmp_path / "a.tar.gz")


def test_archives_of_a_study_are_same_bytes(study, tmp_path):
    first = packed(study, tmp_path / "first.tar.gz").read_bytes()
    for file in study.rglob("*.csv"):
        file.chmod(0o600)
    assert packed(study, tmp_path / "a second name.tar.gz").read_bytes() == first


def test_links_are_packed_as_files(study, tmp_path):
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


@pytest.mark.parametrize("make", [os.mkfifo, *(lambda path, to=to: path.symlink_to(to) for to in ("nowhere", "x"))])
def test_archive_without_pipes_and_sockets(make, study, tmp_path):
    make(study / "runs/finetune/x")
    with pytest.raises(DataError, match="runs/finetune/x"):
        packed(study, tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_configuration_in_an_archive_loads(repository):
    """Tables and figures of other things than runs are not made from an archive."""
    for file in sorted((repository / "config").glob("*.yaml")):
        layers = read_layers([file])
        plan = Plan(load_study(layers))
        study = load_study([("archived.yaml", _archived(plan, merged(layers)))])
        assert study.report.opens_with or not plan.study.report.opens_with, file
        shown = {**study.report.tables, **study.report.figures}
        assert {(each.reads, each.needs_documents) for each in shown.values()} <= {("runs", False)}, file


def test_archive_without_texts(tmp_path, monkeypatch):
    """Neither tables that show texts are packed, nor the report with them."""
    plan = Plan(load_study(read_layers(["config/demo.yaml"])))
    monkeypatch.chdir(tmp_path)
    for run in plan.runs:
        write_run(Path(plan.paths.results), *run.id[:3], seed=run.id.seed)
    for file in (*plan.targets(), f"{plan.paths.results}/report.html"):
        Path(file).parent.mkdir(exist_ok=True, parents=True)
        Path(file).touch()
    names = {str(file) for file in _files(plan)}
    assert plan.paths.table("f1") in names
    assert not [name for name in names if "errors" in name or "report" in name]


def test_untouched_archive_is_whole(archived):
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


def moved_out(results):
    (results / "tables/f1.csv").rename(results.parent / "f1.csv")
    (results / "tables/f1.csv").symlink_to(results.parent / "f1.csv")


CHANGES = [
    (lambda results: (results / ONE / "history.csv").write_text(""), ONE, (2, 1, 1)),
    (lambda results: (results / ONE / "history.csv").unlink(), ONE, (2, 1, 1)),
    (away(ONE), ONE, (1, 1, 0)),
    (away("tables"), "tables", (2, 2, 0)),
    (lambda results: (results / "study.yaml").unlink(), "", (2, 2, 0)),
    (without(f"{ONE}/config.yaml"), ONE, (2, 1, 1)),
    (without("tables/f1.csv"), "tables", (2, 2, 0)),
    (lambda results: (results / "tables/f2.csv").write_text("a\n"), "tables", (2, 2, 0)),
    (lambda results: write_run(results, "finetune", "sdpa", "imdb", seed=2), ONE.replace("d-0", "d-2"), (3, 2, 1)),
    (moved_out, "tables", (2, 2, 0)),
]


@pytest.mark.parametrize(("change", "place", "counts"), CHANGES)
def test_changed_removed_or_added_file(change, place, counts, archived):
    change(archived)
    assert str(archived / place) in found(archived).differing
    runs, same, other = counts
    assert said(archived) == f"results: {runs} finished runs, {same} as recorded, {other} differ."


def test_manifest_that_describes_no_archive(archived):
    for files in ({}, ["a"], {"a": 1}):
        manifest(archived, lambda content, files=files: content.update(files=files))
        with pytest.raises(DataError, match="no manifest"):
            found(archived)


def test_manifest_names_nothing_outside(archived):
    (archived.parent / "a").write_text("")
    names = ("/etc/passwd", "runs/../../a", "a\0b")
    manifest(archived, lambda content: content["files"].update(dict.fromkeys(names, "")))
    gone = {problem for problems in found(archived).differing.values() for problem in problems}
    assert gone == {f"{Path(name).name} is gone" for name in names}
