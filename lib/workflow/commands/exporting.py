"""A trained model as a folder that other programs read without this project."""

import json
from pathlib import Path
from typing import Any

import jinja2

from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError
from lib.core.files import atomic_path, require_new
from lib.core.machine import cpu_name
from lib.core.model_folder import WEIGHTS
from lib.core.record import ADAPTER, read_record
from lib.results.escapes import markdown

READ_ME = "README.md"
SAMPLE = 500
"""Tokens of the text that the exported tokeniser must read as the model's does."""
TEMPLATE = Path(__file__).with_name("exported_card.md")
MOST = 2_000
"""Most documents that are measured, evenly spaced over those given."""


def export(folder: Path, out: Path, *, encoder: bool = False, base: str | None = None) -> list[str]:
    """Write the model of a run, and its tokeniser, to a folder that others read without this project.

    transformers reads it, or, of a document classifier whose head no class there has, sentence-transformers. Adapters
    go to the folder `adapter` in it, by the names of the class of transformers, and sentence-transformers has them
    merged. A model in four bits leaves its adapters alone.

    Args:
        folder: folder of the model.
        out: folder to appear.
        encoder: leave out the head, and the adapters, which have one.
        base: model that the adapters belong to, as others find it; None = as the run did.

    Returns:
        Names of the files.

    Raises:
        ConfigError: there is no class that computes the same, or it cuts texts differently, or `out` is there.
        RunError: the model cannot be read, or the exported one computes other results.
        DataError: the tokeniser cannot be read.
    """
    from lib.tokens.cutting import WHOLE  # imports torch

    require_new(out)
    exporting = _exporting(folder)
    aim = exporting.target(folder, encoder=encoder)
    only_adapters = aim.quantized and not (folder / WEIGHTS).exists()
    if only_adapters and aim.pooling:
        raise ConfigError(f"{folder}: its weights have four bits, which only transformers reads. Give --encoder.")
    tokenizer = open_tokenizer(folder, aim.config.vocab_size)
    for name in ("bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"):
        # No state depends on them, but generation stops at the end-of-text token. Some types refuse None.
        if (token := getattr(tokenizer, name)) is not None:
            setattr(aim.config, name, token)
    with atomic_path(out) as partial:
        if only_adapters:
            aim.config.save_pretrained(partial)
        else:
            reach = tokenizer.model_max_length
            exporting.save(folder, aim, partial, reach if reach < WHOLE else None)
        save_tokenizer(tokenizer, folder, partial)
        if aim.pooling:
            write_card(partial, "sentence-transformers", aim.config)
        elif (folder / ADAPTER).is_dir() and not encoder:
            exporting.export_adapters(folder / ADAPTER, partial / ADAPTER, aim, base)
        return sorted(str(path.relative_to(partial)) for path in partial.rglob("*") if path.is_file())


def export_onnx(folder: Path, out: Path, texts: Path | None = None) -> list[str]:
    """Write a document classifier of a run as ONNX, in fp32 and with weights of 8 bits, next to its tokeniser.

    The card in the folder has the documents per second of both, and how many labels the 8 bits change.

    Args:
        folder: folder of the model.
        out: folder to appear.
        texts: documents to measure on, one per line; None = the test split of the run.

    Returns:
        Names of the files.

    Raises:
        ConfigError: a package is missing, or torch cannot export the model, or it cuts texts differently, or has
            another task, or there are no documents, or `out` is there.
        RunError: the model cannot be read, or the exported one computes other probabilities.
        DataError: the tokeniser, the record of the run or its test split cannot be read.
    """
    from transformers import AutoModelForSequenceClassification, PretrainedConfig  # imports torch

    from lib.backbones.onnx_model import measure, save_onnx
    from lib.backbones.stored import open_config, open_model
    from lib.tokens.stored import load_tokens

    require_new(out)
    config = open_config(folder)
    task = next(iter(config.architectures or []), "a model without a head")
    if not task.endswith("ForSequenceClassification") or config.problem_type == "regression":
        raise ConfigError(f"{folder}: {task} does not classify documents. Export it without --onnx.")
    tokenizer = open_tokenizer(folder, config.vocab_size)
    if texts is None:
        documents = load_tokens(read_record(folder.resolve().parent).parents["test"].path)["input_ids"]
    elif lines := texts.read_text(encoding="utf-8").splitlines():
        documents = tokenizer(lines, truncation=True).input_ids
    else:
        raise ConfigError(f"{texts}: holds no document. Expected one per line.")
    with atomic_path(out) as partial:
        partial.mkdir()
        model = open_model(AutoModelForSequenceClassification, folder)
        save_onnx(model, partial)
        fields = {name: getattr(config, name) for name in ("id2label", "label2id", "problem_type")}
        PretrainedConfig(**fields).save_pretrained(partial)
        save_tokenizer(tokenizer, folder, partial)
        places = range(0, len(documents), -(-len(documents) // MOST))
        rows = measure(model, partial, [documents[place] for place in places])
        table = rows.to_markdown(index=False, disable_numparse=True)
        write_card(partial, "onnx", config, measured=table, processor=cpu_name(), documents=len(places))
        return sorted(path.name for path in partial.iterdir())


def write_card(folder: Path, library: str, config: Any, **measured: Any) -> None:
    """Write the card of a classifier that a library reads; `measured` are the other values of `TEMPLATE`."""
    template = jinja2.Template(TEMPLATE.read_text(encoding="utf-8"))
    labels, several = config.id2label.values(), config.problem_type == "multi_label_classification"
    card = template.render(library=library, labels=labels, several=several, markdown=markdown, **measured)
    (folder / READ_ME).write_text(card.rstrip() + "\n", encoding="utf-8")


def open_tokenizer(folder: Path, vocab_size: int) -> Any:
    """Return the tokeniser of a model, in its class of transformers.

    Raises:
        ConfigError: it keeps another part of long texts than transformers does.
        DataError: it cannot be read.
    """
    from lib.tokens.cutting import CONFIG, KEY
    from lib.tokens.tokenizer import TextTokenizer

    tokenizer = TextTokenizer.of_model(folder, vocab_size).backend
    if cut := json.loads((folder / CONFIG).read_text(encoding="utf-8")).get(KEY):
        raise ConfigError(f"{folder / CONFIG}: {KEY} is {cut}, but transformers keeps the first tokens. Train without.")
    return tokenizer


def save_tokenizer(tokenizer: Any, folder: Path, out: Path) -> None:
    """Write the tokeniser of the model in `folder` next to a `config.json`, which transformers reads as well.

    Raises:
        ConfigError: transformers reads other tokens.
    """
    from transformers import AutoTokenizer  # imports torch

    tokenizer.save_pretrained(out)
    text = tokenizer.decode(range(min(len(tokenizer), SAMPLE)), skip_special_tokens=True)
    if AutoTokenizer.from_pretrained(out, local_files_only=True)(text).input_ids != tokenizer(text).input_ids:
        raise ConfigError(f"{folder}: transformers reads other tokens. Expected a published tokeniser.")


def exported_class(folder: Path) -> str:
    """Return the class that reads the exported model of a folder, and its package.

    Raises:
        ConfigError: there is none that computes the same.
        RunError: the folder cannot be read.
    """
    return _exporting(folder).target(folder).reader


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
