"""Models that read documents in segments: what a segment is, and that nothing but its own tokens enters a document."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
import transformers
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from transformers import BertTokenizer

from lib.backbones.adapters import Adapters
from lib.backbones.hierarchical.segments import segment_counts, segments_of
from lib.backbones.settings import BACKBONES, Lora

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(35))]
CLS, SEP = 2, 3
BERT = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 32}
BERT |= {"num_attention_heads": 4, "max_position_embeddings": 16, "initializer_range": 0.3}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "initializer_range": 0.3}
ENCODER = {"kind": "encoder", "num_attention_heads": 2, "intermediate_size": 32, **SIZES}
FAVOR = {"kind": "favor", "nb_features": 8}
ENCODERS = {
    "bert": {"kind": "pretrained", "architecture": BERT},
    "bert with favor": {"kind": "pretrained", "architecture": BERT, "attention_dropout": 0.0, "mechanism": FAVOR},
    "lsh": ENCODER | {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}},
    "favor": ENCODER | {"mechanism": FAVOR},
    "gru": {"kind": "recurrent", "cell": "gru", **SIZES},
}
SEGMENT, OVERLAP = 8, 2
ROOM = SEGMENT - 2
every_pooling = pytest.mark.parametrize("pooling", ["mean", "max", "transformer"])


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return BertTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def build(tokenizer):
    """Return a model that classifies documents, or the one without a head."""

    def make(encoder="bert", auto="AutoModelForSequenceClassification", seed=0, options=None, **changes):
        values = {"kind": "hierarchical", "encoder": ENCODERS[encoder], "segment": SEGMENT, "overlap": OVERLAP}
        parameters = BACKBONES.parse(values | changes)
        backbone = BACKBONES.load("hierarchical", "backbone").Backbone(parameters, seed=seed)
        torch.manual_seed(seed)
        options = {"num_labels": 3} | (options or {})
        return getattr(transformers, auto).from_config(backbone.config(tokenizer, options)).eval()

    return make


def document(tokens, seed=0):
    """Return ids of a document with so many tokens beside those that enclose it."""
    drawn = torch.randint(5, len(WORDS), (tokens,), generator=torch.Generator().manual_seed(seed))
    return torch.tensor([CLS, *drawn.tolist(), SEP])


def padded(documents, length, side="right", filler=0):
    """Return documents as a batch [B, N], and its mask."""
    ids, mask = torch.full((len(documents), length), filler), torch.zeros(len(documents), length, dtype=torch.long)
    for row, each in enumerate(documents):
        place = slice(len(each)) if side == "right" else slice(length - len(each), length)
        ids[row, place], mask[row, place] = each, 1
    return ids, mask


def by_hand(ids, capacity=ROOM, overlap=OVERLAP):
    """Return the segments of a document: as few as hold it, and no two differ by more than a token."""
    content, number = ids[1:-1].tolist(), 1
    while len(content) > capacity + (number - 1) * (capacity - overlap):
        number += 1
    starts = [(len(content) - overlap) * each // number for each in range(number)] if number > 1 else [0]
    ends = [start + overlap for start in starts[1:]] + [len(content)]
    return [[CLS, *content[start:end], SEP] for start, end in zip(starts, ends, strict=True)]


LENGTHS = [0, 1, ROOM - 1, ROOM, ROOM + 1, 2 * ROOM - OVERLAP, 2 * ROOM - OVERLAP + 1, 41]


# Segments


def test_segments_of_documents(build):
    """They overlap, and hold every token, with special tokens of their own."""
    model = build().base_model
    for tokens in LENGTHS:
        ids, read = document(tokens), []
        model._vectors = lambda values, mask, read=read: read.append((values, mask)) or torch.zeros(len(values), 16)
        states = model(ids[None]).last_hidden_state
        found = {
            tuple(row[: None if mask is None else mask[number].sum()].tolist())
            for values, mask in read
            for number, row in enumerate(values)
        }
        assert found == {tuple(each) for each in by_hand(ids)}
        assert states.shape[1] == len(by_hand(ids))
        assert segment_counts(model.config, torch.tensor([tokens + 2])).tolist() == [len(by_hand(ids))]


def test_segments_of_nothing_but_overlaps():
    with pytest.raises(ValidationError, match="overlap = 8"):
        BACKBONES.parse({"kind": "hierarchical", "encoder": ENCODER, "segment": 10, "overlap": 8})


@given(tokens=st.integers(1, 5000), capacity=st.integers(1, 600), overlap=st.integers(0, 599))
@example(
    tokens=511, capacity=510, overlap=64
)  # segments of 510 and 65 gave the last token 8.6 times the weight of the first
def test_token_weighs_the_same(tokens, capacity, overlap):
    """In a mean over segments of means over their tokens. A token of an overlap is in several segments."""
    overlap %= capacity
    config = SimpleNamespace(overlap=overlap, step=capacity - overlap, tokens_before=1, tokens_behind=1)
    found = sorted(segments_of(config, [tokens + 2]), key=lambda segment: segment.number)
    number = len(found)
    assert segment_counts(config, torch.tensor([tokens + 2])).tolist() == [number]
    assert number == 1 or tokens > capacity + (number - 2) * config.step, "fewer segments would hold the document"
    assert all(second.start == first.start + first.tokens - overlap for first, second in pairwise(found))
    weights, times = torch.zeros(tokens), torch.zeros(tokens)
    for segment in found:
        assert 1 <= segment.tokens <= capacity
        place = slice(segment.start, segment.start + segment.tokens)
        weights[place] += 1 / (number * segment.tokens)
        times[place] += 1
    assert times.min() == 1
    each = weights / times
    assert each.max() <= each.min() * (1 + 1 / min(segment.tokens for segment in found)) * 1.0001


@pytest.mark.parametrize(
    ("encoder", "classifier_pooling"), zip(ENCODERS, ["mean", "cls", "max", "mean", "cls"], strict=True)
)
def test_vectors_of_segments(encoder, classifier_pooling, build):
    model = build(encoder, options={"classifier_pooling": classifier_pooling}).base_model
    ids = document(41)
    vectors = model(ids[None]).last_hidden_state[0]
    for vector, segment in zip(vectors, by_hand(ids), strict=True):
        states = model.encoder.base_model(torch.tensor([segment])).last_hidden_state[0]
        alone = {"mean": states.mean(0), "cls": states[0], "max": states.amax(0)}[classifier_pooling]
        torch.testing.assert_close(vector, alone, atol=1e-6, rtol=1e-5)


@every_pooling
def test_vectors_of_documents(pooling, build):
    model = build(pooling=pooling)
    documents = [document(41), document(3, seed=1), document(17, seed=2)]
    ids, mask = padded(documents, 43)
    states = model.base_model(ids, mask).last_hidden_state
    found = model.pool(states, mask)
    for row, each in enumerate(documents):
        own = states[row, : len(by_hand(each))]
        if pooling == "transformer":
            expected = model.pool(own[None], None)[0]
            swapped = model.pool(own.flip(0)[None], None)[0]
            assert len(own) == 1 or not torch.allclose(swapped, expected, atol=1e-3), "the order counts"
        else:
            expected = own.mean(0) if pooling == "mean" else own.amax(0)
        torch.testing.assert_close(found[row], expected, atol=1e-6, rtol=1e-5)


# Padding and batches


@pytest.mark.parametrize(
    ("encoder", "pooling"), zip(ENCODERS, ["transformer", "mean", "max", "transformer", "mean"], strict=True)
)
def test_padding_and_other_documents(encoder, pooling, build):
    model = build(encoder, pooling=pooling)
    documents = [document(tokens, seed=tokens) for tokens in LENGTHS]
    with torch.no_grad():
        alone = torch.cat([model(ids[None]).logits for ids in documents])
        assert alone.std(0).min() > 1e-3, "the logits tell nothing"
        for length, side, filler in ((43, "right", 0), (50, "left", 7), (131, "right", 7)):
            logits = model(*padded(documents, length, side, filler)).logits
            torch.testing.assert_close(logits, alone, atol=1e-6, rtol=1e-5)


def test_padding_between_tokens(build):
    model, ids = build(), document(20)
    places = torch.arange(22) * 2
    spread, mask = torch.full((1, 44), 9), torch.zeros(1, 44, dtype=torch.long)
    spread[0, places], mask[0, places] = ids, 1
    torch.testing.assert_close(model(spread, mask).logits, model(ids[None]).logits, atol=1e-6, rtol=1e-5)


def test_hostile_numbers_at_padding(build):
    """They get in nowhere, and no gradient; a row that has nothing else disturbs no other."""
    model = build(pooling="transformer")
    ids, mask = padded([document(20), document(7, seed=1)], 30)
    embedded = model.get_input_embeddings()(ids).detach()
    for filler in (1e4, float("inf"), float("nan")):
        poisoned = embedded.masked_fill(mask[:, :, None] == 0, filler).requires_grad_()
        found = model(inputs_embeds=poisoned, attention_mask=mask, labels=torch.tensor([0, 2]))
        torch.testing.assert_close(found.logits, model(ids, mask).logits, atol=1e-6, rtol=1e-5)
        found.loss.backward()
        assert torch.equal(poisoned.grad.abs().sum(-1) > 0, mask.bool())
    model, mask = build(), mask.clone()
    mask[1] = 0
    logits = model(ids, mask).logits
    assert logits.isfinite().all()
    torch.testing.assert_close(logits[:1], model(ids[:1], mask[:1]).logits, atol=1e-6, rtol=1e-5)


# Groups


def gradients(model, ids, mask):
    model.zero_grad()
    model(ids, mask, labels=torch.tensor([0, 1, 2])).loss.backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


@pytest.mark.parametrize("encoder", ["bert", "lsh"])
def test_size_of_a_group(encoder, build):
    """Without dropout, whose draws follow the groups; in training several groups are read twice."""
    dropouts = {"classifier_dropout": 0.0}
    ids, mask = padded([document(41), document(3, seed=1), document(17, seed=2)], 43)
    found = {}
    for group in (1, 2, 5, 100):
        model = build(encoder, group=group, options=dropouts)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        found[group] = model(ids, mask).logits, gradients(model.train(), ids, mask)
    logits, expected = found[100]
    for group in (1, 2, 5):
        torch.testing.assert_close(found[group][0], logits, atol=1e-6, rtol=1e-5)
        for name, gradient in found[group][1].items():
            torch.testing.assert_close(gradient, expected[name], atol=1e-6, rtol=1e-4, msg=name)


def test_dropout_of_a_group_that_is_read_again(build, monkeypatch):
    """The gradients are those of the loss that was reported: as without a second reading."""
    ids, mask = padded([document(41), document(3, seed=1), document(17, seed=2)], 43)
    model = build(group=2).train()
    read = []
    forward = model.base_model.encoder.base_model.forward

    def counted(*args, **kwargs):
        read.append(1)
        return forward(*args, **kwargs)

    monkeypatch.setattr(model.base_model.encoder.base_model, "forward", counted)
    torch.manual_seed(3)
    again = gradients(model, ids, mask)
    after = torch.get_rng_state()
    twice = len(read)
    monkeypatch.setattr(
        "lib.backbones.hierarchical.model.checkpoint", lambda function, *values, use_reentrant: function(*values)
    )
    torch.manual_seed(3)
    once = gradients(model, ids, mask)
    assert twice == 2 * (len(read) - twice)
    torch.testing.assert_close(again, once, atol=1e-6, rtol=1e-4)
    assert torch.equal(after, torch.get_rng_state()), "what is drawn next, too"


# Weights


def test_adapters_beside_a_head(build):
    model = build(pooling="transformer")
    Adapters(model, Lora(r=2, alpha=2, targets=["query"]), seed=0, start=None)
    base = model.base_model
    assert len(base.layers) == base.config.parameters.blocks() == 2
    assert base.embeddings is base.encoder.base_model.embeddings
    trains = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert all(".lora_" in name or name.startswith(("pool.", "head.")) for name in trains)
    assert {"pool.norm.weight", "head.0.weight"} <= trains
    before = model.train()(document(41)[None], labels=torch.tensor([1])).loss
    before.backward()
    assert all(model.get_parameter(name).grad is not None for name in trains)
