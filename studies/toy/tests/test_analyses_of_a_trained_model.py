"""Looking into a small trained model: what is computed is what the model does, before and after training."""

import runpy

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from lib.analysis.computations import heads
from lib.core.errors import ConfigError, DataError
from lib.core.extensions import ROOT
from lib.training.run import train
from studies.toy.analysis.computations import attention_maps, embeddings, gradients

pytestmark = pytest.mark.extended

PROGRAM = runpy.run_path(str(ROOT / "scripts/analyse.py"))
WORD = "fol"  # in five test documents of each class
LABELS = ["low", "high"]


@pytest.fixture(scope="module")
def trained(run_of, tmp_path_factory):
    """Folder of a fine-tuning."""
    folder = tmp_path_factory.mktemp("runs") / "sdpa"
    backbone = {"mechanism": {"kind": "sdpa"}, "initializer_range": 0.1}
    train(run_of("finetune", backbone=backbone, recipe={"epochs": 4, "learning_rate": 3e-3}), folder)
    return folder


@pytest.fixture
def subject(trained, corpus):
    return PROGRAM["load_subject"](*map(str, (trained, corpus / "tokenizer", corpus / "tokens/test")))


def test_maps_by_transformers(subject, trained):
    frame = attention_maps.analyse(subject, document=2)
    ids = subject.tokens[2]["input_ids"]
    assert len(frame) == 2 * 2 * 2 * len(ids) ** 2
    assert frame.groupby(["when", "layer", "head", "query"])["weight"].sum().to_numpy() == pytest.approx(1, abs=1e-5)
    model = AutoModelForSequenceClassification.from_pretrained(trained / "model").eval()
    with torch.no_grad():
        maps = model.base_model(torch.tensor([ids]), output_attentions=True).attentions
    after = frame[frame["when"] == "after"]
    for layer, head in ((0, 1), (1, 0)):
        part = after[(after["layer"] == layer) & (after["head"] == head)]
        found = part.pivot(index="query", columns="key", values="weight").to_numpy()
        assert found == pytest.approx(maps[layer][0, head].numpy(), abs=1e-6)
    tokens = subject.tokenizer.convert_ids_to_tokens(ids)
    assert after.drop_duplicates("query")["query_token"].tolist() == tokens
    assert after.drop_duplicates("key")["key_token"].tolist() == tokens
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")


def test_heads_of_one_document(subject):
    maps = attention_maps.analyse(subject, document=0).query("when == 'after'")
    found = heads.analyse(subject, documents=1, length=99, window=2).set_index(["layer", "head"])
    assert len(found) == 4
    ends = [0, maps["key"].max()]
    for place, head in maps.groupby(["layer", "head"]):
        weights = head.pivot(index="query", columns="key", values="weight").to_numpy()
        entropy = -(weights * np.log(weights)).sum(axis=1).mean()
        assert found.loc[place, "entropy"] == pytest.approx(entropy, rel=1e-4)
        assert found.loc[place, "itself"] == pytest.approx(np.diag(weights).mean(), rel=1e-4)
        assert found.loc[place, "special"] == pytest.approx(weights[:, ends].sum(axis=1).mean(), rel=1e-4)
        assert found.loc[place, ["special", "near", "far"]].sum() == pytest.approx(1, rel=1e-4)
        assert found.loc[place, ["documents", "window"]].tolist() == [1, 2]


def test_gradients_of_long_documents(subject):
    lengths = subject.tokens["length"][:]
    length = sorted(lengths)[-5]
    frame = gradients.analyse(subject, documents=200, tokens="documents", length=length)
    assert set(frame["sequences"]) == {sum(found >= length for found in lengths)}
    assert frame["when"].unique().tolist() == ["before", "after"]
    assert (frame["gradient_norm"] > 0).all()
    assert (frame.loc[frame["distance"] == 0, "relative"] == 1).all()
    before, after = (part["gradient_norm"].to_numpy() for _, part in frame.groupby("when", sort=False))
    assert not np.allclose(before, after)


def test_contextual_states(subject):
    frame = embeddings.analyse(subject, documents=200, word=WORD, labels=LABELS)
    static, contextual = (frame[frame["representation"] == name] for name in ("static", "contextual"))
    documents = dict(zip(subject.tokens["id"][:], subject.tokens["label"][:], strict=True))
    assert contextual["label"].tolist() == [LABELS[documents[name]] for name in contextual["document"]]
    assert static["document"].tolist() == contextual["document"].tolist()
    assert not static[["x", "y"]].to_numpy().any()
    assert static[["silhouette", "accuracy"]].drop_duplicates().to_numpy() == pytest.approx(
        np.array([[0, 0.5]]), abs=0.1
    )
    assert contextual["silhouette"].iloc[0] > 0.5
    assert contextual["accuracy"].iloc[0] > 0.9
    assert contextual["x"].var() > contextual["y"].var() > 0


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (attention_maps, {"document": 40}, "document = 40: there are 40 documents, counted from 0"),
        (embeddings, {"word": "xyzzy"}, r"word = 'xyzzy': is \[.*\] to the tokeniser, expected one token"),
    ],
)
def test_analyses_refused(subject, kind, options, message):
    if kind is embeddings:
        options = {"documents": 200, "labels": LABELS, **options}
    with pytest.raises((ConfigError, DataError), match=message):
        kind.analyse(subject, **options)
