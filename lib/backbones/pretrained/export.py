"""A trained model in the classes of transformers, which other programs read without this project.

Only a model with the same mathematics there is exported: an architecture with its own attention, and a head that the
class of transformers can compute. Of other document classifiers, sentence-transformers computes the head. Before
anything is kept, both models compute the same batch.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
import transformers
from peft.utils import CONFIG_NAME as ADAPTER_CONFIG
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from lib.attention.settings import kinds_of
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.sentence_folder import POOLINGS, SentenceClassifier, write_modules
from lib.backbones.stored import open_config, open_model
from lib.core.errors import ConfigError, RunError
from lib.core.files import write_json

OWN = "pretrained.inner"
"""Name of the architecture in a model of this project."""
DENSE = {
    "bert": ("bert.pooler.dense", "classifier"),
    "ernie": ("ernie.pooler.dense", "classifier"),
    "albert": ("albert.pooler", "classifier"),
    "deberta-v2": ("pooler.dense", "classifier"),
} | dict.fromkeys(
    ("roberta", "xlm-roberta", "camembert", "data2vec-text", "mpnet", "longformer"),
    ("classifier.dense", "classifier.out_proj"),
)
"""Dense layer and projection of the classes that classify a document by its first token, with a tanh, by family."""
HEADS = {
    f"PretrainedFor{task}": f"AutoModelFor{task}"
    for task in ("MaskedLM", "SequenceClassification", "TokenClassification")
}
"""Classes of transformers that make a model, by the class of this project."""
TOKENS = 12
"""Tokens of the texts that are computed by both models."""
TOLERANCE = 1e-5
"""Largest difference of their results, relative to the largest result."""
ENCODER = "give --encoder to export it without its head"


class Target(NamedTuple):
    """The model of transformers that another one becomes."""

    auto: str
    """Class of transformers that makes it."""
    config: PretrainedConfig
    """Its configuration."""
    names: dict[str, str]
    """Its names of modules, by ours."""
    own_auto: str
    """Class of transformers that loads the model of this project."""
    quantized: bool
    """Whether its layers hold four bits."""
    pooling: str | None = None
    """Pooling of a classifier whose head sentence-transformers computes; None = the class of transformers does."""

    @property
    def reader(self) -> str:
        """The class that reads the model, and its package."""
        if self.pooling:
            return "`SentenceTransformer` of sentence-transformers"
        return f"`{self.config.architectures[0]}` of transformers"


def target(folder: Path, *, encoder: bool = False) -> Target:
    """Return the class and configuration in transformers of the model in a folder.

    Args:
        folder: folder of a run's model.
        encoder: leave out the head.

    Raises:
        ConfigError: transformers has no class that computes the same.
        RunError: the folder cannot be read.
    """
    config = open_config(folder)
    assert isinstance(config, PretrainedBackboneConfig)  # the caller chose this module by its kind
    kind, family = config.architecture["model_type"], config.family
    found = next(iter(config.architectures or []), "")
    auto, inner, missing = HEADS.get(found, ""), config.inner(), f"{folder}: {found or 'a model without a head'}"
    by_sentences = auto == "AutoModelForSequenceClassification" and not head_names(config) and not encoder
    reason = None
    if config.mechanism is not None:
        reason = f"holds {kinds_of(config.parameters.held_mechanisms)} in place of the attention of {kind}"
    elif family.padding not in (None, config.pad_token_id) and not family.read_alone:
        reason = f"the tokeniser pads with {config.pad_token_id}, but {kind} counts positions by {family.padding}"
    elif family.global_mask and (encoder or by_sentences or auto != "AutoModelForSequenceClassification"):
        reason = f"the first token of {kind} sees all, which transformers does only where it classifies documents"
    elif by_sentences and config.classifier_pooling not in POOLINGS:
        known = ", ".join(POOLINGS)
        reason = f"pools by {config.classifier_pooling}, but sentence-transformers by {known}, so {ENCODER}"
    if reason:
        raise ConfigError(f"{folder}: {reason}. Load it after `import lib`.")
    if encoder:
        return Target("AutoModel", inner, {OWN: ""}, "AutoModel", config.parameters.quantized)
    if auto == "AutoModelForMaskedLM" and config.attention == "causal":
        auto = "AutoModelForCausalLM"
    if auto in ("AutoModelForMaskedLM", "AutoModelForCausalLM") and kind in ("modernbert", "modernbert-decoder"):
        inner.classifier_bias = inner.decoder_bias = True  # only its head reads these
    elif kind == "deberta-v2":
        inner.pooler_hidden_act, inner.pooler_hidden_size = "tanh", inner.hidden_size
    for name in ("id2label", "label2id", "problem_type"):
        setattr(inner, name, getattr(config, name))
    if by_sentences:
        return Target("AutoModel", inner, {OWN: ""}, auto, config.parameters.quantized, config.classifier_pooling)
    try:
        with torch.device("meta"):
            model = getattr(transformers, auto).from_config(inner)
        inner.architectures = [type(model).__name__]
    except (AttributeError, ValueError) as error:  # no such class, or none for this architecture
        problem = f"transformers has no such class for {kind}. Load it after `import lib`, or {ENCODER}"
        raise ConfigError(f"{missing}: {problem}.") from error
    prefix = model.base_model_prefix
    if auto in ("AutoModelForMaskedLM", "AutoModelForCausalLM"):
        head = {f"head.{own}": theirs for own, theirs in family.head.items()}
        reason = None if head else "predicts tokens by other layers"
    elif auto == "AutoModelForTokenClassification":
        linear = [name for name, each in model.named_modules() if isinstance(each, nn.Linear)]
        linear = [name for name in linear if not name.startswith(f"{prefix}.")]
        head = dict(zip(["head.1"], linear, strict=False))
        reason = None if len(linear) == 1 else f"has more layers in its head ({', '.join(linear)})"
    else:
        head, reason = head_names(config), None
    if reason:
        raise ConfigError(f"{missing}: {type(model).__name__} {reason}. Load it after `import lib`, or {ENCODER}.")
    names = {OWN: prefix} | head
    return Target(auto, inner, names, HEADS[found], config.parameters.quantized)


def head_names(config: PretrainedBackboneConfig) -> dict[str, str]:
    """Return the names in transformers of the linear layers that classify documents, by ours; none = it has no such."""
    place = {"bert": 0, "roberta": 1}.get(config.classifier_head)  # after its dropout
    if config.classifier_pooling != "cls" or place is None:
        return {}
    return {
        f"head.{place + 3 * each}": name for each, name in enumerate(DENSE.get(config.architecture["model_type"], ()))
    }


def _renamed(weights: Mapping[str, Tensor], aim: Target) -> dict[str, Tensor]:
    """Return weights by the names of transformers."""
    found = {}
    for name, weight in weights.items():
        for own, theirs in aim.names.items():
            if name.startswith(f"{own}."):
                found[f"{theirs}.{name.removeprefix(f'{own}.')}".lstrip(".")] = weight
    norm, decoder = (aim.names.get(f"head.{part}") for part in ("layer_norm", "decoder"))
    if f"{norm}.bias" in found and not getattr(aim.config, "norm_bias", True):
        # ModernBERT's norm has no bias; the one of ours moves through the decoder into its bias.
        moved = found[f"{decoder}.weight"] @ found.pop(f"{norm}.bias")
        found[f"{decoder}.bias"] = found[f"{decoder}.bias"] + moved
    return found


def save(folder: Path, aim: Target, out: Path, max_tokens: int | None) -> None:
    """Write the model of a folder in the class of transformers.

    Args:
        folder: folder of a run's model.
        aim: that class.
        out: folder to write into.
        max_tokens: tokens that its tokeniser cuts texts to; None = it does not say.

    Raises:
        RunError: it cannot be read, or computes other results there.
    """
    own = open_model(getattr(transformers, aim.own_auto), folder)
    options = own.config.family.options if aim.auto == "AutoModel" else {}
    theirs = getattr(transformers, aim.auto).from_config(aim.config, **options).eval()
    prefix = "pretrained." if aim.own_auto == "AutoModel" else ""
    weights = _renamed({f"{prefix}{name}": weight for name, weight in own.state_dict().items()}, aim)
    theirs.load_state_dict(weights, strict=False)
    theirs.save_pretrained(out)
    if aim.pooling:
        write_modules(out, aim.pooling, own.head, max_tokens)
    _require_equal(own, SentenceClassifier(out) if aim.pooling else theirs, folder)


@torch.no_grad()
def _require_equal(own: PreTrainedModel, theirs: nn.Module, folder: Path) -> None:
    """Refuse a model that computes other results on a batch of two texts, one of them shorter."""
    config = own.config
    tokens = min(TOKENS, config.parameters.longest() or TOKENS)
    draws = torch.Generator().manual_seed(0)
    ids = torch.randint(config.vocab_size, (2, tokens), generator=draws)
    ids[0] = torch.arange(tokens) % config.vocab_size  # special tokens are often the first ones
    if config.pad_token_id is not None:
        ids[ids == config.pad_token_id] = (config.pad_token_id + 1) % config.vocab_size
    mask = torch.ones_like(ids)
    if not config.family.read_alone:
        mask[1, tokens // 2 :] = 0
        ids[1, tokens // 2 :] = config.pad_token_id or 0
    ours, exported = (model.eval()(input_ids=ids, attention_mask=mask)[0] for model in (own, theirs))
    if ours.shape[1] == tokens:
        ours, exported = ours[mask.bool()], exported[mask.bool()]
    difference = float((ours - exported).abs().max() / ours.abs().max().clamp(min=1))
    if not difference <= TOLERANCE:
        problem = f"{type(theirs).__name__} computes other results from its weights (by {difference:.1g})"
        raise RunError(f"{folder}: {problem}, so it is not exported. Load it after `import lib`.")


def export_adapters(source: Path, out: Path, aim: Target, base: str | None) -> None:
    """Write adapters by the names of the class of transformers.

    Args:
        source: folder of the adapters.
        out: folder to appear.
        aim: that class.
        base: model that they belong to, as others find it; None = as the run did.
    """
    wrapper = "base_model.model."
    weights = load_file(source / SAFETENSORS_WEIGHTS_NAME)
    renamed = _renamed({name.removeprefix(wrapper): weight for name, weight in weights.items()}, aim)
    settings = json.loads((source / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    adapted = {name.rpartition(".lora_")[0] for name in renamed if ".lora_" in name}
    settings["target_modules"] = sorted(adapted)
    settings["modules_to_save"] = sorted({name.rpartition(".")[0] for name in renamed if ".lora_" not in name}) or None
    settings["base_model_name_or_path"] = base or settings["base_model_name_or_path"]
    out.mkdir()
    contiguous = {f"{wrapper}{name}": weight.contiguous() for name, weight in renamed.items()}
    save_file(contiguous, out / SAFETENSORS_WEIGHTS_NAME, metadata={"format": "pt"})
    write_json(out / ADAPTER_CONFIG, settings)
