"""Published encoders that are advised, and the recipe to fine-tune one."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError
from lib.core.files import read_mapping
from lib.study.hub import with_published

UNLIMITED = 2**20
"""Tokens that an encoder without a limit is said to read."""

BATCH_SIZE, STEPS = 16, 250
"""Documents per optimiser step, and optimiser steps that a training has, at least, if the most epochs allow it."""

EPOCHS = (3, 20)
"""Epochs of a training, at least and at most. Source: Mosbach et al. (2021), who take 20 for small datasets."""

RATES = ((50e6, 1.0e-4), (300e6, 5.0e-5), (math.inf, 2.0e-5))
"""Learning rates of encoders with fewer weights than this, embeddings included.

Only the first was measured here, with MiniLM. The others are of the range in Devlin et al. (2019), BERT, appendix A.3.
"""


@dataclass(frozen=True)
class PublishedEncoder:
    """An encoder with exact attention, on the hub or in a folder.

    Args:
        name: name of its model in a study.
        place: of weights and tokeniser, as a configuration says it: repository and revision, or folder.
        architecture: what its `config.json` changes from the defaults of transformers.
        pooling: how its authors make a vector of a text: `mean` or `first` token.
        head: whether it was published with the head that predicts masked words.
        facts: year of publication, millions of weights without a head, number of languages (1 is English), licence, and
            CPU seconds that one core takes for a document of 400 words; none of a folder of the user.
    """

    name: str
    place: Mapping[str, str]
    architecture: Mapping[str, Any]
    pooling: Literal["mean", "first"] = "mean"
    head: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Its repository, or its folder."""
        return next(iter(self.place.values()))

    @property
    def reach(self) -> int:
        """Tokens that it reads."""
        return UNLIMITED if self.static else self.parameters().longest() or UNLIMITED

    @property
    def static(self) -> bool:
        """Whether it has a vector per token and no architecture, as model2vec has; it cannot be trained further."""
        return self.architecture["model_type"] == "model2vec"

    @property
    def reader(self) -> dict[str, Any]:
        """Its entry in `experiment.encoders`, where it reads without training."""
        return {**self.place, "pooling": self.pooling}

    def parameters(self) -> Any:
        """Return the parameters of its backbone."""
        return BACKBONES.parse({"kind": "pretrained", "architecture": dict(self.architecture)})

    def recipe(self, documents: int, *, labelled: bool) -> dict[str, Any]:
        """Return the recipe to train it with; the epoch with the best score on validation is kept if `labelled`.

        Args:
            documents: number of training documents.
            labelled: whether it gets a head with random weights, which learns faster than the encoder.
        """
        epochs = min(max(EPOCHS[0], math.ceil(STEPS / math.ceil(documents / BATCH_SIZE))), EPOCHS[1])
        rate = next(rate for weights, rate in RATES if self.parameters().weights(0) < weights)
        recipe = {"epochs": epochs, "learning_rate": rate, "min_lr_ratio": 0.0, "batch_size": BATCH_SIZE}
        return recipe | {"warmup_ratio": 0.1} | ({"head_lr_multiplier": 10.0} if labelled else {})


ENCODERS = {
    name: PublishedEncoder(name, **values) for name, values in read_mapping(Path(__file__).with_suffix(".yaml")).items()
}
"""Encoders of the hub by name, those that are advised first before the others."""

SMALL, MASKED, MULTILINGUAL = (ENCODERS[name] for name in ("minilm", "bert", "xlm-r"))
"""The small one has no head for masked language modelling, so it is only for labelled texts."""


def published_encoder(*, labelled: bool, multilingual: bool, folder: str | None = None) -> PublishedEncoder:
    """Return the encoder to start from: the one in `folder`, or one of the hub.

    Raises:
        ConfigError: the folder holds no encoder of a known family.
    """
    if folder is None:
        return MULTILINGUAL if multilingual else SMALL if labelled else MASKED
    name = re.sub("[^A-Za-z0-9.-]", "-", Path(folder).resolve().name).strip(".-")
    name = f"{name}-encoder".strip("-") if name in ("", "tfidf") else name  # no other row has it
    place = {"folder": str(Path(folder))}
    try:
        backbone = with_published({"published": {name: place}})["backbones"][name]
        found = PublishedEncoder(name, place, backbone["architecture"])
        found.parameters()
    except ValueError as error:
        said = f"{folder}: no encoder to start from ({' '.join(str(error).split())})."
        raise ConfigError(f"{said} Name the folder of a published one.") from error
    return found
