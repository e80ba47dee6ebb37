"""A trained model as a folder of transformers, which other programs read without this project."""

import json
from pathlib import Path
from typing import Any

from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError
from lib.core.files import atomic_path, require_new
from lib.core.model_folder import WEIGHTS
from lib.core.record import ADAPTER

SAMPLE = 500
"""Tokens of the text that the exported tokeniser must read as the model's does."""


def export(folder: Path, out: Path, *, encoder: bool = False, base: str | None = None) -> list[str]:
    """Write the model of a run, and its tokeniser, to a folder that transformers reads without this project.

    Adapters go to the folder `adapter` in it, by the names of that class. A model in four bits leaves these alone.

    Args:
        folder: folder of the model.
        out: folder to appear.
        encoder: leave out the head, and the adapters, which have one.
        base: model that the adapters belong to, as others find it; None = as the run did.

    Returns:
        Names of the files.

    Raises:
        ConfigError: transformers has no class that computes the same, or cuts texts differently, or `out` is there.
        RunError: the model cannot be read, or the exported one computes other results.
        DataError: the tokeniser cannot be read.
    """
    from transformers import AutoTokenizer  # imports torch

    from lib.tokens.cutting import CONFIG, KEY
    from lib.tokens.tokenizer import TextTokenizer

    require_new(out)
    exporting = _exporting(folder)
    aim = exporting.target(folder, encoder=encoder)
    tokenizer = TextTokenizer.of_model(folder, aim.config.vocab_size).backend
    for name in ("bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"):
        # No state depends on them, but generation stops at the end-of-text token. Some types refuse None.
        if (token := getattr(tokenizer, name)) is not None:
            setattr(aim.config, name, token)
    if cut := json.loads((folder / CONFIG).read_text(encoding="utf-8")).get(KEY):
        raise ConfigError(f"{folder / CONFIG}: {KEY} is {cut}, but transformers keeps the first tokens. Train without.")
    with atomic_path(out) as partial:
        if aim.quantized and not (folder / WEIGHTS).exists():
            aim.config.save_pretrained(partial)
        else:
            exporting.converted(folder, aim).save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        text = tokenizer.decode(range(min(len(tokenizer), SAMPLE)), skip_special_tokens=True)
        if AutoTokenizer.from_pretrained(partial, local_files_only=True)(text).input_ids != tokenizer(text).input_ids:
            raise ConfigError(f"{folder}: transformers reads other tokens. Expected a published tokeniser.")
        if (folder / ADAPTER).is_dir() and not encoder:
            exporting.export_adapters(folder / ADAPTER, partial / ADAPTER, aim, base)
        return sorted(str(path.relative_to(partial)) for path in partial.rglob("*") if path.is_file())


def exported_class(folder: Path) -> str:
    """Return the class of transformers that the model in a folder becomes.

    Raises:
        ConfigError: there is none that computes the same.
        RunError: the folder cannot be read.
    """
    return _exporting(folder).target(folder).config.architectures[0]


def _exporting(folder: Path) -> Any:
    """Return the part `export` of a model's backbone."""
    from lib.backbones.configuration import BackboneConfig  # imports torch
    from lib.backbones.stored import open_config

    config = open_config(folder)
    kind = config.parameters.kind if isinstance(config, BackboneConfig) else config.model_type
    if kind not in BACKBONES.kinds() or not BACKBONES.has(kind, "export"):
        able = ", ".join(known for known in BACKBONES.kinds() if BACKBONES.has(known, "export"))
        raise ConfigError(f"{folder}: its backbone is of kind {kind}, which transformers does not have, but {able}.")
    return BACKBONES.load(kind, "export")
