"""Models that read documents in segments: what follows from the encoder that they name, and what they are refused."""

import json

import pytest
from small_studies import DATASET, RECIPE, study

from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError
from lib.study.configuration import load_study
from lib.workflow.planning.plan import Plan
from lib.workflow.staleness.digests import reached, roots

BERT = {"model_type": "bert", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
BERT |= {"num_attention_heads": 2, "max_position_embeddings": 128, "vocab_size": 100}
SEGMENTS = {"kind": "hierarchical", "encoder": "encoder", "segment": 32, "overlap": 8}
ROW = {"backbone": "encoder", "mechanism": "sdpa"}


def runs_of(found, stage, model):
    return [run for run in found.runs if (run.id.stage, run.id.model) == (stage, model)]


@pytest.fixture
def published(tmp_path):
    """A study of a published model, plain and in segments, with changes of the experiment."""
    (tmp_path / "config.json").write_text(json.dumps(BERT))

    def make(**changes):
        values = {
            "seeds": [1],
            "published": {"bert": {"folder": str(tmp_path)}},
            "backbones": {"bert-segments": {"kind": "hierarchical", "encoder": "bert", "segment": 64, "overlap": 8}},
            "datasets": {"imdb": DATASET},
            "stages": {
                "finetune": {"task": {"kind": "sequence_classification"}, "recipe": RECIPE, "data": {"imdb": {}}}
            },
            "models": {"plain": {"backbone": "bert"}, "segments": {"backbone": "bert-segments"}},
        }
        return load_study([("test.yaml", {"experiment": values | changes})])

    return make


def test_a_published_encoder_brings_its_tokeniser_and_weights(published, tmp_path):
    plain, segments = published().runs
    assert segments.backbone.encoder == plain.backbone
    assert segments.tokenizer == plain.tokenizer == "bert"
    assert segments.start.folder == plain.start.folder == str(tmp_path)


def test_what_a_model_on_segments_gives_itself_stays(published):
    _, segments = published(
        models={"plain": {"backbone": "bert"}, "segments": {"backbone": "bert-segments", "start": "scratch"}}
    ).runs
    assert segments.start is None


def test_segments_reach_as_far_as_documents_do(published):
    long = DATASET | {"max_tokens": 4096}
    with pytest.raises(ConfigError, match="backbones.bert: reads 128 tokens at most") as error:
        published(datasets={"imdb": long})
    assert "segments" not in str(error.value)
    (run,) = published(datasets={"imdb": long}, models={"segments": {"backbone": "bert-segments"}}).runs
    assert run.max_tokens == 4096


@pytest.mark.parametrize("encoder", ["nobody", "segments"])
def test_an_encoder_that_is_none_is_named_with_its_key(encoder):
    place = r"small\.yaml: experiment\.backbones\.segments\.encoder: "
    with pytest.raises(ConfigError, match=f"{place}'{encoder}'.*Known: encoder, tfidf"):
        study(("backbones/segments", SEGMENTS | {"encoder": encoder}))


def test_a_mechanism_of_the_model_goes_to_the_encoder():
    found = study(
        ("backbones/segments", SEGMENTS),
        ("models/favor-segments", {"backbone": "segments", "mechanism": "favor-m64", "skip": ["pretrain", "tapt"]}),
        ("models/favor-segments/start", "scratch"),
    )
    for run in runs_of(found, "finetune", "favor-segments"):
        assert run.backbone.held_mechanisms[0].kind == "favor"
        assert json.loads(run.settings)["backbone"]["encoder"]["mechanism"]["nb_features"] == 64


def test_an_encoder_that_was_adapted_goes_on_in_segments():
    """Its runs alone are made once; only the last stage differs."""
    found = study(
        ("backbones/segments", SEGMENTS), ("models/segments", ROW | {"changes": {"finetune": {"backbone": "segments"}}})
    )
    assert not runs_of(found, "tapt", "segments")
    assert {run.parent.model for run in runs_of(found, "finetune", "segments")} == {"sdpa"}
    assert {run.parent.stage for run in runs_of(found, "finetune", "segments")} == {"tapt"}


def test_the_code_of_both_backbones_makes_a_run():
    found = study(
        ("backbones/segments", SEGMENTS), ("models/segments", ROW | {"changes": {"finetune": {"backbone": "segments"}}})
    )
    plan = Plan(found)
    (run, *_), (plain, *_) = runs_of(found, "finetune", "segments"), runs_of(found, "finetune", "sdpa")
    modules = {each.split(":")[0] for each in reached(*roots(plan.code(run)))}
    needed = {"lib.backbones.hierarchical.model", "lib.backbones.encoder.model", "lib.attention.sdpa.mechanism"}
    assert needed <= modules
    assert not any(name.startswith("lib.backbones.hierarchical") for name in map(str, roots(plan.code(plain))))


@pytest.mark.parametrize(
    "task",
    [
        {"kind": "masked_lm"},
        {"kind": "imitation", "teacher": "nobody"},
        {"kind": "label_matching", "phrases": ["bad", "good"]},
        {"kind": "text_to_text", "targets": ["bad", "good"]},
    ],
)
def test_other_tasks_are_refused(task, published):
    stages = {"other": {"task": task, "recipe": RECIPE, "data": {"imdb": {}}}}
    kind = task["kind"]
    with pytest.raises(ConfigError, match=f"stages.other.*task: the backbone hierarchical cannot do {kind}"):
        published(stages=stages, models={"segments": {"backbone": "bert-segments"}})


def test_distillation_is_classification(published):
    stages = {
        name: {"task": task, "recipe": RECIPE, "data": {"imdb": {}}}
        for name, task in {"finetune": {"kind": "sequence_classification"}}.items()
    }
    found = published(
        stages=stages,
        models={
            "teacher": {"backbone": "bert"},
            "student": {
                "backbone": "bert-segments",
                "changes": {"finetune": {"task": {"kind": "distillation", "teacher": "teacher"}}},
            },
        },
    )
    assert runs_of(found, "finetune", "student")[0].teacher.model == "teacher"


def test_the_analysis_of_words_takes_it():
    changes = [
        ("backbones/segments", SEGMENTS),
        ("models/segments", ROW | {"changes": {"finetune": {"backbone": "segments"}}}),
    ]
    report = {"report": {"analyses": {"looks": {"kind": "reliance", "stage": "finetune", "dataset": "imdb"}}}}
    found = study(*changes, layers=[("report", report)])
    assert "segments" in {run.id.model for run in Plan(found).report.analysed("looks")}


@pytest.mark.parametrize("kind", ["gradients", "attention_maps"])
def test_analyses_of_tokens_leave_it_out(kind):
    changes = [
        ("backbones/segments", SEGMENTS),
        ("models/segments", ROW | {"changes": {"finetune": {"backbone": "segments"}}}),
    ]
    looks = {"kind": kind, "stage": "finetune", "dataset": "imdb"}
    report = {"report": {"analyses": {"looks": looks}}}
    found = study(*changes, layers=[("report", report)])
    assert "segments" not in {run.id.model for run in Plan(found).report.analysed("looks")}
    looks["models"] = ["segments"]
    with pytest.raises(ConfigError, match="segments has a backbone of kind hierarchical, which gives no"):
        study(*changes, layers=[("report", report)])


def test_a_kind_with_heads_of_its_own_is_no_encoder():
    for kind in BACKBONES.kinds():
        parameters = BACKBONES.settings(kind)
        if parameters.own_heads:
            assert not BACKBONES.has(kind, "masked_lm")
