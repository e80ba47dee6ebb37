"""Approximations in the place of a model's mechanism, against models that have them there."""

import math

import numpy as np
import pytest
import torch
from encoder_cases import build, token_ids

from lib.analysis.computations.approximation import QUANTILES, approximations, chance_recall
from lib.attention.approximation_error import chunk_numbers, window_mass
from lib.backbones.encoder.model import EncoderModel
from lib.core.randomness import derive_seed

LSH = {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}
FAVOR = {"kind": "favor", "nb_features": 8}
TEXTS = [token_ids(20, seed=1).tolist(), token_ids(30, seed=2).tolist()]
SHARP = {"initializer_range": 0.6}  # so that attention is not even


def model(mechanism, **changes):
    return build(EncoderModel, mechanism=mechanism, **SHARP, **changes).eval()


def found(encoder, texts=TEXTS, features=(8, 64), windows=((2, 4), (1, 4))):
    with torch.no_grad():
        return approximations(encoder, texts, list(features), list(windows))


def values(frame, quantity, column="value", **setting):
    """Return a number of each head [layers, heads]."""
    rows = frame[(frame["quantity"] == quantity) & frame["head"].notna()]
    for name, value in setting.items():
        rows = rows[rows[name] == value]
    return rows.pivot(index="layer", columns="head", values=column).to_numpy()


def twins(encoder, mechanism):
    """Yield every text, and a model with the encoder's weights and the draws that belong to the text."""
    for number, ids in enumerate(TEXTS):
        twin = model(mechanism, feature_seed=derive_seed("approximation", 0, number))
        twin.load_state_dict(
            {name: tensor for name, tensor in encoder.state_dict().items() if "features" not in name}, strict=False
        )
        yield ids, twin


def first_layer(encoder, ids):
    """Return queries, keys, values [H, N, d] and output [H, N, d] of the first layer's mechanism, as it meets them."""
    met = []
    attention = encoder.layers[0].attention.mechanism
    hook = attention.register_forward_hook(lambda _, inputs, output: met.append((*inputs[:3], output)))
    with torch.no_grad():
        encoder(input_ids=torch.tensor([ids]))
    hook.remove()
    return [tensor[0].double() for tensor in met[0]]


def frobenius(rows):
    return rows.square().sum((-2, -1)).sqrt()


def test_favor_error_with_the_same_weights():
    """Each document has draws of its own."""
    exact = model({"kind": "sdpa"})
    expected = []
    for ids, favor in twins(exact, FAVOR):
        (*_, wanted), (*_, value, output) = first_layer(exact, ids), first_layer(favor, ids)
        assert torch.equal(first_layer(exact, ids)[2], value)
        expected.append((frobenius(output - wanted) / frobenius(wanted)).tolist())
    frame = found(exact)
    assert values(frame, "favor_error", features=8)[0] == pytest.approx(np.mean(expected, axis=0), rel=1e-4)
    assert values(frame, "favor_error", features=64).mean() < values(frame, "favor_error", features=8).mean()


def test_own_error_of_own_draws():
    encoder = model(FAVOR)
    expected = []
    for ids in TEXTS:
        query, key, value, output = first_layer(encoder, ids)
        exact = (query @ key.mT / math.sqrt(query.shape[2])).softmax(-1) @ value
        expected.append((frobenius(output - exact) / frobenius(exact)).tolist())
    frame = found(encoder)
    assert values(frame, "own_error", features=8)[0] == pytest.approx(np.mean(expected, axis=0), rel=1e-4)
    assert values(frame, "own_error") != pytest.approx(values(frame, "favor_error", features=8), rel=0.01)
    assert values(found(model({"kind": "sdpa"})), "own_error") == pytest.approx(0, abs=1e-12)


def test_lsh_recall_and_error():
    """Where queries serve as keys, no token is its own key."""
    encoder = model(LSH)
    recall, errors = [], []
    for ids, twin in twins(encoder, LSH):
        query, _, value, output = first_layer(encoder, ids)
        same = query.float()[None]
        seen = twin.layers[0].attention.mechanism.weights(same, same)[0] > 0
        scores = query @ query.mT / math.sqrt(query.shape[2])
        exact = scores.masked_fill(torch.eye(len(ids), dtype=torch.bool), -math.inf).softmax(-1)
        recall.append(((exact * seen).sum((1, 2)) / len(ids)).tolist())
        errors.append((frobenius(output - exact @ value) / frobenius(exact @ value)).tolist())
    frame = found(encoder)
    assert values(frame, "lsh_recall", hashes=2, chunk_size=4)[0] == pytest.approx(np.mean(recall, axis=0), rel=1e-5)
    assert values(frame, "own_error", hashes=2, chunk_size=4)[0] == pytest.approx(np.mean(errors, axis=0), rel=1e-4)
    assert 0.3 < np.mean(recall) < 0.999


@pytest.mark.parametrize(("shared", "tokens", "rounds", "size"), [(True, 20, 1, 4), (False, 23, 2, 4), (True, 9, 3, 8)])
def test_chance_of_random_orders(shared, tokens, rounds, size):
    generator = torch.Generator().manual_seed(0)

    def order():
        codes = torch.rand(2000, rounds, tokens, generator=generator)
        return chunk_numbers(codes, size)

    weights = torch.ones(2000, tokens, tokens)
    if shared:
        weights.diagonal(dim1=1, dim2=2).fill_(0)
    queries = order()
    reached = window_mass(weights, queries, queries if shared else order(), [rounds])[:, 0].mean().item()
    expected = chance_recall(tokens, rounds, size, shared=shared)
    assert reached / weights[0].sum().item() == pytest.approx(expected, rel=0.01)


def test_norms_of_tokens():
    encoder = model({"kind": "sdpa"})
    frame = found(encoder)
    parts = [first_layer(encoder, ids) for ids in TEXTS]
    for place, quantity in enumerate(("query_norm", "key_norm")):
        norms = torch.cat([part[place].norm(dim=-1) for part in parts], dim=1).numpy()
        rows = frame[(frame["quantity"] == quantity) & (frame["layer"] == 0)]
        assert rows.loc[rows["head"].isna(), "value"].tolist() == pytest.approx(np.quantile(norms, QUANTILES))
        assert rows.loc[rows["head"] == 1, "value"].tolist() == pytest.approx(np.quantile(norms[1], QUANTILES))
        assert rows.loc[rows["head"] == 1, "quantile"].tolist() == list(QUANTILES)


def test_own_error_with_alibi():
    encoder = model({"kind": "sdpa", "use_native_sdpa": False}, position_embedding_type="alibi")
    assert values(found(encoder, windows=[]), "own_error") == pytest.approx(0, abs=1e-12)
