"""First weights of a model that reads segments: of a published encoder, of a run of its encoder, of its own kind."""

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModelForMaskedLM, BertTokenizer

from lib.backbones.pretrained.fields import in_own_names
from lib.backbones.settings import BACKBONES
from lib.core.errors import RunError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(35))]
BERT = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 32}
BERT |= {"num_attention_heads": 4, "max_position_embeddings": 16}
PLAIN = {"kind": "pretrained", "architecture": BERT}
FAVOR = {"kind": "encoder", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
FAVOR |= {"intermediate_size": 32, "mechanism": {"kind": "favor", "nb_features": 8}}


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Return a backbone and a model on it with the head of a task."""
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    tokenizer = BertTokenizer.from_pretrained(folder)

    def model(values, auto="AutoModelForSequenceClassification", seed=0, **options):
        parameters = BACKBONES.parse(values)
        backbone = BACKBONES.load(parameters.kind, "backbone").Backbone(parameters, seed=seed)
        torch.manual_seed(seed)
        config = backbone.config(tokenizer, {"num_labels": 3} | options)
        return backbone, getattr(transformers, auto).from_config(config).eval()

    return model


def segments(encoder=PLAIN, **changes):
    return {"kind": "hierarchical", "encoder": encoder, "segment": 8, "overlap": 2} | changes


def jittered(model):
    """Let biases and norms, which begin alike in all models, differ."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) / 10)
    return model


PUBLISHED = {
    "bert": {},
    "roberta": {"type_vocab_size": 1},  # its positions begin behind the padding token
    "albert": {"embedding_size": 8},
    "modernbert": {"local_attention": 6},
}


@pytest.mark.parametrize("kind", PUBLISHED)
def test_weights_of_a_published_model(kind, make, tmp_path):
    architecture = BERT | PUBLISHED[kind] | {"model_type": kind}
    torch.manual_seed(5)
    fields = in_own_names(architecture | {"vocab_size": 40, "pad_token_id": 0})
    source = jittered(AutoModelForMaskedLM.from_config(AutoConfig.for_model(**fields))).eval()
    source.save_pretrained(tmp_path)
    backbone, model = make(segments({"kind": "pretrained", "architecture": architecture}))
    head = {name: weight.clone() for name, weight in model.head.state_dict().items()}
    backbone.load_weights(model, tmp_path)
    ids, mask = torch.randint(5, 40, (3, 12)), torch.ones(3, 12, dtype=torch.long)
    mask[2, 9:] = 0  # a shorter text, so that the segments of a group are padded
    vectors = model.base_model(ids, mask).last_hidden_state[:2]
    ids = ids[:2]
    for number, content in enumerate((slice(1, 7), slice(5, 11))):
        segments_alone = torch.cat([ids[:, :1], ids[:, content], ids[:, -1:]], dim=1)
        states = source.base_model(segments_alone).last_hidden_state
        torch.testing.assert_close(vectors[:, number], states.mean(1), atol=1e-6, rtol=1e-5)
    assert all(torch.equal(weight, model.head.state_dict()[name]) for name, weight in head.items())


SWAPPED = PLAIN | {"attention_dropout": 0.0, "mechanism": FAVOR["mechanism"]}


@pytest.mark.parametrize(
    ("encoder", "auto"),
    [(SWAPPED, "AutoModelForMaskedLM"), (FAVOR, "AutoModelForSequenceClassification")],
    ids=["bert with favor", "favor"],
)
def test_weights_of_a_run_of_the_encoder(encoder, auto, make, tmp_path):
    _, source = make(encoder, auto, seed=1)
    jittered(source).save_pretrained(tmp_path)
    backbone, model = make(segments(encoder), seed=2)
    backbone.load_weights(model, tmp_path)
    own, given = model.base_model.encoder.base_model.state_dict(), source.base_model.state_dict()
    assert own.keys() == given.keys()
    assert all(torch.equal(own[name], given[name]) for name in given)


@pytest.mark.parametrize("pooling", ["mean", "transformer"])
def test_weights_of_a_run_on_segments(pooling, make, tmp_path):
    _, source = make(segments(pooling=pooling), seed=1)
    jittered(source).save_pretrained(tmp_path)
    for with_head in (True, False):
        backbone, model = make(segments(pooling=pooling, segment=12, overlap=0, group=3), seed=2)
        backbone.load_weights(model, tmp_path, with_head=with_head)
        assert all(torch.equal(model.state_dict()[name], weight) for name, weight in source.state_dict().items())
        assert model.config.segment == 12


@pytest.mark.parametrize(
    ("source", "auto", "with_head", "message"),
    [
        (PLAIN | {"architecture": BERT | {"hidden_size": 32}}, "AutoModelForMaskedLM", False, "hidden_size is 16"),
        (PLAIN, "AutoModelForSequenceClassification", True, "expected 'hierarchical_encoder'"),
        (segments(pooling="transformer"), "AutoModelForSequenceClassification", False, "pooling is mean"),
    ],
)
def test_weights_that_do_not_fit(source, auto, with_head, message, make, tmp_path):
    make(source, auto)[1].save_pretrained(tmp_path)
    backbone, model = make(segments())
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(RunError, match=message):
        backbone.load_weights(model, tmp_path, with_head=with_head)
    assert all(torch.equal(weight, model.state_dict()[name]) for name, weight in before.items())
