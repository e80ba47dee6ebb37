"""Names of the files that make a published tokeniser."""

LAYOUTS = (("tokenizer.json",), ("vocab.txt",), ("vocab.json", "merges.txt"))
"""Files that make a tokeniser without sentencepiece, the layout to be preferred first."""
NEXT_TO_IT = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json")
"""Files that may name its class and its special tokens."""


def layouts() -> str:
    """Return the files of `LAYOUTS`, for the message of an error."""
    return ", no ".join(" with ".join(layout) for layout in LAYOUTS)
