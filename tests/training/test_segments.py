"""Runs on documents in segments, which are longer than their encoder reads."""

import pandas as pd
import pytest
import torch
from comparing import weights

from lib.predicting.predict import predict
from lib.study.run import Start
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_dataset
from lib.training.evaluate import evaluate
from lib.training.run import train

pytestmark = pytest.mark.extended

BERT = {"model_type": "bert", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
BERT |= {"num_attention_heads": 2, "max_position_embeddings": 16}
PLAIN = {"kind": "pretrained", "architecture": BERT}
RECIPE = {"epochs": 6, "learning_rate": 3e-3}


def segments(**changes):
    return {"kind": "hierarchical", "encoder": PLAIN, "segment": 12, "overlap": 4, "group": 16} | changes


def started(run, model, folder=None):
    return run.model_copy(update={"start": Start(run=folder and str(folder), checkpoint=str(model))})


def scores(folder):
    """Return the probability of the second class by document of test."""
    recorded = pd.read_parquet(folder / "predictions.parquet").query("split == 'test'").set_index("id")
    return recorded["probabilities"].map(lambda each: each[1])


@pytest.fixture(scope="module")
def trained(run_of, tmp_path_factory):
    out = tmp_path_factory.mktemp("segments") / "out"
    train(run_of("finetune", model="segments", backbone=segments(), recipe=RECIPE), out)
    return out


def test_segments_predicted_by_hand(trained, corpus, tmp_path):
    """Documents of 32 tokens by an encoder that has 16 positions."""
    assert pd.read_csv(trained / "history.csv")["eval_f1_macro"].max() > 0.9
    predict(trained / "model", corpus / "test.parquet", tmp_path / "found.csv", batch_size=5)
    found = pd.read_csv(tmp_path / "found.csv").set_index("id")["high"]
    pd.testing.assert_series_equal(
        found, scores(trained)[found.index], check_names=False, check_dtype=False, atol=1e-6, rtol=0
    )


def test_segments_of_an_adapted_encoder(run_of, corpus, tmp_path):
    short = {"max_tokens": 16, "data": {}}
    tokenize_dataset(
        {split: corpus / f"{split}.parquet" for split in ("train", "validation")},
        TextTokenizer.load(corpus / "tokenizer"),
        max_tokens=16,
        folder=tmp_path / "tokens",
        lengths=tmp_path / "lengths.json",
    )
    short["data"] = {split: str(tmp_path / "tokens" / split) for split in ("train", "validation")}
    train(run_of("tapt", model="bert", backbone=PLAIN, recipe={"epochs": 1}, **short), tmp_path / "adapted")
    run = run_of("finetune", model="segments", backbone=segments(), recipe={"epochs": 1, "backbone_lr_multiplier": 0})
    train(started(run, tmp_path / "adapted" / "model", tmp_path / "adapted"), tmp_path / "out")
    before, after = weights(tmp_path / "adapted" / "model"), weights(tmp_path / "out" / "model")
    inner = [name for name in before if name.startswith("pretrained.")]
    assert inner
    assert all(torch.equal(before[name], after[f"hierarchical.encoder.{name}"]) for name in inner)


def test_segments_evaluated_again(trained, run_of, tmp_path):
    start = {"run": str(trained), "checkpoint": str(trained / "model")}
    run = run_of("finetune", model="segments", backbone=segments(group=3), recipe=None, start=start)
    evaluate(run, tmp_path / "again")
    pd.testing.assert_series_equal(scores(tmp_path / "again"), scores(trained), atol=1e-6, rtol=1e-5)
    more = run_of("finetune", model="segments", backbone=segments(), recipe={"epochs": 1, "learning_rate": 1e-5})
    train(started(more, trained / "model", trained), tmp_path / "more")
    assert pd.read_csv(tmp_path / "more" / "history.csv")["eval_f1_macro"].iloc[-1] > 0.9
