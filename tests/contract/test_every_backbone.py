"""What every backbone of tokens owes, with the head of every task, run over examples of every kind found."""

import math
import typing

import pytest
import torch
import transformers
from extending import extended, having
from safetensors.torch import load_file, save_file
from transformers import AutoModel, BertTokenizer

from lib.backbones.contract import TokenBackbone
from lib.backbones.settings import BACKBONES
from lib.backbones.stored import open_model
from lib.core.errors import RunError
from lib.study.recipe import Recipe
from lib.tasks.settings import TASKS
from lib.training.optimisation import make_optimizer

EXTENSIONS = having("backbones")
pytestmark = pytest.mark.extensions(*EXTENSIONS)
SIZES = {"hidden_size": 16, "num_hidden_layers": 2}
PLAIN = SIZES | {"intermediate_size": 32, "num_attention_heads": 4}
DECODER = PLAIN | {"num_key_value_heads": 2, "head_dim": 4}
ALIKE = {"A_log"}
"""Names of weights that begin alike in all models: the rates of a state space."""
OUTSIDE = {"norm", "final_norm", "encoder.LayerNorm", "encoder.rel_embeddings", "encoder.relative_attention_bias"}
"""Modules that are neither first embeddings nor in a block: the last norm, and what is known of distances."""


def pretrained(model_type, sizes=PLAIN, **fields):
    return {"kind": "pretrained", "architecture": {"model_type": model_type, **sizes, **fields}}


def encoder(mechanism, **fields):
    return {"kind": "encoder", "mechanism": mechanism, "num_attention_heads": 2, "intermediate_size": 32, **fields}


LSH, FAVOR = {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}, {"kind": "favor", "nb_features": 8}
SSM = {"kind": "ssm", "head_size": 8, "state_size": 4, "convolution": 3, "chunk_size": 4}
POSITIONS = {"max_position_embeddings": 80}
WINDOWED = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
DISTANCES = {"relative_attention": True, "position_buckets": 8, "position_biased_input": False, "type_vocab_size": 0}
EXAMPLES = {
    "sdpa": encoder({"kind": "sdpa"}),
    "grouped latent keys": encoder(FAVOR, num_key_value_heads=1, kv_rank=4),
    "a mechanism per layer": encoder([LSH, FAVOR]),
    "bert with a mechanism per layer": pretrained("bert", **POSITIONS)
    | {"mechanism": [{"kind": "window", "width": 4}, {"kind": "sdpa"}], "attention_dropout": 0.0},
    "rnn": {"kind": "recurrent", "cell": "rnn"},
    "lstm": {"kind": "recurrent", "cell": "lstm"},
    "gru": {"kind": "recurrent", "cell": "gru"},
    "ssm": SSM,
    "ssm with layers that attend": SSM | {"attention_period": 2, "num_attention_heads": 2, "mechanism": LSH},
    "llama": pretrained("llama", DECODER),
    "causal llama": pretrained("llama", DECODER) | {"attention": "causal"},
    "gemma3": pretrained("gemma3_text", DECODER, **WINDOWED),
    "deberta": pretrained("deberta-v2", **DISTANCES, pos_att_type=["p2c", "c2p"]),
    "modernbert": pretrained("modernbert", local_attention=6),
    "longformer": pretrained("longformer", **POSITIONS, attention_window=[4, 8]),
    "big_bird": pretrained("big_bird", **POSITIONS, block_size=2, num_random_blocks=1),  # sparse from 15 tokens on
    "nystromformer": pretrained("nystromformer", **POSITIONS, conv_kernel_size=5),
}
SEGMENTS = {"kind": "hierarchical", "segment": 6, "overlap": 1, "group": 2}
DOCUMENTS = {
    "segments of bert": SEGMENTS | {"encoder": pretrained("bert", max_position_embeddings=8)},
    "segments of lsh": SEGMENTS | {"encoder": encoder(LSH, **SIZES), "pooling": "transformer"},
}
"""Backbones of which only documents are classified."""
HEADS = {
    "masked_lm": "AutoModelForMaskedLM",
    "sequence_classification": "AutoModelForSequenceClassification",
    "token_classification": "AutoModelForTokenClassification",
}
AUTO = HEADS | {None: "AutoModel", "imitation": "AutoModelForPreTraining"}
AUTO |= {"pair_classification": "AutoModelForNextSentencePrediction"}
CLASSES = 3
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(35))]
every_backbone = pytest.mark.parametrize("name", [*EXAMPLES, *DOCUMENTS])


