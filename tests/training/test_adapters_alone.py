"""Every model that a run with adapters keeps is read by `predict.py`, and gives the predictions of its run."""

import json
import shutil

import pandas as pd
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, BertConfig

from lib.backbones.stored import open_model
from lib.core.errors import RunError
from lib.predicting.predict import predict
from lib.tokens.tokenizer import TextTokenizer
from lib.training.run import train

pytestmark = pytest.mark.extended

SIZES = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
BERT = {"kind": "pretrained", "architecture": SIZES | {"model_type": "bert", "max_position_embeddings": 64}}
SEGMENTS = {"kind": "hierarchical", "encoder": BERT, "segment": 12, "overlap": 4, "group": 4, "pooling": "transformer"}
SEGMENTS |= {"document_layers": 1, "document_heads": 2}
LINFORMER = {"mechanism": {"kind": "linformer", "rank": 8, "length": 32}}
ALONE = {"epochs": 1, "learning_rate": 1e-2, "lora": {"r": 4, "alpha": 8, "merge": False}}


@pytest.fixture
def published(corpus, tmp_path):
    """The folder of a published encoder with fewer tokens than the run, whose others are drawn."""
    tokens = len(TextTokenizer.load(corpus / "tokenizer").backend) - 5
    torch.manual_seed(1)
    config = BertConfig(**SIZES, vocab_size=tokens, max_position_embeddings=64, pad_token_id=0)
    AutoModelForMaskedLM.from_config(config).save_pretrained(tmp_path / "published")
    return tmp_path / "published"


def agrees(model, run, corpus, target):
    """Assert that `predict.py` gives the predictions that a run recorded for test."""
    predict(model, corpus / "test.parquet", target)
    found = pd.read_csv(target).set_index("id")["high"]
    recorded = pd.read_parquet(run / "predictions.parquet").query("split == 'test'").set_index("id")["probabilities"]
    expected = recorded.map(lambda each: each[1])[found.index]
    pd.testing.assert_series_equal(found, expected, check_names=False, check_dtype=False, atol=1e-5, rtol=0)
    assert found.std() > 1e-3


@pytest.mark.parametrize("backbone", [BERT, SEGMENTS], ids=["bert", "segments"])
def test_prediction_by_quantised_adapters_alone(backbone, published, run_of, corpus, tmp_path):
    pytest.importorskip("bitsandbytes")
    inner = BERT | {"quantization": "nf4"}
    backbone = inner if backbone is BERT else SEGMENTS | {"encoder": inner}
    recipe = ALONE | {"keep": ["best", "last"]}
    run = run_of("finetune", backbone=backbone, recipe=recipe, start={"checkpoint": str(published)})
    train(run, tmp_path / "out")
    model = tmp_path / "out" / "model"
    torch.manual_seed(5)  # nothing is drawn by torch's global state
    agrees(model, tmp_path / "out", corpus, tmp_path / "found.csv")
    open_model(AutoModelForSequenceClassification, model / "last")


@pytest.mark.parametrize("backbone", [LINFORMER, SEGMENTS], ids=["linformer", "segments"])
def test_prediction_by_adapters_on_drawn_weights(backbone, run_of, corpus, tmp_path):
    train(run_of("finetune", backbone=backbone, recipe=ALONE | {"lora": {"r": 4, "alpha": 8}}), tmp_path / "out")
    agrees(tmp_path / "out" / "model", tmp_path / "out", corpus, tmp_path / "found.csv")


def test_prediction_by_adapters_whose_start_moved(published, run_of, corpus, tmp_path):
    train(run_of("finetune", backbone=BERT, recipe=ALONE, start={"checkpoint": str(published)}), tmp_path / "out")
    published.rename(tmp_path / "moved")
    model = tmp_path / "out" / "model"
    with pytest.raises(RunError, match="base_model_name_or_path"):
        predict(model, corpus / "test.parquet", tmp_path / "found.csv")
    model = shutil.copytree(model, tmp_path / "copy")
    path = model / "adapter" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": str(tmp_path / "moved")}))
    agrees(model, tmp_path / "out", corpus, tmp_path / "found.csv")
