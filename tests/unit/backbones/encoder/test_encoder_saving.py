"""Saving, loading in a fresh process, and use through transformers' Auto classes and pipelines."""

import json

import pytest
import torch
from encoder_cases import (
    EXAMPLES,
    MIXES,
    EncoderForMaskedLM,
    EncoderForSequenceClassification,
    build,
    fresh_python,
    labelled,
    masks,
    token_ids,
)
from safetensors.torch import load_file, save_file
from transformers import BertTokenizer

from lib.attention.contract import set_step
from lib.backbones.encoder.model import EncoderModel

LOAD_ALL = """
import json, sys
from pathlib import Path
import torch
import lib
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification
folder = Path(sys.argv[1])
for case in json.loads((folder / "cases.json").read_text()):
    auto = {"EncoderForMaskedLM": AutoModelForMaskedLM}.get(case["class"], AutoModelForSequenceClassification)
    saved = torch.load(folder / case["name"] / "outputs.pt")
    for model in (auto.from_pretrained(folder / case["name"]), AutoModel.from_pretrained(folder / case["name"])):
        assert not model.training
        with torch.no_grad():
            output = model(saved["input_ids"], saved["attention_mask"])
        result = output.logits if "logits" in output else output.last_hidden_state
        expected = saved["logits" if "logits" in output else "states"]
        torch.testing.assert_close(result, expected, atol=0, rtol=0)
        print(type(model).__name__, case["name"])
"""


def test_models_give_the_same_output_in_a_fresh_process(tmp_path):
    cases = []
    stretched = {"rope_type": "yarn", "rope_factor": 2.0, "rope_original_length": 16}
    for name, position, changes in [*((*mix, {}) for mix in MIXES), ("sdpa", "rope", stretched)]:
        model_class = EncoderForMaskedLM if position == "rope" else EncoderForSequenceClassification
        changes = {"mechanism": EXAMPLES[name], "position_embedding_type": position, **changes}
        model = build(model_class, feature_seed=5, **changes)
        train_briefly(model)
        case = {"name": f"{len(cases)}-{name}-{position}", "class": model_class.__name__}
        inputs = {"input_ids": token_ids(2, 19), "attention_mask": masks(19, 6)}
        model.eval().save_pretrained(tmp_path / case["name"])
        with torch.no_grad():
            outputs = model(**inputs, output_hidden_states=True)
        saved = {**inputs, "logits": outputs.logits, "states": outputs.hidden_states[-1]}
        torch.save(saved, tmp_path / case["name"] / "outputs.pt")
        cases.append(case)
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    lines = fresh_python(LOAD_ALL, tmp_path).splitlines()
    expected = [line for case in cases for line in (f"{case['class']} {case['name']}", f"EncoderModel {case['name']}")]
    assert lines == expected


def train_briefly(model, steps=2):
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    batch = labelled(model, 15, 8)
    for step in range(steps):
        set_step(model, step)
        model(**batch).loss.backward()
        optimiser.step()
        optimiser.zero_grad()


def test_redrawn_features_are_saved_and_missing_ones_are_those_of_the_seed(tmp_path):
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

    weights = {name: tensor for name, tensor in load_file(tmp_path / "model.safetensors").items() if name not in drawn}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    torch.testing.assert_close(
        dict(EncoderForMaskedLM.from_pretrained(tmp_path).named_buffers()), first, atol=0, rtol=0
    )


@pytest.mark.parametrize("mechanism", ["lsh", "favor"])
def test_model_trained_at_512_tokens_reads_16384(tmp_path, mechanism):
    model = build(EncoderForMaskedLM, mechanism=EXAMPLES[mechanism])
    model(**labelled(model, 512, 300)).loss.backward()
    model.save_pretrained(tmp_path)
    loaded = EncoderForSequenceClassification.from_pretrained(tmp_path)
    long, short = token_ids(1, 16_384), token_ids(1, 40, seed=3)
    with torch.no_grad():
        assert loaded(long).logits.isfinite().all()
        # Longer tables of positions leave short documents as they were.
        torch.testing.assert_close(
            loaded.encoder(short).last_hidden_state, model.eval().encoder(short).last_hidden_state, atol=1e-6, rtol=0
        )


def test_lengths_mix_in_any_order():
    model = build(EncoderModel).eval()
    once = model(token_ids(1, 9)).last_hidden_state
    model(token_ids(1, 64, seed=2))
    torch.testing.assert_close(model(token_ids(1, 9)).last_hidden_state, once, atol=0, rtol=0)


PIPELINE = """
import json, sys
{imports}
classify = pipeline("text-classification", model=sys.argv[1])
print(json.dumps(classify(["a good film", "a bad one"])))
"""


@pytest.mark.parametrize(
    "imports",
    [
        # Importing BERT reaches the Auto classes in the midst of transformers' own imports.
        "import lib\nfrom transformers import BertModel, pipeline",
        "from transformers import pipeline\nimport lib",
    ],
    ids=["lib first", "transformers first"],
)
def test_pipeline_after_import_lib(tmp_path, imports):
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


@pytest.mark.parametrize(
    "imports",
    [
        "import lib, lib.core, lib.study.experiment\nassert not {'torch', 'transformers'} & set(sys.modules)",
        "import lib.backbones.encoder.model, lib.backbones.heads.masked_lm\n"
        "assert not [m for m in sys.modules if m.startswith('lib.') and 'classif' in m]\n"
        "from transformers import AutoConfig, AutoModel\n"
        "AutoModel.from_config(AutoConfig.for_model('attention_encoder'))",
    ],
)
def test_imports(imports):
    fresh_python(f"import sys\n{imports}", bare=True)
