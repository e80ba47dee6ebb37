"""Exported models give the same results in transformers alone, in a process that cannot import this project."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from transformers import AutoConfig, AutoTokenizer

from lib.backbones.onnx_model import measure, save_onnx
from lib.backbones.pretrained import export as exporting
from lib.backbones.pretrained.export import DENSE
from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.stored import open_model
from lib.core import errors
from lib.core.errors import ConfigError, RunError
from lib.predicting.predict import predict
from lib.tokens.cutting import note_cut
from lib.tokens.stored import load_tokens
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_dataset
from lib.tokens.vocabularies import from_published
from lib.training.evaluate import evaluate
from lib.training.run import train
from lib.workflow.commands.exporting import export, export_onnx
from lib.workflow.commands.sharing import _without_project

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
OTHER_TOKENS = ("qwen2", "qwen3")
"""Families whose own tokeniser transformers takes in any case, which is not that of the tests."""
"""Families that `make test` exports; `make test-studies` exports the others."""
KEYS = {"num_key_value_heads": 2}
DISTANCES = {"relative_attention": True, "position_buckets": 8, "position_biased_input": False, "type_vocab_size": 0}
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
    "deberta-v2": DISTANCES | {"pos_att_type": ["p2c", "c2p"]},
}
AUTO = {"pretrain": "AutoModelForMaskedLM", "finetune": "AutoModelForSequenceClassification"}
AUTO |= {"tag": "AutoModelForTokenClassification"}
ALONE = """
import json, sys
sys.path.extend(sys.argv[1:])
import torch, transformers
from peft import PeftModel
from transformers import AutoConfig, AutoTokenizer
for line in sys.stdin:
    folder, auto, base, texts = json.loads(line)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if auto == "SentenceTransformer":
        from sentence_transformers import SentenceTransformer
        model = SentenceTransformer(folder, device="cpu")
        size = 1 if model[0].config.model_type in ("big_bird", "nystromformer") else 4
        scores = model.encode(texts, batch_size=size).tolist()
        found = [[tokenizer(text, truncation=True).input_ids for text in texts], scores]
        assert not any(name == "lib" or name.startswith("lib.") for name in sys.modules)
        print(json.dumps([auto, model.max_seq_length, list(zip(*found))]), flush=True)
        continue
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
    package = find_spec("sentence_transformers")
    command = [sys.executable, "-I", "-c", ALONE, *([str(Path(package.origin).parents[1])] if package else [])]
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
        exported_auto = "SentenceTransformer" if (out / "modules.json").exists() else exported_auto or auto
        if exported_auto == "SentenceTransformer" and not find_spec("sentence_transformers"):
            pytest.skip("without sentence-transformers: make .venv/.all")
        name, longest, found = alone(out, exported_auto, texts, base)
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


def assert_exported(kind, stage, agree, run_of, corpus, padded_by_one, tmp_path):
    """Fail unless a model of a family is exported with equal results, or is refused by what is missing."""
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
    model, said, name = tmp_path / "out" / "model", "", ""
    try:
        export(model, tmp_path / "plain")
    except ConfigError as error:
        said = str(error)
        assert not (tmp_path / "plain").exists()
        assert "import lib" in said or "--encoder" in said or kind in OTHER_TOKENS
        if "--encoder" in said and kind not in OTHER_TOKENS:
            export(model, tmp_path / "plain", encoder=True)
            agree(model, tmp_path / "plain", "AutoModel")
    else:
        name = agree(model, tmp_path / "plain", AUTO[stage])
    if stage == "finetune":
        assert ("ForSequenceClassification" in name) == (kind in DENSE)
        assert (name == "SentenceTransformer") == (kind not in DENSE and (tmp_path / "plain").exists())


def test_exported_family_in_plain_transformers(agree, run_of, corpus, tmp_path):
    """It knows its classes by their names."""
    assert_exported("bert", "finetune", agree, run_of, corpus, None, tmp_path)
    assert AutoConfig.from_pretrained(tmp_path / "plain").id2label == {0: "low", 1: "high"}


@pytest.mark.extended
@pytest.mark.parametrize(
    ("kind", "pooling", "head"),
    [("bert", "mean", "bert"), ("bert", "max", "roberta"), ("modernbert", "cls", "none"), ("llama", "mean", "bert")],
)
def test_exported_classifier_in_sentence_transformers(kind, pooling, head, agree, run_of, tmp_path):
    task = {"classifier_pooling": pooling, "classifier_head": head}
    train(run_of("finetune", backbone=backbone(kind), task=task, recipe={"epochs": 1}), tmp_path / "out")
    model, plain = tmp_path / "out" / "model", tmp_path / "plain"
    export(model, plain)
    assert agree(model, plain, AUTO["finetune"]) == "SentenceTransformer"
    assert AutoConfig.from_pretrained(plain).id2label == {0: "low", 1: "high"}
    assert "in this order: low, high." in (plain / "README.md").read_text()
    assert "makes a `SentenceTransformer` of sentence-transformers." in _without_project(model)


