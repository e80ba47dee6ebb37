"""Blocks that torch compiles: their number of graphs, their results, and the sizes that both depend on."""

import pytest
import torch
from encoder_cases import EXAMPLES, EncoderForMaskedLM, EncoderForSequenceClassification, build, labelled
from torch._dynamo.utils import counters

from lib.attention.contract import set_step
from lib.backbones.faster import CompiledAtFixedSizes, compile_blocks
from lib.tokens.batches import known_beforehand

pytestmark = pytest.mark.extended

NO_DROPOUT = dict.fromkeys(("embedding_dropout", "mlp_dropout", "attention_output_dropout"), 0.0)
LENGTHS = [(9, 4, 3), (17, 6, 3, 2, 2)]


@pytest.fixture(autouse=True)
def _nothing_is_compiled_yet():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def gradients(model, batch):
    model.zero_grad()
    model(**batch).loss.backward()
    return [weight.grad for weight in model.parameters() if weight.grad is not None]


def trained(head, mechanism, lengths, **how):
    """Return the gradients on batches of `lengths`, by a new model."""
    model = build(head, mechanism=EXAMPLES[mechanism], **NO_DROPOUT).train()
    if how:
        compile_blocks(model, **how)
    set_step(model, 3)
    batches = [known_beforehand(labelled(model, *each), scored=head is EncoderForMaskedLM) for each in lengths]
    return [gradients(model, batch) for batch in batches]


def test_gradients_of_a_compiled_model():
    """Of the mechanism that is traced; a vocabulary head is a graph of its own, and sizes make no other."""
    expected = trained(EncoderForMaskedLM, "sdpa", LENGTHS)
    compiled = trained(EncoderForMaskedLM, "sdpa", LENGTHS, backend="aot_eager")
    assert counters["stats"]["unique_graphs"] == 2
    assert not counters["graph_break"]
    for mine, theirs in zip(compiled, expected, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_batch_that_goes_before():
    model = build(EncoderForSequenceClassification).train()
    batch = known_beforehand(labelled(model, 9, 4), scored=False)
    calls = []

    def add(given):
        calls.append(given["input_ids"].shape)
        loss = model(**given).loss
        loss.backward()
        return loss.detach()

    results = []
    for compute in (add, CompiledAtFixedSizes(model, add, longest=20, most=200)):
        model.zero_grad()
        torch.manual_seed(5)  # of the dropouts
        add(batch)
        loss = compute(batch)
        results.append([loss, *(weight.grad.clone() for weight in model.parameters() if weight.grad is not None)])
    assert all(map(torch.equal, *results))
    assert (7, 19) in calls
