"""The encoder beyond what every backbone owes: mechanisms with positions, switches, memory of a head."""

import itertools

import pytest
import torch
from encoder_cases import EXAMPLES, MIXES, EncoderForMaskedLM, build, labelled, masks, tiny_config, token_ids

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.model import EncoderModel
from lib.backbones.encoder.settings import Settings as Encoder
from lib.tasks.sequence_classification import Settings as Classification


@pytest.mark.parametrize(("mechanism", "position"), MIXES)
def test_mechanisms_with_positions(mechanism, position):
    """Padding reaches no token, every weight gets a gradient, and attention weights are those that blocks apply."""
    dropouts = dict.fromkeys(("embedding_dropout", "mlp_dropout", "attention_output_dropout"), 0.0)
    changes = {"mechanism": EXAMPLES[mechanism], "position_embedding_type": position, **dropouts}
    model, mask = build(EncoderModel, **changes).eval(), masks(53, 11, 23)
    ids = token_ids(3, 53).masked_fill(mask == 0, 7)
    states = model(ids, mask).last_hidden_state
    for row, length in ((1, 11), (2, 23)):
        alone = model(ids[row : row + 1, :length]).last_hidden_state[0]
        torch.testing.assert_close(states[row, :length], alone, atol=1e-5, rtol=0)
    model = build(EncoderForMaskedLM, type_vocab_size=2, **changes).train()
    batch = labelled(model, 17, 9, 4)
    model(**batch).loss.backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())

    encoder, (ids, mask) = model.encoder, (batch["input_ids"], batch["attention_mask"])
    outputs = encoder(ids, mask, output_attentions=True, output_hidden_states=True)
    rotation = torch.stack(encoder.phases(17, torch.device("cpu")), dim=-1) if position == "rope" else None
    for block, weights, states in zip(encoder.layers, outputs.attentions, outputs.hidden_states, strict=False):
        values = block.attention.value(states).unflatten(2, (2, 8)).transpose(1, 2)
        mixed = block.attention.output((weights @ values).transpose(1, 2).flatten(2))
        attended, real = block.attention(states, mask, rotation), mask.bool()
        torch.testing.assert_close(mixed[real], attended[real], atol=1e-5, rtol=1e-5)
        assert (weights[2, :, 4:] == 0).all()
        assert (weights[2, :, :, 4:] == 0).all()


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


def test_each_dropout_acts_in_training_alone():
    fields = ("embedding_dropout", "mlp_dropout", "attention_output_dropout", "attention_dropout")
    for field in fields:
        model, ids = build(EncoderModel, **dict.fromkeys(fields, 0.0) | {field: 0.5}), token_ids(1, 9)
        assert not torch.equal(*(model(ids).last_hidden_state for _ in range(2))), field
        model.eval()
        assert torch.equal(*(model(ids).last_hidden_state for _ in range(2))), field


@pytest.mark.filterwarnings("ignore:.*activation_checkpointing_enable:FutureWarning")
@pytest.mark.parametrize("mechanism", ["sdpa", "lsh"])
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


def test_config_has_the_defaults_of_the_settings():
    config = EncoderConfig().to_dict()
    for settings in (Encoder(), Classification(kind="sequence_classification")):
        for name, value in settings.model_dump(exclude={"kind", "mechanism"}).items():
            assert config[name] == value, name


def test_spread_of_embeddings(tmp_path):
    config = tiny_config(vocab_size=2000, initializer_range=0.1, embedding_initializer_range=1.0)
    model = EncoderForMaskedLM(config)
    embeddings = model.get_input_embeddings().weight
    assert embeddings[1:].std().item() == pytest.approx(1.0, rel=0.02)
    assert not embeddings[0].any(), "the padding's embedding is zero"
    assert model.head.dense.weight.std().item() == pytest.approx(0.1, rel=0.1)
    model.save_pretrained(tmp_path)
    assert torch.equal(EncoderForMaskedLM.from_pretrained(tmp_path).get_input_embeddings().weight, embeddings)
