"""Settings that the project writes are read back as the same values: the text 1e5 is not the number 100,000."""

import tarfile
from pathlib import Path

import pandas as pd
import pytest
from run_records import write_run
from small_studies import SMALL, changed, study

from lib.advice.encoders import published_encoder
from lib.advice.preparing import OwnTexts
from lib.advice.question import Question
from lib.advice.studies import advised_study
from lib.core.files import mapping_text, read_mapping, read_value
from lib.core.record import RunId
from lib.study.configuration import load_study
from lib.workflow.commands.archive import archive
from lib.workflow.commands.sharing import _source
from lib.workflow.planning.plan import Plan
from studies.imported.importing import import_runs

TEXTS = ["1e5", "4e2", "no", "0x1f", "1_000", "~", "12:30", "null", "-.inf", "2024-01-01", "0o17", "<<", "=", ""]
"""Texts that some version of YAML reads as a number, a truth value, a time, nothing or a sign."""
NAMES = ["1e5", "4e2", "no", "0x1f", "1_000"]
"""Those of them that can be names of models and datasets."""

VALUES = {
    "labels": [*TEXTS, "naïve", "a: b", "x" * 200],
    "values": dict.fromkeys(TEXTS) | {"a": 1e5, "b": 1e-5, "c": [True, None, 1000, 0.5]},
}


@pytest.mark.parametrize("width", [80, 110])
def test_a_file_is_read_as_what_was_written(tmp_path, width):
    (tmp_path / "settings.yaml").write_text(mapping_text(VALUES, width))
    assert read_mapping(tmp_path / "settings.yaml") == VALUES


def test_one_line_is_read_as_what_was_written():
    text = mapping_text(VALUES, one_line=True)
    assert "\n" not in text
    assert read_mapping(text) == VALUES


@pytest.mark.parametrize("name", NAMES)
def test_an_imported_run_keeps_the_name_of_its_dataset(tmp_path, name):
    run = {"run": "E1_pre_aa", "stage": "pretrain", "dataset": name, "attention": "mha", "epochs": 1, "seed": 1}
    run |= {"peak_gpu_mem_mb": 1.0, "runtime_s": 1.0}
    pd.DataFrame([run]).to_parquet(tmp_path / "runs.parquet")
    row = {"run": run["run"], "step": 0, "elapsed_s": 1.0, "train/epoch": 1.0, "train/avg_epoch_loss": 1.0}
    rows = [row, {"run": run["run"], "step": 0, "elapsed_s": 1.0, "eval/epoch": 1.0, "eval/loss": 1.0}]
    pd.DataFrame(rows, columns=[*row, "eval/epoch", "eval/loss", "test/epoch"]).to_parquet(tmp_path / "history.parquet")
    (folder,) = import_runs(tmp_path / "runs.parquet", tmp_path / "history.parquet", tmp_path / "out", "a machine")
    assert read_mapping(folder / "config.yaml")["dataset"] == name


def test_an_archive_keeps_the_labels_of_its_study(tmp_path, monkeypatch):
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


@pytest.fixture
def own_texts():
    """Texts of a user, with labels that look like numbers."""
    settings = {"text": "body", "label": "class", "labels": TEXTS[:2]}
    return OwnTexts(settings, {"train": 800, "validation": 100, "test": 100}, ["text"], {"1e5": 600, "4e2": 400})


def test_an_advised_study_keeps_the_labels_of_the_texts(own_texts):
    encoder, question = published_encoder(labelled=True, multilingual=False), Question("the study", ["texts/*.csv"])
    text = advised_study(encoder, question, own_texts, 512, {}, "fp32", {})
    assert read_value(text, "texts.yaml")["experiment"]["datasets"]["texts"]["labels"] == TEXTS[:2]


def test_a_card_keeps_the_settings_of_the_data():
    plan = Plan(study(("datasets/imdb/source", "local"), ("datasets/imdb/local", {"files": {"train": ["1e5"]}})))
    source = _source(plan.run(RunId("finetune", "sdpa", "imdb", 1)))
    assert read_value(source, "the card")["local"]["files"] == {"train": ["1e5"]}
