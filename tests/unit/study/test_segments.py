"""Models that read documents in segments: what follows from the encoder that they name, and what they are refused."""

import json

import pytest
from small_studies import DATASET, RECIPE, study

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


def test_published_encoder_brings_tokeniser_and_weights(published, tmp_path):
    plain, segments = published().runs
    assert segments.backbone.encoder == plain.backbone
    assert segments.tokenizer == plain.tokenizer == "bert"
    assert segments.start.folder == plain.start.folder == str(tmp_path)
    (own,) = published(models={"segments": {"backbone": "bert-segments", "start": "scratch"}}).runs
    assert own.start is None


def test_segments_reach_as_far_as_documents_do(published):
    long = DATASET | {"max_tokens": 4096}
    with pytest.raises(ConfigError, match="backbones.bert: reads 128 tokens at most") as error:
        published(datasets={"imdb": long})
    assert "segments" not in str(error.value)
    (run,) = published(datasets={"imdb": long}, models={"segments": {"backbone": "bert-segments"}}).runs
    assert run.max_tokens == 4096


def test_mechanism_of_segments_goes_to_the_encoder():
    found = study(
        ("backbones/segments", SEGMENTS),
        ("models/favor-segments", {"backbone": "segments", "mechanism": "favor-m64", "skip": ["pretrain", "tapt"]}),
        ("models/favor-segments/start", "scratch"),
    )
    for run in runs_of(found, "finetune", "favor-segments"):
        assert run.backbone.held_mechanisms[0].kind == "favor"
        assert json.loads(run.settings)["backbone"]["encoder"]["mechanism"]["nb_features"] == 64


IN_SEGMENTS = [
    ("backbones/segments", SEGMENTS),
    ("models/segments", ROW | {"changes": {"finetune": {"backbone": "segments"}}}),
]


def test_encoder_that_was_adapted_goes_on_in_segments():
    """Its runs alone are made once; only the last stage differs, and that has the code of both backbones."""
    found = study(*IN_SEGMENTS)
    assert not runs_of(found, "tapt", "segments")
    assert {run.parent.model for run in runs_of(found, "finetune", "segments")} == {"sdpa"}
    assert {run.parent.stage for run in runs_of(found, "finetune", "segments")} == {"tapt"}
    plan = Plan(found)
    (run, *_), (plain, *_) = runs_of(found, "finetune", "segments"), runs_of(found, "finetune", "sdpa")
    modules = {each.split(":")[0] for each in reached(*roots(plan.code(run)))}
    needed = {"lib.backbones.hierarchical.model", "lib.backbones.encoder.model", "lib.attention.sdpa.mechanism"}
    assert needed <= modules
    assert not any(name.startswith("lib.backbones.hierarchical") for name in map(str, roots(plan.code(plain))))
