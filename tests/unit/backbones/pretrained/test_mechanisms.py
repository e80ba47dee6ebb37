"""Our mechanisms inside published encoders: what they compute, what is saved, what is refused."""

import pytest
import torch
from mechanism_cases import EXTENSIONS
from plain_vocabulary import PlainVocabulary
from pydantic import ValidationError
from transformers import AutoConfig, AutoModelForMaskedLM

from lib.analysis.computations.approximation import attended
from lib.attention.contract import mechanisms
from lib.backbones.pretrained.backbone import Backbone
from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.pretrained.fields import in_own_names
from lib.backbones.pretrained.settings import Settings
from studies.decoders.training.projections import attention_layers, attention_maps

pytestmark = pytest.mark.extensions(*EXTENSIONS)

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
ABLE = [name for name, family in FAMILIES.items() if family.takes_mechanism]
SDPA = {"kind": "sdpa"}
FAVOR = {"kind": "favor", "nb_features": 2048}
LSH = {"kind": "lsh", "num_hashes": 2, "chunk_size": 8}
WINDOW = {"kind": "window", "width": 14, "global_tokens": 1}
BIGBIRD = {"kind": "bigbird", "block_size": 2, "window_blocks": 1, "random_blocks": 1}
LINFORMER = {"kind": "linformer", "rank": 4, "length": 60}
VOCABULARY, PAD = 40, 1
TOKENIZER = PlainVocabulary(VOCABULARY, pad_token_id=PAD, eos_token_id=2)
IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12], [13, 14, 15, 16, 17, PAD, PAD, PAD]])
MASK = (IDS != PAD).long()


def architecture(kind):
    windows = {"layer_types": ["full_attention"] * SIZES["num_hidden_layers"]} if kind == "ultrabert" else {}
    return {"model_type": kind, **SIZES, "vocab_size": VOCABULARY, **windows}


@pytest.fixture
def published(tmp_path):
    def make(kind):
        torch.manual_seed(1)
        fields = architecture(kind) | {"pad_token_id": PAD}
        model = AutoModelForMaskedLM.from_config(AutoConfig.for_model(**in_own_names(fields))).eval()
        model.save_pretrained(tmp_path / kind)
        return model, tmp_path / kind

    return make


def own(kind, mechanism, seed=0, **settings):
    parameters = Settings(architecture=architecture(kind), **{"attention_dropout": 0.0} | settings)
    backbone = Backbone(parameters.with_mechanism(mechanism), seed=seed)
    torch.manual_seed(2)
    model = AutoModelForMaskedLM.from_config(backbone.config(TOKENIZER, {})).eval()
    backbone.check(model)
    return backbone, model


IN_THE_RING = ("bert", "modernbert", "roberta")


