"""Masked language modelling: what its settings choose, and what they refuse."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

from lib.backbones.pretrained.backbone import Backbone
from lib.backbones.pretrained.settings import Settings as Pretrained
from lib.core.labels import IGNORED
from lib.tasks.masked_lm import Settings, Task
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import train_wordpiece


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Of single letters, without [CLS] and [SEP]."""
    folder = tmp_path_factory.mktemp("t") / "t"
    return train_wordpiece(folder, ["a b c d _ aa bb cc dd"], 13, enclose=False).backend


def batch(tokenizer, texts, **settings):
    task = Task(Settings(kind="masked_lm", **settings), labels=None, seed=0)
    examples = [{"id": i, "input_ids": np.array(tokenizer(text)["input_ids"]), "epoch": 0, "index": i}
                for i, text in enumerate(texts)]  # fmt: skip
    return task.collator(tokenizer)(examples)


@pytest.mark.parametrize("masking", ["random", "spans", "words"])
@pytest.mark.parametrize("objective", ["mlm", "mntp"])
def test_masked_documents_with_every_objective(tokenizer, masking, objective):
    texts = ["ab", "a b", "abcd " * 5] * 30
    labels = batch(tokenizer, texts, masking=masking, objective=objective, mask_probability=0.01)["labels"]
    assert labels.ne(IGNORED).any(dim=1).all()


def test_labels_of_the_position_before(tokenizer):
    settings = {"masking": "words", "mask_probability": 0.5, "mask_token_probability": 1, "random_token_probability": 0}
    made = batch(tokenizer, ["abcd " * 20], objective="mntp", **settings)
    hidden = made["input_ids"][0].eq(tokenizer.mask_token_id).tolist()
    assert made["labels"][0].ne(IGNORED).tolist() == [*hidden[1:], False]
    for start in range(4, 80, 4):
        assert len(set(hidden[start : start + 4])) == 1
    assert 0 < sum(hidden) < 80


@pytest.mark.parametrize(("rows", "vocabulary"), [(0, 14), (14, 14), (20, 20)])
def test_mask_token_beyond_the_vocabulary(tmp_path, rows, vocabulary):
    core = Tokenizer(models.BPE({token: i for i, token in enumerate(["<s>", *"abcdefghijkl"])}, []))
    made = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", pad_token="<s>")
    assert len(made) == 13
    made.add_special_tokens({"mask_token": "<mask>"})
    made.save_pretrained(tmp_path)
    loaded = TextTokenizer.load(tmp_path).backend
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    architecture = {"model_type": "llama", "vocab_size": rows} | sizes
    parameters = Pretrained(kind="pretrained", attention="bidirectional", architecture=architecture)
    model = AutoModelForMaskedLM.from_config(Backbone(parameters, seed=0).config(loaded, {}))
    assert model.get_input_embeddings().num_embeddings == vocabulary
    made = batch(loaded, ["abcdefghijkl"], objective="mntp", mask_probability=1, mask_token_probability=1,
                 random_token_probability=0)  # fmt: skip
    assert made["input_ids"].tolist() == [[1] + [13] * 11]
    assert torch.isfinite(model(**made).loss)
