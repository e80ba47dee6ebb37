from dataclasses import replace

import pytest
import torch
from cost_tables import adaptation_table, markdown_tables

from lib.measure.adaptation_cost import OURS, PLAIN, PREDICTED, SIZES, AdaptationCase, adaptation_cost
from lib.measure.summaries import adaptation_summary
from lib.measure.tables import COLUMNS
from lib.tokens.next_token import at_previous

SMALL = SIZES | {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
IMPLEMENTATIONS = (PLAIN, OURS)


def adaptation(implementation, batch, length):
    sizes = {"model": "small", "architecture": SMALL, "batch": batch, "length": length}
    return AdaptationCase(implementation=implementation, **sizes, device="cpu", dtype="float32").prepare()


@pytest.fixture
def pair():
    """The plain loop and ours, with the same weights but for LoRA's, which add nothing at first."""
    plain, ours = (adaptation(name, 4, 24) for name in IMPLEMENTATIONS)
    found = {name.replace("base_model.model.model.", ""): weight for name, weight in plain.model.named_parameters()}
    for name, weight in ours.model.named_parameters():
        weight.data.copy_(found[name.replace("pretrained.inner.", "")])
    return plain, ours


def test_both_learn_the_same_from_the_same_tokens(pair):
    plain, ours = pair
    assert torch.equal(plain.batch["input_ids"], ours.batch["input_ids"])
    assert torch.equal(at_previous(plain.batch["labels"]), ours.batch["labels"])
    assert ours.sizes == replace(plain.sizes, scored=ours.sizes.scored, operations=ours.sizes.operations)
    assert plain.sizes.scored == 4 * 24
    assert 0.3 * PREDICTED < ours.sizes.scored / plain.sizes.scored < 2 * PREDICTED
    losses = []
    for each in pair:
        each.model.eval()  # without LoRA's dropout
        losses.append(each.loss(each.batch))
        losses[-1].backward()
    torch.testing.assert_close(*losses)
    gradients = [
        {name.split("layers.")[1].replace(".default", ""): weight.grad for name, weight in part.model.named_parameters()
         if weight.requires_grad}
        for part in pair
    ]  # fmt: skip
    assert len(gradients[0]) == 2 * 2 * 7  # two factors for each projection of two layers
    torch.testing.assert_close(gradients[0], gradients[1])


def test_both_look_to_both_sides(pair):
    for each in pair:
        batch = {name: tensor for name, tensor in each.batch.items() if name != "labels"}
        other = batch | {"input_ids": batch["input_ids"].clone()}
        other["input_ids"][:, -1] = 7
        each.model.eval()
        with torch.no_grad():
            first, second = (each.model(**inputs).logits[:, 0] for inputs in (batch, other))
        assert not torch.equal(first, second)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_step_trains_lora_alone(implementation):
    step = adaptation(implementation, 2, 16)
    before = {name: weight.detach().clone() for name, weight in step.model.named_parameters()}
    step()
    changed = {name for name, weight in step.model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed
    assert all("lora_" in name for name in changed)


def test_a_table_of_both_with_less_memory_where_less_is_scored():
    models = {"wide": SMALL | {"vocab_size": 20_000}}
    table = adaptation_cost(models, batch=4, length=128, repetitions=2, device="cpu", dtype="float32")
    assert list(table) == COLUMNS["adaptation_cost"]
    assert table["implementation"].tolist() == [*IMPLEMENTATIONS]
    assert (table[["median_ms", "tokens_per_s", "trained"]] > 0).all(axis=None)
    assert table["tokens"].tolist() == [512, 512]
    (everywhere, predicted), (plain, ours) = table["scored"], table["peak_mb"]
    assert everywhere == 512 > predicted
    assert plain - ours > (everywhere - predicted) * 20_000 * 4 / 2**20  # at least the scores themselves, in MiB


def test_the_summary_sets_both_beside_each_other():
    rows = [
        {"implementation": name, "model": "llama-32k", "parameters": 7_915_200, "scored": scored, "repetitions": turns}
        for name, scored, turns in (("transformers + peft", 2048, 3), ("ours", 409, 1))
    ]
    text = adaptation_summary(adaptation_table(rows))
    (table,) = markdown_tables(text)
    assert [row["implementation"] for row in table] == ["transformers + peft", "ours"]
    assert [row["tokens scored"] for row in table] == ["2,048 of 2,048", "409 of 2,048"]
    assert [row["time [ms]"] for row in table] == ["100", "100*"]
    assert table[0]["weights [M]"] == "7.9"
    assert "4 sequences of 512 random ids" in text
