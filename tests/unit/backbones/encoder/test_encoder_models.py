"""Whole models: a training step, padding, batch split, memory of the MLM head, refusals."""

import itertools
import math

import pytest
import torch
from encoder_cases import (
    EXAMPLES,
    MIXES,
    VOCABULARY,
    EncoderForMaskedLM,
    EncoderForSequenceClassification,
    build,
    labelled,
    masks,
    tiny_config,
    token_ids,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.model import EncoderModel
from lib.backbones.encoder.settings import Settings as Encoder
from lib.core.errors import ConfigError
from lib.tasks.sequence_classification import Settings as Classification

TASKS = (EncoderForMaskedLM, EncoderForSequenceClassification)


@pytest.mark.parametrize("model_class", TASKS)
@pytest.mark.parametrize(("mechanism", "position"), MIXES)
def test_every_mechanism_trains_with_every_position_encoding(mechanism, position, model_class):
    model = build(model_class, mechanism=EXAMPLES[mechanism], position_embedding_type=position, type_vocab_size=2)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    batch = labelled(model, 17, 9, 4)
    losses = []
    for _ in range(4):
        loss = model(**batch).loss
        optimiser.zero_grad()
        loss.backward()
        missing = [name for name, weight in model.named_parameters() if weight.grad is None]
        assert not missing
        assert all(weight.grad.isfinite().all() for weight in model.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert all(map(math.isfinite, losses))
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(("mechanism", "position"), MIXES)
def test_padding_never_changes_a_document(mechanism, position):
    changes = {"mechanism": EXAMPLES[mechanism], "position_embedding_type": position}
    encoder = build(EncoderModel, **changes).eval()
    classifiers = [
        build(EncoderForSequenceClassification, classifier_pooling=pooling, pooling_step=2, **changes).eval()
        for pooling in ("cls", "mean", "max", "min", "mean_step")
    ]
    documents = [token_ids(1, length, seed=length) for length in (5, 11, 23)]
    for padding, filler in ((0, 0), (1, 0), (30, 0), (30, 7)):
        length = 23 + padding
        input_ids = torch.cat(
            [torch.nn.functional.pad(document, (0, length - document.shape[1]), value=filler) for document in documents]
        )
        mask = (torch.arange(length) < torch.tensor([5, 11, 23])[:, None]).long()
        states = encoder(input_ids, mask).last_hidden_state
        logits = [classifier(input_ids, mask).logits for classifier in classifiers]
        for row, document in enumerate(documents):
            alone = encoder(document).last_hidden_state[0]
            torch.testing.assert_close(states[row, : len(alone)], alone, atol=1e-5, rtol=0)
            for classifier, batched in zip(classifiers, logits, strict=True):
                torch.testing.assert_close(batched[row], classifier(document).logits[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("mechanism", ["sdpa", "lsh", "favor"])
@pytest.mark.parametrize("model_class", TASKS)
def test_gradients_do_not_depend_on_the_split(model_class, mechanism):
    # Dropout depends on the split by its nature, so evaluation mode stands for training without dropout.
    model = build(model_class, mechanism=EXAMPLES[mechanism]).eval()
    batch = labelled(model, *[3 + (5 * i) % 14 for i in range(64)])
    items = (batch["labels"] != -100).sum()

    def gradients(size):
        model.zero_grad()
        loss = 0.0
        for start in range(0, 64, size):
            part = {name: tensor[start : start + size] for name, tensor in batch.items()}
            longest = part["attention_mask"].sum(1).max()
            part = {name: tensor[:, :longest] if tensor.ndim == 2 else tensor for name, tensor in part.items()}
            output = model(**part, num_items_in_batch=items).loss
            output.backward()
            loss += output.item()
        return loss, [weight.grad.clone() for weight in model.parameters()]

    whole, split = gradients(64), gradients(8)
    assert split[0] == pytest.approx(whole[0], rel=1e-5)
    torch.testing.assert_close(split[1], whole[1], atol=1e-6, rtol=1e-4)
    assert model(**batch).loss.item() == pytest.approx(whole[0], rel=1e-5)
    assert model(**batch, num_items_in_batch=int(items)).loss.item() == pytest.approx(whole[0], rel=1e-5)


class Shapes(TorchDispatchMode):
    """Collect the sizes of all tensors that operations produce, in the backward pass too."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.seen.update(tuple(leaf.shape) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
        return result


def test_training_forms_scores_at_labels_only():
    vocabulary = 997
    model = build(EncoderForMaskedLM, vocab_size=vocabulary)
    batch = labelled(model, 40, 40)
    count = int((batch["labels"] != -100).sum())
    assert 16 < count < 40
    with Shapes() as shapes:
        output = model(**batch)
        output.loss.backward()
    assert output.logits is None
    assert (count, vocabulary) in shapes.seen
    assert max(math.prod(shape) for shape in shapes.seen if vocabulary in shape) == count * vocabulary
    with Shapes() as shapes:
        assert model(batch["input_ids"]).logits.shape == (2, 40, vocabulary)
    assert (2, 40, vocabulary) in shapes.seen


def test_loss_at_labels_is_that_of_all_scores():
    model = build(EncoderForMaskedLM).eval()
    batch = labelled(model, 20, 12)
    logits = model(batch["input_ids"], batch["attention_mask"]).logits
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
    torch.testing.assert_close(model(**batch).loss, expected)


@pytest.mark.parametrize("items", [None, 0, torch.tensor(0), 5])
def test_batch_without_labels_gives_a_zero_with_a_gradient_path(items):
    model = build(EncoderForMaskedLM)
    input_ids = token_ids(2, 6)
    loss = model(input_ids, labels=torch.full_like(input_ids, -100), num_items_in_batch=items).loss
    assert loss.item() == 0
    loss.backward()
    assert all(weight.grad is not None and not weight.grad.any() for weight in model.parameters())


def test_attention_width_is_independent_of_the_hidden_size():
    for size, mechanism in itertools.product((8, 40), ("sdpa", "lsh", "favor")):
        model = build(EncoderModel, attention_size=size, mechanism=EXAMPLES[mechanism])
        attention = model.layers[0].attention
        assert attention.query.weight.shape == (size, 16)
        assert attention.output.weight.shape == (16, size)
        assert (attention.key is None) == (mechanism == "lsh")
        assert model(token_ids(2, 9)).last_hidden_state.shape == (2, 9, 16)


CHANGES = {
    "plain": {},
    "theta": {"rope_theta": 20.0},
    "scale": {"rope_scale": 0.5},
    "linear": {"rope_type": "linear", "rope_factor": 3.0},
    "yarn": {"rope_type": "yarn", "rope_factor": 2.0, "rope_original_length": 16},
    "longer yarn": {"rope_type": "yarn", "rope_factor": 2.0, "rope_original_length": 64},
    "alibi": {"position_embedding_type": "alibi"},
    "sinusoidal": {"position_embedding_type": "sinusoidal"},
}


def test_switches_reach_the_model():
    bare = build(EncoderModel, attention_bias=False).layers[0].attention
    assert all(bare.get_submodule(name).bias is None for name in ("query", "key", "value", "output"))
    states = {}
    for name, changes in CHANGES.items():
        states[name] = build(EncoderModel, initializer_range=0.5, **changes).eval()(token_ids(1, 9)).last_hidden_state
    for one, other in itertools.combinations(states.values(), 2):
        assert not torch.allclose(one, other, atol=1e-4)
    untied = build(EncoderForMaskedLM, tie_word_embeddings=False)
    assert untied.head.decoder.weight is not untied.get_input_embeddings().weight
    tied = build(EncoderForMaskedLM)
    assert tied.head.decoder.weight is tied.get_input_embeddings().weight


@pytest.mark.parametrize("field", ["embedding_dropout", "mlp_dropout", "attention_output_dropout", "attention_dropout"])
def test_each_dropout_acts_in_training_alone(field):
    dropouts = dict.fromkeys(("embedding_dropout", "mlp_dropout", "attention_output_dropout", "attention_dropout"), 0.0)
    model = build(EncoderModel, **{**dropouts, field: 0.5})
    input_ids = token_ids(1, 9)
    training = [model(input_ids).last_hidden_state for _ in range(2)]
    assert not torch.equal(*training)
    model.eval()
    assert torch.equal(*[model(input_ids).last_hidden_state for _ in range(2)])


def test_head_styles():
    layers = {
        style: [type(layer).__name__ for layer in build(EncoderForSequenceClassification, classifier_head=style).head]
        for style in ("bert", "roberta", "none")
    }
    assert layers == {
        "bert": ["Linear", "Tanh", "Dropout", "Linear"],
        "roberta": ["Dropout", "Linear", "Tanh", "Dropout", "Linear"],
        "none": ["Dropout", "Linear"],
    }


@pytest.mark.filterwarnings("ignore:.*activation_checkpointing_enable:FutureWarning")
@pytest.mark.parametrize("mechanism", EXAMPLES)
def test_gradient_checkpointing_changes_nothing(mechanism):
    gradients = []
    for checkpointing in (False, True):
        model = build(EncoderForMaskedLM, mechanism=EXAMPLES[mechanism])
        if checkpointing:
            model.gradient_checkpointing_enable()
        torch.manual_seed(3)
        model(**labelled(model, 17, 9)).loss.backward()
        gradients.append([weight.grad for weight in model.parameters()])
    torch.testing.assert_close(*gradients, atol=0, rtol=0)


def test_embeddings_can_be_passed_in():
    model = build(EncoderModel).eval()
    input_ids = token_ids(2, 7)
    passed = model(inputs_embeds=model.get_input_embeddings()(input_ids)).last_hidden_state
    assert torch.equal(passed, model(input_ids).last_hidden_state)
    with pytest.raises(ValueError, match="input_ids and inputs_embeds"):
        model()


@pytest.mark.parametrize("mechanism", EXAMPLES)
def test_mixed_precision_trains(mechanism):
    model = build(EncoderForMaskedLM, mechanism=EXAMPLES[mechanism])
    batch = labelled(model, 17, 9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(**batch).loss
    assert loss.dtype == torch.float32
    loss.backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


def test_config_has_the_fields_and_defaults_of_the_settings():
    config = EncoderConfig().to_dict()
    for settings in (Encoder(), Classification(kind="sequence_classification")):
        for name, value in settings.model_dump(exclude={"kind", "mechanism"}).items():
            assert config[name] == value, name


def test_refusals():
    learned = build(EncoderModel, position_embedding_type="learned", max_position_embeddings=12)
    assert learned(token_ids(1, 12)).last_hidden_state.shape == (1, 12, 16)
    with pytest.raises(ValueError, match="13 tokens, but max_position_embeddings is 12"):
        learned(token_ids(1, 13))
    with pytest.raises(ValueError, match="token_type_ids.*type_vocab_size = 0"):
        learned(token_ids(1, 3), token_type_ids=torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(TypeError, match="position_ids"):
        learned(token_ids(1, 3), position_ids=torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="num_attention_heads = 3.*16"):
        tiny_config(num_attention_heads=3)
    for phi in ("exp", "relu"):
        favor = {"kind": "favor", "nb_features": 8, "phi": phi}
        with pytest.raises(ValueError, match="position_embedding_type = .alibi.*favor-m8 forms no scores"):
            build(EncoderModel, position_embedding_type="alibi", mechanism=favor)
    with pytest.raises(ConfigError, match=r"'softmax'.*favor,.* lsh,.* sdpa"):
        tiny_config(mechanism={"kind": "softmax"})
    with pytest.raises(ConfigError, match="classifier_pooling = 'median'"):
        build(EncoderForSequenceClassification, classifier_pooling="median")
    with pytest.raises(ConfigError, match="classifier_head = 'gpt'.*bert, roberta, none"):
        build(EncoderForSequenceClassification, classifier_head="gpt")
    with pytest.raises(ConfigError, match="problem_type = 'multi_label_classification'"):
        build(EncoderForSequenceClassification, problem_type="multi_label_classification")
    with pytest.raises(ConfigError, match="num_labels = 2"):
        build(EncoderForSequenceClassification, problem_type="regression", num_labels=2)


def test_word_embeddings_can_grow():
    model = build(EncoderForMaskedLM)
    model.resize_token_embeddings(VOCABULARY + 3)
    assert model(token_ids(1, 4)).logits.shape == (1, 4, VOCABULARY + 3)
    assert model.head.decoder.weight is model.get_input_embeddings().weight


def test_the_feed_forward_keeps_its_widest_tensor_once():
    model = build(EncoderForMaskedLM, intermediate_size=96)
    kept = {}

    def count(tensor):
        if tensor.numel() == 17 * 96:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        model(**labelled(model, 17)).loss.backward()
    assert len(kept) == model.config.num_hidden_layers


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("mechanism", "position"), MIXES)
def test_attention_weights_are_those_that_the_blocks_apply(mechanism, position, training):
    dropouts = dict.fromkeys(("embedding_dropout", "mlp_dropout", "attention_output_dropout"), 0.0)
    model = build(EncoderModel, mechanism=EXAMPLES[mechanism], position_embedding_type=position, **dropouts)
    model.train(training)
    input_ids, mask = token_ids(3, 19), masks(19, 19, 6)
    outputs = model(input_ids, mask, output_attentions=True, output_hidden_states=True)
    plain = model(input_ids, mask)
    assert torch.equal(outputs.last_hidden_state, plain.last_hidden_state)
    assert plain.attentions is None
    assert [tuple(weights.shape) for weights in outputs.attentions] == [(3, 2, 19, 19)] * 2
    rotation = torch.stack(model.phases(19, torch.device("cpu")), dim=-1) if position == "rope" else None
    for block, weights, states in zip(model.layers, outputs.attentions, outputs.hidden_states, strict=False):
        values = block.attention.value(states).unflatten(2, (2, 8)).transpose(1, 2)
        mixed = block.attention.output((weights @ values).transpose(1, 2).flatten(2))
        attended, real = block.attention(states, mask, rotation), mask.bool()
        torch.testing.assert_close(mixed[real], attended[real], atol=1e-5, rtol=1e-5)
        assert (weights[2, :, 6:] == 0).all()
        assert (weights[2, :, :, 6:] == 0).all()


def test_attention_weights_by_the_configuration():
    model = build(EncoderModel, output_attentions=True).eval()
    assert len(model(token_ids(1, 5)).attentions) == 2
    assert model(token_ids(1, 5), output_attentions=False).attentions is None


@pytest.mark.filterwarnings("ignore:.*activation_checkpointing_enable:FutureWarning")
def test_attention_weights_with_gradient_checkpointing():
    results = []
    for checkpointing in (False, True):
        model = build(EncoderModel, mechanism=EXAMPLES["lsh"])
        if checkpointing:
            model.gradient_checkpointing_enable()
        torch.manual_seed(3)
        outputs = model(token_ids(2, 9), output_attentions=True)
        loss = outputs.last_hidden_state.square().sum() + sum(weights.square().sum() for weights in outputs.attentions)
        loss.backward()
        results.append([*outputs.attentions, *(weight.grad for weight in model.parameters())])
    torch.testing.assert_close(*results, atol=1e-6, rtol=1e-5)


def test_alibi_alone_does_not_tell_left_from_right():
    input_ids = token_ids(1, 12)
    for position, mirrored in (("alibi", True), ("rope", False)):
        model = build(EncoderModel, position_embedding_type=position, initializer_range=0.5).eval()
        states, other = (model(ids).last_hidden_state for ids in (input_ids, input_ids.flip(1)))
        assert torch.allclose(states, other.flip(1), atol=1e-4) == mirrored


def test_embeddings_may_have_a_spread_of_their_own(tmp_path):
    config = tiny_config(vocab_size=2000, initializer_range=0.1, embedding_initializer_range=1.0)
    model = EncoderForMaskedLM(config)
    embeddings = model.get_input_embeddings().weight
    assert embeddings[1:].std().item() == pytest.approx(1.0, rel=0.02)
    assert not embeddings[0].any(), "the padding's embedding is zero"
    assert model.head.dense.weight.std().item() == pytest.approx(0.1, rel=0.1)
    model.save_pretrained(tmp_path)
    assert torch.equal(EncoderForMaskedLM.from_pretrained(tmp_path).get_input_embeddings().weight, embeddings)
