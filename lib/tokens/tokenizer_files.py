"""The files that make a published tokeniser, by their names."""

import contextlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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
        DataError: there are none, or its class is Python code, which does not say where in a text a token stands and
            may need other packages.
        RunError: as `files_of` raises it.
    """
    names = {path.name for path in files_of(folder)}
    found = next((layout for layout in LAYOUTS if names.issuperset(layout)), None)
    if found is None:
        raise DataError(
            f"{folder}: holds no {layouts()}. Expected a folder with a tokeniser. If it needs sentencepiece, convert "
            f"it where that is installed: AutoTokenizer.from_pretrained('{folder}').save_pretrained('FOLDER')."
        )
    kind = next(filter(None, (fields_of(folder / name).get("tokenizer_class") for name in NEXT_TO_IT)), None)
    if found != LAYOUTS[0] and _is_python(kind):
        raise slow_tokenizer(folder, str(kind))
    return found


def slow_tokenizer(folder: Path, kind: str) -> DataError:
    """Return the error for a tokeniser whose class is Python code."""
    return DataError(f"{folder}: {kind} is a slow tokeniser, of Python code. Name a fast one, or add a tokenizer.json.")


def fields_of(path: Path) -> dict[str, Any]:
    """Return the fields of a file next to a tokeniser; none of a missing or broken file."""
    with contextlib.suppress(OSError, ValueError):
        fields = json.loads(path.read_text(encoding="utf-8"))
        return fields if isinstance(fields, dict) else {}
    return {}


def _is_python(kind: Any) -> bool:
    """Whether a class of tokenisers is Python code, by the source of transformers: an import takes seconds."""
    spec = find_spec("transformers")
    files = Path(str(spec and spec.origin)).parent.glob("models/*/tokenization_*.py")
    return any(f"class {kind}(PreTrainedTokenizer)" in path.read_text(encoding="utf-8") for path in files)
