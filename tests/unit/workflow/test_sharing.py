"""Parts of a model card: the cost of a prediction, and reserves about the scores."""

from pathlib import Path

import pandas as pd
import pytest
from run_records import write_run
from small_studies import study

from lib.core.identity import RunId
from lib.core.record import read_record
from lib.workflow.commands.sharing import _cost_of_predictions, _reserves
from lib.workflow.planning.plan import Plan

COST = {"kind": "prediction_cost", "stage": "finetune", "dataset": "arxiv", "models": ["sdpa"]}
MEASURED = {
    "model": "sdpa",
    "processor": "a CPU",
    "instruction_set": "AVX2",
    "measured": "2026-01-31",
    "documents": 150,
    "documents_per_second": 1234.56,
    "latency_p50_ms": 2.04,
    "latency_p99_ms": 9.96,
}


@pytest.fixture
def plan(tmp_path):
    layers = [
        ("report.yaml", {"report": {"analyses": {"cost": COST}}}),
        ("place.yaml", {"execution": {"results": str(tmp_path)}}),
    ]
    return Plan(study(layers=layers))


def measured(plan, **more):
    table = Path(plan.paths.table("cost"))
    table.parent.mkdir()
    pd.DataFrame([MEASURED | more]).to_csv(table, index=False)


def section(plan, model="sdpa", dataset="arxiv", seed=2):
    return " ".join(_cost_of_predictions(plan, plan.run(RunId("finetune", model, dataset, seed))).split())


def test_a_card_has_the_measured_cost_of_its_model_alone_and_its_machine(plan):
    assert section(plan) == ""  # not measured yet
    measured(plan)
    text = section(plan)
    assert "1,234.6 documents per second and core. One document by itself takes 2.0 ms (median) or 10.0 ms" in text
    assert "Measured on a CPU (AVX2), one thread, 2026-01-31, on 150 test documents, with the model of seed 1." in text
    assert "million" not in text
    assert section(plan, model="favor-m64") == section(plan, dataset="imdb") == ""


def test_a_card_has_a_price_if_the_study_gives_one(plan):
    measured(plan, price_per_hour=0.05, price_per_million=11.256, currency="EUR")
    assert "A million documents cost 11.26 EUR, at 0.05 EUR per hour and core." in section(plan)


def test_a_card_says_that_its_model_has_hardly_learnt(tmp_path):
    said = "one class is predicted for 99 % of the test documents"
    assert _reserves(read_record(write_run(tmp_path, "finetune", "sdpa", "imdb", hardly_learnt=said))) == (
        f" **It has hardly learnt: {said}.**"
    )
    assert _reserves(read_record(write_run(tmp_path, "finetune", "sdpa", "imdb", seed=1))) == ""
