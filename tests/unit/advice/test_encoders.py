"""Published encoders of the table: their sizes, how one is chosen, and vectors by each of their families."""

import csv
import json
import logging
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from loopback import COMMIT
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM

from lib.advice.encoders import ENCODERS
from lib.backbones.pretrained.hub_weights import load_published
from lib.backbones.settings import BACKBONES
from lib.backbones.text_encoder import open_encoder
from lib.core.weights import EncoderSettings
from lib.reading.hub_files import download_model, download_tokenizer
from lib.study.configuration import SHIPPED, load_study, read_layers
from lib.tasks.settings import TASKS
from lib.tokens.vocabularies import train_wordpiece

TEXTS = ["Padding changes none of these.", "a", "Another text, which is longer than the first one. " * 9]


@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)
def test_architecture_has_the_published_number_of_weights(encoder):
    size = encoder.architecture
    if encoder.static:
        weights = size["vocab_size"] * size["hidden_size"]
    else:
        with torch.device("meta"):
            model = AutoModel.from_config(AutoConfig.for_model(**size))
        weights = sum(weight.numel() for weight in model.parameters())
    assert round(weights / 1e6, 1) == encoder.facts["millions"]


def test_page_and_its_csv_show_the_table(repository):
    page = (repository / "docs/published_models.md").read_text(encoding="utf-8")
    table = (repository / "docs/tables/published_models-which_encoder.csv").read_text(encoding="utf-8")
    for encoder, row in zip(ENCODERS.values(), csv.DictReader(table.splitlines()), strict=True):
        reach = "all" if encoder.static else f"{encoder.reach:,}"
        facts = encoder.facts
        languages = "English" if facts["languages"] == 1 else f"{facts['languages']:,}"
        pinned = "no" if encoder.place.get("unpinned") else "yes"
        known = [facts["year"], facts["millions"], reach, languages, facts["licence"], pinned, encoder.pooling]
        assert [*row.values()] == [encoder.name, encoder.title, *map(str, known), f"{facts['seconds']:g}"]
        shown = [row[key] for key in ("weights [millions]", "tokens", "languages", "seconds")]
        assert f"| `{encoder.name}` | {' | '.join(shown)} |\n" in page


def test_study_of_the_table_says_the_same():
    experiment = load_study(read_layers([SHIPPED["encoders.yaml"]])).experiment
    expected = {encoder.name: EncoderSettings(**encoder.reader, max_tokens=512) for encoder in ENCODERS.values()}
    assert experiment.encoders == expected
    for name in experiment.published:
        encoder = ENCODERS[name]
        assert experiment.published[name].model_dump(exclude_unset=True) == encoder.place
        assert experiment.backbones[name].architecture == encoder.architecture
        assert encoder.recipe(1_000, labelled=True) == experiment.stages["classify"].recipe
    assert {f"{each}-frozen" for each in ENCODERS} <= experiment.models.keys()


PUBLISHED = {
    "modernbert": {"global_attn_every_n_layers": 3, "global_rope_theta": 160_000.0, "local_attention": 128},
    "eurobert": {"rope_scaling": None, "num_key_value_heads": 12, "tie_word_embeddings": False},
}
"""Fields that published files have although the table leaves them out, or that transformers keeps only if given."""


@pytest.fixture
def published(request, site, tmp_path, monkeypatch):
    """Put an encoder of the table on the hub, and return it and the folder of what is fetched.

    It has random weights of its widths, but fewer layers and words, since files would be large.
    """
    encoder, source = ENCODERS[request.param], tmp_path / "source"
    tokenizer = train_wordpiece(source, TEXTS, vocab_size=90).backend
    fewer = {"vocab_size": len(tokenizer), "num_hidden_layers": 2, "pad_token_id": tokenizer.pad_token_id}
    auto = AutoModelForMaskedLM if encoder.head else AutoModel
    model = auto.from_config(AutoConfig.for_model(**encoder.architecture | fewer))
    model.save_pretrained(source)
    fields = encoder.architecture | PUBLISHED.get(encoder.architecture["model_type"], {}) | fewer
    (source / "config.json").write_text(json.dumps(fields))
    if encoder.name == "ettin-17m":  # its commit has only these weights
        (source / "model.safetensors").unlink()
        torch.save(model.state_dict(), source / "pytorch_model.bin")
    site.models[encoder.title] = {path.name: path.read_bytes() for path in source.iterdir() if path.is_file()}
    address = f"{site.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", address)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    for download, folder in ((download_model, "model"), (download_tokenizer, "tokenizer")):
        download(encoder.title, tmp_path / folder, revision=COMMIT)
    shutil.copy(tmp_path / "tokenizer/tokenizer.json", tmp_path / "model")
    return encoder, tmp_path / "model", tokenizer


@pytest.mark.extended
@pytest.mark.parametrize(
    "published", ["ettin-17m", "mmbert-small", "eurobert-210m", "bge-small", "xlm-r"], indirect=True
)
def test_encoder_of_the_hub_reads_and_can_be_trained(published, caplog):
    encoder, folder, tokenizer = published
    vectors = open_encoder(folder, EncoderSettings(**encoder.reader, segment=64)).vectors(TEXTS)
    assert vectors.shape == (3, encoder.architecture["hidden_size"])
    assert np.isfinite(vectors).all()
    assert len({*map(bytes, vectors)}) == 3
    fewer = {"vocab_size": len(tokenizer), "num_hidden_layers": 2}
    settings = replace(encoder, architecture={**encoder.architecture, **fewer}).parameters()
    kind = "masked_lm" if encoder.head else "sequence_classification"
    labels = None if encoder.head else ["no", "yes"]
    task = TASKS.load(kind, "task").Task(TASKS.parse({"kind": kind}), labels=labels, seed=0)
    backbone = BACKBONES.load("pretrained", "backbone").Backbone(settings, seed=0)
    with caplog.at_level(logging.INFO):
        load_published(task.model(backbone.config(tokenizer, task.model_options())), folder)
    assert "holds no head" not in caplog.text
