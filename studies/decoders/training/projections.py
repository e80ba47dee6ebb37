"""The query and key projections of attention layers as forms: W = Wq' R Wk of every head, and of a layer their sum.

Weights are read from live models, with the low-rank updates of `peft` apart and quantised ones dequantised, as float64.
Models are encoders of this project or architectures of transformers, whose layers may hold a mechanism.

Shapes: H heads of queries, K of keys, d width of a head, D width of a state, r rank of an update, F forms, k their
rank.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lib.backbones.pretrained.mechanisms import shares_query_and_key
from lib.core.errors import ConfigError

Weights = Literal["merged", "delta", "adapter"]


class AttentionLayer(NamedTuple):
    """The modules of a layer's queries and keys."""

    query: nn.Module
    """A linear layer: plain, quantised, or wrapped by `peft`."""
    key: nn.Module | None
    """None = queries serve as keys."""
    head_size: int
    frequencies: Tensor | None
    """Frequencies of rotary positions [d / 2]; None = queries and keys are not rotated."""
    neighbours: bool = False
    """Whether neighbouring dimensions are turned together; else dimension i and i + d / 2."""
    norms: tuple[nn.Module, nn.Module] | None = None
    """Norms that queries and keys pass, if there are some: of a head, or of all heads at once (OLMo 2)."""

    def modules(self) -> list[nn.Module]:
        """Return the projections, each once."""
        return [self.query, *([self.key] if self.key is not None else [])]


class Projection(NamedTuple):
    """The weight of a projection by head, base + up down."""

    base: Tensor
    """[H, d, D]."""
    up: Tensor
    """Scaled [H, d, r]; r = 0 without an update."""
    down: Tensor
    """[r, D]."""

    @property
    def weight(self) -> Tensor:
        """The weight with its update [H, d, D]."""
        return self.base + self.up @ self.down


class Projections(NamedTuple):
    """The projections of one layer.

    Gains of norms on queries and keys are part of the weights, since they lie between projection and score. What else
    those norms do, the division by a length, is a positive factor for each token and head, and left out. So are biases,
    and gains of the norm before the layer, as in the source of the measures.
    """

    query: Projection
    key: Projection
    frequencies: Tensor | None
    neighbours: bool

    @classmethod
    def read(cls, layer: AttentionLayer) -> "Projections":
        """Return the projections of a layer.

        Raises:
            ConfigError: an adapter changes the weights in another way than plain LoRA does.
        """
        of_query, of_key = layer.norms or (None, None)
        query = _read(layer.query, layer.head_size, of_query)
        key = query if layer.key is None else _read(layer.key, layer.head_size, of_key)
        frequencies = None if layer.frequencies is None else layer.frequencies.to(query.base)
        return cls(query, key, frequencies, layer.neighbours)

    def drawn(self, generator: torch.Generator) -> "Projections":
        """Return Gaussian projections of the same shapes, with updates that are small compared with the base.

        Args:
            generator: on the CPU.
        """

        def normal(like: Tensor) -> Tensor:
            return torch.randn(like.shape, generator=generator, dtype=like.dtype).to(like.device)

        def draw(projection: Projection) -> Projection:
            base, up, down = map(normal, projection)
            return Projection(base, 1e-3 * up, down)

        query = draw(self.query)
        return self._replace(query=query, key=query if self.key is self.query else draw(self.key))

    @property
    def kinds(self) -> tuple[Weights, ...]:
        """The kinds of weights that the layer has."""
        updated = self.query.down.shape[0] + self.key.down.shape[0] > 0
        return ("merged", "delta", "adapter") if updated else ("merged",)

    def form(self, weights: Weights, position: int = 0, *, whole: bool = False) -> tuple[Tensor, Tensor]:
        """Return the factors of W for a key `position` tokens after its query.

        Args:
            weights: `merged`, W as the model has it; `delta`, W minus W without the updates, so that products
                of base and update count as well; `adapter`, the product of the updates alone.
            position: negative = before its query.
            whole: the layer's sum over heads, instead of each head. Queries that share keys are added first, so that
                its rank is that of the keys, or twice that of the updates.

        Returns:
            `left` and `right`, [F, k, D] each, with W = left' right and F = H, or 1 for the whole.
        """
        query, key = self.query, self.key
        per_key = len(query.base) // len(key.base)
        keys, up_of_keys = self._turned(key.weight, position), self._turned(key.up, position)
        if weights == "merged" and whole:
            return query.weight.unflatten(0, (-1, per_key)).sum(1).flatten(0, 1)[None], keys.flatten(0, 1)[None]
        keys, up_of_keys = (each.repeat_interleave(per_key, 0) for each in (keys, up_of_keys))
        if weights == "merged":
            return query.weight, keys
        if weights == "adapter":
            pairs = [(query.down, query.up.mT @ up_of_keys @ key.down)]
        else:
            # W - W0 = down_q' (up_q' R k) + (up_k' R' q0)' down_k, with k the merged keys and q0 the queries' base.
            pairs = [(query.down, query.up.mT @ keys), (up_of_keys.mT @ query.base, key.down)]
        # What bears a head of its own adds up in the whole; the other factor is the same for all heads.
        factors = [
            [each.sum(0, keepdim=True) if whole and each.dim() == 3 else each for each in pair] for pair in pairs
        ]
        forms = 1 if whole else len(query.base)
        left, right = (
            torch.cat([each.expand(forms, -1, -1) for each in side], dim=1) for side in zip(*factors, strict=True)
        )
        return left, right

    def _turned(self, keys: Tensor, position: int) -> Tensor:
        """Return keys, or matrices on their dimensions, [..., d, n], rotated relative to queries: R of W = Wq' R Wk.

        Source:
            Su et al. 2021 (RoFormer), section 3.2.2: scores depend on the difference of positions.
        """
        if self.frequencies is None or position == 0:
            return keys
        first, second = (keys[..., 0::2, :], keys[..., 1::2, :]) if self.neighbours else keys.chunk(2, dim=-2)
        phases = (position * self.frequencies)[:, None]
        turned = first * phases.cos() - second * phases.sin(), second * phases.cos() + first * phases.sin()
        return torch.stack(turned, dim=-2).flatten(-3, -2) if self.neighbours else torch.cat(turned, dim=-2)


