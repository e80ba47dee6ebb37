"""Initial weights from a published model of an architecture; a difference that changes states is an error."""

import logging
from pathlib import Path

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel
from transformers.utils import CONFIG_NAME

from lib.backbones.architecture import compare, take_over, take_over_words, text_fields
from lib.backbones.pretrained import declared
from lib.backbones.pretrained.export import DENSE, head_names
from lib.backbones.pretrained.fields import architecture_of, config_error, in_own_names, in_shared_names, is_bystander
from lib.backbones.pretrained.mechanisms import with_shared_projections
from lib.backbones.stored import MECHANISM, load_source, open_config, refuse
from lib.core.errors import RunError
from lib.core.model_folder import read_fields

logger = logging.getLogger(__name__)

TEXT_PART = {r"^language_model\.": "", r"^model\.language_model\.": "model."}
"""Names of the weights of a text model inside a multimodal model, and alone."""
CONSTANTS = ("inv_freq", "masked_bias")
"""Ends of names of tensors in blocks that older releases of transformers saved; they follow from the architecture."""

ONE = "single_label_classification"
"""Problem of a classifier that names none."""


def load_published(model: PreTrainedModel, folder: Path) -> None:
    """Replace the weights of `model` by those of a published language model of the same architecture.

    A head that predicts tokens takes over the published one if there is one like it; any other head stays random. A
    decoder that predicts tokens must have one.
    Tokens that the run's tokeniser has beyond the published vocabulary keep their random embeddings. Of a model of
    several kinds of input (Gemma 3 with images) the text model is taken.

    Args:
        model: around an architecture, with a head.
        folder: folder with `config.json` and files of weights.

    Raises:
        RunError: the architectures differ, or weights are missing, of another shape or left over in a block. `model`
            is unchanged.
    """
    config, family = model.config, model.config.family
    kind = {"model_type": config.architecture["model_type"]}  # unless the file names another one
    fields = kind | text_fields(folder)
    if reason := config_error(kind | read_fields(folder)):
        raise RunError(f"{folder / CONFIG_NAME}: it {reason}.")
    read = declared.fields(fields["model_type"])
    if ignored := sorted(name for name in fields.keys() - read if fields[name] not in (None, "", [], {})):
        logger.info("%s: transformers reads no %s", folder / CONFIG_NAME, ", ".join(ignored))
    known = {name: value for name, value in fields.items() if name in read and not name.startswith("_")}
    if not family.counts_from_padding:
        known["pad_token_id"] = 0  # some token: no state depends on it, and the one of the file may not exist
    found = AutoConfig.for_model(**in_own_names(in_shared_names(known)) | family.switches[config.direction])
    own, theirs = config.published().inner().to_dict(), found.to_dict()
    compared = (own.keys() | architecture_of(fields).keys()) & read
    names = sorted(name for name in compared if not is_bystander(name))
    compare({name: (own.get(name), theirs.get(name)) for name in names}, folder)
    if family.counts_from_padding:
        remedy = f"Use the published tokeniser, or correct pad_token_id in {CONFIG_NAME} of a local folder."
        compare({"pad_token_id": (config.pad_token_id, found.pad_token_id)}, folder, remedy)
    auto = AutoModelForCausalLM if "causal" in family.switches else AutoModelForMaskedLM
    source, report = load_source(auto, folder, found, key_mapping=TEXT_PART)
    # Models are often published without the head that they were trained with.
    base = f"{source.base_model_prefix}."
    predicts = model.get_output_embeddings() is not None
    needs_head = predicts and "causal" in family.switches
    missing = {name for name in report["missing_keys"] if needs_head or name.startswith(base)}
    left_over = {
        name
        for name in map(str, report["unexpected_keys"])
        if name.removeprefix(base).startswith(f"{family.blocks}.") and not name.endswith(CONSTANTS)
    }
    refuse(missing | left_over, folder)
    inner, words, parts = model.base_model.inner, source.get_input_embeddings(), dict(source.named_modules())
    takes_head = bool(family.head) and not report["missing_keys"] and parts.keys() >= {*family.head.values()}
    if predicts and takes_head:
        tied = model.get_output_embeddings().weight is inner.get_input_embeddings().weight
        if tied and not torch.equal(words.weight, parts[family.head["decoder"]].weight):
            problem = f"{family.head['decoder']} differs from the word embeddings, but {CONFIG_NAME} ties both"
            raise RunError(f"{folder}: {problem}. Set tie_word_embeddings: false there and in the architecture.")
    children = {name for name, _ in inner.named_children()}  # BigBird has a pooler next to its head, and ours has none
    rest = {
        name: weight
        for name, weight in source.base_model.state_dict().items()
        if name.partition(".")[0] in children and not name.startswith(family.words)
    }
    if config.positions and config.positions["fill"] == "tiled":
        table = f"{family.positions}.weight"
        rest[table] = tiled(rest[table], len(inner.get_parameter(table)), config.first_position)
    rest = with_shared_projections(rest, inner, config)
    drawn = {name for name in inner.state_dict() if name.startswith(family.words) or f"{MECHANISM}." in name}
    refuse((inner.state_dict().keys() - drawn) ^ rest.keys(), folder)  # nothing is skipped or stays as drawn
    take_over_words(inner.get_input_embeddings(), words)
    inner.load_state_dict(rest, strict=False)
    if not predicts:
        return
    if not takes_head:
        logger.info("%s: holds no head like the one that predicts tokens here, so it is random", folder)
        return
    for own, published in family.head.items():
        take_over(model.head.get_submodule(own), parts[published])


def load_head(model: PreTrainedModel, folder: Path) -> None:
    """Replace the head of a document classifier by the one that a model was published with, for the same classes.

    Args:
        model: as of `load_published`, which has taken over the rest.
        folder: folder of a class of transformers that classifies documents by their first token.

    Raises:
        RunError: it has other classes or another problem, or no such head, or `model` has another one.
    """
    if not (names := head_names(model.config)):
        known = f"one that classifies documents by the first token, of {', '.join(DENSE)}, with classifier_pooling: cls"
        raise RunError(f"{folder}: without a recipe, its head is needed. Expected {known}. Or train one.")
    source, report = load_source(transformers.AutoModelForSequenceClassification, folder, open_config(folder))
    refuse(report["missing_keys"], folder)
    own, theirs = ((each.problem_type or ONE, each.id2label) for each in (model.config, source.config))
    both = dict(zip(("problem_type", "id2label"), zip(own, theirs, strict=True), strict=True))
    compare(both, folder, "Choose its task, and name its classes in their order.")
    for name, published in names.items():
        model.get_submodule(name).load_state_dict(source.get_submodule(published).state_dict())


def tiled(table: Tensor, rows: int, first: int) -> Tensor:
    """Return a longer table of positions: the table, repeated.

    Args:
        table: as published [P, D].
        rows: rows of the longer table.
        first: row of a text's first token; those before it belong to no token and are not repeated.

    Returns:
        [rows, D]; the first P rows are those that were published.

    Source:
        Beltagy et al. 2020 (https://arxiv.org/abs/2004.05150), section 5: Longformer copies the 512 positions of
        RoBERTa several times.
    """
    tokens = table[first:]
    copies = -(-(rows - first) // len(tokens))
    return torch.cat([table[:first], tokens.repeat(copies, 1)])[:rows]
