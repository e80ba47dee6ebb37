"""Every model that a run with adapters keeps is read by `predict.py`, and gives the predictions of its run."""

import json
import shutil

import pandas as pd
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    LlamaConfig,
)

from lib.backbones.stored import open_model
from lib.core.errors import RunError
from lib.tokens.tokenizer import TextTokenizer
from lib.training.predict import predict
from lib.training.run import train

SIZES = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
BERT, LLAMA = (
    {
        "kind": "pretrained",
        "architecture": SIZES | {"model_type": kind, "max_position_embeddings": 64},
        "quantization": "nf4",
    }
    for kind in ("bert", "llama")
)
SEGMENTS = {"kind": "hierarchical", "encoder": BERT, "segment": 12, "overlap": 4, "group": 4, "pooling": "transformer"}
SEGMENTS |= {"document_layers": 1, "document_heads": 2}
BACKBONE = {
    "encoder": {"mechanism": {"kind": "linformer", "rank": 8, "length": 32}},
    "ssm": {"kind": "ssm", "hidden_size": 32, "num_hidden_layers": 1, "head_size": 8, "state_size": 4},
    "bert": BERT,
    "llama": LLAMA,
    "hierarchical": SEGMENTS,
}
PUBLISHED = {"bert": BertConfig, "llama": LlamaConfig, "hierarchical": BertConfig}
ALONE = {"epochs": 1, "learning_rate": 1e-2, "lora": {"r": 4, "alpha": 8, "merge": False}}


def plain(backbone):
    """Return the backbone of a run that trains all weights."""
    if "encoder" in backbone:
        return backbone | {"encoder": plain(backbone["encoder"])}
    return {name: value for name, value in backbone.items() if name != "quantization"}


@pytest.fixture(scope="module")
def starts(run_of, corpus, tmp_path_factory):
    """Return the folder of first weights of a kind, for a kind of backbone."""
    folder = tmp_path_factory.mktemp("starts")

    def make(start, name):
        place = folder / f"{start}-{name}"
        if start == "published":  # with fewer tokens than the run, whose others are drawn
            tokens = len(TextTokenizer.load(corpus / "tokenizer").backend) - 5
            config = PUBLISHED[name](**SIZES, vocab_size=tokens, max_position_embeddings=64, pad_token_id=0)
            torch.manual_seed(1)
            auto = AutoModelForMaskedLM if name != "llama" else AutoModelForCausalLM
            auto.from_config(config).save_pretrained(place)
            return place
        train(run_of("finetune", model=name, backbone=plain(BACKBONE[name]), recipe={"epochs": 1}), place)
        return place / "model"

    return make


CASES = [("checkpoint", name) for name in BACKBONE] + [("published", name) for name in PUBLISHED]


def agrees(model, run, corpus, target):
    """Assert that `predict.py` gives the predictions that a run recorded for test."""
    predict(model, corpus / "test.parquet", target)
    found = pd.read_csv(target).set_index("id")["high"]
    recorded = pd.read_parquet(run / "predictions.parquet").query("split == 'test'").set_index("id")["probabilities"]
    expected = recorded.map(lambda each: each[1])[found.index]
    pd.testing.assert_series_equal(found, expected, check_names=False, check_dtype=False, atol=1e-5, rtol=0)
    assert found.std() > 1e-3


@pytest.mark.parametrize(("start", "name"), CASES)
def test_adapters_alone_predict_as_their_run_did(start, name, starts, run_of, corpus, tmp_path):
    pytest.importorskip("bitsandbytes")
    beginning = {"checkpoint": str(starts(start, name))}
    run = run_of(
        "finetune", model=name, backbone=BACKBONE[name], recipe=ALONE | {"keep": ["best", "last"]}, start=beginning
    )
    train(run, tmp_path / "out")
    model = tmp_path / "out" / "model"
    torch.manual_seed(5)  # nothing is drawn by torch's global state
    agrees(model, tmp_path / "out", corpus, tmp_path / "found.csv")
    open_model(AutoModelForSequenceClassification, model / "last")


@pytest.mark.parametrize("name", BACKBONE)
def test_adapters_on_drawn_weights_are_kept_whole(name, run_of, corpus, tmp_path):
    recipe = ALONE | {"lora": {"r": 4, "alpha": 8}}
    train(run_of("finetune", model=name, backbone=plain(BACKBONE[name]), recipe=recipe), tmp_path / "out")
    agrees(tmp_path / "out" / "model", tmp_path / "out", corpus, tmp_path / "found.csv")


def test_a_start_that_moved_is_named(starts, run_of, corpus, tmp_path):
    start = shutil.copytree(starts("published", "bert"), tmp_path / "start")
    run = run_of("finetune", model="bert", backbone=plain(BERT), recipe=ALONE, start={"checkpoint": str(start)})
    train(run, tmp_path / "out")
    start.rename(tmp_path / "moved")
    model = tmp_path / "out" / "model"
    with pytest.raises(RunError, match="adapter_config.json: base_model_name_or_path is no folder .*start"):
        predict(model, corpus / "test.parquet", tmp_path / "found.csv")
    model = shutil.copytree(model, tmp_path / "copy")
    path = model / "adapter" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": str(tmp_path / "moved")}))
    agrees(model, tmp_path / "out", corpus, tmp_path / "found.csv")
