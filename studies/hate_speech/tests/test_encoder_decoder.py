"""Encoder-decoders: padding, losses, weights, adapters, and both ways to read a class from them."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForSeq2SeqLM, T5Config, T5ForConditionalGeneration

from lib.backbones.adapters import Adapters
from lib.backbones.settings import Lora
from lib.backbones.stored import open_model
from lib.core.errors import RunError
from lib.training.record import count_parameters
from studies.hate_speech.backbones.encoder_decoder.backbone import Backbone
from studies.hate_speech.backbones.encoder_decoder.configuration import EncoderDecoderBackboneConfig
from studies.hate_speech.backbones.encoder_decoder.settings import Settings
from studies.hate_speech.tasks.text_to_text.decoding import log_likelihoods, write

pytestmark = pytest.mark.extended

SIZES = {"model_type": "t5", "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
ARCHITECTURES = {
    "t5": SIZES,
    "flan-t5": SIZES | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": 1},
}
VOCABULARY = 40
END = 1
TARGETS = [[5, 6, 7, END], [8, END], [9, 5, END]]
every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)


def build(name, seed=0, **changes):
    architecture = ARCHITECTURES[name] | changes
    torch.manual_seed(seed)
    config = EncoderDecoderBackboneConfig(architecture=architecture, vocab_size=VOCABULARY, pad_token_id=0)
    return AutoModelForSeq2SeqLM.from_config(config).eval()


def draw(*shape, seed=0):
    return torch.randint(2, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def masks(*lengths, total=None):
    return (torch.arange(total or max(lengths)) < torch.tensor(lengths)[:, None]).long()


def batch(*lengths):
    labels = torch.full((len(lengths), 4), -100)
    for row in range(len(lengths)):
        target = TARGETS[row % len(TARGETS)]
        labels[row, : len(target)] = torch.tensor(target)
    return {"input_ids": draw(len(lengths), max(lengths)), "attention_mask": masks(*lengths), "labels": labels}


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


# Padding


@every_architecture
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_amount_and_content(name, side):
    model, lengths, total = build(name), (5, 1, 23), 40
    ids, mask = draw(3, total), masks(*lengths, total=total)
    labels = torch.tensor([TARGETS[0]] * 3)
    alone = [model(ids[row : row + 1, :length], labels=labels[:1]) for row, length in enumerate(lengths)]
    if side == "left":
        ids = torch.stack([row.roll(total - length) for row, length in zip(ids, lengths, strict=True)])
        mask = mask.flip(1)
    for filler in (0, 7):
        found = model(ids.masked_fill(mask == 0, filler), mask, labels=labels)
        for row, expected in enumerate(alone):
            close(found.encoder_last_hidden_state[row][mask[row].bool()], expected.encoder_last_hidden_state[0])
            close(found.logits[row], expected.logits[0])


@every_architecture
def test_numbers_at_padding(name):
    model, values = build(name), batch(9, 4)
    values.pop("input_ids")
    embedded = model.get_input_embeddings()(draw(2, 9)).detach()
    poisoned = embedded.masked_fill(values["attention_mask"][:, :, None] == 0, float("nan")).requires_grad_()
    outputs = model(inputs_embeds=poisoned, **values)
    close(outputs.logits, model(inputs_embeds=embedded, **values).logits)
    outputs.loss.backward()
    assert torch.equal(poisoned.grad.abs().sum(dim=-1).gt(0), values["attention_mask"].bool())


def test_labels_of_later_tokens():
    model, values = build("t5"), batch(9)
    logits = model(**values).logits
    changed = values["labels"].clone()
    changed[0, 2:] = 30
    close(model(**values | {"labels": changed}).logits[:, :3], logits[:, :3])
    assert not torch.allclose(model(**values | {"labels": changed}).logits[:, 3], logits[:, 3])


# Losses


@every_architecture
def test_gradients_of_a_split_batch(name):
    model, values = build(name), batch(*[3 + (5 * row) % 14 for row in range(6)])
    items = (values["labels"] != -100).sum()
    found = []
    for size in (6, 2):
        model.zero_grad()
        for start in range(0, 6, size):
            part = {key: tensor[start : start + size] for key, tensor in values.items()}
            model(**part, num_items_in_batch=items).loss.backward()
        found.append([weight.grad.clone() for weight in model.parameters()])
    assert all(gradient.any() for gradient in found[0])
    for whole, summed in zip(*found, strict=True):
        torch.testing.assert_close(summed, whole, rtol=1e-4, atol=1e-6)


@every_architecture
def test_mixed_precision(name):
    model, values = build(name), batch(17, 9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = model.train()(**values)
    assert outputs.logits.dtype == outputs.loss.dtype == torch.float32
    torch.testing.assert_close(outputs.loss.item(), model.eval()(**values).loss.item(), rtol=0.2, atol=0)
    outputs.loss.backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


# Reading


@every_architecture
def test_likelihoods_and_loss(name):
    model, values = build(name), batch(9, 4, 6)
    found = log_likelihoods(model, values["input_ids"], values["attention_mask"], TARGETS)
    for number, target in enumerate(TARGETS):
        labels = torch.tensor([target] * 3)
        for row in range(3):
            part = {key: values[key][row : row + 1] for key in ("input_ids", "attention_mask")}
            loss = model(**part, labels=labels[:1]).loss
            close(found[row, number], -loss.detach() * len(target))


def publish(name, folder=None, seed=1, vocabulary=VOCABULARY, **changes):
    """A model of transformers, whose scores come from a matrix of their own if the architecture says so."""
    architecture = ARCHITECTURES[name] | changes
    torch.manual_seed(seed)
    fields = {key: value for key, value in architecture.items() if key != "model_type"}
    model = T5ForConditionalGeneration(T5Config(**fields, vocab_size=vocabulary, decoder_start_token_id=0)).eval()
    if architecture.get("tie_word_embeddings") is False:  # as in the published FLAN-T5, which older releases saved
        tied = T5ForConditionalGeneration._tied_weights_keys
        model._tied_weights_keys = {key: tied[key] for key in tied if key != "lm_head.weight"}
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    if folder is not None:
        model.save_pretrained(folder)
    return model


@every_architecture
def test_writing_as_transformers(name, tmp_path):
    published = publish(name, tmp_path)
    model = build(name)
    Backbone(Settings(architecture=ARCHITECTURES[name]), seed=0).load_weights(model, tmp_path)
    ids, mask = draw(6, 9), masks(9, 4, 1, 7, 8, 2)
    options = {"attention_mask": mask, "max_new_tokens": 7, "do_sample": False}
    end = int(published.generate(ids, **options)[0, 3])
    expected = published.generate(ids, **options, eos_token_id=end)[:, 1:]
    is_over = (expected == end).cumsum(dim=1) - (expected == end).int() > 0
    written = write(model, ids, mask, longest=7, end=end)
    assert torch.equal(written[:, : expected.shape[1]], expected.masked_fill(is_over, -100))
    assert written[:, expected.shape[1] :].eq(-100).all()
    assert written.eq(-100).any()


# Weights


@every_architecture
def test_model_saved_and_read(name, tmp_path):
    model, values = build(name, seed=5), batch(9, 4)
    model.save_pretrained(tmp_path)
    read = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert type(read) is type(model)
    assert read.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(tensor, read.state_dict()[key]) for key, tensor in model.state_dict().items())
    close(read(**values).logits, model(**values).logits)
    states = AutoModel.from_pretrained(tmp_path)(values["input_ids"], values["attention_mask"]).last_hidden_state
    close(states, model(**values).encoder_last_hidden_state)


@every_architecture
def test_weights_handed_over(name, tmp_path):
    source, model = build(name, seed=1), build(name, seed=2)
    source.save_pretrained(tmp_path)
    parameters = Settings(architecture=ARCHITECTURES[name])
    Backbone(parameters, seed=0).load_weights(model, tmp_path, with_head=True)
    assert all(torch.equal(tensor, source.state_dict()[key]) for key, tensor in model.state_dict().items())
    other = build(name, d_ff=48)
    with pytest.raises(RunError, match="architecture.d_ff is 48.*32"):
        Backbone(Settings(architecture=ARCHITECTURES[name] | {"d_ff": 48}), seed=0).load_weights(other, tmp_path)


@every_architecture
def test_folder_with_missing_weights(name, tmp_path):
    model = build(name)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    whole = load_file(path)
    assert open_model(AutoModelForSeq2SeqLM, tmp_path).state_dict().keys() == model.state_dict().keys()
    for gone in list(whole)[:: len(whole) // 4]:
        save_file({key: tensor for key, tensor in whole.items() if key != gone}, path, metadata={"format": "pt"})
        with pytest.raises(RunError, match="missing"):
            open_model(AutoModelForSeq2SeqLM, tmp_path)
        save_file(whole | {gone: whole[gone] * float("nan")}, path, metadata={"format": "pt"})
        with pytest.raises(RunError, match="NaN or inf"):
            open_model(AutoModelForSeq2SeqLM, tmp_path)


def test_seed_of_first_weights():
    one, same, other = (build("flan-t5", seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not any(torch.equal(one[key], other[key]) for key in one if "layer_norm" not in key)


# Adapters

FLAN_T5_BASE = {
    "model_type": "t5",
    "d_model": 768,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 12,
    "num_heads": 12,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
    "vocab_size": 32_128,
}


def test_sizes_of_flan_t5_base():
    """247,577,856 weights, a tenth of them for scores; of 36 blocks of attention, adapters of rank 18 on queries and
    keys: 55,296 each.
    """
    with torch.device("meta"):
        config = EncoderDecoderBackboneConfig(architecture=FLAN_T5_BASE, vocab_size=32_128, pad_token_id=0)
        model = AutoModelForSeq2SeqLM.from_config(config)
        counted = count_parameters(model)
        Adapters(model, Lora(r=18, alpha=18, targets=["q", "k"]), seed=0, start=None)
    assert (counted["total"], counted["head"]) == (247_577_856, 32_128 * 768)
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert trained == 36 * 55_296 == 1_990_656


@pytest.mark.parametrize(("name", "known"), [("t5", {"wi", "wo"}), ("flan-t5", {"wi_0", "wi_1", "wo", "lm_head"})])
def test_adapters_of_linear_layers(name, known):
    """Where scores come from the embeddings, an adapter that is added to them would change what is read as well."""
    model = build(name)
    adapters = Adapters(model, Lora(r=2, alpha=2), seed=0, start=None)
    assert set(adapters.config.target_modules.split("(")[-1].rstrip(")").split("|")) == {"q", "k", "v", "o"} | known
    values = batch(9, 4)
    for weight in model.parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight, std=0.1)
    expected = model.eval()(**values).logits
    adapters.merge()
    close(model(**values).logits, expected)
