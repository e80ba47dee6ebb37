"""The state-space encoder beyond what every backbone owes: its dense form, both directions, padding."""

import pytest
import torch
from encoder_cases import token_ids
from torch.nn import functional

from lib.attention.contract import mechanisms
from lib.backbones.ssm.configuration import SsmConfig
from lib.backbones.ssm.model import SsmModel
from lib.backbones.ssm.scan import scan
from lib.backbones.ssm.settings import Settings

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "head_size": 8,
    "state_size": 5,
    "convolution": 3,
    "chunk_size": 4,
}
WINDOW, LSH = {"kind": "window", "width": 4}, {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}
FAVOR, LINFORMER = {"kind": "favor", "nb_features": 8}, {"kind": "linformer", "rank": 4, "length": 40}


def build(model_class=SsmModel, seed=0, **changes):
    torch.manual_seed(seed)
    return model_class(SsmConfig(**SIZES | changes)).eval()


def mixer_of(seed=0, **changes):
    """A mixer in float64 whose weights are far from their first values."""
    mixer = build(seed=seed, **changes).layers[0].mixer.double()
    with torch.no_grad():
        for weight in mixer.parameters():
            weight.add_(torch.randn_like(weight) / 3)
        mixer.dt_bias.fill_(0.3)
    return mixer


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def all_real(states):
    return torch.ones(states.shape[:2], dtype=torch.bool)


def close(found, expected, **limits):
    torch.testing.assert_close(found, expected, **{"atol": 1e-6, "rtol": 0} | limits)


def recurrence(inputs, log_decay, write, read):
    """The definition of the scan, a token after the other."""
    state = torch.zeros(*inputs.shape[:1], *inputs.shape[2:], write.shape[2], dtype=inputs.dtype)
    outputs = []
    for token in range(inputs.shape[1]):
        state = log_decay[:, token].exp()[..., None, None] * state
        state = state + inputs[:, token, :, :, None] * write[:, token, None, None]
        outputs.append((state * read[:, token, None, None]).sum(-1))
    return torch.stack(outputs, 1)


@pytest.mark.parametrize(("length", "chunk_size"), [(1, 4), (4, 4), (11, 1), (11, 3), (11, 64)])
def test_scan_is_its_recurrence(length, chunk_size):
    values = drawn(2, length, 3, 6), -drawn(2, length, 3, seed=1).abs(), drawn(2, length, 5, seed=2)
    values = [each.requires_grad_() for each in (*values, drawn(2, length, 5, seed=3))]
    found, expected = scan(*values, chunk_size), recurrence(*values)
    close(found, expected, atol=1e-12)
    weights = drawn(*found.shape, seed=4)
    gradients = (torch.autograd.grad((each * weights).sum(), values) for each in (found, expected))
    for one, other in zip(*gradients, strict=True):
        close(one, other, atol=1e-11)


def test_tokens_after_a_strong_decay():
    values = [
        drawn(1, 32, 2, 3),
        -0.01 * drawn(1, 32, 2, seed=1).abs(),
        drawn(1, 32, 4, seed=2),
        drawn(1, 32, 4, seed=3),
    ]
    values[1][:, ::5] = -20_000.0
    found = scan(*(each.float() for each in values), 16)
    close(found.double(), recurrence(*(each.float().double() for each in values)), atol=2e-5)


def dense(mixer, states):
    """The mixer with its quasi-separable matrix written out, for rows without padding."""
    inner, size, heads = mixer.inner_size, mixer.state_size, mixer.heads
    gate, mixed, steps = mixer.in_proj(states).split([inner, inner + 4 * size, 2 * heads], dim=2)
    taps, length = mixer.conv1d.weight[:, 0], states.shape[1]
    reach = taps.shape[1] // 2
    padded = functional.pad(mixed, (0, 0, reach, reach))
    mixed = sum(padded[:, tap : tap + length] * taps[:, tap] for tap in range(taps.shape[1])) + mixer.conv1d.bias
    mixed = mixed * mixed.sigmoid()
    values, write, read, write_back, read_back = mixed.split([inner] + 4 * [size], dim=2)
    steps = (1 + (steps + mixer.dt_bias.repeat(2)).exp()).log()
    rates = mixer.A_log.exp()
    matrix = torch.zeros(len(states), heads, length, length, dtype=states.dtype)
    for i in range(length):
        for j in range(i):  # what token i - 1 reads of token j
            kept = (-rates * steps[:, j + 1 : i, :heads].sum(1)).exp()
            matrix[:, :, i, j] = kept * steps[:, j, :heads] * (read[:, i - 1] * write[:, j]).sum(-1, keepdim=True)
        for j in range(i + 1, length):  # what token i + 1 reads of token j
            kept = (-rates * steps[:, i + 1 : j, heads:].sum(1)).exp()
            product = (read_back[:, i + 1] * write_back[:, j]).sum(-1, keepdim=True)
            matrix[:, :, i, j] = kept * steps[:, j, heads:] * product
        matrix[:, :, i, i] = mixer.fc_D(values)[:, i]
    outputs = (matrix @ values.unflatten(2, (heads, -1)).transpose(1, 2)).transpose(1, 2).flatten(2)
    outputs = outputs / (outputs.square().mean(-1, keepdim=True) + 1e-5).sqrt() * mixer.norm.weight
    return mixer.out_proj(outputs * gate * gate.sigmoid())


