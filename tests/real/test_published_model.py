"""A model that others published: named in a study, its states and its first step."""

import json
import shutil

import pytest
import torch
import transformers
from small_studies import reviews

from lib.backbones.pretrained.backbone import Backbone
from lib.study.configuration import load_study
from lib.tokens.vocabularies import from_published

pytestmark = [pytest.mark.real, pytest.mark.extended]
TEXTS = ["A dull film, saved by its last ten minutes.", "Good!"]


EXPERIMENT = {
    "seeds": [1],
    "datasets": {"imdb": reviews(200, 64)},
    "stages": {
        "finetune": {
            "task": {"kind": "sequence_classification"},
            "recipe": {"epochs": 1, "learning_rate": 1e-5, "min_lr_ratio": 0.0, "batch_size": 16},
            "data": {"imdb": {}},
        }
    },
    "models": {"minilm": {"backbone": "minilm"}},
}


@pytest.fixture(scope="module")
def make(minilm):
    """Make a model on the backbone of a study, with random weights."""
    published = {"published": {"minilm": {"folder": str(minilm)}}}
    (run,) = load_study([("test", {"experiment": EXPERIMENT | published})]).runs

    def model(tokenizer, mechanism=None):
        backbone = Backbone(run.backbone.with_mechanism(mechanism), seed=1)
        torch.manual_seed(1)
        auto = transformers.AutoModelForSequenceClassification
        return backbone, auto.from_config(backbone.config(tokenizer, {"num_labels": 2})).eval()

    return model


@pytest.mark.parametrize(
    ("padding", "mechanism", "legacy"),
    [
        ("right", None, {"position_embedding_type": "absolute", "gradient_checkpointing": True}),
        ("left", {"kind": "sdpa"}, {}),
        ("right", {"kind": "window", "width": 64, "global_tokens": 1}, {}),
    ],
    ids=["its own", "ours", "a window wider than the texts"],
)
def test_states_of_a_published_model(padding, mechanism, legacy, minilm, make, tmp_path):
    copy = tmp_path / "minilm"
    shutil.copytree(minilm, copy)
    (copy / "config.json").chmod(0o644)
    fields = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(fields | legacy))
    tokenizer = from_published(minilm, tmp_path / "tokenizer").backend
    backbone, model = make(tokenizer, mechanism)
    backbone.load_weights(model, copy)
    reference = transformers.AutoModel.from_pretrained(minilm).eval()
    batch = tokenizer(TEXTS, padding=True, padding_side=padding, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        own = model.base_model(**batch).last_hidden_state
        for text, states, mask in zip(TEXTS, own, batch["attention_mask"], strict=True):
            alone = tokenizer([text], return_tensors="pt", return_token_type_ids=False)
            theirs = reference(**alone).last_hidden_state[0]
            torch.testing.assert_close(states[mask.bool()], theirs, atol=1e-5, rtol=1e-5)
