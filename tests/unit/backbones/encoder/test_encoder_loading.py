"""First weights from another run's model."""

import json

import pytest
import torch
from encoder_cases import EXAMPLES, EncoderForMaskedLM, EncoderForSequenceClassification, build, token_ids
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel

from lib.backbones.encoder.settings import Settings
from lib.backbones.stored import load_weights
from lib.core.errors import RunError


def saved(folder, model_class=EncoderForMaskedLM, **changes):
    model = build(model_class, seed=1, **changes)
    # Biases and norms start alike in all models; make them differ.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))
    model.save_pretrained(folder)
    return model


def equal(one, other, prefix=""):
    one, other = one.state_dict(), other.state_dict()
    return {name: torch.equal(one[name], other[name]) for name in one if name.startswith(prefix) and name in other}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("mechanism", ["sdpa", "lsh", "favor"])
def test_masked_lm_goes_on_with_everything(tmp_path, mechanism, tied):
    changes = {"mechanism": EXAMPLES[mechanism], "tie_word_embeddings": tied}
    source = saved(tmp_path, feature_seed=3, **changes)
    model = build(EncoderForMaskedLM, seed=2, feature_seed=4, embedding_dropout=0.3, **changes)
    load_weights(model, tmp_path)
    assert all(equal(model, source).values())
    assert (model.head.decoder.weight is model.get_input_embeddings().weight) == tied
    assert model.config.embedding_dropout == 0.3


@pytest.mark.parametrize("mechanism", ["sdpa", "lsh", "favor"])
def test_classifier_takes_the_encoder_and_keeps_its_new_head(tmp_path, mechanism):
    source = saved(tmp_path, mechanism=EXAMPLES[mechanism])
    model = build(EncoderForSequenceClassification, seed=2, mechanism=EXAMPLES[mechanism])
    head = [parameter.clone() for parameter in model.head.parameters()]
    with pytest.raises(RunError, match="holds EncoderForMaskedLM; expected EncoderForSequenceClassification.*recipe"):
        load_weights(model, tmp_path, with_head=True)
    load_weights(model, tmp_path)
    encoder = equal(model, source, "encoder.")
    assert len(encoder) == len(source.encoder.state_dict())
    assert all(encoder.values())
    assert all(map(torch.equal, head, model.head.parameters()))


def test_classifier_goes_on_from_a_classifier(tmp_path):
    source = saved(tmp_path, EncoderForSequenceClassification, num_labels=3)
    model = build(EncoderForSequenceClassification, seed=2, num_labels=3)
    load_weights(model, tmp_path, with_head=True)
    assert all(equal(model, source).values())
    with pytest.raises(RunError, match=r"head\.3\.bias: expected \[4\], found \[3\]"):
        load_weights(build(EncoderForSequenceClassification, num_labels=4), tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (EXAMPLES["sdpa"], EXAMPLES["favor"]),
        (EXAMPLES["favor"], EXAMPLES["sdpa"]),
        ({"kind": "favor", "nb_features": 16}, EXAMPLES["favor"]),
        # The buffers have the same shape, but not the same distribution.
        ({"kind": "favor", "nb_features": 8, "ortho_features": False}, EXAMPLES["favor"]),
        ({"kind": "lsh", "num_hashes": 4, "chunk_size": 8}, EXAMPLES["lsh"]),
    ],
)
def test_mechanism_swap_keeps_projections_and_draws_features_anew(tmp_path, before, after):
    source = saved(tmp_path, mechanism=before, feature_seed=3)
    model, fresh = (build(EncoderForMaskedLM, seed=2, mechanism=after, feature_seed=4) for _ in range(2))
    load_weights(model, tmp_path)
    loaded, expected = dict(model.named_parameters()), dict(source.named_parameters())
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(loaded[name], expected[name]) for name in expected)
    assert bool(dict(model.named_buffers())) == (after["kind"] == "favor")
    torch.testing.assert_close(dict(model.named_buffers()), dict(fresh.named_buffers()), atol=0, rtol=0)


