"""Models that a run saved as adapters alone (`recipe.lora.merge: false`), on the weights that the run started from."""

from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from peft.utils import CONFIG_NAME
from transformers import PreTrainedModel

from lib.backbones.configuration import BackboneConfig
from lib.backbones.settings import BACKBONES
from lib.core.errors import RunError
from lib.core.model_folder import read_fields
from lib.core.randomness import derive_seed
from lib.core.record import ADAPTER


def open_adapted(auto: Any, folder: Path, config: BackboneConfig) -> PreTrainedModel:
    """Return the model of the run: first weights as the run had them, quantised likewise, with its adapters and head.

    It computes in float32, whatever the precision of the run, as every model that is opened by hand.

    Args:
        auto: class of transformers that makes the model.
        folder: folder of the model, with the adapters in `ADAPTER`.
        config: configuration in `folder`.

    Raises:
        RunError: the start is missing or does not fit, or the adapters cannot be read.
    """
    path, seed = folder / ADAPTER / CONFIG_NAME, getattr(config, "run_seed", None)
    start = read_fields(path.parent, path.name).get("base_model_name_or_path")
    if not (isinstance(start, str) and Path(start).is_dir()):
        raise RunError(f"{path}: base_model_name_or_path is no folder ({start!r}). Write that of the first weights.")
    if seed is None:
        raise RunError(f"{folder}: run_seed, the seed of its first weights, is missing. Run the stage again.")
    with torch.random.fork_rng():
        # Weights that the start lacks, such as tokens added to its vocabulary, are those that `assemble` draws.
        torch.manual_seed(derive_seed("weights", seed) % 2**32)
        model = auto.from_config(config)
    backbone = BACKBONES.load(config.parameters.kind, "backbone").Backbone(config.parameters, seed=seed)
    backbone.load_weights(model, start)
    backbone.quantize(model, "fp32")
    try:
        adapted = PeftModel.from_pretrained(model, str(folder / ADAPTER), local_files_only=True)
    except Exception as error:  # peft checks its files in several ways
        raise RunError(f"{folder / ADAPTER}: cannot be read ({error}). Run the stage again.") from error
    found: Any = adapted.base_model.model if config.parameters.quantized else adapted.merge_and_unload()
    found.name_or_path = str(folder)
    return found.eval()
