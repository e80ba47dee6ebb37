"""Published folders whose files disagree with each other, or whose states follow from more than a text's tokens."""

import json
import shutil

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForTokenClassification

from lib.backbones.pretrained.backbone import Backbone
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.pretrained.fields import architecture_of, in_own_names
from lib.backbones.pretrained.settings import Settings
from lib.backbones.stored import open_model
from lib.core.errors import RunError

VOCABULARY, PAD = 40, 1
SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "vocab_size": VOCABULARY,
    "pad_token_id": PAD,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
KEYS = {"num_key_value_heads": 2}
EXTRA = {
    "electra": {"embedding_size": 8},
    "llama": KEYS,
    "longformer": {"attention_window": [4, 8]},
    "phi3": KEYS,
    "roberta": {"type_vocab_size": 1},
}
IDS = torch.arange(3, 23).view(2, 10)


def is_decoder(kind):
    return "causal" in FAMILIES[kind].switches


@pytest.fixture
def publish(tmp_path):
    """Save a model of transformers, and change fields of its config.json afterwards; ... = leave the field out."""

    def make(kind, *, auto=None, then=None, **changes):
        torch.manual_seed(1)
        fields = in_own_names({"model_type": kind} | SIZES | EXTRA.get(kind, {}) | changes)
        auto = auto or (AutoModelForCausalLM if is_decoder(kind) else AutoModelForMaskedLM)
        model = auto.from_config(AutoConfig.for_model(**fields)).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) / 10)
        model.save_pretrained(tmp_path / "published")
        change(tmp_path / "published", **then or {})
        return model, tmp_path / "published"

    return make


def change(folder, **fields):
    path = folder / "config.json"
    changed = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: value for name, value in changed.items() if value is not ...}))


def own(folder, auto=AutoModelForMaskedLM, *, attention=None, **changes):
    """Return backbone and model as a study of the folder makes them."""
    fields = architecture_of(json.loads((folder / "config.json").read_text())) | changes
    attention = attention or ("causal" if is_decoder(fields["model_type"]) else "bidirectional")
    steps = {"opening_steps": 4} if attention == "gradual" else {}
    parameters = Settings(architecture=fields, attention=attention, **steps)
    values = parameters.model_dump(exclude={"kind"})
    torch.manual_seed(0)
    config = PretrainedBackboneConfig(**values, vocab_size=parameters.rows(VOCABULARY), pad_token_id=PAD)
    return Backbone(parameters, seed=0), auto.from_config(config).eval()


def loaded(folder, *arguments, **named):
    backbone, model = own(folder, *arguments, **named)
    backbone.load_weights(model, folder)
    return model


def refused(folder, match, **named):
    """Assert that a folder is refused by a message, and that the model stays as it was."""
    backbone, model = own(folder, **named)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(RunError, match=match):
        backbone.load_weights(model, folder)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


TARGETS = {"bert": ["query", "value"], "llama": ["q_proj"]}


@pytest.mark.parametrize("kind", TARGETS)
def test_adapter_beside_the_weights(kind, publish, tmp_path):
    published, folder = publish(kind)
    auto, with_adapter = type(published), tmp_path / "adapted"
    adapted = get_peft_model(auto.from_pretrained(folder), LoraConfig(r=2, target_modules=TARGETS[kind]))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            weight.add_(torch.randn_like(weight) if "lora_B" in name else 0)
    adapted.save_pretrained(with_adapter)
    for name in ("config.json", "model.safetensors"):
        shutil.copy(folder / name, with_adapter)
    refused(with_adapter, "adapter_config.json")
    with pytest.raises(RunError, match="adapter_config.json"):
        open_model(AutoModelForCausalLM if is_decoder(kind) else AutoModelForMaskedLM, with_adapter)
    merged = adapted.eval().merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    torch.testing.assert_close(loaded(tmp_path / "merged")(IDS).logits, merged(IDS).logits)
    (with_adapter / "adapter_config.json").unlink()
    torch.testing.assert_close(loaded(with_adapter)(IDS).logits, published(IDS).logits)


