"""Scores by group in the plan."""

from small_plans import records, reported
from small_studies import DELETE

FIRST = "results/runs"


GROUPED = {
    "tables": {"reach": {"kind": "groups", "stage": "finetune", "models": ["sdpa", "tfidf"]}},
    "figures": {"reach": {"kind": "group_score", "stage": "finetune", "chance": 0.5, "trained_to": 64}},
}


GROUPS = (("datasets/imdb/group", "words"), ("datasets/arxiv/group", "pages"))


def test_scores_by_group_are_one_table_per_dataset_and_one_figure():
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


def test_a_table_of_groups_on_one_dataset_bears_its_own_name():
    only = [GROUPS[0], *((f"stages/{stage}/data/arxiv", DELETE) for stage in ("tapt", "finetune"))]
    made = reported(*only, **GROUPED)
    assert list(made.report.tables) == ["reach"]
    assert made.report.tables["reach"]["scope"]["groups"] == {"imdb": "words"}


def test_a_table_of_groups_may_say_what_their_number_is():
    made = reported(*GROUPS, tables={"reach": GROUPED["tables"]["reach"] | {"label": "distance"}})
    labels = {name: made.report.tables[name]["settings"]["label"] for name in made.report.tables}
    assert labels == {"reach_imdb": "distance", "reach_arxiv": "distance"}
