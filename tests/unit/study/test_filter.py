"""A part of a study: which runs are asked for, and which results need no others."""

from lib.study.configuration import load_study, read_layers
from lib.workflow.planning.plan import Plan


def demo(**only):
    return load_study([*read_layers(["config/demo.yaml"]), ("--config", {"only": only} if only else {})])


def test_part_has_the_runs_that_match_all_names():
    whole = [run.id for run in demo().runs]
    part = demo(models=["sdpa", "favor-m64"], stages=["tapt", "finetune"], datasets=["imdb", "arxiv"], seeds=[420])
    assert [run.id for run in part.asked] == [
        run
        for run in whole
        if run.model in ("sdpa", "favor-m64") and run.stage in ("tapt", "finetune") and run.dataset in ("imdb", "arxiv")
    ]
    assert len(part.asked) == 8
    assert [run.id for run in part.runs] == whole  # each with the same settings
    assert [run.settings for run in part.runs] == [run.settings for run in demo().runs]


def test_part_of_a_model_has_runs_that_others_own():
    change = {"experiment": {"models": {"twin": {"backbone": "encoder", "mechanism": "sdpa"}}}}
    part = load_study([*read_layers(["config/demo.yaml"]), ("", change), ("", {"only": {"models": ["twin"]}})])
    assert {run.id.model for run in part.asked} == {"sdpa"}
    assert len(part.asked) == 7


def test_result_is_made_with_a_part_that_has_it_all():
    targets = Plan(demo(stages=["pretrain"])).targets()
    assert "results/demo/tables/pretrain.csv" in targets
    assert "results/demo/tables/f1.csv" not in targets
    assert "results/demo/runs/pretrain/sdpa/wikipedia/seed-420/run.json" in targets
    assert not [path for path in Plan(demo(stages=["pretrain"], models=["sdpa"])).targets() if "/tables/" in path]


def test_whole_study_is_its_results():
    targets = Plan(demo()).targets()
    assert "results/demo/tables/f1.csv" in targets
    assert not [path for path in targets if "/runs/" in path]
