import pytest
import torch

from lib.training.determinism import repeatable


@pytest.mark.parametrize("wanted", [True, False])
def test_operations_that_repeat_are_used_while_that_is_wanted(wanted):
    with repeatable(wanted=wanted):
        assert torch.are_deterministic_algorithms_enabled() is wanted
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_exact_attention_repeats_on_a_gpu():
    generator = torch.Generator("cuda").manual_seed(0)
    tensors = [torch.randn(16, 4, 500, 64, device="cuda", dtype=torch.bfloat16, generator=generator) for _ in range(4)]
    seen = (torch.arange(500, device="cuda") < torch.linspace(250, 500, 16, device="cuda")[:, None])[:, None, None]

    def gradients():
        query, key, value = (tensor.clone().requires_grad_() for tensor in tensors[:3])
        output = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return torch.autograd.grad(output, (query, key, value), tensors[3])

    with repeatable(wanted=True):
        first = gradients()
        for _ in range(10):
            assert all(map(torch.equal, first, gradients()))
