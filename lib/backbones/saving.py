"""Saving of models by the names of their own modules."""

from typing import Any


class SavesOwnNames:
    """Mixin in front of `PreTrainedModel`, for models that hold an architecture of transformers."""

    def save_pretrained(self, *arguments: Any, **named: Any) -> None:
        """Save a model as transformers does, its weights by the names that they have here.

        transformers would give those of NomicBERT the names of its authors' code.
        """
        super().save_pretrained(*arguments, **{"save_original_format": False} | named)  # type: ignore[misc]  # a mixin
