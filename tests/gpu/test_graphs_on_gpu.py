"""CUDA graphs of training steps have the same bits as these steps without them."""

import pytest
import torch
from encoder_cases import EncoderForMaskedLM, build, labelled

from lib.attention.contract import set_step
from lib.backbones.faster import CompiledAtFixedSizes, Graphs, compile_blocks
from lib.tokens.batches import known_beforehand, rounded

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")]
MECHANISMS = {
    "sdpa": {"kind": "sdpa"},
    "lsh": {"kind": "lsh", "num_hashes": 2, "chunk_size": 16},
    "favor": {"kind": "favor", "nb_features": 64, "redraw_interval": 3},
    "window": {"kind": "window", "width": 32, "global_tokens": 1},
}
SIZES = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}
STEPS = [(60, 50), (64, 64), (60, 31), (64, 64), (130, 20), (64, 64), (150, 9), (64, 64)]


@pytest.fixture(autouse=True)
def _sums_are_repeatable(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def trained(name, *, graphs, begun=0, start=None, stop=8):
    """Return weights and random state after some steps, and how many graphs were captured."""
    torch._dynamo.reset()
    model = build(EncoderForMaskedLM, mechanism=MECHANISMS[name], **SIZES).train().cuda()
    torch.cuda.manual_seed(1)
    if start is not None:
        model.load_state_dict(start[0])
        torch.cuda.set_rng_state(start[1])
    compile_blocks(model)

    def add(batch):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(**batch).loss
        loss.backward()
        return loss.detach()

    compute = CompiledAtFixedSizes(model, add, longest=150, most=512)
    compute = Graphs(model, compute) if graphs else compute
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(begun, stop):
        set_step(model, step)
        batch = rounded(known_beforehand(labelled(model, *STEPS[step]), scored=True))
        compute({key: each.cuda() for key, each in batch.items()})
        optimiser.step()
        optimiser.zero_grad(set_to_none=not graphs)
    captured = sum(each is not None for each in compute.graphs.values()) if graphs else 0
    return {key: each.clone() for key, each in model.state_dict().items()}, torch.cuda.get_rng_state(), captured


@pytest.mark.parametrize("name", MECHANISMS)
def test_steps_by_graphs_and_resumed_ones(name):
    expected, state, _ = trained(name, graphs=False)
    weights, own_state, captured = trained(name, graphs=True)
    assert captured >= 2
    assert all(map(torch.equal, expected.values(), weights.values()))
    assert torch.equal(state, own_state)
    half = trained(name, graphs=True, stop=4)
    resumed, *_ = trained(name, graphs=True, begun=4, start=half[:2])
    assert all(map(torch.equal, expected.values(), resumed.values()))
