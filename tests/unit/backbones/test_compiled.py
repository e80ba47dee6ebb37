"""Blocks that torch compiles: their number of graphs, their results, and the sizes that both depend on."""

import pytest
import torch
from encoder_cases import EXAMPLES, EncoderForMaskedLM, EncoderForSequenceClassification, build, labelled
from torch._dynamo.utils import counters

from lib.attention.contract import mechanisms, set_step
from lib.backbones.faster import CompiledAtFixedSizes, compile_blocks
from lib.backbones.heads.masked_lm import MaskedLM
from lib.backbones.ssm.configuration import SsmConfig
from lib.backbones.ssm.model import SsmModel
from lib.tokens.batches import known_beforehand

NO_DROPOUT = dict.fromkeys(("embedding_dropout", "mlp_dropout", "attention_output_dropout"), 0.0)
LENGTHS = [(9, 4, 3), (9, 9, 9, 9), (17, 6, 3, 2, 2)]


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


@pytest.mark.parametrize("mechanism", EXAMPLES)
def test_a_block_is_one_graph_or_two_around_what_cannot_be_traced(mechanism):
    trained(EncoderForSequenceClassification, mechanism, LENGTHS[:1], backend="aot_eager")
    traceable = next(iter(mechanisms(build(EncoderForMaskedLM, mechanism=EXAMPLES[mechanism])))).is_traceable
    assert traceable == mechanism.startswith("sdpa")
    assert counters["stats"]["unique_graphs"] == (1 if traceable else 2)
    assert not counters["graph_break"]


def test_a_vocabulary_head_is_a_graph_of_its_own_and_sizes_make_no_other():
    trained(EncoderForMaskedLM, "sdpa", [(9, 4, 3), (17, 6, 3, 2, 2), (8, 5, 5, 5, 5, 5)], backend="aot_eager")
    assert counters["stats"]["unique_graphs"] == 2
    assert not counters["graph_break"]


@pytest.mark.parametrize("mechanism", EXAMPLES)
@pytest.mark.parametrize("head", [EncoderForMaskedLM, EncoderForSequenceClassification])
def test_gradients_are_those_of_a_model_that_is_not_compiled_and_repeat(head, mechanism):
    expected = trained(head, mechanism, LENGTHS)
    compiled = trained(head, mechanism, LENGTHS, backend="aot_eager")
    for mine, theirs in zip(compiled, expected, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    again = trained(head, mechanism, LENGTHS, backend="aot_eager")
    assert all(all(map(torch.equal, *pair)) for pair in zip(compiled, again, strict=True))


def test_weights_keep_their_names_and_a_compiled_model_is_stored_as_any(tmp_path):
    model = build(EncoderForMaskedLM)
    names = list(model.state_dict())
    compile_blocks(model, backend="aot_eager")
    assert list(model.state_dict()) == names
    model.save_pretrained(tmp_path)
    again = EncoderForMaskedLM.from_pretrained(tmp_path)
    assert all(map(torch.equal, model.state_dict().values(), again.state_dict().values()))


@pytest.mark.parametrize("attention", [{}, {"attention_period": 2, "num_attention_heads": 2}])
def test_a_state_space_is_compiled_around_its_scan(attention):
    gradients_of = []
    for compiled in (False, True):
        torch.manual_seed(0)
        sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "head_size": 8, "state_size": 8}
        config = SsmConfig(**sizes, **attention, embedding_dropout=0.0)
        model = MaskedLM.on(SsmModel)(config).eval()
        if compiled:
            compile_blocks(model, backend="aot_eager")
        ids = torch.randint(5, 50, (3, 20), generator=torch.Generator().manual_seed(1))
        gradients_of.append(gradients(model, {"input_ids": ids, "labels": ids.masked_fill(ids > 20, -100)}))
    for one, other in zip(*gradients_of, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def sizes_seen(lengths):
    """Return the sizes of the inputs of whatever is compiled while a model trains on batches of `lengths`."""
    torch._dynamo.reset()
    seen = []

    def backend(graph, inputs):
        sizes = (each.shape for each in inputs if isinstance(each, torch.Tensor))
        seen.append([[size if isinstance(size, int) else size.node.hint for size in shape] for shape in sizes])
        return graph

    model = build(EncoderForMaskedLM).train()
    compile_blocks(model, backend=backend)

    def add(batch):
        loss = model(**batch).loss
        loss.backward()
        return loss

    compute = CompiledAtFixedSizes(model, add, longest=20, most=200)
    for each in lengths:
        compute(known_beforehand(labelled(model, *each), scored=True))
    return seen


def test_what_is_compiled_does_not_depend_on_the_batch_that_a_training_goes_on_with():
    first, other = sizes_seen([(9, 4, 3), (7, 7, 7, 7)]), sizes_seen([(17, 16, 3, 2, 2), (5, 5, 5)])
    assert first == other
    assert [7, 19] in [shape[:2] for graph in first for shape in graph]


def test_the_batch_that_goes_before_leaves_gradients_and_random_numbers_as_they_are():
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
