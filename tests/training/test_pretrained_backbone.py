"""A decoder through the stages of a study: causal first, then opened and adapted, then fine-tuned."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForTokenClassification

from lib.backbones.pretrained.families import FAMILIES, Family
from lib.core.errors import ConfigError
from lib.core.record import read_record
from lib.core.settings.run import Start
from lib.training.run import train

ARCHITECTURE = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}


def decoder(attention):
    return {"kind": "pretrained", "architecture": ARCHITECTURE, "attention": attention}


@pytest.fixture(scope="module")
def pretrained(run_of, tmp_path_factory):
    out = tmp_path_factory.mktemp("decoder") / "out"
    train(run_of("pretrain", model="llama", backbone=decoder("causal")), out)
    return out


def started(run, folder):
    return run.model_copy(update={"start": Start(run=str(folder), checkpoint=str(folder / "model"))})


def test_an_opened_decoder_goes_on_from_the_causal_one(pretrained, run_of, tmp_path):
    train(started(run_of("tapt", model="llama", backbone=decoder("bidirectional")), pretrained), tmp_path / "out")
    record = read_record(tmp_path / "out")
    assert record.parents["start"].path == str(pretrained / "model")
    before, after = (load_file(folder / "model" / "model.safetensors") for folder in (pretrained, tmp_path / "out"))
    assert before.keys() == after.keys()
    assert not torch.equal(before["pretrained.inner.norm.weight"], after["pretrained.inner.norm.weight"])


def test_a_fine_tuned_decoder_is_loaded_by_transformers(run_of, tmp_path):
    train(run_of("tag", model="llama", backbone=decoder("bidirectional")), tmp_path / "out")
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "out" / "model")
    ids = torch.arange(10, 20)[None]
    changed = ids.clone()
    changed[0, -1] = 5
    assert not torch.equal(model(ids).logits[0, 0], model(changed).logits[0, 0])


def test_a_release_that_stays_causal_is_refused_before_training(run_of, tmp_path, monkeypatch):
    """As llm2vec's users met it after an upgrade: nothing failed, and the model was causal."""
    monkeypatch.setitem(FAMILIES, "llama", Family({"causal": {}, "bidirectional": {}}))
    with pytest.raises(ConfigError, match=r"layers\.0 of LlamaModel: a token does not see the one 1 after it"):
        train(run_of("pretrain", model="llama", backbone=decoder("bidirectional")), tmp_path / "out")
    assert not (tmp_path / "out").exists()
