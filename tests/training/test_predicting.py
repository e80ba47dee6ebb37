"""Prediction by hand from a folder that is whole, damaged, or of another model."""

import contextlib
import itertools
import json
import math
import os
import runpy
import shutil
import signal

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import BertConfig, BertForSequenceClassification, pipeline

from lib.backbones import faster as onednn
from lib.core import program
from lib.core.errors import ConfigError, DataError, ProjectError, RunError
from lib.preparing.labelled import prepare_dataset
from lib.preparing.settings.preparation import Preparation
from lib.preparing.settings.sources import Dialect
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_dataset
from lib.training import predict as predicting
from lib.training.predict import predict
from lib.training.predictor import Predictor, assemble, load_split, predict_splits
from lib.training.run import train
from lib.workflow.commands.sharing import _require_whole


@pytest.fixture(scope="module")
def trained(run_of, tmp_path_factory):
    """Return the model folder of a fine-tuning whose classes are named."""
    folder = tmp_path_factory.mktemp("trained")

    def make(*labels):
        out = folder / "-".join(labels)
        if not out.exists():
            train(run_of("finetune", labels=list(labels), recipe={"epochs": 1}), out)
        return out / "model"

    return make


@pytest.fixture
def copied(trained, tmp_path):
    """The copy of a model folder, to be damaged."""
    return shutil.copytree(trained("low", "high"), tmp_path / "model")


def fields(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def weights(folder, change):
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def cut(folder, name, share):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: int(len(data) * share)])


def flipped(folder, place):
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[place] ^= 255
    (folder / "model.safetensors").write_bytes(data)


