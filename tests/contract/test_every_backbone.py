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


def encoder(model_type, **fields):
    architecture = {"model_type": model_type, **PLAIN, "max_position_embeddings": 80} | fields
    return {"kind": "pretrained", "architecture": architecture}


EXAMPLES = {
    "sdpa": {"kind": "encoder", "mechanism": {"kind": "sdpa"}, "num_attention_heads": 2, "intermediate_size": 32},
    "grouped latent keys": {
        "kind": "encoder",
        "mechanism": {"kind": "favor", "nb_features": 8},
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "kv_rank": 4,
        "intermediate_size": 32,
    },
    "a mechanism per layer": {
        "kind": "encoder",
        "mechanism": [{"kind": "lsh", "num_hashes": 2, "chunk_size": 4}, {"kind": "favor", "nb_features": 8}],
        "num_attention_heads": 2,
        "intermediate_size": 32,
    },
    "bert with a mechanism per layer": encoder("bert")
    | {"mechanism": [{"kind": "window", "width": 4}, {"kind": "sdpa"}], "attention_dropout": 0.0},
    "rnn": {"kind": "recurrent", "cell": "rnn"},
    "lstm": {"kind": "recurrent", "cell": "lstm"},
    "gru": {"kind": "recurrent", "cell": "gru"},
    "ssm": {"kind": "ssm", "head_size": 8, "state_size": 4, "convolution": 3, "chunk_size": 4},
    "ssm with layers that attend": {
        "kind": "ssm",
        "head_size": 8,
        "state_size": 4,
        "convolution": 3,
        "chunk_size": 4,
        "attention_period": 2,
        "num_attention_heads": 2,
        "mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 4},
    },
    "llama": {"kind": "pretrained", "architecture": {"model_type": "llama", **DECODER}},
    "causal llama": {"kind": "pretrained", "attention": "causal", "architecture": {"model_type": "llama", **DECODER}},
    "gemma3": {
        "kind": "pretrained",
        "architecture": {
            "model_type": "gemma3_text",
            **DECODER,
            "sliding_window": 6,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    },
    "xlm-roberta": {
        "kind": "pretrained",
        "architecture": {"model_type": "xlm-roberta", **PLAIN, "max_position_embeddings": 80},
    },
    "deberta": {
        "kind": "pretrained",
        "architecture": {
            "model_type": "deberta-v2",
            **PLAIN,
            "relative_attention": True,
            "position_buckets": 8,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "type_vocab_size": 0,
        },
    },
    "modernbert": {"kind": "pretrained", "architecture": {"model_type": "modernbert", **PLAIN, "local_attention": 6}},
    "distilbert": encoder("distilbert"),
    "electra": encoder("electra", embedding_size=8),
    "mpnet": encoder("mpnet"),
    "longformer": encoder("longformer", attention_window=[4, 8]),
    "big_bird": encoder("big_bird", block_size=2, num_random_blocks=1),  # sparse from 15 tokens on
    "nystromformer": encoder("nystromformer", conv_kernel_size=5),
    "eurobert": encoder("eurobert"),
}
SEGMENTS = {"kind": "hierarchical", "segment": 6, "overlap": 1, "group": 2}
DOCUMENTS = {
    "segments of bert": SEGMENTS
    | {
        "encoder": {
            "kind": "pretrained",
            "architecture": {"model_type": "bert", **PLAIN, "max_position_embeddings": 8},
        }
    },
    "segments of lsh": SEGMENTS
    | {
        "encoder": EXAMPLES["sdpa"] | SIZES | {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}},
        "pooling": "transformer",
    },
}
"""Backbones of which only documents are classified."""
HEADS = {
    "masked_lm": "AutoModelForMaskedLM",
    "sequence_classification": "AutoModelForSequenceClassification",
    "token_classification": "AutoModelForTokenClassification",
}
AUTO = HEADS | {
    None: "AutoModel",
    "imitation": "AutoModelForPreTraining",
    "pair_classification": "AutoModelForNextSentencePrediction",
}
CLASSES = 3
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(35))]
every_backbone = pytest.mark.parametrize("name", EXAMPLES)
every_model = pytest.mark.parametrize(
    ("name", "head"),
    [(name, head) for name in EXAMPLES for head in HEADS] + [(name, "sequence_classification") for name in DOCUMENTS],
)


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


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@every_backbone
def test_padding_of_neither_text_of_a_pair_moves_its_scores(build, name):
    model = build(name, "pair_classification")
    first, second = draw(2, 7, seed=1), draw(2, 9, seed=2)
    found = model(first, masks(4, 7), pair_ids=second, pair_mask=masks(9, 3)).logits
    assert found.shape == (2, CLASSES)
    for row, (tokens, others) in enumerate(((4, 9), (7, 3))):
        alone = model(first[row, None, :tokens], pair_ids=second[row, None, :others]).logits
        close(found[row], alone[0])


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


