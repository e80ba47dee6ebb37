"""The mechanisms in other people's models, randomly initialised and loaded from their folders."""

import pytest
import torch
from encoder_cases import masks, token_ids
from extending import extended
from mechanism_cases import EXAMPLES, EXTENSIONS
from transformers import (
    AttentionInterface,
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    BertConfig,
)
from transformers.models.bert.modeling_bert import BertCrossAttention

from lib.attention import number_layers, register_attention
from lib.attention.settings import MECHANISMS
from lib.core.errors import ConfigError

pytestmark = pytest.mark.extensions(*EXTENSIONS)

SMALL = {"vocab_size": 50, "max_position_embeddings": 64}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SIZES |= SMALL | {"pad_token_id": 1}
SPECIAL = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3, "mask_token_id": 4}
MODELS = {
    "bert": SIZES,
    "roberta": SIZES,
    # The window reaches 2 tokens to either side. The first layer has it, the second is global.
    "modernbert": SIZES
    | SPECIAL
    | {"local_attention": 4, "layer_types": ["sliding_attention", "full_attention"], "sparse_prediction": False},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 32} | SMALL,
    # Scales the queries itself, and passes scaling = 1.
    "esm": SIZES | {"mask_token_id": 4, "position_embedding_type": "rotary"},
    # A head of keys and values serves two heads of queries.
    "eurobert": SIZES | SPECIAL | {"num_attention_heads": 4, "num_key_value_heads": 2},
}
PUBLISHED = ("bert", "roberta", "modernbert")
UNNUMBERED = ("distilbert", "esm")

