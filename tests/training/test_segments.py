"""Runs on documents in segments, which are longer than their encoder reads."""

import pandas as pd
import pytest
import torch
from comparing import weights
from transformers import AutoModelForSequenceClassification, BertConfig, BertModel

from lib.study.run import Start
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_dataset
from lib.training.evaluate import evaluate
from lib.training.predict import predict
from lib.training.predictor import assemble
from lib.training.run import train

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


def test_segments_learn_and_predict_by_hand_as_in_their_run(trained, corpus, tmp_path):
    """Documents of 32 tokens by an encoder that has 16 positions."""
    assert pd.read_csv(trained / "history.csv")["eval_f1_macro"].max() > 0.9
    predict(trained / "model", corpus / "test.parquet", tmp_path / "found.csv", batch_size=5)
    found = pd.read_csv(tmp_path / "found.csv").set_index("id")["high"]
    pd.testing.assert_series_equal(
        found, scores(trained)[found.index], check_names=False, check_dtype=False, atol=1e-6, rtol=0
    )


def test_an_encoder_adapted_by_itself_goes_on_in_segments(run_of, corpus, tmp_path):
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


def test_a_published_encoder_goes_on_in_segments(run_of, corpus, tmp_path):
    size = len(TextTokenizer.load(corpus / "tokenizer").backend)
    torch.manual_seed(1)
    source = BertModel(BertConfig(**BERT, vocab_size=size))
    source.save_pretrained(tmp_path / "published")
    run = run_of("finetune", backbone=segments(pooling="max"), recipe={"epochs": 1, "backbone_lr_multiplier": 0})
    train(started(run, tmp_path / "published"), tmp_path / "out")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out" / "model")
    own = model.base_model.encoder.base_model.inner.state_dict()
    assert all(torch.equal(own[name], weight) for name, weight in source.state_dict().items() if name in own)


def test_a_run_on_segments_is_evaluated_again_and_trained_on(trained, run_of, tmp_path):
    start = {"run": str(trained), "checkpoint": str(trained / "model")}
    run = run_of("finetune", model="segments", backbone=segments(group=3), recipe=None, start=start)
    evaluate(run, tmp_path / "again")
    pd.testing.assert_series_equal(scores(tmp_path / "again"), scores(trained), atol=1e-6, rtol=1e-5)
    more = run_of("finetune", model="segments", backbone=segments(), recipe={"epochs": 1, "learning_rate": 1e-5})
    train(started(more, trained / "model", trained), tmp_path / "more")
    assert pd.read_csv(tmp_path / "more" / "history.csv")["eval_f1_macro"].iloc[-1] > 0.9


def test_adapters_in_segments_are_merged(trained, run_of, tmp_path):
    lora = {"lora": {"r": 2, "alpha": 4}, "epochs": 1}
    run = run_of("finetune", model="segments", backbone=segments(pooling="transformer"), recipe=lora)
    train(run, tmp_path / "out")
    read = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out" / "model")
    assert not [name for name in read.state_dict() if "lora" in name]
    assert (tmp_path / "out" / "model" / "adapter").is_dir()


def test_freezing_holds_the_lower_blocks_of_the_encoder(run_of, tmp_path):
    recipe = {"epochs": 1, "freeze_layers": 1, "freeze_epochs": 1}
    run = run_of("finetune", model="segments", backbone=segments(), recipe=recipe)
    train(run, tmp_path / "out")
    first, last = assemble(run).model.state_dict(), weights(tmp_path / "out" / "model")
    moved = {name for name, weight in last.items() if not torch.equal(first[name], weight)}
    assert any(".layer.1." in name for name in moved)
    assert not any(".layer.0." in name or "embeddings" in name for name in moved)
