"""Nothing that is loaded can run code: neither a checkpoint, nor weights, nor what stands beside them."""

import json
import logging
import os
import re

import pytest
import torch
from killing import attempt, killed_at
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM

from lib.backbones.pretrained.hub_weights import load_published
from lib.core.errors import ProjectError, RunError
from lib.predicting.predict import predict
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import from_published
from lib.training.checkpoints import seal
from lib.training.predictor import assemble
from lib.training.run import train

STEP = 9


class Touch:
    """Makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def killed(run_of, tmp_path, caplog):
    """A run killed in its second epoch, and its last checkpoint."""
    caplog.set_level(logging.INFO)
    run = run_of("finetune", recipe={"epochs": 2}, execution={"checkpoint_minutes": 1e-6})
    with killed_at(STEP):
        train(run, tmp_path / "out")
    return run, attempt(tmp_path / "out") / f"checkpoint-{STEP}"


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_code_in_a_checkpoint(name, killed, tmp_path, caplog):
    run, checkpoint = killed
    torch.save({"state": Touch(tmp_path / "code_ran")}, checkpoint / name)
    seal(checkpoint)  # as whoever makes such a file would
    train(run, tmp_path / "out")
    assert re.search(rf"checkpoint-{STEP}: skipped \({name} holds more than tensors and numbers", caplog.text)
    assert f"checkpoint-{STEP - 1}: taken over" in caplog.text
    assert not (tmp_path / "code_ran").exists()


ARCHITECTURE = {"model_type": "bert", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
ARCHITECTURE |= {"num_attention_heads": 2, "max_position_embeddings": 64}


@pytest.fixture
def published(run_of, corpus, tmp_path):
    """A run's model, and the folder of a published one of its architecture whose weights are a pickle."""
    backbone = {"kind": "pretrained", "architecture": ARCHITECTURE}
    model = assemble(run_of("pretrain", backbone=backbone)).model
    size = len(TextTokenizer.load(corpus / "tokenizer").backend)
    folder = tmp_path / "published"
    source = BertForMaskedLM(
        BertConfig(**ARCHITECTURE, vocab_size=size, pad_token_id=model.config.inner().pad_token_id)
    )
    source.save_pretrained(folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return model, folder


def test_code_in_pickled_weights(published, tmp_path):
    model, folder = published
    load_published(model, folder)
    weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
    torch.save(weights | {"extra": Touch(tmp_path / "code_ran")}, folder / "pytorch_model.bin")
    with pytest.raises(RunError, match="published: cannot be loaded"):
        load_published(model, folder)
    assert not (tmp_path / "code_ran").exists()


def with_code(folder, name, key, value, tmp_path):
    """Let a folder's configuration name a module beside it, as models with code of their own do."""
    (folder / "code.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'code_ran')!r})\nclass Own: pass\n")
    path = folder / name
    fields = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(fields | {"auto_map": {key: value}}))


def test_code_beside_a_model(published, tmp_path):
    model, folder = published
    with_code(folder, "config.json", "AutoModelForMaskedLM", "code.Own", tmp_path)
    with pytest.raises(RunError, match="auto_map"):
        load_published(model, folder)
    with_code(folder, "config.json", "AutoConfig", "code.Own", tmp_path)
    load_published(model, folder)  # its configuration is read by the class of transformers
    fields = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(fields | {"model_type": "own"}))
    (tmp_path / "texts.txt").write_text("a text\n")
    with pytest.raises((ProjectError, ValueError)):
        predict(folder, tmp_path / "texts.txt", tmp_path / "labels.csv")
    assert not (tmp_path / "code_ran").exists()


def test_code_beside_a_tokeniser(corpus, tmp_path):
    folder = tmp_path / "tokenizer"
    TextTokenizer.load(corpus / "tokenizer").backend.save_pretrained(folder)
    with_code(folder, "tokenizer_config.json", "AutoTokenizer", ["code.Own", "code.Own"], tmp_path)
    from_published(folder, tmp_path / "own")
    TextTokenizer.load(folder)
    assert not (tmp_path / "code_ran").exists()
