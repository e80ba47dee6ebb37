"""The mechanisms in other people's models, randomly initialised and loaded from their folders."""

import pytest
import torch
from encoder_cases import fresh_python, masks, token_ids
from extending import extended
from mechanism_cases import EXAMPLES, EXTENSIONS
from pydantic import ValidationError
from transformers import (
    AttentionInterface,
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
)
from transformers.models.bert.modeling_bert import BertCrossAttention

from lib.attention import number_layers, register_attention
from lib.attention.settings import MECHANISMS
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.core.errors import ConfigError

pytestmark = pytest.mark.extensions(*EXTENSIONS)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
}
SPECIAL = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3, "mask_token_id": 4}
MODELS = {
    "bert": SIZES,
    "roberta": SIZES,
    # The window reaches 2 tokens to either side. The first layer has it, the second is global.
    "modernbert": SIZES
    | SPECIAL
    | {"local_attention": 4, "layer_types": ["sliding_attention", "full_attention"], "sparse_prediction": False},
    "distilbert": {
        "vocab_size": 50,
        "dim": 32,
        "n_layers": 2,
        "n_heads": 2,
        "hidden_dim": 32,
        "max_position_embeddings": 64,
    },
    # Scales the queries itself, and passes scaling = 1.
    "esm": SIZES | {"mask_token_id": 4, "position_embedding_type": "rotary"},
    # A head of keys and values serves two heads of queries.
    "eurobert": SIZES | SPECIAL | {"num_attention_heads": 4, "num_key_value_heads": 2},
}
PUBLISHED = ("bert", "roberta", "modernbert")
UNNUMBERED = ("distilbert", "esm")

FEATURES = (32, 512)
SEEDS = range(6)

register_attention()
register_attention({"sdpa-grid": {"kind": "sdpa"}, "favor-m4096": {"kind": "favor", "nb_features": 4096}})
for features in FEATURES:
    for seed in SEEDS:
        register_attention({f"favor-m{features}-seed{seed}": {"kind": "favor", "nb_features": features}}, seed=seed)


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
def test_exact_attention_as_a_mechanism_is_the_attention_of_the_model(folder, batch, name):
    theirs, ours = (states(load(folder, name, implementation), batch) for implementation in ("sdpa", "sdpa-grid"))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_favor_converges_to_the_attention_of_the_model(folder, batch, name):
    exact = states(load(folder, name, "sdpa"), batch)
    model = load(folder, name, "sdpa")
    errors = []
    for features in FEATURES:
        squares = []
        for seed in SEEDS:
            model.set_attn_implementation(f"favor-m{features}-seed{seed}")
            squares.append((states(model, batch) - exact).square().mean())
        errors.append(torch.stack(squares).mean().sqrt().item())
    ratio = (FEATURES[1] / FEATURES[0]) ** 0.5
    assert 0.8 * ratio < errors[0] / errors[1] < 1.2 * ratio, errors


@pytest.mark.parametrize("name", PUBLISHED)
def test_padding_is_exact(folder, name):
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


@pytest.mark.parametrize("implementation", ["sdpa-grid", "favor"])
def test_not_even_nan_leaves_the_padding(folder, implementation):
    model = load(folder, "bert", implementation)
    embedded = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
    clean, poisoned = (embedded.masked_fill(masks(9, 4)[..., None] == 0, content) for content in (0, torch.nan))
    expected, found = (states(model, {"inputs_embeds": x, "attention_mask": masks(9, 4)}) for x in (clean, poisoned))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", PUBLISHED)
def test_gradients_approach_those_of_the_model(folder, batch, name):
    gradients = []
    for implementation in ("sdpa", "favor-m4096"):
        no_dropout = {key: 0.0 for key in AutoConfig.from_pretrained(folder / name).to_dict() if "dropout" in key}
        torch.manual_seed(0)  # of the heads, which the folder does not hold
        model = load(folder, name, implementation, AutoModelForSequenceClassification, **no_dropout)
        model.train()(**batch, labels=torch.tensor([0, 1, 0])).loss.backward()
        gradients.append({key: weight.grad for key, weight in model.base_model.named_parameters() if weight.dim() > 1})
    for key, theirs in gradients[0].items():
        ours = gradients[1][key]
        if theirs is None:
            assert ours is None
            continue
        assert ours.isfinite().all()
        error = (ours - theirs).norm() / theirs.norm()
        assert error < 0.25, (key, error)


