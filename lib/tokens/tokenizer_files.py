"""The files that make a published tokeniser, by their names."""

from pathlib import Path

from lib.core.errors import DataError
from lib.core.model_folder import files_of

LAYOUTS = (("tokenizer.json",), ("vocab.txt",), ("vocab.json", "merges.txt"))
"""Files that make a tokeniser without sentencepiece, the layout to be preferred first."""
NEXT_TO_IT = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json")
"""Files that may name its class and its special tokens."""


def layouts() -> str:
    """Return the files of `LAYOUTS`, for the message of an error."""
    return ", no ".join(" with ".join(layout) for layout in LAYOUTS)


def layout_of(folder: Path) -> tuple[str, ...]:
    """Return the files that make the tokeniser in a folder.

    Raises:
        DataError: there are none.
        RunError: as `files_of` raises it.
    """
    names = {path.name for path in files_of(folder)}
    found = next((layout for layout in LAYOUTS if names.issuperset(layout)), None)
    if found is None:
        raise DataError(
            f"{folder}: holds no {layouts()}. If it needs sentencepiece, convert it where that is installed: "
            f"AutoTokenizer.from_pretrained('{folder}').save_pretrained('FOLDER')."
        )
    return found
