"""Exported models give the same results in transformers alone, in a process that cannot import this project."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import torch
import transformers
from transformers import AutoConfig

from lib.backbones.pretrained.export import DENSE
from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.pretrained.fields import architecture_of
from lib.backbones.stored import open_model
from lib.core.errors import ConfigError
from lib.tokens.cutting import note_cut
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_dataset
from lib.tokens.vocabularies import from_published
from lib.training.run import train
from lib.workflow.commands.exporting import export
from lib.workflow.commands.sharing import _without_project

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
OTHER_TOKENS = ("qwen2", "qwen3")
"""Families whose own tokeniser transformers takes in any case, which is not that of the tests."""
QUICK = ("bert", "roberta", "llama", "modernbert")
"""Families that `make test` exports; `make test-studies` exports the others."""
KEYS = {"num_key_value_heads": 2}
SPECIAL = {
    "longformer": {"attention_window": [4, 8]},
    "big_bird": {"block_size": 2, "num_random_blocks": 1},
    "nystromformer": {"conv_kernel_size": 5},
    "modernbert": {"local_attention": 6},
    "electra": {"embedding_size": 16},
    "gemma3_text": {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"], "head_dim": 16} | KEYS,
    "gemma2": {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"], "head_dim": 16} | KEYS,
    "mistral": KEYS,
    "qwen2": KEYS,
    "qwen3": KEYS | {"head_dim": 16},
    "smollm3": KEYS,
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 8,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "type_vocab_size": 0,
    },
}
AUTO = {"pretrain": "AutoModelForMaskedLM", "finetune": "AutoModelForSequenceClassification"}
AUTO |= {"tag": "AutoModelForTokenClassification"}
ALONE = """
import json, sys
import torch, transformers
from peft import PeftModel
from transformers import AutoConfig, AutoTokenizer
for line in sys.stdin:
    folder, auto, base, texts = json.loads(line)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = getattr(transformers, auto).from_pretrained(base or folder, config=AutoConfig.from_pretrained(folder))
    if base:
        model = PeftModel.from_pretrained(model, folder + "/adapter")
    found = []
    for text in texts:
        inputs = tokenizer(text, truncation=True, return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            found.append([inputs["input_ids"][0].tolist(), model.eval()(**inputs)[0][0].flatten().tolist()])
    assert not any(name == "lib" or name.startswith("lib.") for name in sys.modules)
    name = type(model.base_model.model if base else model).__name__
    print(json.dumps([name, tokenizer.model_max_length, found]), flush=True)
"""


@pytest.fixture(scope="module")
def alone():
    """Return class, length and results of a folder in a process without this project."""
    command = [sys.executable, "-I", "-c", ALONE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as process:

        def ask(folder, auto, texts, base=""):
            process.stdin.write(json.dumps([str(folder), auto, str(base), texts]) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask


def ours(folder, auto, texts):
    """Return the tokens and results of texts by this project."""
    model, tokenizer = open_model(getattr(transformers, auto), folder), TextTokenizer.load(folder)
    ids = tokenizer.encode_ragged(texts, tokenizer.backend.model_max_length)
    with torch.no_grad():
        return [[row, model(torch.tensor([row]))[0][0].flatten().tolist()] for row in ids]


@pytest.fixture(scope="module")
def agree(alone, corpus, tagged):
    """Assert that an exported folder gives the same tokens and results as a model; return its class."""

    def check(folder, out, auto, *, exported_auto=None, base=""):
        data = tagged if auto == AUTO["tag"] else corpus
        texts = pd.read_parquet(data / "test.parquet")["text"].tolist()[:4]  # one of them is cut
        name, longest, found = alone(out, exported_auto or auto, texts, base)
        expected = ours(folder, auto, texts)
        assert longest == 32
        assert [row for row, _ in found] == [row for row, _ in expected]
        exported, tokenizer = AutoConfig.from_pretrained(out), TextTokenizer.load(folder).backend
        for token in ("bos_token_id", "cls_token_id", "eos_token_id", "pad_token_id", "sep_token_id"):
            assert getattr(tokenizer, token) in (None, getattr(exported, token))
        assert max(len(row) for row, _ in found) == 32
        for (_, theirs), (_, own) in zip(found, expected, strict=True):
            assert theirs == pytest.approx(own, abs=1e-6)
        return name

    return check


def backbone(kind, **changes):
    architecture = SIZES | {"model_type": kind, "max_position_embeddings": 64} | SPECIAL.get(kind, {})
    return {"kind": "pretrained", "architecture": architecture} | changes


@pytest.fixture(scope="module")
def padded_by_one(corpus, tmp_path_factory):
    """Settings of runs whose tokeniser pads with the token 1, as MPNet's does."""
    folder = tmp_path_factory.mktemp("padded")
    words = (corpus / "tokenizer" / "vocab.txt").read_text().splitlines()
    words[:2] = reversed(words[:2])
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = from_published(folder, folder / "tokenizer")
    sources = {split: corpus / f"{split}.parquet" for split in ("train", "validation", "test")}
    tokenize_dataset(sources, tokenizer, max_tokens=32, folder=folder / "tokens", lengths=folder / "token_lengths.json")
    return folder


def start(kind, corpus, folder):
    """Save a random model of transformers with the vocabulary of the corpus."""
    tokenizer = TextTokenizer.load(corpus / "tokenizer").backend
    architecture = backbone(kind)["architecture"]
    architecture |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    fields = {FAMILIES[kind].names.get(name, name): value for name, value in architecture.items()}
    torch.manual_seed(2)
    config = AutoConfig.for_model(fields.pop("model_type"), **fields | dict(FAMILIES[kind].switches["bidirectional"]))
    auto = "AutoModelForCausalLM" if "causal" in FAMILIES[kind].switches else "AutoModelForMaskedLM"
    getattr(transformers, auto).from_config(config).save_pretrained(folder)
    return folder


ROWS = {}


@pytest.fixture(scope="module", autouse=True)
def table():
    """Print the result of each family."""
    yield
    print("\n| family | stage | loads | exported as | equal in plain transformers |\n| --- | --- | --- | --- | --- |")
    print("\n".join(f"| {' | '.join(key)} | {' | '.join(row)} |" for key, row in ROWS.items()))


@pytest.mark.parametrize("stage", AUTO)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.study) for kind in FAMILIES]
)
def test_every_family_is_exported_with_equal_results_or_refused(
    kind, stage, agree, run_of, corpus, padded_by_one, tmp_path
):
    changes = {"task": {"classifier_pooling": "cls"}} if stage == "finetune" else {}
    if kind == "mpnet" and stage != "tag":
        corpus = padded_by_one
        splits = ("train", "validation", "test") if stage == "finetune" else ("train", "validation")
        changes |= {
            "tokenizer": str(corpus / "tokenizer"),
            "data": {each: str(corpus / "tokens" / each) for each in splits},
        }
    if stage != "tag":  # whose tokeniser is another one
        changes["start"] = {"checkpoint": str(start(kind, corpus, tmp_path / "start"))}
    train(run_of(stage, model=kind, backbone=backbone(kind), recipe={"epochs": 1}, **changes), tmp_path / "out")
    model, said = tmp_path / "out" / "model", ""
    try:
        export(model, tmp_path / "plain")
    except ConfigError as error:
        ROWS[kind, stage] = "yes", "refused", "-"
        said = str(error)
        assert not (tmp_path / "plain").exists()
        if "--encoder" in said and kind not in OTHER_TOKENS:
            export(model, tmp_path / "plain", encoder=True)
            ROWS[kind, stage] = "yes", f"{agree(model, tmp_path / 'plain', 'AutoModel')} alone", "1e-6"
    else:
        ROWS[kind, stage] = "yes", agree(model, tmp_path / "plain", AUTO[stage]), "1e-6"
    assert ROWS[kind, stage][1].endswith(("refused", "alone")) == any(
        way in said for way in ("import lib", "--encoder")
    )
    if stage == "finetune":
        assert ("ForSequenceClassification" in ROWS[kind, stage][1]) == (kind in DENSE)


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("merge", [True, False])
def test_adapters_fit_the_published_model_that_they_name(merge, quantized, alone, agree, run_of, corpus, tmp_path):
    if quantized and merge:
        pytest.skip("four bits take no merged adapters")
    if quantized:
        pytest.importorskip("bitsandbytes")
    base = start("bert", corpus, tmp_path / "start")
    run = run_of(
        "finetune",
        model="bert",
        backbone=backbone("bert", **{"quantization": "nf4"} if quantized else {}),
        task={"classifier_pooling": "cls"},
        recipe={"epochs": 1, "learning_rate": 1e-2, "lora": {"r": 4, "alpha": 8, "merge": merge}},
        start={"checkpoint": str(base)},
    )
    train(run, tmp_path / "out")
    model, plain = tmp_path / "out" / "model", tmp_path / "plain"
    files = export(model, plain)
    assert ("model.safetensors" in files) == (not quantized)
    settings = json.loads((plain / "adapter" / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == str(base)
    if quantized:  # the base here has other weights, those before their four bits
        assert alone(plain, AUTO["finetune"], ["a"], base)[0] == "BertForSequenceClassification"
    else:
        assert agree(model, plain, AUTO["finetune"]) == "BertForSequenceClassification"
        assert agree(model, plain, AUTO["finetune"], base=base) == "BertForSequenceClassification"
    export(model, tmp_path / "named", base="owner/name")
    settings = json.loads((tmp_path / "named" / "adapter" / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == "owner/name"


@pytest.mark.parametrize(("stage", "kind"), [("finetune", "bert"), ("tag", "llama")])
def test_adapters_fit_with_the_labels_and_the_direction_of_the_run(
    stage, kind, agree, run_of, corpus, tagged, tmp_path
):
    """Three labels, of which the base knows nothing, and a decoder that was opened."""
    base = start(kind, tagged if stage == "tag" else corpus, tmp_path / "start")
    run = run_of(
        stage,
        model=kind,
        backbone=backbone(kind),
        task={"classifier_pooling": "cls"} if stage == "finetune" else {},
        labels=["low", "high", "highest"],
        recipe={"epochs": 1, "learning_rate": 1e-2, "lora": {"r": 4, "alpha": 8}},
        start={"checkpoint": str(base)},
    )
    train(run, tmp_path / "out")
    model, plain = tmp_path / "out" / "model", tmp_path / "plain"
    export(model, plain)
    assert AutoConfig.from_pretrained(plain).num_labels == 3
    agree(model, plain, AUTO[stage])
    agree(model, plain, AUTO[stage], base=base)


def test_longer_positions_are_exported(agree, run_of, corpus, tmp_path):
    longer = backbone("bert", positions={"length": 96, "fill": "tiled"})
    task = {"classifier_pooling": "cls", "classifier_head": "roberta"}
    begin = {"checkpoint": str(start("bert", corpus, tmp_path / "start"))}
    train(
        run_of("finetune", model="bert", backbone=longer, task=task, recipe={"epochs": 1}, start=begin),
        tmp_path / "out",
    )
    export(tmp_path / "out" / "model", tmp_path / "plain")
    assert AutoConfig.from_pretrained(tmp_path / "plain").max_position_embeddings == 96
    agree(tmp_path / "out" / "model", tmp_path / "plain", AUTO["finetune"])


@pytest.mark.parametrize(
    ("kind", "exported"), [("llama", "LlamaForCausalLM"), ("modernbert-decoder", "ModernBertDecoderForCausalLM")]
)
def test_a_causal_decoder_stays_one(kind, exported, agree, run_of, tmp_path):
    causal = backbone(kind, attention="causal")
    train(run_of("pretrain", backbone=causal, task={"kind": "causal_lm"}, recipe={"epochs": 1}), tmp_path / "out")
    model = tmp_path / "out" / "model"
    export(model, tmp_path / "plain")
    name = agree(model, tmp_path / "plain", AUTO["pretrain"], exported_auto="AutoModelForCausalLM")
    assert name == exported


REFUSED = {
    "our own encoder": ({}, {}, "its backbone is of kind encoder, which transformers does not have"),
    "another attention": (
        backbone("bert", mechanism={"kind": "favor", "nb_features": 8}, attention_dropout=0.0),
        {},
        "holds favor in place of the attention of bert",
    ),
    "the mean": (backbone("bert"), {}, "cannot compute its head. Expected classifier_pooling: cls"),
    "no dense layer": (
        backbone("bert"),
        {"classifier_pooling": "cls", "classifier_head": "none"},
        "cannot compute its head. Expected classifier_pooling: cls",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_named_by_the_program_and_the_card(name, run_of, tmp_path):
    chosen, task, message = REFUSED[name]
    train(run_of("finetune", backbone=chosen, task=task, recipe={"epochs": 1}), tmp_path / "out")
    model = tmp_path / "out" / "model"
    with pytest.raises(ConfigError, match=message):
        export(model, tmp_path / "plain")
    assert re.search(message, _without_project(model))
    if chosen == backbone("bert"):
        export(model, tmp_path / "plain", encoder=True)


def test_a_tokeniser_that_cuts_in_its_own_way_is_refused(run_of, tmp_path):
    run = run_of("finetune", backbone=backbone("bert"), task={"classifier_pooling": "cls"}, recipe={"epochs": 1})
    train(run, tmp_path / "out")
    note_cut(tmp_path / "out" / "model", "head_tail")
    with pytest.raises(ConfigError, match="cut is head_tail, but transformers keeps the first tokens"):
        export(tmp_path / "out" / "model", tmp_path / "plain")


def test_a_folder_that_is_there_is_not_overwritten(tmp_path):
    with pytest.raises(ConfigError, match="is there already"):
        export(tmp_path / "model", tmp_path)


def test_minilm_is_read_by_others(alone, run_of, corpus, tmp_path):
    folder = Path(__file__).parents[3] / "shared" / "models" / "minilm"
    if not folder.is_dir():
        pytest.skip("the published model is not next to the repository")
    sources = {split: corpus / f"{split}.parquet" for split in ("train", "validation", "test")}
    tokenizer = TextTokenizer.load(folder)
    tokens = tmp_path / "tokens"
    tokenize_dataset(sources, tokenizer, max_tokens=32, folder=tokens, lengths=tmp_path / "lengths.json")
    architecture = architecture_of(json.loads((folder / "config.json").read_text()))
    run = run_of(
        "finetune",
        model="minilm",
        backbone={"kind": "pretrained", "architecture": architecture},
        task={"classifier_pooling": "cls"},
        tokenizer=str(folder),
        data={split: str(tokens / split) for split in sources},
        recipe={"epochs": 1, "learning_rate": 5e-5},
        start={"checkpoint": str(folder)},
    )
    train(run, tmp_path / "out")
    model, plain, encoder = tmp_path / "out" / "model", tmp_path / "plain", tmp_path / "encoder"
    export(model, plain)
    texts = pd.read_parquet(corpus / "test.parquet")["text"].tolist()[:4]
    for out, auto in ((plain, AUTO["finetune"]), (encoder, "AutoModel")):
        if not out.exists():
            export(model, out, encoder=True)
        _, longest, found = alone(out, auto, texts)
        assert longest == 32
        for (row, theirs), (expected, own) in zip(found, ours(model, auto, texts), strict=True):
            assert row == expected
            assert theirs == pytest.approx(own, abs=1e-5)  # states are up to 10
    if find_spec("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        assert SentenceTransformer(str(encoder)).encode(texts).shape == (4, 384)
