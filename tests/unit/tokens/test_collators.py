import numpy as np
import pytest
import torch

from lib.core.labels import IGNORED
from lib.tokens.batches import ClassificationCollator
from lib.tokens.masking import MlmCollator, TokenMasker
from lib.tokens.tokenizer import SPECIAL_TOKENS
from lib.tokens.vocabularies import from_vocabulary


@pytest.fixture(scope="module")
def masker(tmp_path_factory):
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *"abcdefghij"])}
    backend = from_vocabulary(vocabulary, tmp_path_factory.mktemp("t") / "t").backend
    return TokenMasker.of(backend, seed=0)


def row(index, length, epoch=0):
    ids = np.array([2, *(5 + np.arange(length - 2) % 10), 3])
    return {"id": f"d{index}", "input_ids": ids, "label": index % 2, "epoch": epoch, "index": index}


def test_padding_to_the_longest():
    batch = ClassificationCollator(pad_token_id=9)([row(0, 4), row(1, 7)])
    assert batch["input_ids"].tolist() == [[2, 5, 6, 3, 9, 9, 9], [2, 5, 6, 7, 8, 9, 3]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 0, 0, 0], [1] * 7]
    assert batch["labels"].tolist() == [0, 1]
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}


def test_masks_with_another_batch(masker):
    collator = MlmCollator(masker, pad_token_id=0)
    alone = collator([row(3, 30, epoch=2)])
    together = collator([row(8, 50, epoch=2), row(3, 30, epoch=2)])
    for name in ("input_ids", "labels", "attention_mask"):
        assert torch.equal(alone[name][0], together[name][1, :30])
    assert (together["labels"][1, 30:] == IGNORED).all()
    assert (together["input_ids"][1, 30:] == 0).all()
    assert not torch.equal(collator([row(3, 30, epoch=1)])["labels"], alone["labels"])


def test_padded_labels_of_tokens():
    rows = [row(0, 4) | {"labels": np.array([-100, 2, -100, -100])}, row(1, 3) | {"labels": np.array([-100, 0, -100])}]
    batch = ClassificationCollator(pad_token_id=9)(rows)
    assert batch["input_ids"].tolist() == [[2, 5, 6, 3], [2, 5, 3, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert batch["labels"].tolist() == [[-100, 2, -100, -100], [-100, 0, -100, -100]]
    assert set(batch) == {"input_ids", "attention_mask", "labels"}
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}
