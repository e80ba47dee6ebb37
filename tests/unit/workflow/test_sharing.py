"""Model cards: the cost of a prediction, and reserves about the scores."""

from pathlib import Path

import pandas as pd
import pytest
from huggingface_hub import ModelCard
from run_records import write_predictions, write_run
from small_studies import study

from lib.core.record import RunId, read_record
from lib.workflow.commands import sharing
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
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "exported_class", lambda model: "BertModel")  # no model is there
    layers = [
        ("report.yaml", {"report": {"analyses": {"cost": COST}}}),
        ("place.yaml", {"execution": {"results": str(tmp_path)}}),
    ]
    return Plan(study(layers=layers))


def card(plan, model="sdpa", dataset="arxiv", seed=2, **fields):
    run = plan.run(RunId("finetune", model, dataset, seed))
    folder = write_run(Path(plan.paths.results), *run.id[:3], seed=seed, **fields)
    write_predictions(folder, ["a", "b"], [0, 1] * 8, [0, 1] * 7 + [1, 0])
    return sharing.card(plan, run, read_record(folder), "mit", ["en"])


def said(text):
    return " ".join(text.split())


def measured(plan, **more):
    table = Path(plan.paths.table("cost"))
    table.parent.mkdir()
    pd.DataFrame([MEASURED | more]).to_csv(table, index=False)


def test_a_card_has_the_measured_cost_of_its_model_alone_and_its_machine(plan):
    assert "## Cost" not in card(plan)  # not measured yet
    measured(plan)
    text = said(card(plan))
    assert "1,234.6 documents per second and core. One document by itself takes 2.0 ms (median) or 10.0 ms" in text
    assert "Measured on a CPU (AVX2), one thread, 2026-01-31, on 150 test documents, with the model of seed 1." in text
    assert "million" not in text
    assert "## Cost" not in card(plan, model="favor-m64")
    assert "## Cost" not in card(plan, dataset="imdb")


def test_a_card_has_a_price_if_the_study_gives_one(plan):
    measured(plan, price_per_hour=0.05, price_per_million=11.256, currency="EUR")
    assert "A million documents cost 11.26 EUR, at 0.05 EUR per hour and core." in said(card(plan))


def test_a_card_says_what_its_scores_are_worth(plan):
    found = ModelCard(card(plan, test_f1_macro=0.875))
    (score,) = found.data.eval_results
    assert (score.metric_type, score.metric_value, found.data.license) == ("Macro-F1", 0.875, "mit")
    assert "\n| score | value | interval |\n| --- | --- | --- |\n| Macro-F1 | 0.875 | " in found.text
    assert "Intervals of 95% are over test documents, for this model; they know nothing of other seeds." in found.text
    assert "\nSeed 2, one training.\n" in found.text
    reason = "one class is predicted for 99 % of the test documents"
    text = card(plan, hardly_learnt=reason, shared={"test": 0.125})
    shared = "Of the test documents, 12.5 % have a text that training has as well."
    assert f"\nSeed 2, one training. {shared} **It has hardly learnt: {reason}.**\n" in text