@pytest.mark.parametrize("chunk_size", [1, 4, 64])
def test_mixer_is_its_dense_form(chunk_size, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "float", lambda tensor: tensor)  # the whole in float64
    mixer, states = mixer_of(chunk_size=chunk_size), drawn(2, 11, 16)
    close(mixer(states, all_real(states)), dense(mixer, states), atol=1e-10)


def exchange(mixer):
    """Exchange the directions of a mixer: their columns of the projection, and the order of the taps."""
    inner, size, heads = mixer.inner_size, mixer.state_size, mixer.heads
    with torch.no_grad():
        parts = mixer.in_proj.weight.split([inner, inner, 2 * size, 2 * size, heads, heads])
        mixer.in_proj.weight.copy_(torch.cat([parts[number].clone() for number in (0, 1, 3, 2, 5, 4)]))
        for weight in (mixer.conv1d.weight, mixer.conv1d.bias):
            parts = weight.split([inner, 2 * size, 2 * size])
            weight.copy_(torch.cat([parts[number].clone() for number in (0, 2, 1)]))
        mixer.conv1d.weight.copy_(mixer.conv1d.weight.flip(2))


def test_reversed_text_and_exchanged_directions():
    model, ids = build(), token_ids(2, 9)
    states = model(ids).last_hidden_state
    assert not torch.allclose(model(ids.flip(1)).last_hidden_state.flip(1), states, atol=1e-3)
    for layer in model.layers:
        exchange(layer.mixer)
    close(model(ids.flip(1)).last_hidden_state.flip(1), states)


def test_padding_anywhere():
    """At the beginning, between tokens, everywhere: what is real is read as if there were nothing else."""
    model, ids = build(), token_ids(4, 7)
    with torch.no_grad():  # biases of norms begin as zeros, and then padding would be zero in all layers
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) / 10)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1, 0], [0] * 7, [1] * 7])
    outputs = model(ids, mask, output_hidden_states=True)
    for row in range(4):
        real = mask[row].bool()
        for states in outputs.hidden_states:
            assert states[row, ~real].eq(0).all()
        if real.any():
            alone = model(ids[row, real][None]).last_hidden_state[0]
            close(outputs.last_hidden_state[row, real], alone)


def test_scan_under_autocast(monkeypatch):
    seen = []

    def spy(*arguments):
        seen.extend(each.dtype for each in arguments[:4])
        return scan(*arguments)

    monkeypatch.setattr("lib.backbones.ssm.model.scan", spy)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        build()(token_ids(2, 9))
    assert set(seen) == {torch.float32}


def hybrid(*held, **changes):
    sizes = {"num_hidden_layers": 5, "attention_period": 2, "num_attention_heads": 2, "mechanism": list(held) or None}
    return SIZES | sizes | changes


def test_one_layer_of_a_period_attends():
    model = build(**hybrid(WINDOW, FAVOR))
    assert [hasattr(layer, "attention") for layer in model.layers] == [False, True, False, True, False]
    assert [each.settings.kind for each in mechanisms(model)] == ["window", "favor"]
    assert [each.layer for each in mechanisms(model)] == [0, 1]
    assert [each.settings.kind for each in mechanisms(build(**hybrid()))] == ["sdpa", "sdpa"]
    assert not list(mechanisms(build()))


def test_layer_that_attends():
    layer = build(**hybrid({"kind": "sdpa"})).layers[1].double()
    states, real = drawn(2, 9, 16), torch.arange(9) < torch.tensor([[9], [5]])
    found = layer(states, real)
    projections = layer.attention
    normed = functional.layer_norm(states, (16,), eps=1e-12) * layer.layer_norm.weight + layer.layer_norm.bias
    for row, length in enumerate((9, 5)):
        parts = [
            each(normed[row, :length]).unflatten(1, (2, 8)).transpose(0, 1)
            for each in (projections.query, projections.key, projections.value)
        ]
        weights = (parts[0] @ parts[1].transpose(1, 2) / 8**0.5).softmax(-1)
        mixed = projections.output((weights @ parts[2]).transpose(0, 1).flatten(1))
        close(found[row, :length], states[row, :length] + mixed, atol=1e-9)


def test_declarations_with_layers_that_attend():
    sizes = {"hidden_size": 64, "num_hidden_layers": 5, "attention_period": 2, "num_attention_heads": 4}
    attends = Settings(**sizes, mechanism=[LINFORMER, LSH])
    assert (attends.longest(), attends.exact_up_to()) == (40, 0)
    for held in (LINFORMER, LSH):
        model = build(**hybrid(held))
        names = {name.rpartition(".")[2] for name, each in model.named_modules() if type(each) is torch.nn.Linear}
        assert model.config.parameters.linear_layers == names


def test_features_are_keyed_and_saved(tmp_path):
    one, other = (build(**hybrid(FAVOR), feature_seed=seed) for seed in (1, 2))
    features = [dict(model.named_buffers()) for model in (one, other)]
    assert features[0].keys() == features[1].keys() != set()
    assert not any(torch.equal(features[0][name], features[1][name]) for name in features[0])
    one.save_pretrained(tmp_path)
    loaded = SsmModel.from_pretrained(tmp_path)
    ids = token_ids(2, 9)
    assert torch.equal(loaded(ids).last_hidden_state, one(ids).last_hidden_state)
