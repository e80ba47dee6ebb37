"""Tokens predicted from the state before them."""

import numpy as np
import torch

from lib.tokens.batches import NextTokenCollator, at_previous
from lib.tokens.masking import MlmCollator, TokenMasker


def test_next_token_labels_with_padding():
    batch = NextTokenCollator(0)([{"id": "a", "input_ids": [7, 8, 9]}, {"id": "b", "input_ids": [7]}])
    assert batch["input_ids"].tolist() == [[7, 8, 9], [7, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch["labels"].tolist() == [[8, 9, -100], [-100, -100, -100]]


def test_masks_of_both_objectives():
    masker = TokenMasker(3, np.arange(20) < 4, np.arange(4, 20), seed=1, mask_probability=0.5)
    rows = [[1, *range(4, 14), 2], [1, 5, 2]]
    examples = [{"id": i, "input_ids": row, "epoch": 0, "index": i} for i, row in enumerate(rows)]
    own, before = (MlmCollator(masker, 0, at_previous=moved)(examples) for moved in (False, True))
    assert torch.equal(own["input_ids"], before["input_ids"])
    assert own["labels"].ne(-100).any()
    assert torch.equal(before["labels"], at_previous(own["labels"]))
