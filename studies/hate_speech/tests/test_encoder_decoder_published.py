"""A published encoder-decoder as first weights."""

import json

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForSeq2SeqLM, T5Config, T5EncoderModel, T5ForConditionalGeneration

from lib.core.errors import RunError
from studies.hate_speech.backbones.encoder_decoder.backbone import Backbone
from studies.hate_speech.backbones.encoder_decoder.configuration import EncoderDecoderBackboneConfig
from studies.hate_speech.backbones.encoder_decoder.settings import Settings

pytestmark = pytest.mark.extended

SIZES = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
OF_ITS_OWN = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
VOCABULARY = 40
IDS = torch.arange(2, 22).view(2, 10)
LABELS = torch.tensor([[5, 6, 1], [7, 1, -100]])


@pytest.fixture
def publish(tmp_path):
    """Save a model of transformers; scores of their own are saved as by older releases, which made FLAN-T5."""

    def make(kind=T5ForConditionalGeneration, **changes):
        torch.manual_seed(1)
        model = kind(T5Config(**SIZES | changes, vocab_size=VOCABULARY, decoder_start_token_id=0)).eval()
        if changes.get("tie_word_embeddings") is False:
            tied = T5ForConditionalGeneration._tied_weights_keys
            model._tied_weights_keys = {key: tied[key] for key in tied if key != "lm_head.weight"}
            model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
        folder = tmp_path / "published"
        model.save_pretrained(folder)
        path = folder / "config.json"
        if changes.get("tie_word_embeddings") is False:
            fields = json.loads(path.read_text()) | {"tie_word_embeddings": False}
            del fields["scale_decoder_outputs"]
            path.write_text(json.dumps(fields))
        return model, folder

    return make


def own(vocabulary=VOCABULARY, **changes):
    parameters = Settings(architecture=SIZES | {"model_type": "t5"} | changes)
    config = EncoderDecoderBackboneConfig(architecture=parameters.architecture, vocab_size=vocabulary, pad_token_id=0)
    torch.manual_seed(0)
    return Backbone(parameters, seed=0), AutoModelForSeq2SeqLM.from_config(config).eval()


@pytest.mark.parametrize("changes", [{}, OF_ITS_OWN, {"num_decoder_layers": 1, "relative_attention_num_buckets": 8}])
def test_model_as_published(changes, publish):
    published, folder = publish(**changes)
    backbone, model = own(**changes)
    backbone.load_weights(model, folder)
    torch.testing.assert_close(model(IDS, labels=LABELS).logits, published(IDS, labels=LABELS).logits)


def test_tied_scores(publish):
    """As those of a model that transformers 5 made from such a configuration."""
    _, folder = publish()
    fields = json.loads((folder / "config.json").read_text()) | {"scale_decoder_outputs": False}
    (folder / "config.json").write_text(json.dumps(fields))
    backbone, model = own(tie_word_embeddings=False)
    backbone.load_weights(model, folder)
    assert torch.equal(model.base_model.lm_head.weight, model.get_input_embeddings().weight)


def test_tokens_beyond_the_vocabulary(publish):
    published, folder = publish(**OF_ITS_OWN)
    backbone, model = own(vocabulary=VOCABULARY + 3, **OF_ITS_OWN)
    drawn = model.get_input_embeddings().weight[VOCABULARY:].clone()
    backbone.load_weights(model, folder)
    assert torch.equal(model.get_input_embeddings().weight[VOCABULARY:], drawn)
    expected = published(IDS, labels=LABELS).logits
    torch.testing.assert_close(model(IDS, labels=LABELS).logits[..., :VOCABULARY], expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_ff": 48}, "d_ff is 48, there 32"),
        ({"tie_word_embeddings": False}, "scale_decoder_outputs is False, there True"),
    ],
)
def test_architecture_refused(changes, message, publish):
    _, folder = publish()
    backbone, model = own(**changes)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(RunError, match=f"config.json: another architecture than the run's.*{message}"):
        backbone.load_weights(model, folder)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_adapter_beside_weights(publish, tmp_path):
    _, folder = publish()
    adapted = get_peft_model(
        AutoModelForSeq2SeqLM.from_pretrained(folder),
        LoraConfig(r=2, target_modules=["q", "v"], task_type="SEQ_2_SEQ_LM"),
    )
    adapted.save_pretrained(folder)
    backbone, model = own()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(RunError, match="adapter_config.json: an adapter of peft"):
        backbone.load_weights(model, folder)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_parts_missing_or_left_over(publish):
    _, folder = publish(T5EncoderModel)
    backbone, model = own()
    with pytest.raises(RunError, match=r"weights are missing.*\(decoder"):
        backbone.load_weights(model, folder)
    published, folder = publish()
    state = published.state_dict() | {"adapter.weight": torch.zeros(2)}
    published.save_pretrained(folder, state_dict=state)
    with pytest.raises(RunError, match=r"1 weights are missing or left over \(adapter.weight\)"):
        backbone.load_weights(model, folder)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(RunError, match="published: cannot be loaded"):
        backbone.load_weights(model, folder)
    path.unlink()
    with pytest.raises(RunError, match=r"published: holds neither model\.safetensors nor"):
        backbone.load_weights(model, folder)