def test_export_refused_with_other_pooling(run_of, tmp_path, monkeypatch):
    train(run_of("finetune", backbone=backbone("bert"), recipe={"epochs": 1}), tmp_path / "out")
    write = exporting.write_modules
    monkeypatch.setattr(exporting, "write_modules", lambda out, name, *others: write(out, "max", *others))
    with pytest.raises(RunError, match="SentenceClassifier computes other results"):
        export(tmp_path / "out" / "model", tmp_path / "plain")
    assert not (tmp_path / "plain").exists()


@pytest.mark.extended
@pytest.mark.parametrize(("kind", "stage"), [("llama", "pretrain"), ("roberta", "tag"), ("modernbert", "pretrain")])
def test_exported_families_of_other_stages(kind, stage, agree, run_of, corpus, tmp_path):
    assert_exported(kind, stage, agree, run_of, corpus, None, tmp_path)


@pytest.mark.study
@pytest.mark.parametrize("stage", AUTO)
def test_exported_family(stage, agree, run_of, corpus, padded_by_one, tmp_path):
    for kind in FAMILIES:
        assert_exported(kind, stage, agree, run_of, corpus, padded_by_one, tmp_path / kind)


@pytest.mark.extended
@pytest.mark.parametrize(("merge", "quantized"), [(True, False), (False, True)])
def test_exported_adapters_on_their_base(merge, quantized, alone, agree, run_of, corpus, tmp_path):
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


@pytest.mark.extended
@pytest.mark.parametrize(
    ("kind", "exported"), [("llama", "LlamaForCausalLM"), ("modernbert-decoder", "ModernBertDecoderForCausalLM")]
)
def test_exported_causal_decoder(kind, exported, agree, run_of, tmp_path):
    causal = backbone(kind, attention="causal")
    train(run_of("pretrain", backbone=causal, task={"kind": "causal_lm"}, recipe={"epochs": 1}), tmp_path / "out")
    model = tmp_path / "out" / "model"
    export(model, tmp_path / "plain")
    name = agree(model, tmp_path / "plain", AUTO["pretrain"], exported_auto="AutoModelForCausalLM")
    assert name == exported


@pytest.mark.extended
def test_published_classifier_of_several_classes_in_and_out(agree, run_of, sets, corpus, tmp_path):
    """Without a recipe it gives the probabilities of transformers; trained on, it goes back to its class there."""
    names = {"id2label": {0: "low", 1: "high"}, "problem_type": "multi_label_classification"}
    tokenizer = TextTokenizer.load(corpus / "tokenizer").backend
    config = AutoConfig.for_model("bert", **SIZES, max_position_embeddings=64, vocab_size=len(tokenizer), **names)
    torch.manual_seed(3)
    published = transformers.BertForSequenceClassification(config).eval()
    torch.nn.init.normal_(published.classifier.weight)
    for weight in published.bert.encoder.parameters():
        weight.data *= 4  # so that the first token depends on the others
    published.save_pretrained(tmp_path / "published")
    sets = sets | {"task": sets["task"] | {"classifier_pooling": "cls"}}
    start = {"start": {"checkpoint": str(tmp_path / "published")}, "backbone": backbone("bert")} | sets
    evaluate(run_of("finetune", **start, recipe=None), tmp_path / "as_it_is")
    found = pd.read_parquet(tmp_path / "as_it_is/predictions.parquet").query("split == 'test'").set_index("id")
    for row in load_tokens(sets["data"]["test"]):
        with torch.no_grad():
            expected = published(torch.tensor([row["input_ids"]])).logits[0].sigmoid()
        assert found["probabilities"][row["id"]] == pytest.approx(expected.numpy(), abs=1e-6)
    assert found["prediction"].map(len).max() > 0
    predict(tmp_path / "as_it_is", corpus / "test.parquet", tmp_path / "out.csv", id="id", device="cpu")
    said = pd.read_csv(tmp_path / "out.csv", index_col="id", dtype={"low": np.float32, "high": np.float32})
    assert (said.loc[found.index, ["low", "high"]] == np.stack(found["probabilities"])).all(axis=None)
    with pytest.raises(RunError, match="published.*id2label"):
        evaluate(run_of("finetune", **start | {"recipe": None, "labels": ["high", "low"]}), tmp_path / "refused")
    train(run_of("finetune", **start, recipe={"epochs": 1}), tmp_path / "out")
    export(tmp_path / "out/model", tmp_path / "plain")
    assert agree(tmp_path / "out/model", tmp_path / "plain", AUTO["finetune"]) == "BertForSequenceClassification"
    assert AutoConfig.from_pretrained(tmp_path / "plain").problem_type == "multi_label_classification"


