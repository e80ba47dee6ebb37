"""A published encoder reads in segments: each is read as transformers reads it, and a batch changes no document."""

import json

import pytest
import torch
import transformers

from lib.backbones.hierarchical.backbone import Backbone
from lib.backbones.hierarchical.segments import segments_of
from lib.backbones.settings import BACKBONES
from lib.tokens.vocabularies import from_published

pytestmark = pytest.mark.real
SENTENCE = "A dull film with a cast of {} actors, saved by its last ten minutes. "


def test_segments_of_minilm_are_those_of_transformers(minilm, tmp_path):
    fields = json.loads((minilm / "config.json").read_text())
    architecture = BACKBONES.load("pretrained", "fields").architecture_of(fields)
    encoder = {"kind": "pretrained", "architecture": architecture}
    parameters = BACKBONES.parse(
        {"kind": "hierarchical", "encoder": encoder, "segment": 128, "overlap": 16, "group": 3}
    )
    tokenizer = from_published(minilm, tmp_path / "tokenizer").backend
    backbone = Backbone(parameters, seed=1)
    auto = transformers.AutoModelForSequenceClassification
    model = auto.from_config(backbone.config(tokenizer, {"num_labels": 2})).eval()
    backbone.load_weights(model, minilm)
    reference = transformers.AutoModel.from_pretrained(minilm).eval()
    texts = ["".join(SENTENCE.format(number) for number in range(count)) for count in (40, 3)]
    batch = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        vectors = model.base_model(**batch).last_hidden_state
        logits = model(**batch).logits
        for row, text in enumerate(texts):
            ids = tokenizer(text)["input_ids"]
            parts = [(part.start, part.start + part.tokens) for part in segments_of(model.config, [len(ids)])]
            for number, (start, end) in enumerate(sorted(parts)):
                part = torch.tensor([[ids[0], *ids[1:-1][start:end], ids[-1]]])
                states = reference(part).last_hidden_state[0]
                torch.testing.assert_close(vectors[row, number], states.mean(0), atol=1e-5, rtol=1e-5)
            alone = model(torch.tensor([ids])).logits[0]
            torch.testing.assert_close(logits[row], alone, atol=1e-6, rtol=1e-5)
    assert vectors.shape[1] > 4
