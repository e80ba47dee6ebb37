"""The question of a user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lib.preparing.settings.sources import Dialect

LIMITS = (512, 1024, 2048, 4096, 8192, 16_384)
"""Tokens that documents are cut to."""


@dataclass(frozen=True)
class Question:
    """A question about own texts.

    Args:
        study: file of the study whose mechanisms are compared.
        texts: files, or patterns of files.
        column: column of the text; None = it is found.
        label: column of the label; None = it is found, if there is one.
        labelled: whether there may be labels.
        by: column whose values are in one split each; `none` = there is none; None = the one that leaks most, if any.
        dialect: how text files are written; None = as by default, but for the delimiter, which is found.
        device: `auto`, `cpu` or `cuda`.
        vocabulary: a vocab.txt whose tokens are counted; None = the tokens of the encoder.
        limits: tokens that documents may be cut to; None = the usual ones, up to the first that loses nothing.
        seconds: about as long as the answer may take.
        minutes: CPU time that the study may take; None = any.
        encoder: folders of published encoders. The first that can be trained is fine-tuned, all are read without
            training; None = those of the hub.
    """

    study: str
    texts: Sequence[str]
    column: str | None = None
    label: str | None = None
    labelled: bool = True
    by: str | None = None
    dialect: Dialect | None = None
    device: str = "auto"
    vocabulary: str | None = None
    limits: Sequence[int] | None = None
    seconds: float = 110.0
    minutes: float | None = None
    encoder: Sequence[str] | None = None