@pytest.fixture
def with_onnx():
    """The packages of the extra."""
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason=f"without {package}: make .venv/.all")


MODELS = ["torch", "model.onnx", "model_int8.onnx"]


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_exported_onnx(kind, with_onnx, run_of, tmp_path):
    import onnxruntime

    train(run_of("finetune", backbone=backbone(kind), recipe={"epochs": 1}), tmp_path / "out")
    model, plain = tmp_path / "out" / "model", tmp_path / "onnx"
    files = export_onnx(model, plain)
    assert {"README.md", "config.json", "model.onnx", "model_int8.onnx", "tokenizer.json"} <= {*files}
    assert AutoConfig.from_pretrained(model).id2label == {0: "low", 1: "high"}
    card = (plain / "README.md").read_text()
    assert "in this order: low, high." in card
    assert "on 40 documents, one at a time," in card
    assert [line.split("|")[1].strip() for line in card.splitlines() if line.startswith("| ")][1:] == MODELS
    texts = ["a", "b c d e", " ".join("abcdefgh" * 20)]
    tokens = AutoTokenizer.from_pretrained(plain)(texts, padding=True, truncation=True, return_tensors="np")
    inputs = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    own = open_model(transformers.AutoModelForSequenceClassification, model)
    with torch.no_grad():
        expected = own(**{name: torch.from_numpy(each) for name, each in inputs.items()}).logits.softmax(-1)
    for name, tolerance in zip(MODELS[1:], (1e-5, 0.1), strict=True):
        scores = onnxruntime.InferenceSession(plain / name).run(None, inputs)[0]
        assert torch.tensor(scores).softmax(-1).numpy() == pytest.approx(expected.numpy(), abs=tolerance)


@pytest.mark.extended
def test_changed_labels_of_onnx(with_onnx, run_of, tmp_path):
    train(run_of("finetune", backbone=backbone("bert"), recipe={"epochs": 1}), tmp_path / "out")
    model = open_model(transformers.AutoModelForSequenceClassification, tmp_path / "out" / "model")
    save_onnx(model, tmp_path)
    documents = [[2, number, 3] for number in range(5, 45)]
    same = measure(model, tmp_path, documents)
    assert same["other labels than torch"][1] == 0
    model.head[-1].weight.data *= -1
    model.head[-1].bias.data *= -1
    other = measure(model, tmp_path, documents)
    assert other["other labels than torch"].tolist()[:2] == [0, 40]
    assert other["interval [%]"].tolist()[:2] == ["0.00 to 8.76", "91.24 to 100.00"]  # Wilson's, 0 and 40 of 40
    assert (other["documents per second"].astype(float) > 0).all()


@pytest.mark.extended
def test_onnx_refused_without_export_of_torch(with_onnx, run_of, tmp_path):
    train(run_of("finetune", recipe={"epochs": 1}), tmp_path / "out")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ConfigError, match="empty.txt: holds no document"):
        export_onnx(tmp_path / "out" / "model", tmp_path / "onnx", tmp_path / "empty.txt")
    with pytest.raises(ConfigError, match="torch cannot export its computation"):
        export_onnx(tmp_path / "out" / "model", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_onnx_refused_without_its_extra_or_classes(run_of, tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    for stage, error, match in (("finetune", RunError, r"\[onnx\]"), ("pretrain", ConfigError, "does not classify")):
        train(run_of(stage, recipe={"epochs": 1}), tmp_path / stage)
        with pytest.raises(error, match=match):
            export_onnx(tmp_path / stage / "model", tmp_path / "onnx")
        assert not (tmp_path / "onnx").exists()


FAVOR = {"kind": "favor", "nb_features": 8}
OTHERS = {
    "our own encoder": ({}, {}, "of kind encoder"),
    "another attention": (backbone("bert", mechanism=FAVOR, attention_dropout=0.0), {}, "holds favor"),
    "another pooling": (backbone("bert"), {"classifier_pooling": "min"}, "pools by min"),
    "its own cut": (backbone("bert"), {"classifier_pooling": "cls"}, "head_tail"),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", OTHERS)
def test_models_that_transformers_does_not_have(name, run_of, tmp_path):
    chosen, task, named = OTHERS[name]
    train(run_of("finetune", backbone=chosen, task=task, recipe={"epochs": 1}), tmp_path / "out")
    model = tmp_path / "out" / "model"
    if name == "its own cut":
        note_cut(model, "head_tail")
    with pytest.raises(ConfigError, match=named):
        export(model, tmp_path / "plain")
    assert not (tmp_path / "plain").exists()
    if name != "its own cut":
        assert named in _without_project(model)
