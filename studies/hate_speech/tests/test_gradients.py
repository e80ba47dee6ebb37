"""Accumulated micro-batches give the gradients of the batch where texts are written."""

import pytest

from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import add_sentinels

pytestmark = pytest.mark.extended

T5 = {
    "model_type": "t5",
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 64,
    "num_layers": 1,
    "num_heads": 2,
    "dropout_rate": 0.0,
}


def test_gradients_of_unequal_lengths(run_of, assert_accumulates):
    backbone = {"kind": "encoder_decoder", "architecture": T5}
    task = {"kind": "text_to_text", "targets": ["bal", "kut kit kal"]}
    assert_accumulates(run_of, "finetune", task=task, backbone=backbone)


def test_gradients_of_dropped_spans(run_of, corpus, tmp_path, assert_accumulates):
    """Of documents that lose unequal numbers of tokens."""
    TextTokenizer.load(corpus / "tokenizer").backend.save_pretrained(tmp_path / "tokenizer")
    add_sentinels(tmp_path / "tokenizer", 4)
    backbone = {"kind": "encoder_decoder", "architecture": T5}
    task = {"kind": "span_corruption"}
    tokenizer = str(tmp_path / "tokenizer")
    assert_accumulates(run_of, "tapt", task=task, backbone=backbone, tokenizer=tokenizer)
