"""A text of 10,000 words: the lines of a page or a card read as many tokens of it as `predict.py`."""

import re
from pathlib import Path

import pandas as pd
import pytest
from transformers import pipeline

from lib.backbones.settings import BACKBONES
from lib.training.predict import predict
from lib.training.run import train
from lib.workflow.commands.sharing import CALLS

SIZES = {"hidden_size": 32, "num_hidden_layers": 1}
BERT = {
    "kind": "pretrained",
    "architecture": SIZES
    | {"model_type": "bert", "intermediate_size": 32, "num_attention_heads": 2, "max_position_embeddings": 32},
}
BACKBONE = {
    "encoder": {},
    "recurrent": SIZES | {"kind": "recurrent", "cell": "gru"},
    "ssm": SIZES | {"kind": "ssm", "head_size": 8, "state_size": 4, "convolution": 3, "chunk_size": 4},
    "pretrained": BERT,
    "hierarchical": {"kind": "hierarchical", "encoder": BERT, "segment": 12, "overlap": 4, "group": 4},
}
PAGE = Path(__file__).parents[2] / "docs" / "use_a_model.md"


def long_text(corpus):
    """Return 10,000 words of the corpus."""
    words = " ".join(pd.read_parquet(corpus / "test.parquet")["text"]).split()
    return " ".join(words[place % len(words)] for place in range(10_000))


def printed(folder):
    """Return the pipeline that the page makes of a model folder, after its lines have run."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    found = {}
    exec(re.sub(r'(?<=model=)"[^"]+"', repr(str(folder)), code), found)
    assert "truncation=True" in code
    return found["classify"]


def test_every_kind_of_backbone_that_classifies_tokens_is_here():
    trained = {kind for kind in BACKBONES.kinds() if BACKBONES.has(kind, "model")}
    assert trained - {kind for kind in trained if BACKBONES.settings(kind).own_heads} | {"hierarchical"} == {*BACKBONE}


@pytest.mark.parametrize("kind", BACKBONE)
def test_the_lines_of_the_page_read_as_much_as_the_program(kind, run_of, corpus, tmp_path):
    train(run_of("finetune", model=kind, backbone=BACKBONE[kind], recipe={"epochs": 1}), tmp_path / "out")
    text = long_text(corpus)
    (tmp_path / "texts.txt").write_text(f"{text}\n")
    predict(tmp_path / "out" / "model", tmp_path / "texts.txt", tmp_path / "found.csv")
    found = pd.read_csv(tmp_path / "found.csv").iloc[0]
    scores = printed(tmp_path / "out" / "model")([text], truncation=True, top_k=None)[0]
    assert {each["label"]: each["score"] for each in scores} == pytest.approx(
        {label: found[label] for label in ("low", "high")}, abs=1e-6
    )


@pytest.mark.parametrize(("stage", "task"), [("tag", "token-classification"), ("pretrain", "fill-mask")])
def test_the_lines_of_a_card_read_a_long_text(stage, task, run_of, corpus, tmp_path):
    train(run_of(stage, model="bert", backbone=BERT, recipe={"epochs": 1}), tmp_path / "out")
    texts = long_text(corpus)
    if task == "fill-mask":
        texts = f"[MASK] {texts}"
    assert eval(CALLS[task], {"use": pipeline(task, model=str(tmp_path / "out" / "model")), "texts": texts})
