"""A published model's name stands for a backbone, a tokeniser and first weights."""

import contextlib
import json
from pathlib import Path

import pytest
from small_studies import RECIPE, reviews

from lib.core.errors import ConfigError, DownloadError, ProjectError
from lib.study.configuration import load_study
from lib.workflow.planning.plan import Plan

BERT = {
    "model_type": "bert",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "vocab_size": 100,
}
BYSTANDERS = {"architectures": ["BertModel"], "position_embedding_type": "absolute", "is_decoder": False}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(BERT | BYSTANDERS))
    return str(tmp_path)


def study(published, models=None, **experiment):
    imdb = reviews(200, 32)
    work = {"task": {"kind": "sequence_classification"}, "recipe": RECIPE, "data": {"imdb": {}}}
    values = {
        "seeds": [1],
        "published": {"bert": published},
        "datasets": {"imdb": imdb},
        "stages": {"finetune": work},
        "models": models or {"row": {"backbone": "bert"}},
    }
    return load_study([("test.yaml", {"experiment": values | experiment})])


def test_backbone_tokeniser_and_weights_of_a_published_name(folder):
    (run,) = study({"folder": folder}).runs
    assert run.backbone.architecture == BERT
    assert run.tokenizer == "bert"
    assert run.start.folder == folder


def test_config_of_a_repository_is_of_its_commit(folder, monkeypatch):
    asked = []

    def read(repository, *, revision):
        asked.append((repository, revision))
        return BERT

    monkeypatch.setattr("lib.reading.hub_files.read_config", read)
    found = study({"repository": "owner/bert", "revision": COMMIT})
    (run,), tokenizer = found.runs, found.experiment.tokenizers["bert"]
    assert asked == [("owner/bert", COMMIT)]
    assert (tokenizer.source, tokenizer.repository, tokenizer.revision) == ("hub", "owner/bert", COMMIT)
    assert (run.start.repository, run.start.revision) == ("owner/bert", COMMIT)


INDEX = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
VOCABULARY = {"vocab.txt": "[UNK]"}
SHARDS = VOCABULARY | {"model.safetensors.index.json": json.dumps(INDEX), "model-00001-of-00002.safetensors": ""}
WHOLE = VOCABULARY | {"model.safetensors": ""}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (VOCABULARY | {"tf_model.h5": ""}, "neither model.safetensors nor pytorch_model.bin"),
        (SHARDS, "lacks model-00002-of-00002.safetensors"),
        (SHARDS | {"model.safetensors.index.json": "{}"}, "index.json"),
        (WHOLE | {"adapter_config.json": "{}"}, "adapter_config.json"),
        ({"model.safetensors": ""}, "no tokenizer.json"),
        (WHOLE | {"tokenizer_config.json": '{"tokenizer_class": "BertTokenizer"}'}, None),
    ],
)
def test_folder_that_no_run_can_open_is_refused(files, message, folder):
    for name, text in files.items():
        Path(folder, name).write_text(text)
    plan = Plan(study({"folder": folder}))
    with pytest.raises(ProjectError, match=message) if message else contextlib.nullcontext():
        plan.check()


def test_names_of_fields_of_a_family_are_understood(tmp_path):
    """Those that change no state, as every cross-encoder and sentence encoder has them, are no part of a run."""
    own = {"model_type": "distilbert", "dim": 16, "hidden_dim": 32, "n_layers": 1, "n_heads": 2}
    sizes = {"max_position_embeddings": 64, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(own | sizes | {"tie_weights_": True, "qa_dropout": 0.1}))
    (run,) = study({"folder": str(tmp_path)}).runs
    assert run.backbone.architecture == BERT | {"model_type": "distilbert"}
    harmless = {"sentence_transformers": {"version": "4.1.0"}, "tokenizer_class": "BertTokenizer"}
    (tmp_path / "config.json").write_text(json.dumps(BERT | harmless | {"model_max_length": 512}))
    (run,) = study({"folder": str(tmp_path)}).runs
    assert run.backbone.architecture == BERT


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (None, "published.bert: its config.json"),
        (BERT | {"quantization_config": {"quant_method": "awq"}}, "quantization_config = .*'awq'"),
        (BERT | {"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key'"),
        (BERT | {"auto_map": {"AutoModel": "modeling_own.OwnModel"}}, "auto_map = OwnModel"),
        ({"model_type": "resnet"}, "model_type = 'resnet'"),
        ({"model_type": "t5", "d_model": 16, "is_encoder_decoder": True}, "'t5'.* encoder_"),
        ({"hidden_size": 16, "architectures": ["BertModel"]}, "no model_type. .*bert"),
        ([{"idx": 0, "name": "0"}], "holds list"),
    ],
)
def test_config_that_transformers_does_not_follow_is_refused(fields, message, tmp_path):
    if fields is not None:
        (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(ConfigError, match=message) as caught:
        study({"folder": str(tmp_path)})
    assert "experiment.published.bert: its config.json" in str(caught.value)
    assert str(caught.value).count("\n- ") == 1


def test_repository_that_does_not_answer_or_may_move_is_refused(monkeypatch):
    def read(*_, **__):
        raise DownloadError("the hub cannot be reached.")

    monkeypatch.setattr("lib.reading.hub_files.read_config", read)
    with pytest.raises(ConfigError, match=r"published\.bert: .*backbones\.bert"):
        study({"repository": "owner/bert", "revision": COMMIT})
    with pytest.raises(ConfigError, match=r"test\.yaml: experiment\.published\.bert: .*commit"):
        study({"repository": "owner/bert", "revision": "main"})


def test_mechanism_takes_the_place_of_its_attention(folder):
    found = study(
        {"folder": folder},
        {"row": {"backbone": "bert"}, "swapped": {"backbone": "bert", "mechanism": "favor-m8"}},
        mechanisms={"favor-m8": {"kind": "favor", "nb_features": 8}},
        backbones={"bert": {"attention_dropout": 0.0}},
    )
    settings = {run.id.model: json.loads(run.settings)["backbone"] for run in found.runs}
    assert settings["swapped"].pop("mechanism")["nb_features"] == 8
    assert settings["swapped"] == settings["row"]