@pytest.mark.parametrize("name", [*EXAMPLES, *DOCUMENTS, *ONE_WAY])
def test_scores_depend_on_the_last_token_with_every_pooling_that_is_accepted(name, tokenizer):
    """And on the first alone with those that are refused."""
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


def test_every_kind_has_an_example():
    tokens = {
        kind for kind in BACKBONES.kinds() if issubclass(BACKBONES.load(kind, "backbone").Backbone, TokenBackbone)
    }
    kinds = {kind for kind in tokens if not BACKBONES.has(kind, "text_to_text")}  # which have no heads
    assert {values["kind"] for values in [*EXAMPLES.values(), *DOCUMENTS.values()]} == kinds


@every_backbone
def test_the_base_model_has_what_freezing_and_heads_ask_for(name, build):
    model = build(name, "sequence_classification")
    parameters = BACKBONES.parse(example(name))
    assert list(model.base_model.embeddings.parameters())
    assert len(model.base_model.layers) == parameters.blocks()
    inside = {*model.base_model.embeddings.parameters(), *model.base_model.layers.parameters()}
    outside = [name for name, weight in model.base_model.named_parameters() if weight not in inside]
    assert {name.removeprefix("inner.").rpartition(".")[0] for name in outside} <= OUTSIDE


# Padding


@every_backbone
@pytest.mark.parametrize("padding", [0, 1, 30])
def test_neither_amount_nor_content_of_padding_reaches_a_token(name, padding, build):
    model, lengths = build(name), (5, 1, 23)
    mask = masks(*lengths, total=23 + padding)
    ids = draw(3, 23 + padding)
    alone = [model(ids[row : row + 1, :length]).last_hidden_state[0] for row, length in enumerate(lengths)]
    for filler in (0, 7):
        states = model(ids.masked_fill(mask == 0, filler), mask).last_hidden_state
        for row, length in enumerate(lengths):
            close(states[row, :length], alone[row])


@every_backbone
@pytest.mark.parametrize("filler", [1e4, float("inf"), float("nan")])
def test_no_number_at_padding_reaches_a_token(name, filler, build):
    model = build(name)
    ids, mask = draw(2, 9), masks(9, 4)
    embedded = model.get_input_embeddings()(ids).detach()
    poisoned = embedded.masked_fill(mask[:, :, None] == 0, filler)
    found = model(inputs_embeds=poisoned, attention_mask=mask).last_hidden_state
    close(found[mask.bool()], model(inputs_embeds=embedded, attention_mask=mask).last_hidden_state[mask.bool()])


