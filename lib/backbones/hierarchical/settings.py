"""Settings of the encoder that reads a document in segments."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from lib.attention.settings import Mechanisms
from lib.backbones.settings import BACKBONES, BackboneSettings
from lib.core.settings import Few, Probability, Size, SizeOrZero, check

ENCLOSING = 2
"""Special tokens of a segment where its tokeniser is not known yet: [CLS] and [SEP]."""


def _of_encoder(name: str) -> Any:
    """Return a property of settings that is the encoder's, or a method of the encoder's settings."""
    return property(lambda self: getattr(self.encoder, name))


class Settings(BackboneSettings):
    """An encoder reads a document in overlapping segments, and the head combines their vectors."""

    own_heads: ClassVar[tuple[str, ...]] = ("sequence_classification",)
    per_token: ClassVar[bool] = False
    takes_pairs: ClassVar[bool] = False  # a segment does not show its text of the pair

    kind: Literal["hierarchical"] = "hierarchical"
    # No section for the reference of settings, which would describe backbones inside backbones.
    encoder: Annotated[Any, BeforeValidator(BACKBONES.parse)]
    """Name of the backbone of the study that reads each segment. If it is a published model, models read by its
    tokeniser and start from its weights."""
    segment: Size = Field(512, ge=3)
    """Tokens of a segment at most, its own [CLS] and [SEP] included. A longer document is cut into as few segments as
    hold it, all of the same length."""
    overlap: SizeOrZero = 64
    """Tokens of a segment that the one before has as well."""
    pooling: Literal["mean", "max", "transformer"] = "mean"
    """How the vectors of the segments, each pooled from its tokens by the task's `classifier_pooling`, become the
    vector of the document: `mean` or `max` of each dimension, or `transformer`, whose layers read the segments in their
    order before the mean is taken (ToBERT)."""
    document_layers: Few = 2
    """`transformer`: its layers."""
    document_heads: Few = 4
    """`transformer`: its attention heads."""
    document_dropout: Probability = 0.1
    """`transformer`: dropout in its layers."""
    group: Few = 8
    """Segments that are read at once, of all documents of a batch. Memory grows with it; a training reads a group again
    for its gradients, if there are several. It changes no result but by the draws of dropout."""

    takes_mechanism: ClassVar[Any] = _of_encoder("takes_mechanism")
    needs_mechanism: ClassVar[Any] = _of_encoder("needs_mechanism")
    held_mechanisms: ClassVar[Any] = _of_encoder("held_mechanisms")
    looks_ahead: ClassVar[Any] = _of_encoder("looks_ahead")  # within a segment
    quantized: ClassVar[Any] = _of_encoder("quantized")
    linear_layers: ClassVar[Any] = _of_encoder("linear_layers")  # everything above the encoder is head, and trains
    width: ClassVar[Any] = _of_encoder("width")
    blocks: ClassVar[Any] = _of_encoder("blocks")
    weights: ClassVar[Any] = _of_encoder("weights")

    @check
    def _segments_go_on(self) -> Iterator[str]:
        if self.overlap > (most := self.segment - ENCLOSING - 1):
            yield f"overlap = {self.overlap}: a segment would bring no new token. Expected at most {most}"

    @check
    def _encoder_reads_segments(self) -> Iterator[str]:
        inner = self.encoder
        if "states" not in inner.abilities or inner.own_heads or not BACKBONES.has(inner.kind, "model"):
            yield f"encoder: a backbone of kind {inner.kind} gives no states of tokens. Name an encoder"
        elif (reach := inner.longest()) is not None and self.segment > reach:
            yield f"segment = {self.segment}, but the encoder reads {reach} tokens at most. Lower it"

    @check
    def _settings_of_the_transformer_have_one(self) -> Iterator[str]:
        width = self.width()
        if self.pooling == "transformer" and width is not None and width % self.document_heads:
            yield f"document_heads = {self.document_heads} does not divide the width {width}. Choose a divisor"

    def with_mechanism(self, mechanism: Mechanisms | None) -> "Settings":
        """See `BackboneSettings.with_mechanism`: its encoder holds the mechanisms."""
        return type(self).model_validate(dict(self) | {"encoder": self.encoder.with_mechanism(mechanism)})

    @property
    def held_backbone(self) -> BackboneSettings:
        """See `BackboneSettings.held_backbone`."""
        return self.encoder

    @property
    def family(self) -> str:
        """The family of the encoder, in segments."""
        return f"{self.encoder.family}, segments"

    def exact_up_to(self) -> int | None:
        """See `BackboneSettings.exact_up_to`: any number, if segments are short enough for the encoder.

        If they are not, some longer documents are still cut into segments that are.
        """
        reach = self.encoder.exact_up_to()
        return None if reach is None or self.segment <= reach else reach

    def takeover_errors(self, before: BackboneSettings) -> Iterator[str]:
        """See `BackboneSettings.takeover_errors`: its weights, or those of an encoder alone."""
        if not isinstance(before, Settings):
            yield from self.encoder.takeover_errors(before)
            return
        yield from self.encoder.takeover_errors(before.encoder)
        if "transformer" in (self.pooling, before.pooling):
            for name in ("pooling", "document_layers", "document_heads"):
                own, found = getattr(self, name), getattr(before, name)
                if own != found:
                    yield f"{name} is {own}, but the weights come from {found}"

    def products_per_token(self, tokens: int, predicted_share: float) -> float:
        """See `BackboneSettings.products_per_token`: tokens in two segments count twice."""
        repeated = self.segment / (self.segment - ENCLOSING - self.overlap) if tokens > self.segment else 1.0
        return repeated * self.encoder.products_per_token(min(tokens, self.segment), predicted_share)
