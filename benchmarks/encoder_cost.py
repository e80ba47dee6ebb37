"""Measure a forward pass and a training step of whole encoders, compared with ModernBERT, LFM2 and Mamba.

All have random weights, the same width and, without embeddings, nearly the same number of weights. They have no head,
since heads are alike, and no dropout.

Shapes: B batch, N tokens, D hidden size.

python benchmarks/encoder_cost.py --out FILE
"""

import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from transformers import Lfm2Config, Lfm2Model, MambaConfig, MambaModel, ModernBertConfig, ModernBertModel

from benchmarks import options
from benchmarks.compared import ENCODERS, FORWARD_ONLY
from benchmarks.cost import machine, repeated, spread
from benchmarks.implementations import Called
from benchmarks.limits import Limits
from benchmarks.tables import COLUMNS, OURS
from benchmarks.timing import Computation
from benchmarks.training_cost import state_space_layers
from lib.advice.training_steps import TrainedModel
from lib.attention.contract import set_step
from lib.backbones.encoder.settings import Settings as Encoder
from lib.backbones.faster import use_onednn
from lib.backbones.settings import BACKBONES, VOCABULARY

logger = logging.getLogger(__name__)

ENCODER_LENGTHS = (512, 2048, 8192, 16_384)
"""Tokens of a text, N."""

TOKENS = 2048
"""Tokens of a batch of texts that are no longer than it."""

PASSES = ("forward", "step")
"""Kinds of passes: without gradients; and forward, backward and AdamW's update."""

NO_DROPOUT = dict.fromkeys(
    ("embedding_dropout", "mlp_dropout", "attention_output_dropout", "attention_dropout", "layer_dropout"), 0.0
)


class TimedEncoder(TrainedModel):
    """A model without a head, whose passes over ids [B, N] can be timed.

    Args:
        model: returns the states [B, N, D] of ids.
        device: `cpu` or `cuda`.
        dtype: of the forward pass, such as `float32`.
    """

    def __init__(self, model: nn.Module, device: str, dtype: str) -> None:
        super().__init__(model, device, dtype, "auto")
        self.steps = 0

    def states(self, ids: Tensor) -> Tensor:
        """Return the states [B, N, D]."""
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            return self.model(ids)

    def forward(self, ids: Tensor) -> None:
        """Compute the states, and keep nothing."""
        with torch.no_grad():
            self.model.eval()
            self.states(ids)

    def step(self, ids: Tensor) -> None:
        """Train on the mean square of the states."""
        self.steps += 1
        set_step(self.model, self.steps)  # as in training: rotations of LSH are drawn again at every step
        self.model.train()
        self.states(ids).square().mean().backward()
        self.update()


def own_encoder(parameters: Mapping[str, Any], encoder: Encoder) -> nn.Module:
    """Return one of our encoders.

    Args:
        parameters: kind and own settings of its backbone, such as the mechanism.
        encoder: sizes of the attention encoder, which others take over if they have them.
    """
    kind = BACKBONES.settings(parameters["kind"])
    sizes = encoder.model_dump(exclude={"kind", "mechanism"}) | NO_DROPOUT
    if kind is not Encoder:
        sizes["num_hidden_layers"] = state_space_layers(encoder)
        del sizes["num_attention_heads"]  # no layer attends
    settings = kind(**{name: value for name, value in sizes.items() if name in kind.model_fields} | dict(parameters))
    model_class = BACKBONES.load(settings.kind, "backbone").Backbone.model_class
    config = model_class.config_class(vocab_size=VOCABULARY, **settings.model_dump(exclude={"kind"}))
    model = model_class(config)
    use_onednn(model)  # as in a training
    return Called(model, lambda model, ids: model(input_ids=ids).last_hidden_state)


def modernbert(encoder: Encoder) -> nn.Module:
    """Return transformers' ModernBERT, by torch's own kernel of attention.

    Every third layer sees all tokens, the others a window of 128. Its feed-forward parts have a gate, and so two thirds
    of the width for the same weights.
    """
    config = ModernBertConfig(
        vocab_size=VOCABULARY,
        hidden_size=encoder.hidden_size,
        num_hidden_layers=encoder.num_hidden_layers,
        num_attention_heads=encoder.num_attention_heads,
        intermediate_size=_gated_width(encoder),
        pad_token_id=0,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")),
    )
    model = ModernBertModel._from_config(config, attn_implementation="sdpa")
    return Called(model, lambda model, ids: model(input_ids=ids).last_hidden_state)