LOAD_IN_ANOTHER_PROCESS = """
import sys
import torch
from transformers import AutoModel
from lib.attention import register_attention
register_attention()
for name in sys.argv[2:]:
    saved = torch.load(f"{sys.argv[1]}/{name}/outputs.pt")
    with torch.no_grad():
        model = AutoModel.from_pretrained(f"{sys.argv[1]}/{name}", attn_implementation="favor")
        torch.testing.assert_close(model(**saved["batch"]).last_hidden_state, saved["states"], atol=0, rtol=0)
    print(name)
"""


def test_a_saved_model_gives_the_same_in_a_fresh_process(folder, batch, tmp_path):
    for name in PUBLISHED:
        model = load(folder, name, "favor")
        with torch.no_grad():
            outputs = model(**batch).last_hidden_state
            torch.testing.assert_close(model(**batch).last_hidden_state, outputs, atol=0, rtol=0)
        model.save_pretrained(tmp_path / name)
        torch.save({"batch": batch, "states": outputs}, tmp_path / name / "outputs.pt")
        # The folder names no attention: without a name, the model has its own again.
        torch.testing.assert_close(
            states(AutoModel.from_pretrained(tmp_path / name), batch),
            states(load(folder, name, None), batch),
            atol=0,
            rtol=0,
        )
    assert fresh_python(LOAD_IN_ANOTHER_PROCESS, tmp_path, *PUBLISHED).split() == list(PUBLISHED)


def test_every_way_of_choosing_gives_the_same(folder, batch):
    expected = states(load(folder, "bert", "favor"), batch)
    switched = load(folder, "bert", "eager")
    switched.set_attn_implementation("favor")
    made = AutoModel.from_config(AutoConfig.from_pretrained(folder / "bert"), attn_implementation="favor").eval()
    made.load_state_dict(switched.state_dict())
    classifier = load(folder, "bert", "favor", AutoModelForSequenceClassification).bert
    classifier.pooler = None
    for model in (switched, made, classifier):
        torch.testing.assert_close(states(model, batch), expected, atol=0, rtol=0)
    assert (expected - states(load(folder, "bert", "sdpa"), batch)).abs().max() > 5e-5


def test_what_inference_drew_serves_in_training(folder, batch):
    register_attention({"favor-m16-inference": {"kind": "favor", "nb_features": 16}})
    model = load(folder, "bert", "favor-m16-inference")
    with torch.inference_mode():
        model(**batch)
    model(**batch).last_hidden_state.square().sum().backward()
    assert model.encoder.layer[0].attention.self.key.weight.grad.abs().sum() > 0


def test_half_precision_stays(folder, batch):
    expected = states(load(folder, "bert", "favor"), batch)
    model = load(folder, "bert", "favor", dtype=torch.bfloat16)
    found = states(model, batch)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, atol=0.15, rtol=0)


def test_windowed_layers_stay_and_global_ones_are_swapped(folder, batch):
    with torch.no_grad():
        theirs, ours = (
            load(folder, "modernbert", implementation)(**batch, output_hidden_states=True).hidden_states
            for implementation in ("sdpa", "favor")
        )
    torch.testing.assert_close(ours[1], theirs[1], atol=0, rtol=0)
    assert (ours[2] - theirs[2]).abs().max() > 5e-5


def test_draws_belong_to_seed_and_layer(folder, batch):
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


@pytest.mark.parametrize("name", ["bert", "distilbert", "eurobert"])
def test_a_list_repeats_over_the_layers(folder, batch, name):
    register_attention({"sdpa+favor": [SDPA, FAVOR], "favor+sdpa": [FAVOR, SDPA]})
    exact, favor = (states_of_layers(folder, name, each, batch) for each in ("sdpa-grid", "favor"))
    for implementation, first in (("sdpa+favor", exact), ("favor+sdpa", favor)):
        found = states_of_layers(folder, name, implementation, batch)
        torch.testing.assert_close(found[1], first[1], atol=0, rtol=0)
        for each in (exact, favor):
            assert (found[2] - each[2]).abs().max() > 5e-5


def test_a_list_counts_layers_without_a_window(folder, batch):
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


@pytest.mark.parametrize(("name", "layers"), [("albert", 1), ("modernbert", 1), ("bert", 2), ("distilbert", 2)])
def test_a_list_with_more_entries_than_layers_is_refused(batch, name, layers):
    """Layers of ALBERT share their weights, and its first entry would be that of all."""
    register_attention({"sdpa+favor": [SDPA, FAVOR], "favor-m256+sdpa": [FAVOR, SDPA, FAVOR]})
    sizes = SIZES | {"embedding_size": 8, "attention_probs_dropout_prob": 0.0} if name == "albert" else MODELS[name]
    implementation = "sdpa+favor" if layers == 1 else "favor-m256+sdpa"
    model = AutoModel.from_config(AutoConfig.for_model(name, **sizes), attn_implementation=implementation)
    number_layers(model)
    with pytest.raises(ConfigError, match=rf"{layers + 1} entries for {layers} layers without a window"):
        model.eval()(**batch)


