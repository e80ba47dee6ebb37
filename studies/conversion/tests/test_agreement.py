"""Agreement of states: sums of batches give the scores of all of them, and padding takes no part."""

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score

from studies.conversion.evaluation.agreement import agreement, agreement_sums


@pytest.fixture
def states():
    """States of two models, and which tokens are real [8, 11]."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.randn(8, 11, 5, generator=generator) * torch.tensor([1, 2, 0.1, 5, 1]) + 20
    found = targets + torch.randn(targets.shape, generator=generator)
    real = torch.arange(11) < torch.tensor([11, 1, 4, 7, 2, 9, 10, 3])[:, None]
    return found, targets, real


def scores(found, targets, real, size):
    sums = [
        agreement_sums(*(each[start : start + size] for each in (found, targets, real))) for start in range(0, 8, size)
    ]
    return agreement(torch.stack(sums).numpy())


def test_scores_are_those_of_plain_arithmetic(states):
    found, targets, real = states
    made = scores(*states, size=8)
    explained = r2_score(targets[real], found[real], multioutput="variance_weighted")
    assert made["unexplained_variance"] == pytest.approx(1 - explained, rel=1e-4)
    cosine = torch.nn.functional.cosine_similarity
    assert made["token_cosine"] == pytest.approx(cosine(found[real], targets[real], dim=-1).mean().item(), rel=1e-6)
    means = [
        torch.stack([rows[keep].mean(dim=0) for rows, keep in zip(each, real, strict=True)]) for each in states[:2]
    ]
    assert made["document_cosine"] == pytest.approx(cosine(*means, dim=-1).mean().item(), rel=1e-6)


@pytest.mark.parametrize("size", [1, 3])
def test_how_documents_are_batched_moves_nothing(states, size):
    assert scores(*states, size=size) == pytest.approx(scores(*states, size=8), rel=1e-12)


@pytest.mark.parametrize("filler", [1e30, float("nan"), float("inf")])
def test_padding_takes_no_part(states, filler):
    found, targets, real = states
    poisoned = [each.masked_fill(~real[:, :, None], filler) for each in (found, targets)]
    assert scores(*poisoned, real, size=8) == scores(*states, size=8)


def test_equal_states_agree_and_their_mean_explains_nothing(states):
    _, targets, real = states
    equal = scores(targets, targets, real, size=4)
    assert equal == pytest.approx({"unexplained_variance": 0, "token_cosine": 1, "document_cosine": 1})
    mean = targets[real].mean(dim=0).expand(targets.shape)
    assert scores(mean, targets, real, size=4)["unexplained_variance"] == pytest.approx(1, rel=1e-6)


def test_the_variance_of_states_that_do_not_vary_is_told_as_unknown():
    row = torch.ones(2, 3, 4)
    assert np.isnan(scores_of_constant(row)["unexplained_variance"])


def scores_of_constant(row):
    return agreement(agreement_sums(row, row, torch.ones(2, 3, dtype=torch.bool))[None].numpy())