def attention_layers(model: PreTrainedModel) -> list[AttentionLayer]:
    """Return the attention layers of a model, from the lowest."""
    if model.config.parameters.kind == "pretrained":
        return list(_layers_of_architecture(model))
    encoder, frequencies = model.base_model, None
    if encoder.phases is not None:
        frequencies = encoder.phases.scale * encoder.phases.frequencies(torch.device("cpu"))
    parts = [block.attention for block in encoder.layers]
    return [AttentionLayer(part.query, part.key, part.head_size, frequencies, neighbours=True) for part in parts]


def _layers_of_architecture(model: PreTrainedModel) -> Iterator[AttentionLayer]:
    config, inner = model.config, model.base_model.inner
    family, width = config.family, config.head_size
    kinds, rotary = getattr(inner.config, "layer_types", None), getattr(inner, "rotary_emb", None)
    for number, block in enumerate(model.base_model.layers):
        attends = block.get_submodule(family.attends)
        # Gemma 3 turns layers with a window by other frequencies than those without.
        name = f"{kinds[number]}_inv_freq" if kinds else "inv_freq"
        frequencies = getattr(rotary, name) if hasattr(rotary, name) else getattr(rotary, "inv_freq", None)
        turned = getattr(attends, "use_rope", True)  # SmolLM3 turns only some layers
        yield AttentionLayer(
            attends.get_submodule(family.queries),
            None if shares_query_and_key(attends) else attends.get_submodule(family.keys),
            width,
            frequencies if turned else None,
            norms=(attends.q_norm, attends.k_norm) if hasattr(attends, "q_norm") else None,
        )


def attention_maps(model: PreTrainedModel, ids: Tensor) -> list[Tensor | None]:
    """Return the attention weights of each layer [H, N, N] on one document [1, N]; None of one without a mechanism.

    Without any mechanism, only eager attention forms them, so the model attends eagerly meanwhile.
    """
    if model.config.mechanism is None:
        inner = model.base_model.inner
        usual = inner.config._attn_implementation
        inner.set_attn_implementation("eager")
    try:
        maps = model.base_model(input_ids=ids, output_attentions=True).attentions
        return [None if each is None else each[0] for each in maps]
    finally:
        if model.config.mechanism is None:
            inner.set_attn_implementation(usual)


def gradient_norm(layer: AttentionLayer) -> float:
    """Return the norm of the gradients of the projections of a layer, or of their updates; 0 without gradients."""
    parameters = [parameter for module in layer.modules() for parameter in module.parameters()]
    squares = [parameter.grad.double().square().sum() for parameter in parameters if parameter.grad is not None]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


@torch.no_grad()
def _read(module: Any, head_size: int, norm: nn.Module | None) -> Projection:
    """Return the weight of a linear map by head, with the gain of the norm that follows on it."""
    base = _weight(getattr(module, "base_layer", module))
    device = base.device if base.device.type == "cuda" else "cpu"  # others know no float64
    base = base.to(device, torch.float64)
    ups, downs = [base.new_zeros(base.shape[0], 0)], [base.new_zeros(0, base.shape[1])]
    for name in _adapters(module):
        ups.append(module.scaling[name] * module.lora_B[name].weight.to(base))
        downs.append(module.lora_A[name].weight.to(base))
    gain = _gain(norm).to(base) if norm is not None else base.new_ones(head_size)
    gain = gain.view(-1, head_size, 1)  # of every head, or one for all
    base, up = (gain * matrix.unflatten(0, (-1, head_size)) for matrix in (base, torch.cat(ups, dim=1)))
    return Projection(base, up, torch.cat(downs))


def _adapters(module: Any) -> list[str]:
    """Return the names of the LoRA updates of a module that are not merged."""
    matrices: Mapping[str, Any] = getattr(module, "lora_A", {})
    names = [name for name in matrices if name in module.active_adapters and name not in module.merged_adapters]
    if changed := [name for name in names if name in module.lora_variant]:
        raise ConfigError(
            f"the adapter {', '.join(changed)} is {type(module.lora_variant[changed[0]]).__name__}, whose change of "
            "weights is no product of two matrices. Expected plain LoRA where a stage measures geometry; choose it, or "
            "leave the stage's `geometry` out."
        )
    return names


def _weight(linear: nn.Module) -> Tensor:
    """Return the weight of a linear map, dequantised if it is quantised."""
    if type(linear.weight) is nn.Parameter:
        return linear.weight
    from peft.utils.integrations import dequantize_module_weight

    return dequantize_module_weight(linear)


def _gain(norm: nn.Module) -> Tensor:
    """Return the factors of a norm, one per dimension; a vector of ones has the length that it keeps."""
    weight = next(norm.parameters())
    return norm(torch.ones_like(weight))
