import pytest
import torch
from transformers import NystromformerConfig
from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

from lib.attention.contract import build
from lib.attention.nystrom.mechanism import pseudo_inverse
from lib.attention.settings import MECHANISMS


def nystrom(landmarks, iterations=6, *, heads=2, width=8, dropout=0.0):
    parameters = MECHANISMS.parse({"kind": "nystrom", "landmarks": landmarks, "iterations": iterations})
    return build(parameters, num_heads=heads, head_size=width, layer=0, seed=0, dropout=dropout).eval()


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_exact_attention_by_as_many_landmarks_as_tokens():
    """The relative error, of the norms: measured 0.16 to 0.31, 0.014 to 0.04, 2e-8 to 2.2e-4 and 3e-6 at most."""
    for length in (16, 64):
        query, key, value = (rows(1, 4, length, 32, seed=seed) for seed in range(3))
        exact = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        for iterations, error in ((3, 0.5), (6, 0.1), (12, 2e-3), (20, 1e-4)):
            for landmarks in (length, 2 * length):
                found = nystrom(landmarks, iterations, heads=4, width=32)(query, key, value)
                assert (found - exact).norm() < error * exact.norm()


def test_iterations_end_at_the_pseudo_inverse():
    matrices = rows(3, 12, 12).double().softmax(-1)
    matrices[1, :, 8:] = 0  # of rank 8
    matrices[1] /= matrices[1].sum(-1, keepdim=True)
    torch.testing.assert_close(pseudo_inverse(matrices, 40), torch.linalg.pinv(matrices), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("iterations", [1, 6])
def test_text_alone_equals_the_published_layer(iterations, monkeypatch):
    """With more heads or texts, the published start takes one maximum over all of them, and so depends on the batch."""
    torch.manual_seed(0)
    published = NystromformerSelfAttention(
        NystromformerConfig(
            hidden_size=8,
            num_attention_heads=1,
            num_landmarks=4,
            segment_means_seq_len=24,
            attention_probs_dropout_prob=0.0,
        )
    ).eval()
    published.conv_kernel_size = None  # without the convolution over values
    inverse = published.iterative_inv
    monkeypatch.setattr(published, "iterative_inv", lambda matrix: inverse(matrix, iterations))
    states = rows(3, 24, 8)
    query, key, value = (layer(states)[:, None] for layer in (published.query, published.key, published.value))
    ours = nystrom(4, iterations, heads=1)(query, key, value)[:, 0]
    for row in range(3):
        (alone,) = published(states[row : row + 1])
        torch.testing.assert_close(ours[row : row + 1], alone, atol=1e-5, rtol=1e-5)
    (together,) = published(states)
    assert not torch.allclose(together, ours, atol=1e-4)
