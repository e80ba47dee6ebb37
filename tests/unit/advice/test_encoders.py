"""Published encoders of the table: their sizes, how one is chosen, and vectors by each of their families."""

import json

import numpy as np
import pytest
import torch
from loopback import COMMIT
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM

from lib.advice.encoders import ENCODERS, encoder_within
from lib.reading.hub_files import download_model, download_tokenizer
from lib.tokens.vocabularies import train_wordpiece

TRAINED = [encoder for encoder in ENCODERS.values() if not encoder.static]
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
    assert round(weights / 1e6, 1) == encoder.millions


@pytest.mark.parametrize(
    ("seconds", "kind", "name"),
    [
        (2_000, {"frozen": True}, "gte-modernbert-base"),
        (2_000, {}, "ettin-150m"),
        (300, {"frozen": True}, "minilm"),
        (300, {}, "ettin-32m"),
        (10, {"frozen": True}, "potion-8m"),
        (1, {}, "ettin-17m"),
        (300, {"labelled": False}, "ettin-32m"),
        (2_000, {"multilingual": True}, "mmbert-small"),
    ],
)
def test_encoder_that_reads_a_thousand_documents_in_time(seconds, kind, name):
    kind = {"labelled": True, "multilingual": False, "frozen": False} | kind
    assert encoder_within(seconds, 1_000, **kind).name == name


def test_page_shows_the_table(repository):
    shown = (repository / "docs/published_models.md").read_text(encoding="utf-8")
    for encoder in ENCODERS.values():
        reach = "all" if encoder.static else f"{encoder.reach:,}"
        languages = "English" if encoder.languages == 1 else f"{encoder.languages:,}"
        pinned = "no" if encoder.place.get("unpinned") else "yes"
        facts = [encoder.year, encoder.millions, reach, languages, encoder.licence, pinned, encoder.pooling]
        cells = [f"`{encoder.name}`", f"`{encoder.title}`", *map(str, facts), f"{encoder.seconds:g}"]
        assert f"| {' | '.join(cells)} |\n" in shown
