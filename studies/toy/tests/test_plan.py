"""Scores by group in the plan."""

import pytest
from small_plans import records, reported

pytestmark = pytest.mark.extended

FIRST = "results/runs"


GROUPED = {
    "tables": {"reach": {"kind": "groups", "stage": "finetune", "models": ["sdpa", "tfidf"]}},
    "figures": {"reach": {"kind": "group_score", "stage": "finetune", "chance": 0.5, "trained_to": 64}},
}


GROUPS = (("datasets/imdb/group", "words"), ("datasets/arxiv/group", "pages"))


def test_tables_and_figures_of_groups():
    made = reported(*GROUPS, **GROUPED)
    assert list(made.report.tables) == ["reach_imdb", "reach_arxiv"]
    arxiv = made.report.tables["reach_arxiv"]["scope"]
    assert (arxiv["models"], arxiv["stages"]) == (["sdpa", "tfidf"], [["finetune", ["arxiv"]]])
    assert arxiv["groups"]["arxiv"] == "pages"
    assert made.report.inputs(made.report.tables["reach_arxiv"]["scope"]) == [
        f"{FIRST}/finetune/{model}/arxiv/seed-{seed}/run.json" for model in ("tfidf", "sdpa") for seed in (1, 2)
    ]
    shown = made.report.figures["reach"]
    assert shown["settings"] == {
        "kind": "group_score",
        "stage": "finetune",
        "models": None,
        "datasets": None,
        "label": None,
        "chance": 0.5,
        "trained_to": 64,
    }
    models = ["tfidf", "sdpa", "lsh-h2-c64", "favor-m64"]
    assert shown["scope"] == {
        "models": models,
        "stages": [["finetune", ["imdb", "arxiv"]]],
        "owners": {"finetune": {model: dict.fromkeys(["imdb", "arxiv"], model) for model in models}},
        "families": {"tfidf": "tfidf", "sdpa": "sdpa", "lsh-h2-c64": "lsh", "favor-m64": "favor"},
        "generated": ["imdb", "arxiv"],
        "groups": {"imdb": "words", "arxiv": "pages"},
        "group_names": {},
        "published": None,
        "variants": {},
    }
    assert made.report.inputs(shown["scope"]) == records(made, "finetune")
