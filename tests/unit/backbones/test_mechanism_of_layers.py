"""A list of mechanisms that repeats over the layers of our encoder: what each layer computes, costs and takes over."""

import pytest
import torch
from encoder_cases import EXAMPLES, EncoderForMaskedLM, build

from lib.attention.contract import mechanisms
from lib.backbones.encoder.settings import Settings
from lib.backbones.settings import BACKBONES
from lib.backbones.state_size import state_bytes
from lib.backbones.stored import load_weights
from lib.core.errors import RunError

SDPA, LSH, FAVOR = (EXAMPLES[kind] for kind in ("sdpa", "lsh", "favor"))
WINDOW = {"kind": "window", "width": 4}
LINFORMER = {"kind": "linformer", "rank": 4, "length": 40}
HYBRID = [WINDOW, FAVOR, SDPA]


def settings(*held, **values):
    sizes = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}
    return Settings(**sizes | values, mechanism=list(held))


def kinds(model):
    return [each.settings.kind for each in mechanisms(model)]


def test_layer_computes_as_where_all_are_alike():
    """With the same weights and the draws of the same layer and seed."""
    hybrid = build(EncoderForMaskedLM, mechanism=[*HYBRID, FAVOR], num_hidden_layers=4, feature_seed=7).eval()
    states, mask = torch.randn(2, 20, hybrid.config.hidden_size), torch.arange(20) < torch.tensor([[20], [13]])
    rotation = torch.stack(hybrid.encoder.phases(20, states.device), dim=-1)
    for layer, own in enumerate([*HYBRID, FAVOR]):
        alike = build(EncoderForMaskedLM, mechanism=own, num_hidden_layers=4, feature_seed=7, seed=3).eval()
        found, expected = (model.encoder.layers[layer] for model in (hybrid, alike))
        expected.load_state_dict(dict(found.named_parameters()), strict=False)  # the draws stay
        found, expected = (block(states, mask, rotation)[mask] for block in (found, expected))
        assert torch.equal(found, expected)


def test_list_that_repeats_itself():
    assert settings(WINDOW, SDPA, WINDOW, SDPA) == settings(WINDOW, SDPA)
    assert settings(SDPA, SDPA, SDPA) == settings(SDPA) == Settings(**settings(SDPA).model_dump() | {"mechanism": SDPA})
    assert settings(WINDOW, SDPA, WINDOW) != settings(WINDOW, SDPA)
    assert len(settings(WINDOW, WINDOW, SDPA, SDPA).held_mechanisms) == 4


def test_estimates_are_those_of_all_layers():
    hybrid, window, exact = settings(WINDOW, WINDOW, WINDOW, SDPA), settings(WINDOW), settings(SDPA)
    assert state_bytes(hybrid, 100) == (3 * state_bytes(window, 100) + state_bytes(exact, 100)) / 4
    assert hybrid.keys_per_query(4096) == (3 * window.keys_per_query(4096) + 4096) / 4
    # A list that does not divide the layers: two of three are windows.
    assert settings(WINDOW, SDPA, num_hidden_layers=3).keys_per_query(90) == (2 * window.keys_per_query(90) + 90) / 3
    assert settings(SDPA, LINFORMER).longest() == 40
    assert (hybrid.exact_up_to(), settings(SDPA, FAVOR).exact_up_to()) == (window.exact_up_to(), 0)
    assert exact.exact_up_to() is None


def trained(folder, mechanism, **changes):
    model = build(EncoderForMaskedLM, seed=1, mechanism=mechanism, num_hidden_layers=4, feature_seed=3, **changes)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight))
    model.save_pretrained(folder)
    return model


def test_saved_model_keeps_its_list(tmp_path):
    model = trained(tmp_path, HYBRID)
    loaded = EncoderForMaskedLM.from_pretrained(tmp_path)
    assert kinds(loaded) == kinds(model) == ["window", "favor", "sdpa", "window"]
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)


def test_draws_and_tables_of_layers_that_stay(tmp_path):
    source = trained(tmp_path, [FAVOR, LINFORMER, FAVOR, LINFORMER])
    model, fresh = (
        build(
            EncoderForMaskedLM, seed=2, mechanism=[FAVOR, LINFORMER, SDPA, FAVOR], num_hidden_layers=4, feature_seed=4
        )
        for _ in range(2)
    )
    load_weights(model, tmp_path)
    own, given, drawn = (each.state_dict() for each in (model, source, fresh))
    held = {name for name in own if ".mechanism." in name}
    assert {name.split(".")[2] for name in held} == {"0", "1", "3"}
    for name, tensor in own.items():
        assert torch.equal(tensor, (drawn if ".3.attention.mechanism." in name else given)[name]), name
    assert not torch.equal(drawn["encoder.layers.0.attention.mechanism.features"],
                           given["encoder.layers.0.attention.mechanism.features"])  # fmt: skip


def test_weights_of_layers_that_share_queries_and_keys(tmp_path):
    trained(tmp_path, [LSH, SDPA])
    model = build(EncoderForMaskedLM, mechanism=[LSH, FAVOR], num_hidden_layers=4)
    load_weights(model, tmp_path)
    for held, names in (([SDPA, LSH], ("sdpa", "lsh-h2-c4")), ([LSH], ("lsh-h2-c4", "sdpa"))):
        other = build(EncoderForMaskedLM, mechanism=held, num_hidden_layers=4)
        with pytest.raises(RunError, match=f"{names[0]} .* {names[1]}"):
            load_weights(other, tmp_path)


def test_segments_by_an_encoder_with_a_list():
    parameters = BACKBONES.parse({"kind": "hierarchical", "segment": 6, "overlap": 1, "encoder": settings(SDPA)})
    held = parameters.with_mechanism(settings(WINDOW, SDPA).mechanism)
    assert held.family == "window+sdpa, segments"
    assert [each.kind for each in held.mechanism_of_layers] == ["window", "sdpa", "window", "sdpa"]