@pytest.mark.parametrize(("kind", "said"), [("bert", True), ("electra", ...), ("modernbert", True), ("gpt2", ...)])
def test_two_tables_that_the_configuration_ties(kind, said, publish):
    """transformers notices by itself, and keeps both tables."""
    published, folder = publish(kind, tie_word_embeddings=False, then={"tie_word_embeddings": said})
    refused(folder, FAMILIES[kind].head["decoder"])
    tagger = loaded(folder, AutoModelForTokenClassification)  # reads the table of words alone
    torch.testing.assert_close(tagger.base_model(IDS).last_hidden_state, published.base_model(IDS).last_hidden_state)
    architecture = json.loads((folder / "config.json").read_text())
    change(folder, tie_word_embeddings=False)
    torch.testing.assert_close(loaded(folder)(IDS).logits, published(IDS).logits)
    with pytest.raises(RunError, match="tie_word_embeddings"):  # by hand: both places
        loaded(folder, tie_word_embeddings=architecture.get("tie_word_embeddings", True))


BY_LENGTH = {"rope_type": "longrope", "short_factor": [1.0, 1.1], "long_factor": [2.0, 7.0]}
BY_LENGTH |= {"original_max_position_embeddings": 16, "factor": 4.0, "rope_theta": 100.0}
NESTED = {"full_attention": BY_LENGTH, "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}
LENGTH = {
    "phi3": {"rope_parameters": BY_LENGTH, "original_max_position_embeddings": 16},
    "modernbert": {
        "rope_parameters": NESTED,
        "layer_types": ["full_attention", "sliding_attention"],
        "local_attention": 6,
    },
}


@pytest.mark.parametrize(
    ("kind", "side"),
    [
        pytest.param(kind, side, marks=[] if kind == "phi3" else pytest.mark.extended)
        for kind, side in zip(LENGTH, ["left", "right"], strict=True)
    ],
)
def test_positions_by_length(kind, side, publish):
    """Texts of 23, 17, 16 and 6 tokens, with factors that change after 16; not by the longest text of the batch."""
    published, folder = publish(kind, **LENGTH[kind])
    texts = [torch.arange(3, 3 + length)[None] for length in (23, 17, 16, 6)]
    ids, mask = torch.full((4, 25), 7), torch.zeros(4, 25, dtype=torch.long)
    for row, text in enumerate(texts):
        place = slice(0, text.shape[1]) if side == "right" else slice(25 - text.shape[1], 25)
        ids[row, place], mask[row, place] = text[0], 1
    directions = ["causal", "bidirectional", "gradual"] if is_decoder(kind) else ["bidirectional"]
    for attention in directions:
        model = loaded(folder, attention=attention)
        model.base_model.opened = 0.5 if attention == "gradual" else 1.0
        together = model(ids, mask).logits
        for found, real, text in zip(together, mask.bool(), texts, strict=True):
            torch.testing.assert_close(found[real], model(text).logits[0])
            if attention == directions[0]:
                torch.testing.assert_close(found[real], published(text).logits[0])
        theirs = published(ids, mask).logits if side == "right" and attention == directions[0] else None
        assert theirs is None or not torch.allclose(theirs[3, :6], together[3, :6], atol=1e-4)


@pytest.mark.parametrize(("kind", "rows"), [("bert", 37), ("modernbert", 43), ("llama", 37), ("gpt2", 43)])
def test_rows_of_another_configuration(kind, rows, publish):
    published, folder = publish(kind, then={"vocab_size": rows})
    words = FAMILIES[kind].words
    refused(folder, rf"{words}.weight: .*vocab_size")
    change(folder, vocab_size=VOCABULARY)
    torch.testing.assert_close(loaded(folder)(IDS).logits, published(IDS).logits)


@pytest.mark.parametrize(("kind", "padding"), [("bert", VOCABULARY), ("llama", -1), ("modernbert", None)])
def test_padding_token_that_does_not_exist(kind, padding, publish):
    _, folder = publish(kind)
    expected = loaded(folder).state_dict()
    change(folder, pad_token_id=padding)
    found = loaded(folder).state_dict()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())


@pytest.mark.parametrize(("kind", "padding"), [("roberta", None), ("roberta", -1), ("longformer", 0)])
def test_positions_counted_from_another_padding(kind, padding, publish):
    _, folder = publish(kind, then={"pad_token_id": padding})
    refused(folder, rf"pad_token_id is 1, there {padding}")
    change(folder, pad_token_id=PAD)
    loaded(folder)
