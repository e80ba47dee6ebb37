"""Agreement of states: sums of batches give the scores of all of them, and padding takes no part."""

import pytest
import torch
from sklearn.metrics import r2_score

from studies.conversion.evaluation.agreement import agreement, agreement_sums

pytestmark = pytest.mark.extended


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


def test_agreement_by_plain_arithmetic(states):
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


def test_agreement_in_batches(states):
    assert scores(*states, size=3) == pytest.approx(scores(*states, size=8), rel=1e-12)


@pytest.mark.parametrize("filler", [1e30, float("nan")])
def test_agreement_with_poisoned_padding(states, filler):
    found, targets, real = states
    poisoned = [each.masked_fill(~real[:, :, None], filler) for each in (found, targets)]
    assert scores(*poisoned, real, size=8) == scores(*states, size=8)


def test_agreement_of_equal_states_and_of_their_mean(states):
    _, targets, real = states
    equal = scores(targets, targets, real, size=4)
    assert equal == pytest.approx({"unexplained_variance": 0, "token_cosine": 1, "document_cosine": 1})
    mean = targets[real].mean(dim=0).expand(targets.shape)
    assert scores(mean, targets, real, size=4)["unexplained_variance"] == pytest.approx(1, rel=1e-6)