def lfm2(encoder: Encoder) -> nn.Module:
    """Return transformers' LFM2, opened to both sides: every third layer is attention, the others short convolutions.

    The published models have 6 of 16 layers of attention. Two heads of queries share one of keys, as there. The
    convolutions stay those over three tokens up to each one, which cost the same as those around each one.
    """
    config = Lfm2Config(
        vocab_size=VOCABULARY,
        hidden_size=encoder.hidden_size,
        num_hidden_layers=encoder.num_hidden_layers,
        num_attention_heads=encoder.num_attention_heads,
        num_key_value_heads=encoder.num_attention_heads // 2,
        intermediate_size=_gated_width(encoder),
        block_auto_adjust_ff_dim=False,
        full_attn_idxs=list(range(2, encoder.num_hidden_layers, 3)),
    )
    model = Lfm2Model._from_config(config, attn_implementation="sdpa")
    for layer in model.layers:
        if layer.is_attention_layer:
            layer.self_attn.is_causal = False
    # Without masks, each kind of layer sees everything that it can.
    masks = dict.fromkeys(("full_attention", "conv"))
    return Called(
        model, lambda model, ids: model(input_ids=ids, attention_mask=masks, use_cache=False).last_hidden_state
    )


def mamba(encoder: Encoder) -> nn.Module:
    """Return transformers' Mamba with its reference scan, a token after the other, in one direction."""
    config = MambaConfig(
        vocab_size=VOCABULARY, hidden_size=encoder.hidden_size, num_hidden_layers=state_space_layers(encoder)
    )
    return Called(MambaModel(config), lambda model, ids: model(input_ids=ids, use_cache=False).last_hidden_state)


PEER_ENCODERS: dict[str, Callable[[Encoder], nn.Module]] = {"modernbert": modernbert, "lfm2": lfm2, "mamba": mamba}
"""Encoders of transformers by name."""


def encoder_cost(
    encoders: Mapping[str, Mapping[str, Any]],
    encoder: Encoder,
    *,
    lengths: Sequence[int],
    device: str,
    dtype: str,
    seconds: float,
    minutes: float,
) -> pd.DataFrame:
    """Return the cost of a pass of whole encoders, one row per encoder, kind of pass and length.

    Args:
        encoders: parameters of our backbones by name, see `own_encoder`; those of `PEER_ENCODERS` are added.
        encoder: sizes.
        lengths: N in tokens; a batch has `TOKENS` in all, and one text at least.
        device: `cpu` or `cuda`.
        dtype: of the forward pass.
        seconds: time for the repetitions of a row; one at least, and `benchmarks.cost.REPETITIONS` at most.
        minutes: a row that is expected to take longer once, by the last one that was measured, if time grew by the
            square of the length, has no measurement, and says so in `skipped`.

    Returns:
        Table `encoder_cost` of `benchmarks.tables`; `parameters` leaves out the embeddings of words.
    """
    limits, place = Limits(minutes, math.inf), torch.device(device)
    torch.manual_seed(0)
    makers: dict[str, Callable[[], nn.Module]] = {
        name: partial(own_encoder, parameters, encoder) for name, parameters in encoders.items()
    }
    makers |= {name: partial(maker, encoder) for name, maker in PEER_ENCODERS.items()}
    models = {name: TimedEncoder(maker(), device, dtype) for name, maker in makers.items()}
    last: dict[tuple[str, str], tuple[int, float]] = {}  # tokens of a text, and seconds
    rows = []
    for length in sorted(lengths):
        batch = max(1, TOKENS // length)
        ids = torch.randint(1000, VOCABULARY, (batch, length), device=device)
        computations: dict[tuple[str, str], Computation] = {}
        least, skipped = {}, {}  # seconds that a pass takes at least: in proportion to its tokens
        for name, kind in ((name, kind) for name in models for kind in PASSES):
            key = name, kind
            if kind == "step" and name in FORWARD_ONLY:
                continue
            expected = 0.0
            if key in last:
                before, took = last[key]
                expected = took * (length / before) ** 2
                least[key] = took * max(TOKENS, length) / max(TOKENS, before)
            skipped[key] = limits.exceeded(expected, 0.0)
            if not skipped[key]:
                computations[key] = partial(getattr(models[name], kind), ids)
        times = repeated(computations, least, seconds, place, "own")
        for key, reason in skipped.items():
            name, kind = key
            columns = spread(times.get(key, [math.nan]))
            if not reason:
                last[key] = length, columns["median_ms"] / 1000
            rows.append(
                {
                    "implementation": "transformers" if name in PEER_ENCODERS else OURS,
                    "model": name,
                    "parameters": models[name].weights - VOCABULARY * encoder.hidden_size,
                    "pass": kind,
                    "length": length,
                    "batch": batch,
                    "tokens": batch * length,
                    "tokens_per_s": batch * length / (columns["median_ms"] / 1000),
                    "skipped": reason or None,
                    "hidden_size": encoder.hidden_size,
                    **columns,
                    **({"repetitions": 0} if reason else {}),
                    **machine(device, dtype),
                }
            )
            logger.info("%s, %s, %d tokens: %s", name, kind, length, reason or f"{columns['median_ms']:.0f} ms")
    return pd.DataFrame(rows, columns=COLUMNS["encoder_cost"])


def _gated_width(encoder: Encoder) -> int:
    return round(2 / 3 * encoder.intermediate_size)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__, on_device=True, encoders=ENCODERS, encoder={}, lengths=ENCODER_LENGTHS, seconds=6.0, minutes=1.0
    )
    options.measure(parser, lambda encoder, **rest: encoder_cost(encoder=Encoder(**encoder), **rest), argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
