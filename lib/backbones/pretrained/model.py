"""An architecture of transformers without a head, and the base of its models.

Shapes: B batch, N tokens, E width of a word embedding, D hidden size.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from lib.attention.interface import HELD, WINDOWS
from lib.backbones.architecture import ArchitecturePreTrainedModel
from lib.backbones.pretrained.alone import read_alone
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.families import FAMILIES
from lib.backbones.pretrained.mechanisms import attention_maps, hold_mechanisms
from lib.backbones.pretrained.probe import probe
from lib.backbones.reading import ReadsTokens
from lib.backbones.stored import require_finite


class PretrainedBackbonePreTrainedModel(ArchitecturePreTrainedModel):
    """Base of the models around an architecture; loading checks that its attention is as configured."""

    config_class = PretrainedBackboneConfig
    base_model_prefix = "pretrained"
    _supports_flash_attn = True
    _supports_flex_attn = True

    @classmethod
    def from_pretrained(cls, *arguments: Any, **named: Any) -> Any:
        """Load a model as transformers does, and check that its attention is as configured.

        Raises:
            ConfigError: it is not.
            RunError: a weight holds NaN or inf, so that its attention cannot be probed.
        """
        loaded = super().from_pretrained(*arguments, **named)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        require_finite(model.state_dict(), Path(model.name_or_path))
        if model.config.mechanism is None:
            probe(model.base_model.inner, model.config.direction)
        return loaded


class PretrainedBackboneModel(ReadsTokens, PretrainedBackbonePreTrainedModel):
    """Map tokens to states by an architecture of transformers, `inner`."""

    def __init__(self, config: PretrainedBackboneConfig) -> None:
        super().__init__(config)
        self.first_position = config.first_position
        # Not imported by name above: `lib` registers every model with AutoModel at its first import, this one included.
        implementation, inner = "eager" if config.family.eager_only else config._attn_implementation, config.inner()
        if implementation == "sdpa" and getattr(inner, "sliding_window", None):
            implementation = WINDOWS
        self.inner: PreTrainedModel = transformers.AutoModel.from_config(
            inner, attn_implementation=implementation if config.mechanism is None else HELD, **config.family.options
        )
        choose_for_each_text(self.inner)
        if config.mechanism is not None:
            hold_mechanisms(self.inner, config)
        self.opened = 1.0
        """Share of the tokens after it that a token sees, the nearest ones; below 1 while gradual attention opens."""
        self._causal_window = config.causal_window() if config.attention == "gradual" else None
        self.post_init()

    @property
    def embeddings(self) -> nn.Module:
        """The modules before the first block: word embeddings, and others in some families."""
        family, modules = self.config.family, dict(self.inner.named_modules())
        around = [path.partition(".")[0] for path in (family.words, family.positions) if path]
        parts = [modules[name] for name in dict.fromkeys([*around, family.projection]) if name in modules]
        return parts[0] if len(parts) == 1 else nn.ModuleList(parts)

    @property
    def layers(self) -> nn.ModuleList:
        """The blocks."""
        return self.inner.get_submodule(self.config.family.blocks)

    def read(self, tokens: Tensor, attention_mask: Tensor | None, **kwargs: Any) -> BaseModelOutput:
        """Return the states of the last layer.

        Positions count real tokens, so padding may be on either side.

        Args:
            tokens: their numbers [B, N], or word embeddings [B, N, E].
            attention_mask: [B, N], 1 = real token; None = all real.
            kwargs: further arguments of the architecture, such as `output_hidden_states`, or `token_type_ids` [B, N] of
                one that has such embeddings. With `output_attentions`, a model with a mechanism gives the weights
                [B, H, N, N] of each layer, None where it holds none.
        """
        states, positions = self.first_states(tokens, attention_mask), None
        family = self.config.family
        if family.read_alone:
            return read_alone(self.inner, states, attention_mask, self.first_position, **kwargs)
        if family.global_mask:
            if attention_mask is None:  # so that Longformer gives no positions to the padding that it adds
                attention_mask = torch.ones(states.shape[:2], dtype=torch.long, device=states.device)
            first = attention_mask.ne(0).int().argmax(dim=1)
            kwargs["global_attention_mask"] = functional.one_hot(first, states.shape[1])
        if attention_mask is not None:
            positions = (attention_mask.long().cumsum(dim=1) - 1).clamp(min=0) + self.first_position
        mask: Any = attention_mask
        if self.config.attention == "gradual" and self.opened < 1:
            mask = half_open(self.inner.config, states, attention_mask, self.opened, self._causal_window)
        by_mechanism = self.config.mechanism is not None and kwargs.pop("output_attentions", False)
        with attention_maps(self.inner) if by_mechanism else nullcontext() as maps:
            outputs = self.inner(
                inputs_embeds=states, attention_mask=mask, position_ids=positions, use_cache=False, **kwargs
            )
        return BaseModelOutput(
            last_hidden_state=outputs.last_hidden_state,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions if maps is None else tuple(maps),
        )


def choose_for_each_text(inner: nn.Module) -> None:
    """Let rotary positions with factors by length (`longrope`) follow from each text's own length.

    transformers takes those of the longest text in a batch for all, so that a text's states would depend on the others.

    Args:
        inner: base model of transformers; one with other positions stays as it is.
    """
    rotary = getattr(inner, "rotary_emb", None)
    kinds = getattr(rotary, "rope_type", None)  # one, or one for each type of layer
    if rotary is not None and "longrope" in (kinds.values() if isinstance(kinds, dict) else [kinds]):
        rotary.register_forward_hook(_of_each_text, with_kwargs=True)


def _of_each_text(
    rotary: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], together: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return cosines and sines [B, N, D], those of each text computed by itself; a hook of `register_forward_hook`."""
    named = dict(zip(("x", "position_ids", "layer_type"), arguments, strict=False)) | named
    texts = named["position_ids"].split(1)
    if len(texts) == 1:
        return together
    alone = [rotary.forward(**named | {"position_ids": positions}) for positions in texts]
    cosines, sines = (torch.cat(parts) for parts in zip(*alone, strict=True))
    return cosines, sines


