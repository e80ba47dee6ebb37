"""The analysis of reliance in the plan."""

import pytest
from small_plans import analyses, key
from small_studies import DELETE

pytestmark = pytest.mark.extended

FIRST = "results/runs"


RELIANCE = {"kind": "reliance", "stage": "finetune", "dataset": "arxiv", "models": ["sdpa"]}


def test_plan_of_reliance_beside_tfidf():
    made = analyses(words=RELIANCE)
    assert [run.id for run in made.report.analysed("words")] == [key("finetune", "sdpa", "arxiv")]
    folder = f"{FIRST}/finetune/tfidf/arxiv/seed-1"
    assert made.report.text_arguments("words") == ["--baseline", folder]
    inputs = made.report.analysis_inputs("words")
    assert inputs["records"] == [f"{FIRST}/finetune/sdpa/arxiv/seed-1/run.json", f"{folder}/run.json"]
    assert len(inputs["tokens"]) == len(inputs["tokenizers"]) == 1
    assert made.report.analysis_look("words")["families"] == [("sdpa", "sdpa"), ("tfidf", "tfidf")]
    assert made.report.analysis_settings("words")["options"]["labels"] == ["no", "yes"]
    without = analyses(("models/tfidf", DELETE), words=RELIANCE)
    assert without.report.text_arguments("words") == []
