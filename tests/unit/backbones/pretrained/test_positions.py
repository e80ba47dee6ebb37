"""Published encoders on longer texts than they were trained with."""

import pytest
import torch
from plain_vocabulary import PlainVocabulary
from transformers import AutoConfig, AutoModelForMaskedLM

from lib.backbones.pretrained.backbone import Backbone
from lib.backbones.pretrained.settings import Settings

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
VOCABULARY, PAD = 40, 1
TOKENIZER = PlainVocabulary(VOCABULARY, pad_token_id=PAD, eos_token_id=2)


def architecture(kind, rows):
    return {"model_type": kind, **SIZES, "vocab_size": VOCABULARY, "max_position_embeddings": rows}


@pytest.fixture
def longer(tmp_path):
    def make(kind, rows, length, fill):
        fields = architecture(kind, rows)
        torch.manual_seed(1)
        source = AutoModelForMaskedLM.from_config(AutoConfig.for_model(**fields, pad_token_id=PAD)).eval()
        source.save_pretrained(tmp_path / "published")
        backbone = Backbone(Settings(architecture=fields, positions={"length": length, "fill": fill}), seed=0)
        model = AutoModelForMaskedLM.from_config(backbone.config(TOKENIZER, {})).eval()
        backbone.check(model)
        backbone.load_weights(model, tmp_path / "published")
        return source, backbone, model

    return make


@pytest.mark.parametrize(("kind", "rows", "first"), [("bert", 16, 0), ("roberta", 18, 2)])
def test_tiled_positions(kind, rows, first, longer, tmp_path):
    source, backbone, model = longer(kind, rows, 40, "tiled")
    table = model.base_model.embeddings.position_embeddings.weight
    there = source.base_model.embeddings.position_embeddings.weight
    assert len(table) == 40 + first
    assert torch.equal(table[:rows], there)
    for position in range(40):
        assert torch.equal(table[first + position], there[first + position % 16]), position
    assert backbone.parameters.longest() == 40
    ids = torch.randint(5, VOCABULARY, (2, 16), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(ids, torch.ones_like(ids)).logits, source(ids).logits)
    ids = torch.randint(5, VOCABULARY, (2, 40), generator=torch.Generator().manual_seed(0))
    states = model(ids, torch.ones_like(ids)).logits
    model.save_pretrained(tmp_path / "saved")
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path / "saved").eval()
    assert torch.equal(loaded(ids, torch.ones_like(ids)).logits, states)


@pytest.mark.parametrize("fill", ["linear", "yarn"])
def test_stretched_positions(fill, longer):
    source, backbone, model = longer("modernbert", 16, 64, fill)
    inner = model.base_model.inner
    full = inner.config.rope_parameters["full_attention"]
    assert (full["rope_type"], full["factor"]) == (fill, 4)
    assert inner.config.rope_parameters["sliding_attention"]["rope_type"] == "default"
    published = source.base_model.rotary_emb.full_attention_inv_freq
    ours = inner.rotary_emb.full_attention_inv_freq
    assert ours[-1] == pytest.approx(published[-1] / 4)
    assert torch.equal(
        inner.rotary_emb.sliding_attention_inv_freq, source.base_model.rotary_emb.sliding_attention_inv_freq
    )
    assert backbone.parameters.longest() == 64
