"""Prediction by hand from a folder that is whole, damaged, or of another model."""

import contextlib
import itertools
import json
import math
import os
import runpy
import shutil
import signal

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import pipeline

from lib.core.errors import ConfigError, ProjectError, RunError
from lib.predicting import predict as predicting
from lib.predicting.contract import Reader
from lib.predicting.decisions import Wanted
from lib.predicting.predict import predict
from lib.preparing.labelled import prepare_dataset
from lib.preparing.settings.preparation import Preparation
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_dataset
from lib.training.run import train


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


def fields(folder, file="config.json", **changes):
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def weights(folder, change):
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def cut(folder, name, share):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: int(len(data) * share)])


def other_tokens(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens([f"more{number}" for number in range(9)])
    tokenizer.save(str(folder / "tokenizer.json"))


BILLION = 10**9
DAMAGES = {
    "a tensor gone": (lambda folder: weights(folder, lambda found: dict(list(found.items())[1:])), "1 weights"),
    "NaN": (
        lambda folder: weights(folder, lambda found: {name: each * math.nan for name, each in found.items()}),
        "NaN or inf",
    ),
    "weights that overflow": (
        lambda folder: weights(folder, lambda found: {name: each.sign() * 3e38 for name, each in found.items()}),
        "scores of 40 of 40 documents are NaN or inf",
    ),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "model"),
    "weights cut off": (lambda folder: cut(folder, "model.safetensors", 0.9), "cannot be loaded"),
    "fewer layers": (lambda folder: fields(folder, num_hidden_layers=1), "left over"),
    "a billion layers": (lambda folder: fields(folder, num_hidden_layers=BILLION), "num_hidden_layers"),
    "a wide head": (lambda folder: fields(folder, id2label={n: str(n) for n in range(9)}), "shape"),
    "another kind": (lambda folder: fields(folder, model_type="unheard"), "config.json"),
    "half a tokeniser": (lambda folder: cut(folder, "tokenizer.json", 0.5), "not a tokeniser"),
    "another tokeniser": (other_tokens, "tokenizer.json"),
    "no reader": (lambda folder: (folder / "reader.json").unlink(), "no reader.json"),
    "another task": (lambda folder: fields(folder, "reader.json", task={"kind": "unheard"}), "(?s)reader.json.*task"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_prediction_by_a_damaged_folder(name, copied, corpus, tmp_path):
    damage, message = DAMAGES[name]
    damage(copied)
    with pytest.raises(ProjectError, match=message):
        predict(copied, corpus / "test.parquet", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


CHANGES = {
    "swapped labels": ("config.json", lambda folder: fields(folder, id2label={"0": "high", "1": "low"})),
    "other weights": (
        "model.safetensors",
        lambda folder: weights(folder, lambda found: {name: each / 2 for name, each in found.items()}),
    ),
    "another tokeniser": ("tokenizer.json", other_tokens),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", CHANGES)
def test_prediction_by_a_changed_model(name, trained, corpus, tmp_path):
    run = shutil.copytree(trained("low", "high").parent, tmp_path / "run")
    file, change = CHANGES[name]
    (run / "history.csv").unlink()  # no file of the model
    predict(run / "model", corpus / "test.parquet", tmp_path / "out.csv")
    change(run / "model")
    (tmp_path / "link").symlink_to(run / "model")
    for model in (run / "model", tmp_path / "link"):
        with pytest.raises(RunError, match=f"model/{file}"):
            predict(model, corpus / "test.parquet", tmp_path / "other.csv")
    assert not (tmp_path / "other.csv").exists()


def by_program(*arguments):
    runpy.run_path("scripts/tools/predict.py")["main"]([*map(str, arguments), "--device", "cpu"])


@pytest.mark.extended
def test_columns_of_the_study(trained, run_of, corpus, tmp_path):
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


def test_prediction_in_chunks_and_by_the_pipeline(trained, corpus, tmp_path, monkeypatch):
    model, source = trained("low", "high"), corpus / "test.parquet"
    predict(model, source, tmp_path / "whole.csv")
    monkeypatch.setattr(predicting, "CHUNK", 7)
    predict(model, source, tmp_path / "chunks.csv", batch_size=2)
    whole, chunks = (pd.read_csv(tmp_path / name) for name in ("whole.csv", "chunks.csv"))
    pd.testing.assert_frame_equal(whole, chunks, atol=1e-6, rtol=0)
    classify = pipeline("text-classification", model=str(model), top_k=None)
    documents = pd.read_parquet(source)
    assert whole["id"].tolist() == documents["id"].tolist()
    found = classify(documents["text"].tolist(), truncation=True)
    scores = pd.DataFrame([{each["label"]: each["score"] for each in row} for row in found])[["high", "low"]]
    assert whole["label"].tolist() == scores.idxmax(axis=1).tolist()
    pd.testing.assert_frame_equal(whole[["high", "low"]], scores, atol=1e-5, rtol=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chunks.csv", "whole.csv"]


def test_passages_of_an_encoder(trained, corpus, tmp_path):
    model, documents = trained("low", "high"), pd.read_parquet(corpus / "test.parquet").head(9)
    documents.to_csv(tmp_path / "new.csv", index=False)
    predict(model, tmp_path / "new.csv", tmp_path / "out.csv", passages=2, wanted=Wanted(calibrated=True))
    found = pd.read_csv(tmp_path / "out.csv")["passages"].map(json.loads)
    assert found.map(len).max() > 0
    for text, passages in zip(documents["text"], found, strict=True):
        assert all(text[slice(*each["spans"][0])] == each["text"] for each in passages)
        assert len(passages) <= 2
    fields(shutil.copytree(model, tmp_path / "pairs"), file="reader.json", texts="together")
    with pytest.raises(RunError, match="no passages"):
        predict(tmp_path / "pairs", tmp_path / "new.csv", tmp_path / "none.csv", passages=2)


@pytest.mark.extended
def test_prediction_into_the_documents(trained, tmp_path):
    source = tmp_path / "texts.csv"
    source.write_text("text\nsome words\n")
    (tmp_path / "same.csv").hardlink_to(source)
    for target in (source, tmp_path / "same.csv"):
        with pytest.raises(ConfigError, match="same.csv|texts.csv"):
            predict(trained("low", "high"), source, target)
    assert source.read_text() == "text\nsome words\n"


def test_ids_of_predictions(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(predicting, "CHUNK", 2)
    (tmp_path / "texts.csv").write_text("key,text\nb7,bal del\na3,fil\nx-1,gon gos\n")
    given = ["--model", trained("low", "high"), "--input", tmp_path / "texts.csv", "--out", tmp_path / "out.csv"]
    by_program(*given, "--id", "key")
    assert pd.read_csv(tmp_path / "out.csv")["id"].tolist() == ["b7", "a3", "x-1"]
    by_program(*given)
    assert pd.read_csv(tmp_path / "out.csv")["id"].tolist() == ["texts-0", "texts-1", "texts-2"]


@pytest.mark.extended
def test_pairs_for_a_model_of_single_texts(copied, tmp_path):
    (tmp_path / "texts.csv").write_text("text,second\nbal del,gon\n")
    with pytest.raises(RunError, match="single texts"):
        predict(copied, tmp_path / "texts.csv", tmp_path / "out.csv", pair_column="second")
    fields(copied, file="reader.json", texts="together")
    with pytest.raises(RunError, match="--pair-column"):
        predict(copied, tmp_path / "texts.csv", tmp_path / "out.csv")


@pytest.mark.extended
def test_texts_beyond_the_positions(run_of, corpus, tmp_path):
    backbone = {"position_embedding_type": "learned", "max_position_embeddings": 64}
    train(run_of("finetune", backbone=backbone, recipe={"epochs": 1}), tmp_path / "run")
    with pytest.raises(ConfigError, match="max_tokens = 65"):
        predict(tmp_path / "run/model", corpus / "test.parquet", tmp_path / "out.csv", max_tokens=65)
    predict(tmp_path / "run/model", corpus / "test.parquet", tmp_path / "out.csv", max_tokens=64)


def predict_until_killed(model, source, target, chunk):
    """Predict in another process, which is killed before a chunk."""
    torch.set_num_threads(1)  # other threads do not live in a fork
    if not (pid := os.fork()):
        rows, numbers = Reader.answers, itertools.count()

        def answers(*given):
            if next(numbers) == chunk:
                os.kill(os.getpid(), signal.SIGKILL)
            return rows(*given)

        Reader.answers = answers
        with contextlib.suppress(BaseException):
            predict(model, source, target)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("change", ["nothing", "document"])
def test_killed_prediction_that_resumes(change, trained, corpus, tmp_path, monkeypatch):
    model, source, target = trained("low", "high"), tmp_path / "texts.csv", tmp_path / "out.csv"
    documents = pd.read_parquet(corpus / "test.parquet")[["text"]]
    documents.to_csv(source, index=False)
    monkeypatch.setattr(predicting, "CHUNK", 9)
    predict_until_killed(model, source, target, chunk=2)
    assert not target.exists()
    assert len(list((tmp_path / ".out.csv.parts").glob("*.csv"))) == 2
    if change == "document":
        documents = pd.concat([documents, documents.tail(1)])
        documents.to_csv(source, index=False)
    sizes, rows = [], Reader.answers
    monkeypatch.setattr(
        Reader, "answers", lambda self, chunk, told: sizes.append(len(chunk)) or rows(self, chunk, told)
    )
    predict(model, source, target)
    assert sum(sizes) == len(documents) - (18 if change == "nothing" else 0)
    assert not (tmp_path / ".out.csv.parts").exists()
    predict(model, source, tmp_path / "other.csv")
    assert target.read_bytes() == (tmp_path / "other.csv").read_bytes()
