"""A stand-in for a tokeniser where a test gives ids directly: a size and special tokens."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlainVocabulary:
    """A vocabulary of the numbers below its size, each as a word."""

    size: int
    pad_token_id: int = 0
    eos_token_id: int | None = None
    bos_token_id: int | None = None
    cls_token_id: int | None = None
    sep_token_id: int | None = None
    mask_token_id: int | None = None

    def __len__(self) -> int:
        return self.size

    def get_vocab(self) -> dict[str, int]:
        """Return each word with its id, as tokenisers of transformers do."""
        return {str(number): number for number in range(self.size)}