def of_ability(kinds, *others):
    """Return families, each with one of some values in turn, and most with the mark of what is extended."""
    return [
        pytest.param(kind, others[number % len(others)], marks=[] if kind in IN_THE_RING else pytest.mark.extended)
        for number, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize(("kind", "mechanism"), of_ability(ABLE, SDPA, WINDOW))
def test_exact_attention_as_a_mechanism(kind, mechanism, published):
    source, folder = published(kind)
    backbone, model = own(kind, mechanism)
    backbone.load_weights(model, folder)
    here, there = model.base_model(IDS, MASK), source.base_model(IDS, attention_mask=MASK)
    torch.testing.assert_close(here.last_hidden_state[MASK.bool()], there.last_hidden_state[MASK.bool()])
    if FAMILIES[kind].head:
        here, there = model(IDS, MASK), source(IDS, attention_mask=MASK)
        torch.testing.assert_close(here.logits[MASK.bool()], there.logits[MASK.bool()])


@pytest.mark.parametrize(("kind", "padding"), of_ability(ABLE, "apart", "mask"))
def test_module_that_reads_the_states(kind, padding):
    module = {"kind": "module", "class": "torch.nn.MultiheadAttention", "padding": padding}
    _, model = own(kind, module)
    states, short = model(IDS, MASK).logits, model(IDS[1:, :5], MASK[1:, :5]).logits
    torch.testing.assert_close(states[1:, :5], short, atol=1e-5, rtol=1e-5)
    model(IDS, MASK, labels=IDS).loss.backward()
    learnt = [weight.grad for held in mechanisms(model) for weight in held.parameters()]
    assert len(learnt) == 4 * len(list(mechanisms(model))) > 0
    assert all(gradient.any() for gradient in learnt)


@pytest.mark.parametrize(
    ("kind", "mechanism"), of_ability((kind for kind in ABLE if FAMILIES[kind].keys), LSH, FAVOR, SDPA)
)
def test_padding(kind, mechanism):
    _, model = own(kind, mechanism, shared_projection="queries")
    row, gap = IDS[1:, :5], torch.full((1, 7), PAD)
    alone = model.base_model(row, torch.ones_like(row)).last_hidden_state
    for ids, place in ((torch.cat([row, gap], 1), slice(0, 5)), (torch.cat([gap, row], 1), slice(7, 12))):
        found = model.base_model(ids, (ids != PAD).long()).last_hidden_state[:, place]
        torch.testing.assert_close(found, alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "mechanism", [FAVOR | {"nb_features": 8}, LSH, BIGBIRD, LINFORMER], ids=lambda values: values["kind"]
)
def test_saved_model_keeps_its_draws(mechanism, tmp_path):
    ids = torch.randint(5, VOCABULARY, (2, 60), generator=torch.Generator().manual_seed(0))
    _, model = own("bert", mechanism, seed=5, shared_projection="mean")
    model.save_pretrained(tmp_path)
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(loaded(ids).logits, model(ids).logits, rtol=0, atol=0)
    _, other = own("bert", mechanism, seed=6, shared_projection="mean")
    other.load_state_dict({name: each for name, each in model.state_dict().items() if ".mechanism." not in name}, False)
    assert not torch.allclose(other(ids).logits, model(ids).logits)


@pytest.mark.parametrize(("kind", "choice"), of_ability(["bert", "roberta", "eurobert"], "mean", "queries", "keys"))
def test_first_weights_of_one_projection(kind, choice, published):
    source, folder = published(kind)
    backbone, model = own(kind, [SDPA, LSH, LSH], shared_projection=choice)
    backbone.load_weights(model, folder)
    family = FAMILIES[kind]
    assert [layer.key is None for layer in attention_layers(model)] == [False, True, True]
    blocks = zip(model.base_model.layers, source.base_model.get_submodule(family.blocks), strict=True)
    for layer, (block, theirs) in enumerate(blocks):
        attends, there = (each.get_submodule(family.attends) for each in (block, theirs))
        query, key = (there.get_submodule(name) for name in (family.queries, family.keys))
        for name in ("weight", "bias"):
            q, k = getattr(query, name), getattr(key, name)
            if q is None:  # EuroBERT has no biases
                continue
            expected = {"queries": q, "keys": k, "mean": (q + k) / 2}[choice] if layer else q
            assert torch.equal(getattr(attends.get_submodule(family.queries), name), expected)
        assert bool(list(attends.get_submodule(family.keys).parameters())) == (layer == 0)


@pytest.mark.parametrize("kind", ["bert", "albert", "modernbert", "distilbert"])
def test_list_repeats_over_layers_without_a_window(kind):
    held = [WINDOW, FAVOR] if kind != "albert" else [FAVOR]  # whose layers are one block
    fields = architecture(kind) | ({"num_hidden_layers": 7} if kind == "modernbert" else {})
    parameters = Settings(architecture=fields, attention_dropout=0.0).with_mechanism(held)
    torch.manual_seed(2)
    model = AutoModelForMaskedLM.from_config(Backbone(parameters, seed=3).config(TOKENIZER, {})).eval()
    windowed = [hasattr(getattr(block, "attn", None), "sliding_window") and block.attn.sliding_window is not None
                for block in model.base_model.layers]  # fmt: skip
    layers = [layer for layer, has_window in enumerate(windowed) if not has_window]
    found = list(mechanisms(model))
    assert [each.layer for each in found] == layers
    expected = [held[turn % len(held)]["kind"] for turn in range(len(layers))]
    assert [each.settings.kind for each in found] == expected
    row, gap = IDS[1:, :5], torch.full((1, 7), PAD)
    alone = model.base_model(row, torch.ones_like(row)).last_hidden_state
    padded = torch.cat([gap, row], 1)
    states = model.base_model(padded, (padded != PAD).long()).last_hidden_state[:, 7:]
    torch.testing.assert_close(states, alone, rtol=1e-5, atol=1e-5)


WINDOWED = [
    architecture("modernbert") | {"num_hidden_layers": 6, "global_attn_every_n_layers": 3, "local_attention": 4},
    architecture("ultrabert") | {"num_hidden_layers": 6, "sliding_window": 4, "layer_types": None},
]


@pytest.mark.parametrize(
    "fields", [architecture("bert"), architecture("albert"), *WINDOWED], ids=lambda fields: fields["model_type"]
)
@torch.no_grad()
def test_attention_maps_by_layers(fields):
    """Layers with a window have no mechanism, and layers that share their weights have one together."""
    parameters = Settings(architecture=fields, attention_dropout=0.0).with_mechanism(SDPA)
    model = AutoModelForMaskedLM.from_config(Backbone(parameters, seed=0).config(TOKENIZER, {})).eval()
    inner, begun, expected = model.base_model.inner, [], {}

    def compute(mechanism, arguments):
        query, key, _, mask = arguments
        expected[len(begun) - 1] = mechanism.weights(query, key, mask)

    blocks = inner.get_submodule(model.config.family.blocks).children()
    hooks = [block.register_forward_pre_hook(lambda *call: begun.append(call)) for block in blocks]
    hooks += [mechanism.register_forward_pre_hook(compute) for mechanism in mechanisms(inner)]
    maps = model.base_model(IDS, MASK, output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    assert len(maps) == len(begun) == inner.config.num_hidden_layers
    assert {layer for layer, each in enumerate(maps) if each is not None} == expected.keys()
    assert all(torch.equal(maps[layer], each) for layer, each in expected.items())
    of_one = attention_maps(model, IDS[:1])
    assert [each is None for each in of_one] == [each is None for each in maps]
    assert {layer for layer, *_ in attended(model, IDS[0].tolist())} == expected.keys()


@pytest.mark.parametrize(
    ("kind", "mechanism", "settings", "expected"),
    [
        ("deberta-v2", SDPA, {}, "deberta-v2"),
        ("bert", [SDPA, FAVOR], {"attention_dropout": None}, "favor-m2048.*attention_dropout: 0"),
        ("albert", [SDPA, FAVOR], {}, "2 entries for 1 layers"),
    ],
)
def test_settings_that_are_refused(kind, mechanism, settings, expected):
    parameters = Settings(architecture=architecture(kind), **{"attention_dropout": 0.0} | settings)
    with pytest.raises(ValidationError, match=expected):
        parameters.with_mechanism(mechanism)