def heads_of(name):
    """Return the heads that a backbone takes."""
    return ["sequence_classification"] if name in DOCUMENTS else list(HEADS)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return BertTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def build(tokenizer):
    """Return a model of an example with the head of a task, or without one, as a run makes it."""

    def make(name, head=None, seed=0, **options):
        parameters = BACKBONES.parse(example(name))
        backbone = BACKBONES.load(parameters.kind, "backbone").Backbone(parameters, seed=seed)
        config = backbone.config(tokenizer, {"num_labels": CLASSES} | options)
        torch.manual_seed(seed)
        return getattr(transformers, AUTO[head]).from_config(config).eval()

    return make


def example(name):
    if name in DOCUMENTS:
        return DOCUMENTS[name]
    return EXAMPLES[name] | ({} if "architecture" in EXAMPLES[name] else SIZES)


def backbone_of(name):
    parameters = BACKBONES.parse(example(name))
    return BACKBONES.load(parameters.kind, "backbone").Backbone(parameters, seed=0)


def draw(*shape, seed=0):
    return torch.randint(5, len(WORDS), shape, generator=torch.Generator().manual_seed(seed))


def masks(*lengths, total=None):
    return (torch.arange(total or max(lengths)) < torch.tensor(lengths)[:, None]).long()


def batch(head, *lengths):
    """A batch of documents of `lengths` tokens, with the labels of a task."""
    ids, mask = draw(len(lengths), max(lengths)), masks(*lengths)
    labels = torch.arange(len(lengths)) % CLASSES
    if head != "sequence_classification":
        generator = torch.Generator().manual_seed(1)
        chosen = (torch.rand(ids.shape, generator=generator) < 0.4) & mask.bool()
        labels = (ids if head == "masked_lm" else ids % CLASSES).masked_fill(~chosen, -100)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def jittered(model):
    """Return a model whose biases and norms are no longer those with which all models begin."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) / 10)
    return model


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


ONE_WAY = {
    "rnn from left to right": {"kind": "recurrent", "cell": "rnn", "bidirectional": False},
    "lstm from left to right": {"kind": "recurrent", "cell": "lstm", "bidirectional": False},
    "opened llama": EXAMPLES["llama"] | {"attention": "gradual", "opening_steps": 5},
    "segments of causal llama": SEGMENTS | {"encoder": EXAMPLES["causal llama"]},
    "segments of a gru from left to right": SEGMENTS
    | {"encoder": {"kind": "recurrent", "cell": "gru", "bidirectional": False, **SIZES}},
}
with extended(*EXTENSIONS):
    POOLINGS = [
        (kind, pooling)
        for kind in TASKS.kinds()
        if (field := TASKS.settings(kind).model_fields.get("classifier_pooling"))
        for pooling in typing.get_args(field.annotation)
    ]
OF_TASKS = {"label_matching": {"phrases": ["a", "b", "c"]}, "distillation": {"teacher": "other"}}
"""Settings that a task needs."""


@pytest.mark.parametrize("name", ["sdpa", "gru", "ssm", "causal llama", "llama", *DOCUMENTS, *ONE_WAY])
def test_poolings_that_miss_the_last_token(name, tokenizer):
    """Those are refused whose scores depend on the first token alone."""
    values = ONE_WAY.get(name) or example(name)
    parameters = BACKBONES.parse(values | ({} if {"architecture", "encoder"} & values.keys() else SIZES))
    backbone = BACKBONES.load(parameters.kind, "backbone").Backbone(parameters, seed=0)
    refused = {}
    for kind, pooling in POOLINGS:
        task = TASKS.parse({"kind": kind, "classifier_pooling": pooling} | OF_TASKS.get(kind, {}))
        refused.setdefault(pooling, set()).add(bool(list(task.backbone_errors(parameters))))
    assert set(refused) == {"cls", "mean", "max", "min", "mean_step"}
    ids = draw(1, 5)
    other = ids.clone()
    other[0, -1] = 5 + (ids[0, -1] - 4) % (len(WORDS) - 5)
    for pooling, found in refused.items():
        config = backbone.config(tokenizer, {"num_labels": CLASSES, "classifier_pooling": pooling})
        torch.manual_seed(0)
        model = getattr(transformers, HEADS["sequence_classification"]).from_config(config).eval()
        for weight in model.parameters():  # large, so that no difference is lost in rounding
            torch.nn.init.normal_(weight, std=0.5)
        with torch.no_grad():
            same = torch.equal(model(ids).logits, model(other).logits)
        assert found == {same}, pooling


def test_kind_has_an_example():
    tokens = {
        kind for kind in BACKBONES.kinds() if issubclass(BACKBONES.load(kind, "backbone").Backbone, TokenBackbone)
    }
    kinds = {kind for kind in tokens if not BACKBONES.has(kind, "text_to_text")}  # which have no heads
    assert {values["kind"] for values in [*EXAMPLES.values(), *DOCUMENTS.values()]} == kinds


@pytest.mark.parametrize("name", EXAMPLES)
def test_states_with_padding(name, build):
    """Neither its amount nor its content reaches a token, and a row of padding only disturbs no other."""
    model, lengths = jittered(build(name)), (5, 1, 23, 0)
    ids = draw(4, 53)
    alone = [model(ids[row : row + 1, :length]).last_hidden_state[0] for row, length in enumerate(lengths[:3])]
    for total, filler in ((23, 7), (53, 0)):
        mask = masks(*lengths, total=total)
        embedded = model.get_input_embeddings()(ids[:, :total].masked_fill(mask == 0, filler)).detach()
        found = [model(ids[:, :total].masked_fill(mask == 0, filler), mask).last_hidden_state]
        for content in (1e4, math.nan):
            poisoned = embedded.masked_fill(mask[:, :, None] == 0, content)
            found.append(model(inputs_embeds=poisoned, attention_mask=mask).last_hidden_state)
        for states in found:
            for row, expected in enumerate(alone):
                close(states[row, : len(expected)], expected)


@pytest.mark.parametrize("name", EXAMPLES)
def test_pairs_with_padding(name, build):
    model = build(name, "pair_classification")
    first, second = draw(2, 7, seed=1), draw(2, 9, seed=2)
    found = model(first, masks(4, 7), pair_ids=second, pair_mask=masks(9, 3)).logits
    assert found.shape == (2, CLASSES)
    for row, (tokens, others) in enumerate(((4, 9), (7, 3))):
        alone = model(first[row, None, :tokens], pair_ids=second[row, None, :others]).logits
        close(found[row], alone[0])


@every_backbone
def test_scores_and_gradients_of_every_head(name, build):
    """Padding has no part in them, the loss is the mean over what is labelled, and no split of a batch tells."""
    for head in heads_of(name):
        model, lengths = build(name, head), (9, 4, 14, 3)
        values = batch(head, *lengths)
        ids, mask, labels = (values[key] for key in ("input_ids", "attention_mask", "labels"))
        embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
        model(inputs_embeds=embedded, attention_mask=mask, labels=labels).loss.backward()
        seen = mask.bool()
        if head != "sequence_classification":  # a text without labels tells nothing, nor what follows the last one
            rest = labels.ne(-100).flip(1).cumsum(1).flip(1) > 0
            seen &= rest if "causal" in name else rest[:, :1]
        assert torch.equal(embedded.grad.abs().sum(dim=-1).gt(0), seen)

        logits = model(ids, mask).logits
        for row, length in enumerate(lengths):
            alone = model(ids[row : row + 1, :length]).logits[0]
            close(logits[row] if head == "sequence_classification" else logits[row, :length], alone)
        expected = torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten())
        torch.testing.assert_close(model(**values).loss, expected)

        whole, split = (gradients(model, values, size) for size in (4, 1))
        assert sum(gradient.abs().sum() for gradient in whole) > 1e-3
        torch.testing.assert_close(split, whole, atol=1e-6, rtol=1e-4)
        if head != "sequence_classification":
            model.zero_grad()
            loss = model(ids, labels=torch.full_like(ids, -100)).loss
            assert loss.item() == 0
            loss.backward()
            assert all(weight.grad is not None and not weight.grad.any() for weight in model.parameters())


def gradients(model, values, size):
    """Return the gradients of a batch of 4 documents in parts of `size`."""
    model.zero_grad()
    for start in range(0, 4, size):
        part = {key: tensor[start : start + size] for key, tensor in values.items()}
        longest = part["attention_mask"].sum(1).max()
        part = {key: tensor[:, :longest] if tensor.ndim == 2 else tensor for key, tensor in part.items()}
        model(**part, num_items_in_batch=(values["labels"] != -100).sum()).loss.backward()
    return [weight.grad.clone() for weight in model.parameters()]


@pytest.mark.extended
@every_backbone
def test_training(name, build):
    """It lowers the loss and moves every weight, in mixed precision too; only matrices decay."""
    recipe = {"epochs": 1, "learning_rate": 1e-2, "min_lr_ratio": 0.1, "batch_size": 8, "weight_decay": 0.1}
    for head in heads_of(name):
        model = build(name, head).train()
        optimiser = make_optimizer(model, Recipe.model_validate(recipe))
        decayed = [each for group in optimiser.param_groups if group["weight_decay"] for each in group["params"]]
        assert decayed
        assert all(weight.dim() > 1 for weight in decayed)  # not biases, gains of norms, rates of a state space
        values, losses = batch(head, 17, 9, 4), []
        for step in range(5):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=step == 0):
                loss = model(**values).loss
            assert loss.dtype == torch.float32
            optimiser.zero_grad()
            loss.backward()  # in the mode of the forward pass, of which a part may be repeated for it
            assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())
            optimiser.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0] < math.inf


@pytest.mark.extended
@pytest.mark.parametrize("name", EXAMPLES)
def test_states_learnt_from_a_teacher(name, build, tmp_path):
    for every_layer in (False, True):
        teacher, same, student = (build(name, "imitation", seed=seed) for seed in (1, 1, 2))
        for model in (same, student):
            model.every_layer = every_layer
            model.learn_from(teacher)
        values, losses = batch("masked_lm", 17, 9, 4), []
        assert same(**values).loss.item() < 1e-10
        optimiser = torch.optim.AdamW(student.train().parameters(), lr=1e-2)
        for _ in range(5):
            loss = student(**values).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0] < math.inf
    student.save_pretrained(tmp_path)
    later = build(name, "masked_lm", seed=3)
    backbone_of(name).load_weights(later, tmp_path)
    torch.testing.assert_close(later.base_model.state_dict(), student.base_model.state_dict(), atol=0, rtol=0)


@pytest.mark.extended
@every_backbone
def test_first_weights_follow_the_seed(name, build):
    head = heads_of(name)[-1]
    model = build(name, head, seed=3)
    one, same, other = (each.state_dict() for each in (model, *(build(name, head, seed=seed) for seed in (3, 4))))
    torch.testing.assert_close(one, same, atol=0, rtol=0)
    drawn = [key for key in one if "norm" not in key.lower() and not key.endswith("bias")]
    drawn = [key for key in drawn if key.rpartition(".")[2] not in ALIKE]
    assert drawn
    assert not any(torch.equal(one[key], other[key]) for key in drawn)
    # What freezing and heads ask for.
    base = model.base_model
    assert len(base.layers) == BACKBONES.parse(example(name)).blocks()
    inside = {*base.embeddings.parameters(), *base.layers.parameters()}
    outside = [name for name, weight in base.named_parameters() if weight not in inside]
    if name in EXAMPLES:
        assert {name.removeprefix("inner.").rpartition(".")[0] for name in outside} <= OUTSIDE
        ids, mask = draw(2, 9), masks(9, 4)
        outputs = model(ids, mask, output_hidden_states=True)
        assert {states.shape for states in outputs.hidden_states} == {(2, 9, SIZES["hidden_size"])}
        assert len(outputs.hidden_states) == 1 + SIZES["num_hidden_layers"]
        assert torch.equal(outputs.hidden_states[-1], base(ids, mask).last_hidden_state)


@pytest.mark.extended
@every_backbone
def test_saved_and_handed_over_bit_by_bit(name, build, tmp_path):
    backbone = backbone_of(name)
    for head in heads_of(name):
        model, folder = jittered(build(name, head, seed=5)), tmp_path / head
        model.save_pretrained(folder)
        read = getattr(transformers, HEADS[head]).from_pretrained(folder)
        assert type(read) is type(model)
        assert read.config.to_diff_dict() | {"_name_or_path": ""} == model.config.to_diff_dict() | {"_name_or_path": ""}
        torch.testing.assert_close(read.state_dict(), model.state_dict(), atol=0, rtol=0)
        ids, mask = draw(2, 9), masks(9, 4)
        # Equal weights, but not at equal addresses, on which the order of a processor's sums depends.
        close(read(ids, mask).logits, model(ids, mask).logits)
        close(AutoModel.from_pretrained(folder)(ids, mask).last_hidden_state, model.base_model(ids, mask)[0])
        for other in heads_of(name):
            later = build(name, other, seed=2)
            first = {key: tensor.clone() for key, tensor in later.head.state_dict().items()}
            backbone.load_weights(later, folder)
            torch.testing.assert_close(later.base_model.state_dict(), model.base_model.state_dict(), atol=0, rtol=0)
            if other == head:
                expected = model.head.state_dict()
            else:  # a tied decoder goes along with the embeddings
                expected = {key: tensor for key, tensor in first.items() if key != "decoder.weight"}
            assert all(torch.equal(tensor, later.head.state_dict()[key]) for key, tensor in expected.items())


def damages(weights):
    """Yield weights with which a model must not be used, and a word of what is wrong with them."""
    names = [name for name, tensor in weights.items() if tensor.is_floating_point()]
    head = next(name for name in names if name.startswith("head."))
    features = next((name for name in names if ".mechanism." in name), names[len(names) // 2])
    for name in (head, features):
        yield {key: tensor for key, tensor in weights.items() if key != name}, "missing|expected"
    yield weights | {features: torch.full_like(weights[features], -math.inf)}, "NaN or inf"
    yield {}, "describes|expected"
    yield weights | {"stray.weight": torch.zeros(2)}, "left over|expected"
    yield weights | {head: torch.zeros(7, 7, 7)}, "cannot be loaded|expected"


@pytest.mark.parametrize("name", ["grouped latent keys", "gru", "ssm", "llama", *DOCUMENTS])
def test_folders_with_damaged_weights(name, build, tmp_path):
    model, backbone = build(name, "sequence_classification"), backbone_of(name)
    auto = transformers.AutoModelForSequenceClassification
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    whole = load_file(path)
    assert open_model(auto, tmp_path).state_dict().keys() == model.state_dict().keys()
    for weights, message in damages(whole):
        save_file(weights, path, metadata={"format": "pt"})
        with pytest.raises(RunError, match=message):
            open_model(auto, tmp_path)
        with pytest.raises(RunError, match="NaN or inf" if message == "NaN or inf" else "expected"):
            backbone.load_weights(model, tmp_path, with_head=True)
