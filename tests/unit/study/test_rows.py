"""Rows, columns and files of tables and figures: models that share runs, and names that meet."""

import pytest
from small_studies import SMALL, changed

from lib.core.errors import ConfigError
from lib.core.record import RUN
from lib.study.configuration import load_study
from lib.workflow.planning.plan import Plan

SDPA = {"backbone": "encoder", "mechanism": "sdpa"}
FAVOR_ON_ARXIV = {"changes": {"finetune": {"data": {"arxiv": {"mechanism": "favor-m64"}}}}}
SIGNIFICANCE = {"kind": "significance", "stage": "finetune"}


def plan(*changes, **report):
    return Plan(load_study([("small.yaml", changed(SMALL, *changes)), ("report.yaml", {"report": report})]))


def refused(*changes, **report):
    with pytest.raises(ConfigError) as caught:
        plan(*changes, **report)
    return str(caught.value)


TWINS = ("experiment/models/twin", SDPA), ("experiment/models/hybrid", SDPA | FAVOR_ON_ARXIV)


def test_row_says_which_models_it_stands_for():
    table = {"stage": "finetune", "columns": ["f1"]}
    tables = plan(*TWINS, tables={"all": table, "some": table | {"models": ["favor-m64", "sdpa"]}}).report.tables
    assert tables["all"]["scope"]["models"] == ["tfidf", "sdpa", "lsh-h2-c64", "favor-m64", "hybrid"]
    assert tables["all"]["scope"]["row_of"] == {"twin": "sdpa"}
    assert "row_of" not in tables["some"]["scope"]


def test_reference_that_shares_runs_has_the_row_of_these():
    table = SIGNIFICANCE | {"pairs": [["favor-m64", "twin"], ["hybrid", "twin"]]}
    made = plan(*TWINS, reference="twin", tables={"pairs": table}).report.tables["pairs"]["scope"]
    assert (made["models"], made["reference"], made["row_of"]) == (
        ["favor-m64", "sdpa", "hybrid"], "sdpa", {"twin": "sdpa"}
    )  # fmt: skip


COSTS = [
    ("tables", {"kind": "pareto", "stage": "finetune", "intervals": False}),
    ("tables", {"kind": "requirements", "stage": "finetune"}),
    ("figures", {"kind": "score_time", "stage": "finetune"}),
]


@pytest.mark.parametrize(("section", "settings"), COSTS)
def test_pretraining_counts_for_datasets_that_start_from_it(section, settings):
    result = settings | {"time": ["pretrain", "finetune"], "datasets": ["imdb"]}
    made = plan(reference="sdpa", **{section: {"cost": result}})
    (shown,) = getattr(made.report, section).values()
    assert shown["scope"]["origins"]["finetune"]["favor-m64"] == {"imdb": {"pretrain": ["favor-m64", "wikipedia", []]}}
    files = made.report.inputs(shown["scope"])
    assert f"results/runs/pretrain/favor-m64/wikipedia/seed-2/{RUN}" in files
    assert not [file for file in files if "/tapt/" in file or "/arxiv/" in file]


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (
            {"tables": {"h_imdb": {"stage": "tapt", "columns": ["loss"]}, "h": {"kind": "history", "stage": "tapt"}}},
            "report.tables.h on imdb: would share files called result_h_imdb with report.tables.h_imdb",
        ),
        (
            {"figures": {"c": {"kind": "confusion", "stage": "finetune"},
                         "c-arxiv": {"kind": "loss", "stage": "tapt"}}},
            "report.figures.c-arxiv: would share files called result_c_arxiv with report.figures.c on arxiv",
        ),
    ],
)  # fmt: skip
def test_results_with_one_file_are_refused(report, text):
    assert text in refused(**report)