@pytest.mark.parametrize("pair", [("sdpa", "lsh"), ("lsh", "favor")])
def test_shared_projections_do_not_move_to_separate_ones(tmp_path, pair):
    saved(tmp_path, mechanism=EXAMPLES[pair[0]])
    model = build(EncoderForMaskedLM, seed=2, mechanism=EXAMPLES[pair[1]])
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    names = {"sdpa": "sdpa", "lsh": "lsh-h2-c4", "favor": "favor-m8"}
    message = rf"{names[pair[1]]} cannot take over weights of {names[pair[0]]}.*shares queries and keys"
    with pytest.raises(RunError, match=message):
        load_weights(model, tmp_path)
    torch.testing.assert_close(model.state_dict(), before, atol=0, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"intermediate_size": 48, "num_hidden_layers": 3},
            "num_hidden_layers is 3, but the weights come from 2; intermediate_size is 48, but .*from 32",
        ),
        ({"hidden_size": 24}, "hidden_size is 24, but the weights come from 16"),
        ({"attention_size": 32}, "attention_size is 32, but the weights come from None"),
        ({"attention_bias": False}, "attention_bias is False, but the weights come from True"),
        ({"type_vocab_size": 2}, "type_vocab_size is 2, but the weights come from 0"),
        ({"num_attention_heads": 4}, "num_attention_heads is 4, but the weights come from 2"),
        ({"position_embedding_type": "sinusoidal"}, "position_embedding_type is sinusoidal, but .*from rope"),
        ({"position_embedding_type": "alibi"}, "position_embedding_type is alibi, but .*from rope"),
        ({"vocab_size": 60}, r"word_embeddings\.weight: expected \[60, 16\], found \[50, 16\].*same tokeniser"),
        ({"tie_word_embeddings": False}, r"head\.decoder\.weight: expected \[50, 16\], found None"),
    ],
)
def test_another_architecture_is_refused(tmp_path, changes, message):
    saved(tmp_path)
    model = build(EncoderForMaskedLM, seed=2, **changes)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(RunError, match=message):
        load_weights(model, tmp_path)
    torch.testing.assert_close(model.state_dict(), before, atol=0, rtol=0)


def test_weights_that_are_missing_are_named(tmp_path):
    saved(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file({"encoder.embeddings.layer_norm.bias": load_file(path)["encoder.embeddings.layer_norm.bias"]}, path)
    with pytest.raises(
        RunError, match=r"39 weights do not fit.*embeddings\.layer_norm\.weight: expected \[16\], found None"
    ):
        load_weights(build(EncoderForMaskedLM), tmp_path)


def test_an_untied_decoder_is_not_lost_silently(tmp_path):
    saved(tmp_path, tie_word_embeddings=False)
    with pytest.raises(RunError, match=r"head\.decoder\.weight:.*\[50, 16\]"):
        load_weights(build(EncoderForMaskedLM), tmp_path)


def test_learned_positions_of_another_reach_are_refused(tmp_path):
    saved(tmp_path, position_embedding_type="learned")
    model = build(EncoderForMaskedLM, position_embedding_type="learned", max_position_embeddings=128)
    with pytest.raises(RunError, match=r"position_embeddings\.weight: expected \[128, 16\], found \[64, 16\]"):
        load_weights(model, tmp_path)


def test_rotary_positions_can_be_stretched_after_training(tmp_path):
    source = saved(tmp_path)
    stretched = {"rope_type": "yarn", "rope_factor": 4.0, "rope_original_length": 16}
    assert not list(Settings(**stretched).takeover_errors(Settings()))
    model = build(EncoderForMaskedLM, seed=2, **stretched)
    load_weights(model, tmp_path)
    assert all(equal(model, source).values())
    input_ids = token_ids(1, 30)
    assert not torch.allclose(model.eval()(input_ids).logits, source.eval()(input_ids).logits, atol=1e-3)


def test_alibi_and_other_positions_do_not_take_over_from_one_another():
    alibi, rotary = Settings(position_embedding_type="alibi"), Settings()
    expected = "position_embedding_type is alibi, but the weights come from rope"
    assert list(alibi.takeover_errors(rotary)) == [expected]
    assert len(list(rotary.takeover_errors(alibi))) == 1
    assert not list(alibi.takeover_errors(alibi))


def test_what_is_no_model_of_ours_is_refused(tmp_path):
    model = build(EncoderForMaskedLM)
    with pytest.raises(RunError, match=r"config\.json: cannot be read"):
        load_weights(model, tmp_path / "missing")
    bert = BertModel(BertConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=8))
    bert.save_pretrained(tmp_path / "bert")
    with pytest.raises(RunError, match="model_type is 'bert'; expected 'attention_encoder'"):
        load_weights(model, tmp_path / "bert")
    saved(tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(RunError, match=r"model\.safetensors: cannot be read"):
        load_weights(model, tmp_path / "cut")
    weights.unlink()
    with pytest.raises(RunError, match=r"model\.safetensors: cannot be read"):
        load_weights(model, tmp_path / "cut")
    (tmp_path / "cut" / "config.json").write_text(json.dumps({"model_type": "attention_encoder", "hidden_size": -1}))
    with pytest.raises(RunError, match=r"config\.json: not a configuration"):
        load_weights(model, tmp_path / "cut")