register_attention()
register_attention({"sdpa-grid": {"kind": "sdpa"}, "favor-m4096": {"kind": "favor", "nb_features": 4096}})
for seed in range(2):
    register_attention({f"favor-m32-seed{seed}": {"kind": "favor", "nb_features": 32}}, seed=seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where every model of `MODELS` is saved; weights twice their usual size let attention tell in the outputs."""
    root = tmp_path_factory.mktemp("models")
    for name, values in MODELS.items():
        torch.manual_seed(0)
        AutoModel.from_config(AutoConfig.for_model(name, **values, initializer_range=0.05)).save_pretrained(root / name)
    return root


@pytest.fixture
def batch():
    return {"input_ids": token_ids(3, 20), "attention_mask": masks(20, 13, 7)}


def load(folder, name, implementation, auto=AutoModel, **changes):
    model = auto.from_pretrained(folder / name, attn_implementation=implementation, **changes)
    if name in UNNUMBERED:
        number_layers(model)
    return model


@torch.no_grad()
def states(model, batch):
    return model(**batch).last_hidden_state[batch["attention_mask"].bool()]


@pytest.mark.parametrize("name", MODELS)
def test_exact_attention_as_a_mechanism(folder, batch, name):
    theirs, ours = (states(load(folder, name, implementation), batch) for implementation in ("sdpa", "sdpa-grid"))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", PUBLISHED)
def test_padding_of_published_models(folder, name):
    model = load(folder, name, "favor")
    ids = token_ids(1, 9)
    with torch.no_grad():
        alone = model(ids).last_hidden_state[0]
        for filler in (token_ids(1, 21, seed=1), torch.full((1, 21), MODELS[name]["pad_token_id"])):
            padded = {"input_ids": torch.cat([ids, filler], dim=1), "attention_mask": masks(9, 30)[:1]}
            torch.testing.assert_close(model(**padded).last_hidden_state[0, :9], alone, atol=1e-5, rtol=0)
            together = {
                "input_ids": torch.cat([padded["input_ids"], token_ids(1, 30, seed=2)]),
                "attention_mask": masks(9, 30),
            }
            torch.testing.assert_close(model(**together).last_hidden_state[0, :9], alone, atol=1e-5, rtol=0)


def test_only_global_layers_are_swapped(folder, batch):
    with torch.no_grad():
        theirs, ours = (
            load(folder, "modernbert", implementation)(**batch, output_hidden_states=True).hidden_states
            for implementation in ("sdpa", "favor")
        )
    torch.testing.assert_close(ours[1], theirs[1], atol=0, rtol=0)
    assert (ours[2] - theirs[2]).abs().max() > 5e-5


def test_draws_are_keyed(folder, batch):
    model = load(folder, "distilbert", "favor-m32-seed0")
    layers = [layer.attention for layer in model.transformer.layer]
    assert [layer.layer_idx for layer in layers] == [0, 1]
    first = states(model, batch)
    layers[1].layer_idx = 0
    assert (states(model, batch) - first).abs().max() > 5e-5
    number_layers(model)
    assert layers[1].layer_idx == 0, "a number that is there stays"
    layers[1].layer_idx = None
    number_layers(model)
    torch.testing.assert_close(states(model, batch), first, atol=0, rtol=0)
    model.set_attn_implementation("favor-m32-seed1")
    assert (states(model, batch) - first).abs().max() > 5e-5


SDPA, FAVOR = {"kind": "sdpa"}, {"kind": "favor", "nb_features": 256}


def states_of_layers(folder, name, implementation, batch):
    model = load(folder, name, implementation)
    with torch.no_grad():
        return model(**batch, output_hidden_states=True).hidden_states


@pytest.mark.parametrize("name", ["distilbert", "eurobert"])
def test_list_repeats_over_the_layers(folder, batch, name):
    register_attention({"sdpa+favor": [SDPA, FAVOR], "favor+sdpa": [FAVOR, SDPA]})
    exact, favor = (states_of_layers(folder, name, each, batch) for each in ("sdpa-grid", "favor"))
    for implementation, first in (("sdpa+favor", exact), ("favor+sdpa", favor)):
        found = states_of_layers(folder, name, implementation, batch)
        torch.testing.assert_close(found[1], first[1], atol=0, rtol=0)
        for each in (exact, favor):
            assert (found[2] - each[2]).abs().max() > 5e-5


def test_list_counts_layers_without_a_window(folder, batch):
    """The first layer without one is the second, and has the first mechanism."""
    register_attention({"favor+sdpa": [FAVOR, SDPA]})
    kinds = ["sliding_attention", "full_attention", "full_attention"]
    sizes = MODELS["modernbert"] | {"layer_types": kinds, "num_hidden_layers": 3, "initializer_range": 0.05}
    config = AutoConfig.for_model("modernbert", **sizes)
    model, found = AutoModel.from_config(config).eval(), []
    for implementation in ("favor+sdpa", "favor"):
        model.set_attn_implementation(implementation)
        with torch.no_grad():
            found.append(model(**batch, output_hidden_states=True).hidden_states)
    torch.testing.assert_close(found[0][2], found[1][2], atol=0, rtol=0)
    assert (found[0][3] - found[1][3]).abs().max() > 5e-5


with extended(*EXTENSIONS):
    OTHERS = {
        values["kind"]: values
        for values in EXAMPLES.values()
        if not MECHANISMS.parse(values).is_learned and values["kind"] not in ("sdpa", "favor", "lsh")
    }


def cross_attention(implementation):
    torch.manual_seed(0)
    return BertCrossAttention(BertConfig(**SIZES, attn_implementation=implementation), layer_idx=0).eval()


def test_keys_of_another_sequence_of_the_same_length():
    queries, keys = torch.randn(2, 2, 9, 32, generator=torch.Generator().manual_seed(0))
    real = masks(9, 4)
    theirs, _ = cross_attention("sdpa")(queries, keys, attention_mask=real.bool()[:, None, None])
    ours, _ = cross_attention("sdpa-grid")(queries, keys, attention_mask=real)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    approximate, _ = cross_attention("favor-m4096")(queries, keys, attention_mask=real)
    assert (approximate - theirs).norm() < 0.1 * theirs.norm()


@pytest.mark.parametrize("kind", OTHERS)
def test_padding_in_a_foreign_model(kind):
    name = MECHANISMS.parse(OTHERS[kind]).name()
    register_attention({name: OTHERS[kind]})
    config = BertConfig(**SIZES, attn_implementation=name, attention_probs_dropout_prob=0.0)
    torch.manual_seed(0)
    model = AutoModel.from_config(config).eval()
    ids, mask = token_ids(2, 12), torch.ones(2, 12, dtype=torch.long)
    mask[1, [0, 5, 10, 11]] = 0
    found = model(ids, attention_mask=mask).last_hidden_state
    others = model(torch.where(mask == 1, ids, 7), attention_mask=mask).last_hidden_state
    torch.testing.assert_close(found[mask == 1], others[mask == 1], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model(ids[:1]).last_hidden_state, found[:1], atol=1e-5, rtol=1e-5)


def test_arguments_that_no_mechanism_takes(folder, batch):
    model = load(folder, "bert", "favor")
    pairs = torch.ones(3, 1, 20, 20, dtype=torch.bool).tril()
    with pytest.raises(ConfigError, match="(3, 1, 20, 20)"):
        model(batch["input_ids"], attention_mask=pairs)
    with pytest.raises(ConfigError, match="cu_seq_lens_q"):
        model(**batch, cu_seq_lens_q=torch.tensor([0, 20]))
    with pytest.raises(ConfigError, match="length"):
        cross_attention("favor")(torch.zeros(2, 9, 32), torch.zeros(2, 5, 32))
    unnumbered = AutoModel.from_pretrained(folder / "distilbert", attn_implementation="favor")
    with pytest.raises(ConfigError, match="number_layers"):
        unnumbered(**batch)


def test_dropout_of_weights_that_are_not_formed(folder, batch):
    for name, setting in (("bert", "attention_probs_dropout_prob"), ("modernbert", "attention_dropout")):
        model = load(folder, name, "favor", **{setting: 0.1})
        states(model, batch)
        with pytest.raises(ConfigError, match="attention_dropout"):
            model.train()(**batch)
        states(load(folder, name, "favor", **{setting: 0.0}).train(), batch)


def test_dropout_in_training_only(folder, batch):
    model = load(folder, "bert", "sdpa-grid", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.5)
    evaluated = states(model, batch)
    torch.testing.assert_close(states(model, batch), evaluated, atol=0, rtol=0)
    dropped = torch.stack([states(model.train(), batch) for _ in range(2)])
    assert (dropped[0] - dropped[1]).abs().max() > 5e-5
    torch.testing.assert_close(states(model.eval(), batch), evaluated, atol=0, rtol=0)


def test_decoders(batch):
    config = AutoConfig.for_model("gpt2", vocab_size=50, n_embd=32, n_layer=1, n_head=2)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="favor").eval()
    for inputs in (batch, {"input_ids": batch["input_ids"]}):
        with pytest.raises(ConfigError, match="causal_mask_function"):
            model(**inputs)
    whole = torch.ones(3, 1, 20, 20, dtype=torch.bool)
    with pytest.raises(ConfigError, match="causal"):
        model(batch["input_ids"], attention_mask=whole)


@pytest.mark.parametrize("name", ["mpnet", "deberta-v2", "longformer", "big_bird", "nystromformer", "fnet"])
def test_models_that_keep_their_attention(name, tmp_path):
    """Some never ask transformers for a function or a mask, so they would ignore the name without a word."""
    config = AutoConfig.for_model(name, **SIZES)
    plain = AutoModel.from_config(config)
    plain.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=type(plain).__name__):
        AutoModel.from_config(config, attn_implementation="favor")
    with pytest.raises(ConfigError, match="attn_implementation"):
        AutoModelForMaskedLM.from_pretrained(tmp_path, attn_implementation="favor")
    assert AutoModel.from_pretrained(tmp_path).config._attn_implementation != "favor"
    with pytest.raises(ConfigError, match=type(plain).__name__):
        number_layers(plain)


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        ("lsh-h2-c64", {"kind": "lsh", "num_hashes": 2, "chunk_size": 64}, "one projection"),
        ("eager", {"kind": "sdpa"}, "eager"),
        ("favor-m64", {"kind": "favor", "nb_features": 32}, "favor-m32"),
        ("favor-m8", {"kind": "favor", "nb_features": 8, "redraw_interval": 5}, "redraw_interval = 5"),
        ("linformer-k4", {"kind": "linformer", "rank": 4, "length": 40}, "linformer"),
    ],
)
def test_registration_that_is_refused(name, values, problem):
    before = dict(AttentionInterface())
    with pytest.raises(ConfigError, match=problem):
        register_attention({"favor-m2-new": {"kind": "favor", "nb_features": 2}, name: values})
    assert dict(AttentionInterface()) == before
    register_attention()  # again, the same