def half_open(
    config: PretrainedConfig, states: Tensor, attention_mask: Tensor | None, opened: float, causal_window: int | None
) -> Tensor | dict[str, Tensor]:
    """Return the mask that lets a token see `opened` later tokens.

    Args:
        config: config of the architecture, opened.
        states: that the mask is for [B, N, D].
        attention_mask: [B, N], 1 = real token; None = all real.
        opened: share of a document's length, from 0, causal, to 1, bidirectional.
        causal_window: first distance that a causal token does not see in layers with a window. The window
            to the left becomes that of the opened model evenly, too: where both differ, it is in between.

    Returns:
        Additive mask [B, 1, N, N], or one for each type of layer where the architecture has several.
    """
    rows, tokens = states.shape[:2]
    places = torch.arange(tokens, device=states.device)
    ahead = places[None, :] - places[:, None]
    real = states.new_ones(rows, tokens, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
    farthest = (opened * (real.sum(dim=1) - 1)).floor()  # by the document's own length, whatever it is padded to
    sees = (ahead <= farthest[:, None, None])[:, None] & real[:, None, None, :]
    window = getattr(config, "sliding_window", None)
    near = sees
    if window is not None and causal_window is not None:
        open_window = window + FAMILIES[config.model_type].includes_width
        behind = causal_window + int(opened * (open_window - causal_window))
        near = sees & (ahead > -behind) & (ahead < open_window)
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return _additive(near, states.dtype)
    masks = {"full_attention": sees, "sliding_attention": near}
    return {kind: _additive(masks[kind], states.dtype) for kind in set(kinds)}


def _additive(sees: Tensor, dtype: torch.dtype) -> Tensor:
    # Not minus infinity, so that a row that sees nothing, as at padding, stays finite.
    return torch.zeros(sees.shape, dtype=dtype, device=sees.device).masked_fill(~sees, torch.finfo(dtype).min)


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part of the weights.

    A block has one part in which a token's state reaches another token, which its family names (`Family.attends`), with
    the projections around it; the rest treats each token alone. Tables outside the blocks are embeddings, wherever they
    stand: GPT-2 has positions next to its words, DeBERTa distances next to its blocks.
    """
    family = backbone.config.family
    attends = family.attends if family.groups else family.attends.partition(".")[0]
    inside = {module for block in backbone.layers for module in block.modules()}
    tables = [each for each in backbone.modules() if isinstance(each, nn.Embedding) and each not in inside]
    first = backbone.embeddings
    return {
        "embeddings": [*(first if isinstance(first, nn.ModuleList) else [first]), *tables],
        "feed_forward": list(backbone.layers),
        "attention": [block.get_submodule(attends) for block in backbone.layers],
    }


Model = PretrainedBackboneModel
