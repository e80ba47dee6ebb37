"""Model cards: reserves about the scores."""

from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from run_records import write_predictions, write_run
from small_studies import study

from lib.core.record import RunId, read_record
from lib.workflow.commands import sharing
from lib.workflow.planning.plan import Plan


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "exported_class", lambda model: "BertModel")  # no model is there
    return Plan(study(layers=[("place.yaml", {"execution": {"results": str(tmp_path)}})]))


def card(plan, model="sdpa", dataset="arxiv", seed=2, **fields):
    run = plan.run(RunId("finetune", model, dataset, seed))
    folder = write_run(Path(plan.paths.results), *run.id[:3], seed=seed, **fields)
    write_predictions(folder, ["a", "b"], [0, 1] * 8, [0, 1] * 7 + [1, 0])
    return sharing.card(plan, run, read_record(folder), "mit", ["en"])


def test_card_says_what_scores_are_worth(plan):
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