@every_model
def test_only_matrices_decay(name, head, build):
    """Not biases, not the gains of norms, not the rates of a state space."""
    values = {"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.1, "batch_size": 8, "weight_decay": 0.1}
    optimizer = make_optimizer(build(name, head), Recipe.model_validate(values))
    decayed = [weight for group in optimizer.param_groups if group["weight_decay"] for weight in group["params"]]
    assert decayed
    assert all(weight.dim() > 1 for weight in decayed)


@every_model
def test_padding_reaches_no_scores_and_gets_no_gradient(name, head, build):
    model, lengths = build(name, head), (9, 4)
    values = batch(head, *lengths)
    mask, labels = values["attention_mask"], values["labels"]
    embedded = model.get_input_embeddings()(values["input_ids"]).detach().requires_grad_()
    model(inputs_embeds=embedded, attention_mask=mask, labels=labels).loss.backward()
    assert embedded.grad[mask == 0].eq(0).all()
    seen = torch.ones(max(lengths), dtype=torch.bool)
    if "causal" in name and head != "sequence_classification":
        seen[labels[0].ne(-100).nonzero().max() + 1 :] = False
    assert torch.equal(embedded.grad[0].abs().sum(dim=-1).gt(0), seen)
    logits = model(values["input_ids"], mask).logits
    for row, length in enumerate(lengths):
        alone = model(values["input_ids"][row : row + 1, :length]).logits[0]
        close(logits[row] if head == "sequence_classification" else logits[row, :length], alone)


@every_backbone
def test_a_row_of_padding_disturbs_no_other(name, build):
    model = build(name)
    ids, mask = draw(2, 6), torch.tensor([[1] * 6, [0] * 6])
    states = model(ids, mask).last_hidden_state
    assert states[0].isfinite().all()
    close(states[:1], model(ids[:1]).last_hidden_state)


# Losses


@every_model
def test_a_split_batch_has_the_gradients_of_the_whole(name, head, build):
    model = build(name, head)
    values = batch(head, *[3 + (5 * row) % 14 for row in range(8)])
    items = (values["labels"] != -100).sum()

    def gradients(size):
        model.zero_grad()
        for start in range(0, 8, size):
            part = {key: tensor[start : start + size] for key, tensor in values.items()}
            longest = part["attention_mask"].sum(1).max()
            part = {key: tensor[:, :longest] if tensor.ndim == 2 else tensor for key, tensor in part.items()}
            model(**part, num_items_in_batch=items).loss.backward()
        return [weight.grad.clone() for weight in model.parameters()]

    whole, split = gradients(8), gradients(1)
    assert sum(gradient.abs().sum() for gradient in whole) > 1e-3
    torch.testing.assert_close(split, whole, atol=1e-6, rtol=1e-4)


@every_model
def test_the_loss_is_the_mean_over_what_is_labelled(name, head, build):
    model = build(name, head)
    values = batch(head, 9, 6, 4)
    logits = model(values["input_ids"], values["attention_mask"]).logits
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, -2), values["labels"].flatten())
    torch.testing.assert_close(model(**values).loss, expected)
    double = model(**values, num_items_in_batch=2 * (values["labels"] != -100).sum()).loss
    torch.testing.assert_close(double, expected / 2)


@every_backbone
@pytest.mark.parametrize("head", ["masked_lm", "token_classification"])
def test_a_batch_without_labels_gives_a_zero_with_a_gradient_path(name, head, build):
    model, ids = build(name, head), draw(2, 6)
    loss = model(ids, labels=torch.full_like(ids, -100)).loss
    assert loss.item() == 0
    loss.backward()
    assert all(weight.grad is not None and not weight.grad.any() for weight in model.parameters())


@every_model
def test_training_lowers_the_loss_and_moves_every_weight(name, head, build):
    model = build(name, head).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    values, losses = batch(head, 17, 9, 4), []
    for _ in range(5):
        loss = model(**values).loss
        optimiser.zero_grad()
        loss.backward()
        assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] < math.inf


@every_model
def test_mixed_precision_trains(name, head, build):
    model = build(name, head).train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(**batch(head, 17, 9)).loss
    assert loss.dtype == torch.float32
    loss.backward()  # in the mode of the forward pass, of which a part may be repeated for it
    assert all(weight.grad.isfinite().all() for weight in model.parameters())
    torch.testing.assert_close(loss.item(), model.eval()(**batch(head, 17, 9)).loss.item(), rtol=0.1, atol=0)


@every_backbone
@pytest.mark.parametrize("every_layer", [False, True])
def test_states_are_learnt_from_a_teacher(name, every_layer, build, tmp_path):
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
    own, given = later.base_model.state_dict(), student.base_model.state_dict()
    assert own.keys() == given.keys()
    assert all(torch.equal(tensor, own[key]) for key, tensor in given.items())