def other_tokens(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([f"more{number}" for number in range(9)])
    tokenizer.save(str(folder / "tokenizer.json"))


BILLION = 10**9
DAMAGES = {
    "no tensors": (lambda folder: weights(folder, lambda _: {}), "config.json: describes a model of more than"),
    "a tensor gone": (
        lambda folder: weights(folder, lambda found: dict(list(found.items())[1:])),
        "1 weights are missing or left over",
    ),
    "NaN": (
        lambda folder: weights(folder, lambda found: {name: each * math.nan for name, each in found.items()}),
        "weights are NaN or inf",
    ),
    "weights that overflow": (
        lambda folder: weights(folder, lambda found: {name: each.sign() * 3e38 for name, each in found.items()}),
        "scores of the document .* are NaN or inf",
    ),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "model"),
    "weights cut off": (lambda folder: cut(folder, "model.safetensors", 0.9), "cannot be loaded"),
    "weights almost empty": (lambda folder: cut(folder, "model.safetensors", 0), "describes a model of more than"),
    "a flipped length": (lambda folder: flipped(folder, 2), "cannot be loaded"),
    "a flipped header": (lambda folder: flipped(folder, 9), "cannot be loaded"),
    "a folder as weights": (
        lambda folder: [(folder / "model.safetensors").unlink(), (folder / "model.safetensors").mkdir()],
        "holds neither model.safetensors nor|describes a model of more than|cannot be loaded",
    ),
    "fewer layers": (lambda folder: fields(folder, num_hidden_layers=1), "left over"),
    "more layers": (lambda folder: fields(folder, num_hidden_layers=3), "missing|more than"),
    "a billion layers": (lambda folder: fields(folder, num_hidden_layers=BILLION), "num_hidden_layers"),
    "a billion wide": (
        lambda folder: fields(folder, intermediate_size=BILLION),
        "cannot make a model of it.*intermediate_size",
    ),
    "a wide head": (
        lambda folder: fields(folder, id2label={n: str(n) for n in range(9)}),
        "another shape than config.json gives them",
    ),
    "no number of layers": (lambda folder: fields(folder, num_hidden_layers="two"), "config.json: transformers"),
    "another kind": (lambda folder: fields(folder, model_type="unheard"), "config.json: transformers cannot make"),
    "no fields": (lambda folder: (folder / "config.json").write_text("[]"), "config.json: cannot be read"),
    "no JSON": (lambda folder: cut(folder, "config.json", 0.5), "config.json: cannot be read"),
    "no configuration": (lambda folder: (folder / "config.json").unlink(), "config.json: cannot be read"),
    "no tokeniser": (lambda folder: (folder / "tokenizer.json").unlink(), "not a tokeniser .No such file"),
    "no settings of it": (lambda folder: (folder / "tokenizer_config.json").unlink(), "not a tokeniser"),
    "half a tokeniser": (lambda folder: cut(folder, "tokenizer.json", 0.5), "not a tokeniser"),
    "another tokeniser": (other_tokens, r"tokenizer\.json: has \d+ tokens, but the model has embeddings for"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder_answers_nothing(name, copied, corpus, tmp_path):
    damage, message = DAMAGES[name]
    damage(copied)
    with pytest.raises(ProjectError, match=message):
        predict(copied, corpus / "test.parquet", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


CHANGES = {
    "another epsilon": ("config.json", lambda folder: fields(folder, layer_norm_eps=0.1)),
    "other heads": ("config.json", lambda folder: fields(folder, num_attention_heads=4)),
    "swapped labels": ("config.json", lambda folder: fields(folder, id2label={"0": "high", "1": "low"})),
    "other weights": (
        "model.safetensors",
        lambda folder: weights(folder, lambda found: {name: each / 2 for name, each in found.items()}),
    ),
    "another tokeniser": ("tokenizer.json", other_tokens),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_model_that_is_not_what_its_run_left_answers_nothing(name, trained, corpus, tmp_path):
    run = shutil.copytree(trained("low", "high").parent, tmp_path / "run")
    file, change = CHANGES[name]
    (run / "history.csv").unlink()  # no file of the model
    predict(run / "model", corpus / "test.parquet", tmp_path / "out.csv")
    change(run / "model")
    (tmp_path / "link").symlink_to(run / "model")
    for model in (run / "model", tmp_path / "link"):
        with pytest.raises(RunError, match=f"run: model/{file} is not what the run left"):
            predict(model, corpus / "test.parquet", tmp_path / "other.csv")
    assert not (tmp_path / "other.csv").exists()


def by_program(*arguments):
    runpy.run_path("scripts/tools/predict.py")["main"]([*map(str, arguments), "--device", "cpu"])


def test_a_file_of_a_model_that_fails_while_it_is_read_is_named(copied, corpus, tmp_path, caplog):
    (copied / "tokenizer.json").unlink()
    (copied / "tokenizer.json").symlink_to("/proc/self/mem")  # whose first byte cannot be read, as of a damaged disk
    given = ["--model", copied, "--input", corpus / "test.parquet", "--out", tmp_path / "out.csv"]
    assert program.run(lambda _: by_program(*given), []) == 1
    assert caplog.messages[-1].startswith(f"{copied / 'tokenizer.json'}: cannot be used (Input/output error)")


def test_the_columns_of_the_study_are_read_where_the_documents_have_them(trained, run_of, corpus, tmp_path):
    splits = ("train", "validation", "test")
    frame = pd.concat([pd.read_parquet(corpus / f"{split}.parquet") for split in splits])
    frame = frame.rename(columns={"text": "review"}).assign(text="bal", answer=frame["text"].str.upper())
    frame.to_csv(tmp_path / "all.csv", index=False)
    data = tmp_path / "data" / "toy"
    for pair in (None, "answer"):
        shutil.rmtree(data, ignore_errors=True)
        preparation = Preparation(text="review", text_pair=pair, labels=["low", "high"])
        prepare_dataset({"all": [tmp_path / "all.csv"]}, data / "prepared", preparation)
        tokenize_dataset(
            {split: data / "prepared" / f"{split}.parquet" for split in splits},
            TextTokenizer.load(corpus / "tokenizer"),
            max_tokens=32,
            folder=data / "tokens" / "bert",
            lengths=data / "tokens" / "bert" / "token_lengths.json",
        )
        run = run_of(
            "finetune", data={split: str(data / "tokens" / "bert" / split) for split in splits}, recipe={"epochs": 1}
        )
        out = tmp_path / f"run-{pair}"
        train(run, out)
        predict(out / "model", tmp_path / "all.csv", tmp_path / "own.csv")
        predict(out / "model", tmp_path / "all.csv", tmp_path / "named.csv", column="review", pair_column=pair)
        assert (tmp_path / "own.csv").read_bytes() == (tmp_path / "named.csv").read_bytes()
        frame[["text", "answer"]].to_csv(tmp_path / "plain.csv", index=False)
        predict(out / "model", tmp_path / "plain.csv", tmp_path / "plain-out.csv")
        scores = pd.read_csv(tmp_path / "plain-out.csv")["high"]
        assert (scores.nunique() > 1) == (pair is not None)


def test_a_class_is_no_formula_of_a_spreadsheet(trained, corpus, tmp_path):
    predict(trained("=1+2", "-1"), corpus / "test.parquet", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert list(found) == ["id", "label", "-1", "'=1+2"]
    assert set(found["label"]) <= {"-1", "'=1+2"}


def test_predictions_go_to_the_standard_output(trained, corpus, tmp_path, capfd, monkeypatch):
    given = ["--model", trained("low", "high"), "--input", corpus / "test.parquet", "--out"]
    by_program(*given, tmp_path / "out.csv")
    capfd.readouterr()
    by_program(*given, "-")
    assert capfd.readouterr().out == (tmp_path / "out.csv").read_text()


def test_documents_without_text_are_predicted_and_counted(trained, tmp_path, caplog):
    (tmp_path / "texts.csv").write_text("text,number\nbal del,1\n  ,2\n,3\n")
    predict(trained("low", "high"), tmp_path / "texts.csv", tmp_path / "out.csv")
    assert len(pd.read_csv(tmp_path / "out.csv")) == 3
    assert "2 documents without text" in caplog.text


def without_limit(model, folder):
    """Return a copy of a model whose tokeniser has no limit, as transformers writes it."""
    path = shutil.copytree(model, folder) / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": 1e30}))
    return folder


def test_a_tokeniser_without_a_limit_cuts_nothing(trained, corpus, tmp_path):
    model = without_limit(trained("low", "high"), tmp_path / "model")
    predict(model, corpus / "test.parquet", tmp_path / "all.csv")
    predict(model, corpus / "test.parquet", tmp_path / "expected.csv", max_tokens=100)
    all_, expected = (pd.read_csv(tmp_path / name) for name in ("all.csv", "expected.csv"))
    pd.testing.assert_frame_equal(all_, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "labels", [("id", "label"), ("label", "probability_label"), ("probability_id", "id"), ("prediction", "x")]
)
def test_classes_called_like_columns_keep_these_columns(labels, trained, corpus, tmp_path):
    model, documents = trained(*labels), pd.read_parquet(corpus / "test.parquet")
    predict(model, corpus / "test.parquet", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv")
    assert found["id"].tolist() == documents["id"].tolist()
    assert set(found["label"]) <= set(labels)
    prefix = "probability_" if {"id", "label"} & set(labels) else ""
    assert list(found) == ["id", "label", *sorted(f"{prefix}{label}" for label in labels)]
    scores = found[[f"{prefix}{label}" for label in labels]].to_numpy()
    assert scores.sum(axis=1) == pytest.approx(np.ones(len(found)), abs=1e-5)
    assert [labels[place] for place in scores.argmax(axis=1)] == found["label"].tolist()


def test_scores_that_are_not_finite_are_no_predictions_where_no_label_tells(copied, run_of):
    weights(copied, lambda found: {name: each.sign() * 3e38 for name, each in found.items()})
    run = run_of("finetune")
    task, backbone, tokenizer, model = assemble(run)
    backbone.load_weights(model, copied, with_head=True)
    splits = {name: load_split(run.data[name]) for name in ("validation", "test")}
    unlabelled = {name: split.map(lambda _: {"label": None}, features=split.features) for name, split in splits.items()}
    predictor = Predictor(run, task, model, tokenizer)
    with pytest.raises(RunError, match="validation: the scores of 40 of 40 documents are NaN or inf"):
        predict_splits(predictor, unlabelled)


def test_only_a_model_that_others_can_use_is_shared(copied):
    _require_whole(copied, "sequence_classification")
    (copied / "tokenizer.json").rename(copied / "away.json")
    with pytest.raises(DataError, match="not a tokeniser .*Expected tokenizer.json"):
        _require_whole(copied, "sequence_classification")
    weights(copied, lambda found: dict(list(found.items())[:-1]))
    with pytest.raises(RunError, match="1 weights are missing"):
        _require_whole(copied, "sequence_classification")


def test_chunks_are_predicted_as_the_whole_file_is_and_as_the_pipeline_of_transformers_does(
    trained, corpus, tmp_path, monkeypatch
):
    model, source = trained("low", "high"), corpus / "test.parquet"
    predict(model, source, tmp_path / "whole.csv")
    monkeypatch.setattr(predicting, "CHUNK", 7)
    predict(model, source, tmp_path / "chunks.csv", batch_size=2)
    whole, chunks = (pd.read_csv(tmp_path / name) for name in ("whole.csv", "chunks.csv"))
    pd.testing.assert_frame_equal(whole, chunks, atol=1e-6, rtol=0)
    classify = pipeline("text-classification", model=str(model), top_k=None)
    documents = pd.read_parquet(source)
    assert whole["id"].tolist() == documents["id"].tolist()
    for row, scores in zip(
        whole.to_dict("records"), classify(documents["text"].tolist(), truncation=True), strict=True
    ):
        assert row["label"] == max(scores, key=lambda each: each["score"])["label"]
        assert {each["label"]: each["score"] for each in scores} == pytest.approx(
            {label: row[label] for label in ("low", "high")}, abs=1e-5
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chunks.csv", "whole.csv"]


def test_a_file_is_read_by_its_dialect(trained, corpus, tmp_path):
    model, texts = trained("low", "high"), pd.read_parquet(corpus / "test.parquet")["text"].head(9)
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    texts.to_frame().to_csv(plain, index=False)
    texts.map(lambda text: f"é {text}").to_frame().to_csv(other, sep=";", index=False, encoding="cp1252")
    with pytest.raises(DataError, match=r"dialect"):
        predict(model, other, tmp_path / "out.csv")
    predict(model, other, tmp_path / "out.csv", dialect=Dialect(delimiter=";", encoding="cp1252"))
    predict(model, plain, tmp_path / "expected.csv")
    out, expected = (pd.read_csv(tmp_path / name) for name in ("out.csv", "expected.csv"))
    assert (out.columns.tolist(), len(out)) == (expected.columns.tolist(), len(texts))


def test_documents_are_not_replaced_by_their_predictions(trained, tmp_path):
    source = tmp_path / "texts.csv"
    source.write_text("text\nsome words\n")
    (tmp_path / "same.csv").hardlink_to(source)
    for target in (source, tmp_path / "same.csv"):
        with pytest.raises(ConfigError, match="is read as well"):
            predict(trained("low", "high"), source, target)
    assert source.read_text() == "text\nsome words\n"


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("name", ["absent.csv", os.fsdecode(b"b\xfccher.csv")])
def test_documents_that_cannot_be_read_leave_what_was_there(trained, tmp_path, there, name):
    target = tmp_path / "out.csv"
    if there:
        target.write_text("before")
    if name != "absent.csv":
        (tmp_path / name).write_text("text\nsome words\n")
    with pytest.raises(DataError, match="FileNotFoundError|is not UTF-8.*Rename it"):
        predict(trained("low", "high"), tmp_path / name, target)
    assert {path.name for path in tmp_path.iterdir()} - {name} == ({"out.csv"} if there else set())
    assert not there or target.read_text() == "before"


def test_a_column_that_is_missing_is_named_with_the_options(trained, tmp_path):
    (tmp_path / "texts.csv").write_text("review\nsome words\n")
    with pytest.raises(DataError, match="has no column 'text'; it has 'review'.*--column.*--id.*--dialect"):
        predict(trained("low", "high"), tmp_path / "texts.csv", tmp_path / "out.csv")


def test_ids_are_those_of_the_file_and_else_numbers(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(predicting, "CHUNK", 2)
    (tmp_path / "texts.csv").write_text("key,text\nb7,bal del\na3,fil\nx-1,gon gos\n")
    given = ["--model", trained("low", "high"), "--input", tmp_path / "texts.csv", "--out", tmp_path / "out.csv"]
    by_program(*given, "--id", "key")
    assert pd.read_csv(tmp_path / "out.csv")["id"].tolist() == ["b7", "a3", "x-1"]
    by_program(*given)
    assert pd.read_csv(tmp_path / "out.csv")["id"].tolist() == ["texts-0", "texts-1", "texts-2"]


def test_without_documents_there_is_a_header(trained, tmp_path):
    """All documents are dropped, since they have bytes of another encoding."""
    (tmp_path / "texts.csv").write_bytes(b"text\ncaf\xe9\n")
    dialect = Dialect(encoding_errors="drop")
    predict(trained("low", "high"), tmp_path / "texts.csv", tmp_path / "out.csv", dialect=dialect)
    assert (tmp_path / "out.csv").read_text() == "id,label,high,low\n"


def test_a_model_of_single_texts_is_not_given_pairs(copied, tmp_path):
    """A model that does not say what it was trained on, as of an earlier version, is given what the user names."""
    (tmp_path / "texts.csv").write_text("text,second\nbal del,gon\n")
    with pytest.raises(RunError, match="was trained on single texts"):
        predict(copied, tmp_path / "texts.csv", tmp_path / "out.csv", pair_column="second")
    path = copied / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    assert settings.pop("texts") == "single"
    path.write_text(json.dumps(settings))
    predict(copied, tmp_path / "texts.csv", tmp_path / "out.csv", pair_column="second")
    assert len(pd.read_csv(tmp_path / "out.csv")) == 1
    path.write_text(json.dumps(settings | {"texts": "together"}))
    with pytest.raises(RunError, match="was trained on pairs of texts.*--pair-column"):
        predict(copied, tmp_path / "texts.csv", tmp_path / "out.csv")


def test_a_classifier_of_transformers_is_left_to_its_pipeline(tmp_path, corpus):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    BertForSequenceClassification(BertConfig(vocab_size=9, **sizes)).save_pretrained(tmp_path / "bert")
    with pytest.raises(RunError, match="is a model of transformers, which its pipeline reads"):
        predict(tmp_path / "bert", corpus / "test.parquet", tmp_path / "out.csv")


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "no device"])
def test_a_device_that_is_not_there_is_named(device, trained, corpus, tmp_path):
    with pytest.raises(RunError, match=f"device {device}: cannot be used"):
        predict(trained("low", "high"), corpus / "test.parquet", tmp_path / "out.csv", device=device)


def test_texts_beyond_the_positions_of_a_model_are_refused(run_of, corpus, tmp_path):
    backbone = {"position_embedding_type": "learned", "max_position_embeddings": 64}
    train(run_of("finetune", backbone=backbone, recipe={"epochs": 1}), tmp_path / "run")
    with pytest.raises(ConfigError, match="max_tokens = 65, but .*model reads at most 64"):
        predict(tmp_path / "run/model", corpus / "test.parquet", tmp_path / "out.csv", max_tokens=65)
    predict(tmp_path / "run/model", corpus / "test.parquet", tmp_path / "out.csv", max_tokens=64)
    predict(without_limit(tmp_path / "run/model", tmp_path / "copy"), corpus / "test.parquet", tmp_path / "copy.csv")
    assert (tmp_path / "copy.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


@contextlib.contextmanager
def predicting_elsewhere(model, source, target, status, before_chunk):
    """Predict in another process, which calls a function with the number of each chunk, and ends with a status."""
    torch.set_num_threads(1)  # other threads do not live in a fork
    if not (pid := os.fork()):
        rows, numbers = predicting.Classifier.rows, itertools.count()
        predicting.Classifier.rows = lambda *given: (before_chunk(next(numbers)), rows(*given))[1]
        with contextlib.suppress(BaseException):
            predict(model, source, target)
            os._exit(0)
        os._exit(1)
    try:
        yield
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert ended == status


def test_a_second_prediction_into_a_file_is_refused_until_the_first_has_ended(trained, corpus, tmp_path, monkeypatch):
    model, source, target = trained("low", "high"), corpus / "test.parquet", tmp_path / "out.csv"
    monkeypatch.setattr(predicting, "CHUNK", 9)
    begun, ended = os.pipe(), os.pipe()

    def wait(number):
        os.write(begun[1], b"-")
        assert os.read(ended[0], 1)

    with predicting_elsewhere(model, source, target, 0, wait):
        for _ in range(3):
            assert os.read(begun[0], 1)
            with pytest.raises(RunError, match=r"out\.csv: another process predicts into it"):
                predict(model, source, target)
            os.write(ended[1], b"-")
        os.write(ended[1], b"--")
    predict(model, source, tmp_path / "other.csv")
    assert target.read_bytes() == (tmp_path / "other.csv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.csv", "out.csv"]


def test_a_part_that_has_gone_is_not_left_out(trained, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(predicting, "CHUNK", 9)
    rows = predicting.Classifier.rows

    def losing(*given):
        for part in tmp_path.glob(".out.csv.parts/000001.csv"):
            part.unlink()
        return rows(*given)

    monkeypatch.setattr(predicting.Classifier, "rows", losing)
    with pytest.raises(FileNotFoundError, match=r"000001\.csv"):
        predict(trained("low", "high"), corpus / "test.parquet", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("change", ["nothing", "document", "argument"])
def test_a_killed_prediction_resumes_if_nothing_has_changed(change, trained, corpus, tmp_path, monkeypatch):
    model, source, target = trained("low", "high"), tmp_path / "texts.csv", tmp_path / "out.csv"
    documents = pd.read_parquet(corpus / "test.parquet")[["text"]]
    documents.to_csv(source, index=False)
    monkeypatch.setattr(predicting, "CHUNK", 9)
    with predicting_elsewhere(
        model, source, target, -signal.SIGKILL, lambda number: number == 2 and os.kill(os.getpid(), signal.SIGKILL)
    ):
        pass
    assert not target.exists()
    assert len(list((tmp_path / ".out.csv.parts").glob("*.csv"))) == 2
    if change == "document":
        documents = pd.concat([documents, documents.tail(1)])
        documents.to_csv(source, index=False)
    sizes, rows = [], predicting.Classifier.rows
    monkeypatch.setattr(
        predicting.Classifier, "rows", lambda self, chunk, done: sizes.append(len(chunk)) or rows(self, chunk, done)
    )
    predict(model, source, target, batch_size=4 if change == "argument" else 8)
    assert sum(sizes) == len(documents) - (18 if change == "nothing" else 0)
    assert not (tmp_path / ".out.csv.parts").exists()
    predict(model, source, tmp_path / "other.csv", batch_size=4 if change == "argument" else 8)
    assert target.read_bytes() == (tmp_path / "other.csv").read_bytes()


def test_predictions_by_onednn_are_those_of_torch(trained, corpus, tmp_path, monkeypatch):
    model, source = trained("low", "high"), corpus / "test.parquet"
    monkeypatch.setattr(onednn, "LEAST", 0)
    monkeypatch.setattr(onednn, "_faster", lambda: True)
    assert any(isinstance(layer, onednn.Linear) for layer in predicting.Classifier(model, device="cpu").model.modules())
    predict(model, source, tmp_path / "onednn.csv", device="cpu")
    monkeypatch.setattr(predicting, "use_onednn", lambda model: None)
    predict(model, source, tmp_path / "torch.csv", device="cpu")
    found, expected = (pd.read_csv(tmp_path / name) for name in ("onednn.csv", "torch.csv"))
    pd.testing.assert_frame_equal(found, expected, atol=1e-6, rtol=0)
