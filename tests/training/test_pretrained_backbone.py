"""A decoder through the stages of a study: causal first, then opened and adapted, then fine-tuned."""

import pandas as pd
import pytest
import torch
from comparing import weights
from pydantic import ValidationError
from training_fixtures import LLAMA
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from lib.backbones.pretrained.families import FAMILIES, Family
from lib.core.errors import ConfigError
from lib.core.record import read_record
from lib.predicting.predict import predict
from lib.tasks import masked_lm
from lib.training.predictor import assemble
from lib.training.run import train

pytestmark = pytest.mark.extended


def decoder(attention):
    return {"kind": "pretrained", "architecture": LLAMA, "attention": attention}


@pytest.mark.parametrize("objective", ["mlm", "mntp"])
def test_losses_as_of_transformers(objective, run_of):
    """The same weights give the same loss, of next tokens and of masked ones."""
    task, _, tokenizer, model = assemble(run_of("pretrain", backbone=decoder("causal"), task={"kind": "causal_lm"}))
    published = AutoModelForCausalLM.from_config(model.config.inner()).eval()
    published.model.load_state_dict(model.pretrained.inner.state_dict())
    examples = [{"id": "a", "input_ids": list(range(5, 25)), "epoch": 0, "index": 0}]
    batch = task.collator(tokenizer)(examples)
    expected = published(batch["input_ids"], labels=batch["input_ids"]).loss
    torch.testing.assert_close(model.eval()(**batch).loss, expected)

    task = masked_lm.Task(masked_lm.Settings(kind="masked_lm", objective=objective), labels=None, seed=1)
    batch = task.collator(tokenizer)(examples)
    places = batch["labels"][0].ne(-100).nonzero().flatten()
    tokens = torch.tensor(examples[0]["input_ids"])[places + (objective == "mntp")]
    logits = published(batch["input_ids"]).logits[0, places]
    torch.testing.assert_close(model(**batch).loss, torch.nn.functional.cross_entropy(logits, tokens))


def test_next_tokens_without_sight_of_them(run_of, tmp_path):
    task = {"kind": "causal_lm"}
    train(run_of("pretrain", model="llama", backbone=decoder("causal"), task=task), tmp_path / "out")
    losses = pd.read_csv(tmp_path / "out" / "history.csv")["eval_loss"]
    assert losses.iloc[-1] < losses.iloc[0]
    with pytest.raises(ValidationError, match="causal_lm"):
        run_of("pretrain", model="llama", backbone=decoder("bidirectional"), task=task)


def test_scores_of_a_decoder_that_still_opens(run_of, corpus, tmp_path):
    """It has 12 steps, so that none sees all; the scores are those of the model that is kept."""
    backbone = decoder("gradual") | {"opening_steps": 100}
    run = run_of("finetune", model="llama", backbone=backbone, recipe={"keep": ["last"], "learning_rate": 0.01})
    train(run, tmp_path / "out")
    predict(tmp_path / "out" / "model", corpus / "test.parquet", tmp_path / "test.csv")
    recorded = pd.read_parquet(tmp_path / "out" / "predictions.parquet").query("split == 'test'").set_index("id")
    found = pd.read_csv(tmp_path / "test.csv")["high"].tolist()
    order = pd.read_parquet(corpus / "test.parquet")["id"]
    assert found == pytest.approx([each[1] for each in recorded.loc[order, "probabilities"]], abs=1e-6)
    scores = pd.read_csv(tmp_path / "out" / "history.csv")
    assert scores["eval_loss"].iloc[-1] == pytest.approx(read_record(tmp_path / "out").metrics["eval_loss"])


FAMILY_FIELDS = {
    "phi3": {"num_key_value_heads": 2},
    "gpt2": {"num_key_value_heads": 2},
    "electra": {"embedding_size": 16},
    "longformer": {"attention_window": [4, 8]},
    "nystromformer": {"conv_kernel_size": 5},
}


@pytest.mark.parametrize("family", FAMILY_FIELDS)
def test_trained_families_loaded_again(family, run_of, tmp_path):
    opening = {"attention": "gradual", "opening_steps": 3} if family in ("phi3", "gpt2") else {}
    architecture = LLAMA | {"model_type": family} | FAMILY_FIELDS[family]
    backbone = {"kind": "pretrained", "architecture": architecture} | opening
    train(run_of("pretrain", model=family, backbone=backbone), tmp_path / "out")
    losses = pd.read_csv(tmp_path / "out" / "history.csv")["eval_loss"]
    assert losses.iloc[-1] < losses.iloc[0]
    model, saved = AutoModelForMaskedLM.from_pretrained(tmp_path / "out" / "model"), weights(tmp_path / "out" / "model")
    assert all(torch.equal(model.get_parameter(name), weight) for name, weight in saved.items())


def test_release_that_stays_causal(run_of, tmp_path, monkeypatch):
    """As llm2vec's users met it after an upgrade: nothing failed, and the model was causal."""
    monkeypatch.setitem(FAMILIES, "llama", Family({"causal": {}, "bidirectional": {}}))
    with pytest.raises(ConfigError, match="LlamaModel"):
        train(run_of("pretrain", model="llama", backbone=decoder("bidirectional")), tmp_path / "out")
    assert not (tmp_path / "out").exists()