# Weights


@every_model
def test_the_seed_decides_the_first_weights(name, head, build):
    one, same, other = (build(name, head, seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(one[key], same[key]) for key in one)
    drawn = [key for key in one if "norm" not in key.lower() and not key.endswith("bias")]
    drawn = [key for key in drawn if key.rpartition(".")[2] not in ALIKE]
    assert drawn
    assert not any(torch.equal(one[key], other[key]) for key in drawn)


@every_model
def test_a_model_is_saved_and_read_bit_by_bit(name, head, build, tmp_path):
    model = build(name, head, seed=5)
    with torch.no_grad():  # biases and norms begin alike in all models
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) / 10)
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    auto = getattr(transformers, HEADS[head])
    read = auto.from_pretrained(tmp_path)
    assert type(read) is type(model)
    assert read.config.to_diff_dict() | {"_name_or_path": ""} == model.config.to_diff_dict() | {"_name_or_path": ""}
    assert read.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(tensor, read.state_dict()[key]) for key, tensor in model.state_dict().items())
    ids, mask = draw(2, 9), masks(9, 4)
    # Equal weights, but not at equal addresses, on which the order of a processor's sums depends.
    close(read(ids, mask).logits, model(ids, mask).logits)
    close(AutoModel.from_pretrained(tmp_path)(ids, mask).last_hidden_state, model.base_model(ids, mask)[0])


@every_model
def test_weights_are_handed_over_strictly(name, head, build, tmp_path):
    source, backbone = build(name, head, seed=1), backbone_of(name)
    source.save_pretrained(tmp_path)
    for other in HEADS if name in EXAMPLES else [head]:
        model = build(name, other, seed=2)
        first = {key: tensor.clone() for key, tensor in model.head.state_dict().items()}
        backbone.load_weights(model, tmp_path)
        given, own = source.base_model.state_dict(), model.base_model.state_dict()
        assert all(torch.equal(given[key], own[key]) for key in given)
        if other == head:
            expected = source.head.state_dict()
        else:  # a tied decoder goes along with the embeddings
            expected = {key: tensor for key, tensor in first.items() if key != "decoder.weight"}
        assert all(torch.equal(tensor, model.head.state_dict()[key]) for key, tensor in expected.items())


def damages(weights):
    """Yield weights with which a model must not be used, and what is wrong with them."""
    names = [name for name, tensor in weights.items() if tensor.is_floating_point()]
    head = next(name for name in names if name.startswith("head."))
    features = next((name for name in names if ".mechanism." in name), names[len(names) // 2])
    for name in (head, features):
        yield {key: tensor for key, tensor in weights.items() if key != name}, "missing|expected"
    yield weights | {features: torch.full_like(weights[features], -math.inf)}, "NaN or inf"
    yield {name: torch.full_like(tensor, math.nan) for name, tensor in weights.items()}, "NaN or inf"
    yield {}, "describes a model of more|expected"
    yield weights | {"stray.weight": torch.zeros(2)}, "left over|expected"
    yield weights | {head: torch.zeros(7, 7, 7)}, "cannot be loaded|expected"


@pytest.mark.parametrize("name", [*EXAMPLES, *DOCUMENTS])
def test_a_folder_whose_weights_are_not_whole_is_refused(name, build, tmp_path):
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


@every_backbone
def test_hidden_states_are_those_of_the_embeddings_and_every_layer(name, build):
    model, ids, mask = build(name, "token_classification"), draw(2, 9), masks(9, 4)
    outputs = model(ids, mask, output_hidden_states=True)
    assert len(outputs.hidden_states) == 1 + SIZES["num_hidden_layers"]
    assert {states.shape for states in outputs.hidden_states} == {(2, 9, SIZES["hidden_size"])}
    assert torch.equal(outputs.hidden_states[-1], model.base_model(ids, mask).last_hidden_state)
    assert outputs.logits.shape == (2, 9, CLASSES)
