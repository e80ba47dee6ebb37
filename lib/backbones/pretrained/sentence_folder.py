"""A document classifier as a folder of sentence-transformers, which has the poolings that transformers lacks.

Names of files, classes and fields are those that sentence-transformers reads from version 2 to 6, and
text-embeddings-inference, too.

Source: `modules.json` and the classes `Transformer`, `Pooling` and `Dense` of sentence-transformers 6.2.
"""

import json
from pathlib import Path

import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig

from lib.backbones.heads.model import pooling
from lib.backbones.stored import load_source
from lib.core.files import write_json
from lib.core.model_folder import FIELDS, WEIGHTS

POOLINGS = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}
"""Fields of its class `Pooling`, by our names of poolings."""
MODULES, POOLING = "modules.json", "1_Pooling"
ACTIVATIONS = {"torch.nn.modules.activation.Tanh": nn.Tanh, "torch.nn.modules.linear.Identity": nn.Identity}
"""Activations after a dense layer, by their names in the files."""
TANH, NONE = ACTIVATIONS


def write_modules(folder: Path, name: str, head: nn.Sequential, max_tokens: int | None) -> None:
    """Write what follows the architecture: pooling, and one dense layer for each linear layer of a head.

    Args:
        folder: folder of the architecture in the class of transformers.
        name: the pooling.
        head: classification head; a tanh follows all its linear layers but the last.
        max_tokens: tokens that texts are cut to; None = as many as there are positions for.
    """
    layers = [each for each in head if isinstance(each, nn.Linear)]
    places = ["", POOLING, *(f"{number}_Dense" for number in range(2, 2 + len(layers)))]
    kinds = [f"sentence_transformers.models.{place.partition('_')[2] or 'Transformer'}" for place in places]
    listed = enumerate(zip(places, kinds, strict=True))
    modules = [{"idx": idx, "name": str(idx), "path": path, "type": kind} for idx, (path, kind) in listed]
    write_json(folder / MODULES, modules)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_tokens, "do_lower_case": False})
    for place in places[1:]:
        (folder / place).mkdir()
    modes = {field: each == name for each, field in POOLINGS.items()}
    write_json(folder / POOLING / FIELDS, {"word_embedding_dimension": layers[0].in_features} | modes)
    for place, layer in zip(places[2:], layers, strict=True):
        fields = {"in_features": layer.in_features, "out_features": layer.out_features, "bias": True}
        activation = NONE if layer is layers[-1] else TANH
        write_json(folder / place / FIELDS, fields | {"activation_function": activation})
        weights = {f"linear.{name}": weight.contiguous() for name, weight in layer.state_dict().items()}
        save_file(weights, folder / place / WEIGHTS, metadata={"format": "pt"})


class SentenceClassifier(nn.Module):
    """The model that the files of a folder describe, computed as sentence-transformers does.

    Args:
        folder: a folder that `write_modules` completed.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        self.encoder, _ = load_source(transformers.AutoModel, folder, config)
        modes = json.loads((folder / POOLING / FIELDS).read_text(encoding="utf-8"))
        self.pool = pooling(next(name for name, field in POOLINGS.items() if modes[field]), 1)
        self.dense = nn.Sequential()
        for module in json.loads((folder / MODULES).read_text(encoding="utf-8"))[2:]:
            place = folder / module["path"]
            fields = json.loads((place / FIELDS).read_text(encoding="utf-8"))
            layer = nn.Linear(fields["in_features"], fields["out_features"])
            weights = load_file(place / WEIGHTS)
            layer.load_state_dict({name.removeprefix("linear."): weight for name, weight in weights.items()})
            self.dense.extend([layer, ACTIVATIONS[fields["activation_function"]]()])

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor]:
        """Return class scores [B, C] of tokens [B, N] with a mask [B, N], 1 = real token."""
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask)[0]
        return (self.dense(self.pool(states, attention_mask)),)
