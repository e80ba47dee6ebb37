"""Shared by backbones around an architecture of transformers: embeddings and published weights.

Shapes: B batch, N tokens, E width of a word embedding.
"""

import logging
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import CONFIG_NAME

from lib.core.errors import RunError, first
from lib.core.model_folder import read_fields

logger = logging.getLogger(__name__)

SHOWN = 5
"""Most differing fields that a message names."""


class ArchitecturePreTrainedModel(PreTrainedModel):
    """Base of the models around another one, such as an architecture, whose word embeddings are theirs, too."""

    holds: ClassVar[str] = "inner"
    """Name of the other one in the model without a head."""
    _supports_sdpa = True

    def get_input_embeddings(self) -> nn.Module:
        """Return the word embeddings."""
        return getattr(self.base_model, self.holds).get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word embeddings."""
        getattr(self.base_model, self.holds).set_input_embeddings(value)

    def save_pretrained(self, *arguments: Any, **named: Any) -> None:
        """Save a model as transformers does, its weights by the names that they have here.

        transformers would give those of NomicBERT the names of its authors' code.
        """
        super().save_pretrained(*arguments, **{"save_original_format": False} | named)

    def first_states(self, tokens: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return the word embeddings [B, N, E] of tokens, or those given in their place.

        They are zeros at padding: a weight of zero does not remove NaN or inf.
        """
        states = self.get_input_embeddings()(tokens) if tokens.dim() == 2 else tokens
        return states if attention_mask is None else states.masked_fill(attention_mask[:, :, None] == 0, 0)


def text_fields(folder: Path) -> dict[str, Any]:
    """Return the fields of the configuration of a model, or of the text model in it.

    Raises:
        RunError: it cannot be read.
    """
    fields = read_fields(folder)
    return fields.get("text_config") or fields


def is_published(folder: Path, kinds: Container[str | None]) -> bool:
    """Whether `folder` has an architecture of one of the `kinds` as transformers saves it, and not a model of ours."""
    try:
        return text_fields(folder).get("model_type") in kinds
    except RunError:
        return False


def compare(
    pairs: Mapping[str, tuple[Any, Any]],
    folder: Path,
    remedy: str = "Copy its fields into the backbone's architecture.",
) -> None:
    """Check that fields agree.

    Args:
        pairs: values of the run and of the published model, by field.
        folder: folder of the published model.
        remedy: what to do if they do not.

    Raises:
        RunError: some differ.
    """
    differing = [f"{name} is {own!r}, there {theirs!r}" for name, (own, theirs) in pairs.items() if own != theirs]
    if differing:
        shown = "; ".join(first(differing, SHOWN))
        raise RunError(f"{folder / CONFIG_NAME}: another architecture than the run's ({shown}). {remedy}")


def take_over(own: nn.Module, published: nn.Module) -> None:
    """Copy published parameters into the first rows of our own, which may be longer."""
    for name, source in published.named_parameters():
        target = own.get_parameter(name)
        rows = min(len(target), len(source))
        target.data[:rows] = source.data[:rows].to(target.dtype)


def take_over_words(own: nn.Module, published: nn.Module) -> None:
    """Copy word embeddings; tokens beyond the published vocabulary keep random ones."""
    take_over(own, published)
    if (beyond := len(own.get_parameter("weight")) - len(published.get_parameter("weight"))) > 0:
        logger.info("%d tokens beyond the published vocabulary start from random embeddings", beyond)
