"""Span corruption from end to end: the study of text_to_text.md, smaller, from its texts to its tables."""

import re

import pandas as pd
import pytest
import yaml

from lib.core.record import read_record

pytestmark = pytest.mark.study

SMALLER = {
    "experiment": {
        "datasets": {"senses": {"generated": {"documents": 300, "options": {"validation": 40, "test": 40}}}},
        "stages": {"read": {"recipe": {"epochs": 2}}, "answer": {"recipe": {"epochs": 1}}},
    },
    "report": {"tables": {"read": {"stage": "read", "columns": ["loss", "eval_perplexity"]}}},
}


@pytest.fixture(scope="module")
def finished(copy_of_repository, repository):
    """The study of the page's first block, with its second laid over it."""
    blocks = re.findall(
        r"```yaml\n(.*?)```", (repository / "studies/hate_speech/text_to_text.md").read_text(), re.DOTALL
    )
    study, reading, *_ = (yaml.safe_load(block) for block in blocks)
    project = copy_of_repository("answers")
    project.configure(study, "answers.yaml")
    project.configure({"extends": "answers.yaml", "experiment": reading}, "reading.yaml")
    project.configure({"extends": "reading.yaml"} | SMALLER, "smaller.yaml")
    project.snakemake("--cores", 2, "--configfile", "smaller.yaml")
    project.results = project.folder / "results/answers"
    return project


def test_answers_from_what_was_read(finished):
    runs = finished.results / "runs"
    read, answer = (read_record(runs / stage / "t5/senses/seed-1") for stage in ("read", "answer"))
    assert (read.task, answer.task) == ("span_corruption", "text_to_text")
    assert answer.parents["start"].path.endswith("read/t5/senses/seed-1/model")
    assert read.parameters["total"] == answer.parameters["total"]


def test_tables_of_both(finished):
    tables = finished.results / "tables"
    read, answers = (pd.read_csv(tables / f"{name}.csv") for name in ("read", "answers"))
    assert read["model"].tolist() == answers["model"].tolist() == ["t5"]
    assert read.notna().all(axis=None)
    assert answers["senses_test_unparsed"].notna().all()
    history = pd.read_csv(finished.results / "runs/read/t5/senses/seed-1/history.csv")
    assert history["eval_loss"].is_monotonic_decreasing
