"""Saving, and use in a fresh process through transformers' pipelines."""

import json

import pytest
import torch
from encoder_cases import EncoderForMaskedLM, EncoderForSequenceClassification, build, fresh_python
from transformers import BertTokenizer

from lib.attention.contract import set_step


def test_redrawn_features_are_saved(tmp_path):
    mechanism = {"kind": "favor", "nb_features": 8, "redraw_interval": 2}
    model = build(EncoderForMaskedLM, mechanism=mechanism, feature_seed=5)
    features = dict(model.named_buffers())
    assert len(features) == model.config.num_hidden_layers
    first = {name: tensor.clone() for name, tensor in features.items()}
    set_step(model, 4)
    drawn = {name: tensor.clone() for name, tensor in model.named_buffers()}
    assert not any(torch.equal(first[name], drawn[name]) for name in first)
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(
        dict(EncoderForMaskedLM.from_pretrained(tmp_path).named_buffers()), drawn, atol=0, rtol=0
    )


PIPELINE = """
import json, sys
{imports}
classify = pipeline("text-classification", model=sys.argv[1])
print(json.dumps(classify(["a good film", "a bad one"])))
"""


@pytest.mark.extended
def test_pipeline_after_import_lib(tmp_path):
    # Importing BERT reaches the Auto classes in the midst of transformers' own imports.
    imports = "import lib\nfrom transformers import BertModel, pipeline"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "one"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = BertTokenizer.from_pretrained(tmp_path, model_input_names=["input_ids", "attention_mask"])
    model = build(
        EncoderForSequenceClassification, vocab_size=len(words), id2label={0: "poor", 1: "fine", 2: "great"}
    ).eval()
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    results = json.loads(fresh_python(PIPELINE.format(imports=imports), folder, bare=True))
    inputs = tokenizer(["a good film", "a bad one"], return_tensors="pt", padding=True)
    expected = model(**inputs).logits.softmax(-1).max(-1)
    assert [result["label"] for result in results] == [model.config.id2label[i] for i in expected.indices.tolist()]
    assert [result["score"] for result in results] == pytest.approx(expected.values.tolist(), abs=1e-5)
