"""First weights from another run's model."""

import pytest
import torch
from encoder_cases import EXAMPLES, EncoderForMaskedLM, EncoderForSequenceClassification, build, token_ids

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


@pytest.mark.parametrize(("mechanism", "tied"), [("sdpa", True), ("lsh", False), ("favor", True)])
def test_masked_lm_from_masked_lm(tmp_path, mechanism, tied):
    changes = {"mechanism": EXAMPLES[mechanism], "tie_word_embeddings": tied}
    source = saved(tmp_path, feature_seed=3, **changes)
    model = build(EncoderForMaskedLM, seed=2, feature_seed=4, embedding_dropout=0.3, **changes)
    load_weights(model, tmp_path)
    assert all(equal(model, source).values())
    assert (model.head.decoder.weight is model.get_input_embeddings().weight) == tied
    assert model.config.embedding_dropout == 0.3


def test_classifier_from_masked_lm(tmp_path):
    source = saved(tmp_path, mechanism=EXAMPLES["favor"])
    model = build(EncoderForSequenceClassification, seed=2, mechanism=EXAMPLES["favor"])
    head = [parameter.clone() for parameter in model.head.parameters()]
    with pytest.raises(RunError, match="EncoderForMaskedLM"):
        load_weights(model, tmp_path, with_head=True)
    load_weights(model, tmp_path)
    encoder = equal(model, source, "encoder.")
    assert len(encoder) == len(source.encoder.state_dict())
    assert all(encoder.values())
    assert all(map(torch.equal, head, model.head.parameters()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (EXAMPLES["sdpa"], EXAMPLES["favor"]),
        (EXAMPLES["favor"], EXAMPLES["sdpa"]),
        # The buffers have the same shape, but not the same distribution.
        ({"kind": "favor", "nb_features": 8, "ortho_features": False}, EXAMPLES["favor"]),
        ({"kind": "lsh", "num_hashes": 4, "chunk_size": 8}, EXAMPLES["lsh"]),
    ],
)
def test_weights_of_another_mechanism(tmp_path, before, after):
    source = saved(tmp_path, mechanism=before, feature_seed=3)
    model, fresh = (build(EncoderForMaskedLM, seed=2, mechanism=after, feature_seed=4) for _ in range(2))
    load_weights(model, tmp_path)
    loaded, expected = dict(model.named_parameters()), dict(source.named_parameters())
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(loaded[name], expected[name]) for name in expected)
    assert bool(dict(model.named_buffers())) == (after["kind"] == "favor")
    torch.testing.assert_close(dict(model.named_buffers()), dict(fresh.named_buffers()), atol=0, rtol=0)


@pytest.mark.parametrize("pair", [("sdpa", "lsh"), ("lsh", "favor")])
def test_weights_of_shared_projections(tmp_path, pair):
    saved(tmp_path, mechanism=EXAMPLES[pair[0]])
    model = build(EncoderForMaskedLM, seed=2, mechanism=EXAMPLES[pair[1]])
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(RunError, match="shares queries and keys"):
        load_weights(model, tmp_path)
    torch.testing.assert_close(model.state_dict(), before, atol=0, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"intermediate_size": 48, "num_hidden_layers": 3}, "num_hidden_layers is 3.*intermediate_size is 48"),
        ({"position_embedding_type": "alibi"}, "position_embedding_type is alibi"),
        ({"tie_word_embeddings": False}, r"head\.decoder\.weight"),
    ],
)
def test_weights_of_another_architecture(tmp_path, changes, message):
    saved(tmp_path)
    model = build(EncoderForMaskedLM, seed=2, **changes)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(RunError, match=message):
        load_weights(model, tmp_path)
    torch.testing.assert_close(model.state_dict(), before, atol=0, rtol=0)


def test_positions_stretched_after_training(tmp_path):
    source = saved(tmp_path)
    stretched = {"rope_type": "yarn", "rope_factor": 4.0, "rope_original_length": 16}
    assert not list(Settings(**stretched).takeover_errors(Settings()))
    model = build(EncoderForMaskedLM, seed=2, **stretched)
    load_weights(model, tmp_path)
    assert all(equal(model, source).values())
    input_ids = token_ids(1, 30)
    assert not torch.allclose(model.eval()(input_ids).logits, source.eval()(input_ids).logits, atol=1e-3)