def test_a_list_in_a_backbone_is_the_same(folder, batch):
    register_attention({"favor-m16+sdpa": [{"kind": "favor", "nb_features": 16}, SDPA]})
    ours = load(folder, "bert", "favor-m16+sdpa")
    parameters = {"architecture": {"model_type": "bert", **SIZES}, "attention_dropout": 0.0}
    config = PretrainedBackboneConfig(
        **parameters, mechanism=[{"kind": "favor", "nb_features": 16}, SDPA], vocab_size=50, pad_token_id=1
    )
    held = AutoModel.from_config(config).eval()
    missing = held.inner.load_state_dict(ours.state_dict(), strict=False).missing_keys
    assert all(".mechanism." in name for name in missing)
    torch.testing.assert_close(states(held, batch), states(ours, batch), atol=0, rtol=0)


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


def test_positions_of_another_sequence_are_not_counted_by_the_padding_of_keys():
    register_attention({"nystrom-m4": {"kind": "nystrom", "landmarks": 4}})
    queries, keys = torch.randn(2, 2, 9, 32, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ConfigError, match="nystrom needs the padding of queries, not given here"):
        cross_attention("nystrom-m4")(queries, keys, attention_mask=masks(9, 4))


@pytest.mark.parametrize("kind", OTHERS)
def test_other_mechanisms_hide_padding_in_a_foreign_model_whatever_it_holds(kind):
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


def test_kernels_compute_cross_attention_too():
    pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
    register_attention({"favor-m8-kernels": {"kind": "favor", "nb_features": 8}}, kernels="triton")
    register_attention({"favor-m8-torch": {"kind": "favor", "nb_features": 8}}, kernels="torch")
    queries, keys = torch.randn(2, 2, 9, 32, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    results = []
    for name in ("favor-m8-torch", "favor-m8-kernels"):
        module, rows = cross_attention(name).to(DEVICE), queries.clone().requires_grad_()
        output, _ = module(rows, keys, attention_mask=masks(9, 4).to(DEVICE))
        results.append((output, *torch.autograd.grad(output.square().sum(), rows)))
    # Queries at the padding of the keys are no padding.
    assert (results[0][1] != 0).all()
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)


def test_keys_of_another_length_are_refused():
    with pytest.raises(ConfigError, match=r"values: \(2, 2, 9, 16\), \(2, 2, 5, 16\).*no other length"):
        cross_attention("favor")(torch.zeros(2, 9, 32), torch.zeros(2, 5, 32))


def test_dropout_of_weights_is_refused_in_training(folder, batch):
    for name, setting in (("bert", "attention_probs_dropout_prob"), ("modernbert", "attention_dropout")):
        model = load(folder, name, "favor", **{setting: 0.1})
        states(model, batch)
        with pytest.raises(ConfigError, match="attention_dropout: favor never forms attention weights"):
            model.train()(**batch)
        states(load(folder, name, "favor", **{setting: 0.0}).train(), batch)


def test_exact_attention_drops_weights_in_training_only(folder, batch):
    model = load(folder, "bert", "sdpa-grid", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.5)
    evaluated = states(model, batch)
    torch.testing.assert_close(states(model, batch), evaluated, atol=0, rtol=0)
    dropped = torch.stack([states(model.train(), batch) for _ in range(2)])
    assert (dropped[0] - dropped[1]).abs().max() > 5e-5
    torch.testing.assert_close(states(model.eval(), batch), evaluated, atol=0, rtol=0)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_decoders_are_refused(batch, name):
    values = (
        SIZES | {"is_decoder": True} if name == "bert" else {"vocab_size": 50, "n_embd": 32, "n_layer": 1, "n_head": 2}
    )
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **values), attn_implementation="favor").eval()
    for inputs in (batch, {"input_ids": batch["input_ids"]}):
        with pytest.raises(ConfigError, match="only padding can be hidden, not .*causal_mask_function"):
            model(**inputs)
    whole = torch.ones(3, 1, 20, 20, dtype=torch.bool)
    with pytest.raises(ConfigError, match="causal.*sees the tokens to come"):
        model(batch["input_ids"], attention_mask=whole)


def test_masks_of_pairs_are_refused(folder, batch):
    pairs = torch.ones(3, 1, 20, 20, dtype=torch.bool).tril()
    with pytest.raises(ConfigError, match=r"\(3, 1, 20, 20\), expected \[B, N\]"):
        load(folder, "bert", "favor")(batch["input_ids"], attention_mask=pairs)


