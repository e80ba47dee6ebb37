"""Models of a study whose `mechanism` is a list that repeats over the layers."""

import json

import pytest
from small_studies import study

from lib.core.errors import ConfigError
from lib.workflow.planning.plan import Plan
from lib.workflow.staleness.digests import reached, roots

WINDOW = ("mechanisms/window-w4-g0", {"kind": "window", "width": 4})
ROW = {"backbone": "encoder", "mechanism": ["window-w4-g0", "sdpa"]}


def hybrid(*changes, **row):
    return study(WINDOW, ("models/hybrid", ROW | row), *changes)


def runs_of(made, model):
    return [run for run in made.runs if run.id.model == model]


def mechanisms_in(plan, run):
    """Return the folders of mechanisms whose code a run executes."""
    modules = {each.split(":")[0] for each in reached(*roots(plan.code(run)))}
    return {name.split(".")[2] for name in modules if name.startswith("lib.attention.") and name.endswith(".mechanism")}


def test_settings_hold_the_list_and_code_all_its_folders():
    made = hybrid()
    plan, runs = Plan(made), runs_of(made, "hybrid")
    assert runs
    for run in runs:
        held = json.loads(run.settings)["backbone"]["mechanism"]
        assert [each["kind"] for each in held] == ["window", "sdpa"]
        assert mechanisms_in(plan, run) == {"window", "sdpa"}
        assert run.backbone.family == "window+sdpa"
    assert mechanisms_in(plan, runs_of(made, "sdpa")[0]) == {"sdpa"}
    alone = hybrid(mechanism="window-w4-g0")
    assert mechanisms_in(Plan(alone), runs_of(alone, "hybrid")[0]) == {"window"}


def test_list_that_repeats_itself_shares_runs():
    made = hybrid(
        ("models/one", {"backbone": "encoder", "mechanism": ["sdpa"]}),
        ("models/twice", {"backbone": "encoder", "mechanism": ["window-w4-g0", "sdpa"] * 2}),
    )
    assert not runs_of(made, "one")
    assert not runs_of(made, "twice")
    assert made.graph.owner("one", "tapt", "imdb") == "sdpa"
    assert made.graph.owner("twice", "tapt", "imdb") == "hybrid"


def test_change_gives_a_list_on_one_dataset():
    changes = {"tapt": {"mechanism": ["favor-m64", "sdpa"], "data": {"arxiv": {"mechanism": ["sdpa", "favor-m64"]}}}}
    graph = study(("models/sdpa/changes", changes)).graph
    found = {
        (stage, entry): [each.kind for each in graph.backbone_at("sdpa", stage, entry).held_mechanisms]
        for stage, entry in (("pretrain", "wikipedia"), ("tapt", "imdb"), ("finetune", "imdb"), ("finetune", "arxiv"))
    }
    assert found == {
        ("pretrain", "wikipedia"): ["sdpa"],
        ("tapt", "imdb"): ["favor", "sdpa"],
        ("finetune", "imdb"): ["favor", "sdpa"],
        ("finetune", "arxiv"): ["sdpa", "favor"],
    }


@pytest.mark.parametrize(
    ("mechanism", "changes", "message"),
    [
        ([], (), r"models\.hybrid\.mechanism: \[\]"),
        (["sdpa", 5], (), r"models\.hybrid\.mechanism: \['sdpa', 5\]"),
        (["sdpa", "mamba"], (), r"models\.hybrid\.mechanism: there is no 'mamba'"),
        (["window-w4-g0", "window-w4-g0", "sdpa"], (), r"models\.hybrid: mechanism = .*3 entries for 2 layers"),
        (["favor-m64"], (("backbones/encoder/attention_dropout", 0.1),), r"models\.hybrid: attention_dropout = 0\.1"),
        (
            ["sdpa"],
            (("models/hybrid/changes", {"tapt": {"mechanism": []}}),),
            r"hybrid\.changes\.tapt\.mechanism: \[\]",
        ),
        (
            ["sdpa"],
            (("models/hybrid/changes", {"tapt": {"mechanism": ["lsh-h2-c64", "sdpa"]}}),),
            r"tapt\.data\.imdb: from pretrain to tapt, lsh-h2-c64 .*hybrid",
        ),
        (["sdpa"], (("models/tfidf/mechanism", ["sdpa", "favor-m64"]),), r"models\.tfidf\.mechanism"),
    ],
)
def test_list_that_does_not_fit_is_refused(mechanism, changes, message):
    with pytest.raises(ConfigError, match=message):
        hybrid(*changes, mechanism=mechanism)


def test_model_goes_with_any_mechanism_of_its_list():
    without = {"experiment": {"mechanisms": {"window-w4-g0": None}}}
    made = study(WINDOW, ("models/hybrid", ROW), layers=[("less.yaml", without)])
    assert "hybrid" not in made.experiment.models
    assert "sdpa" in made.experiment.models
