"""How much of a text a model reads, and how many texts a document has."""

from typing import Annotated, Literal

from pydantic import Field

from lib.core.settings import LARGE

MaxTokens = Annotated[int, Field(ge=2, le=10 * LARGE)]
"""Tokens that a document is cut to, [CLS] and [SEP] included."""

Cut = Literal["head", "head_tail"]
"""Part that is kept of a text with more tokens than a model reads."""

Texts = Literal["single", "together", "separately"]
"""How a model reads documents: each is one text, or a pair of texts as one sequence, or each text of a pair by itself.
"""
