"""Gradients against distance: by a recurrence whose gradients are known, and by finite differences."""

from types import SimpleNamespace

import pytest
import torch
from encoder_cases import EncoderForMaskedLM, build, token_ids
from torch import nn

from lib.core.randomness import derive_seed
from studies.toy.analysis.computations.gradients import distances, gradient_norms

pytestmark = pytest.mark.extended


class Decaying(nn.Module):
    """h_t = factor * h_(t - 1) + x_t, so that what arrives from k tokens before is factor ** k."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.embeddings = nn.Embedding(10, 3)

    def get_input_embeddings(self):
        return self.embeddings

    @property
    def base_model(self):
        return self

    def forward(self, inputs_embeds):
        states = [torch.zeros_like(inputs_embeds[:, 0])]
        for token in inputs_embeds.unbind(1):
            states.append(self.factor * states[-1] + token)
        return SimpleNamespace(last_hidden_state=torch.stack(states[1:], dim=1))


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_linear_recurrence(factor):
    ids = torch.randint(10, (20, 12), generator=torch.Generator().manual_seed(0))  # more than a batch
    norms = gradient_norms(Decaying(factor), ids, seed=1)
    assert norms.tolist() == pytest.approx([factor**distance for distance in range(12)])


def test_vanished_gradients():
    ids = torch.zeros(1, 256, dtype=torch.long)
    norms = gradient_norms(Decaying(0.25).double(), ids, seed=1)
    assert norms[255].item() == pytest.approx(0.25**255)


@pytest.mark.parametrize("mechanism", [{"kind": "sdpa"}, {"kind": "favor", "nb_features": 8}])
def test_encoder_by_finite_differences(mechanism):
    model = build(EncoderForMaskedLM, mechanism=mechanism).double().eval()
    ids = token_ids(1, 6)
    norms = gradient_norms(model, ids, seed=3)
    with torch.no_grad():
        embeddings, step = model.get_input_embeddings()(ids), 1e-5
        differences = torch.zeros(6, embeddings.shape[2])
        for position, unit in [(place, unit) for place in range(6) for unit in range(embeddings.shape[2])]:
            moved = []
            for sign in (1, -1):
                changed = embeddings.clone()
                changed[0, position, unit] += sign * step
                moved.append(projection(model, changed))
            differences[position, unit] = (moved[0] - moved[1]) / (2 * step)
    assert norms.tolist() == pytest.approx(differences.norm(dim=1).flip(0).tolist(), rel=1e-4)


def projection(model, embeddings):
    """Return the last state in the direction that the seed 3 gives."""
    state = model.base_model(inputs_embeds=embeddings).last_hidden_state[0, -1]
    generator = torch.Generator().manual_seed(derive_seed("projection", 3))
    direction = torch.randn(len(state), generator=generator, dtype=torch.float64)
    return state @ direction / direction.norm()


@pytest.mark.parametrize(
    ("length", "expected"),
    [(6, [0, 1, 2, 5]), (256, [0, 1, 2, 5, 10, 20, 50, 100, 200, 255])],
)
def test_distances_to_the_first_token(length, expected):
    assert list(distances(length)) == expected