@pytest.mark.parametrize("asked", [{"output_attentions": True}, {"cu_seq_lens_q": torch.tensor([0, 20])}])
def test_what_no_mechanism_does_is_refused(folder, batch, asked):
    model = load(folder, "bert", "favor")
    with pytest.raises(ConfigError, match=f"cannot honour {next(iter(asked))}"):
        model(**batch, **asked)


def test_layers_without_number_are_refused(folder, batch):
    model = AutoModel.from_pretrained(folder / "distilbert", attn_implementation="favor")
    with pytest.raises(ConfigError, match=r"DistilBertSelfAttention: has no `layer_idx`.*number_layers\(model\)"):
        model(**batch)


@pytest.mark.parametrize("name", ["mpnet", "deberta", "deberta-v2", "longformer", "big_bird", "nystromformer", "fnet"])
def test_models_that_keep_their_attention_are_refused_when_they_are_built(name, tmp_path):
    """Some never ask transformers for a function or a mask, so they would ignore the name without a word."""
    config = AutoConfig.for_model(name, **SIZES)
    plain = AutoModel.from_config(config)
    plain.save_pretrained(tmp_path)
    expected = (
        f'attn_implementation="favor": {type(plain).__name__} keeps an attention of its own, or has none. Take an'
    )
    with pytest.raises(ConfigError, match=expected):
        AutoModel.from_config(config, attn_implementation="favor")
    with pytest.raises(ConfigError, match=r'attn_implementation="favor": .* Take another architecture'):
        AutoModelForMaskedLM.from_pretrained(tmp_path, attn_implementation="favor")
    assert AutoModel.from_pretrained(tmp_path).config._attn_implementation != "favor"
    with pytest.raises(ConfigError, match=f"{type(plain).__name__}: no module looks up its attention"):
        number_layers(plain)


def test_a_name_that_is_set_in_a_finished_model_is_refused_with_its_mask(batch):
    model = AutoModel.from_config(AutoConfig.for_model("mpnet", **SIZES)).eval()
    model.config._attn_implementation = "favor"
    for inputs in (batch, {"input_ids": batch["input_ids"]}):
        with pytest.raises(ConfigError, match="mpnet models keep an attention of their own"):
            model(**inputs)


@pytest.mark.parametrize(
    "name", ["bert", "roberta", "xlm-roberta", "modernbert", "distilbert", "electra", "albert", "llama"]
)
def test_models_that_look_up_their_attention_are_built(name):
    assert AutoModel.from_config(AutoConfig.for_model(name, **SIZES), attn_implementation="favor")


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        ("lsh-h2-c64", {"kind": "lsh", "num_hashes": 2, "chunk_size": 64}, "one projection for queries and keys"),
        ("sdpa", {"kind": "sdpa"}, "transformers has an attention of that name.*'sdpa-grid'"),
        ("eager", {"kind": "sdpa"}, "transformers has an attention of that name"),
        ("favor-m64", {"kind": "favor", "nb_features": 32}, "contradicts the parameters. Call it favor-m32"),
        ("favor", {"kind": "favor", "nb_features": 32}, "registered with other parameters.*favor-m32-seed0"),
        ("favor-m8", {"kind": "favor", "nb_features": 8, "redraw_interval": 5}, "redraw_interval = 5"),
        ("favor", {"nb_features": 32}, "kind: None is not a known"),
        (
            "sdpa+favor",
            [FAVOR, SDPA],
            "contradicts the parameters. Call it favor-m256\\+sdpa, .* or favor\\+sdpa",
        ),
        ("favor", [FAVOR, SDPA], "contradicts the parameters"),
        ("sdpa+lsh", [SDPA, {"kind": "lsh", "num_hashes": 2, "chunk_size": 64}], "one projection for queries and keys"),
        ("favor", [], "names no mechanism"),
    ],
)
def test_registration_refuses(name, values, problem):
    before = dict(AttentionInterface())
    with pytest.raises(ConfigError, match=problem):
        register_attention({"favor-m2-new": {"kind": "favor", "nb_features": 2}, name: values})
    assert dict(AttentionInterface()) == before


def test_registration_again_and_with_mistakes():
    register_attention()
    with pytest.raises(ConfigError, match="registered with other.*'favor-m256-seed1'"):
        register_attention(seed=1)
    with pytest.raises(ValidationError, match="nb_features = 3 is odd"):
        register_attention({"favor-m3": {"kind": "favor", "nb_features": 3}})
