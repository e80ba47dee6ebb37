"""Settings that the project writes are read back as the same values: the text 1e5 is not the number 100,000."""

import tarfile
from pathlib import Path

import pytest
from run_records import write_run
from small_studies import SMALL, changed, study

from lib.core.files import mapping_text, read_mapping, read_value
from lib.core.record import RunId
from lib.study.configuration import load_study
from lib.workflow.commands.archive import archive
from lib.workflow.commands.sharing import _source
from lib.workflow.planning.plan import Plan

TEXTS = ["1e5", "4e2", "no", "0x1f", "1_000", "~", "12:30", "null", "-.inf", "2024-01-01", "0o17", "<<", "=", ""]
"""Texts that some version of YAML reads as a number, a truth value, a time, nothing or a sign."""

VALUES = {
    "labels": [*TEXTS, "naïve", "a: b", "x" * 200],
    "values": dict.fromkeys(TEXTS) | {"a": 1e5, "b": 1e-5, "c": [True, None, 1000, 0.5]},
}


@pytest.mark.parametrize("width", [80, 110])
def test_settings_are_read_as_they_were_written(tmp_path, width):
    (tmp_path / "settings.yaml").write_text(mapping_text(VALUES, width))
    assert read_mapping(tmp_path / "settings.yaml") == VALUES
    text = mapping_text(VALUES, one_line=True)
    assert "\n" not in text
    assert read_mapping(text) == VALUES


def test_settings_of_an_archive_keep_their_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = changed(SMALL, ("experiment/datasets/imdb/labels", TEXTS[:2]))
    plan = Plan(load_study([("small.yaml", settings)]))
    for run in plan.runs:
        write_run(Path(plan.paths.results), run.id.stage, run.id.model, run.id.dataset, run.id.seed)
    for target in map(Path, plan.targets()):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    Path("CITATION.cff").touch()
    archive(plan, settings, Path("CITATION.cff"), "a.tar.gz")
    with tarfile.open("a.tar.gz") as tar:
        written = read_value(tar.extractfile(f"{plan.paths.results}/study.yaml").read().decode(), "study.yaml")
    assert written["experiment"] == settings["experiment"]


def test_settings_of_a_card_keep_their_files():
    plan = Plan(study(("datasets/imdb/source", "local"), ("datasets/imdb/local", {"files": {"train": ["1e5"]}})))
    source = _source(plan.run(RunId("finetune", "sdpa", "imdb", 1)))
    assert read_value(source, "the card")["local"]["files"] == {"train": ["1e5"]}
