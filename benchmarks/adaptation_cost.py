"""Measure the cost of adapting an opened decoder, compared with transformers and peft: a step of MNTP with LoRA.

Both train the same Llama on the same batch of random ids. Ours computes scores over the vocabulary where a token is
predicted; the plain loop computes them everywhere, as `labels` of a causal language model have it.

All inputs are random ids.

python benchmarks/adaptation_cost.py --out FILE
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from peft import LoraConfig, get_peft_model, inject_adapter_in_model
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from benchmarks import options
from benchmarks.comparison import Case, Counted, compare
from benchmarks.tables import COLUMNS, OURS
from benchmarks.timing import interleaved
from lib.advice.training_steps import TrainedModel
from lib.backbones.heads.masked_lm import MaskedLM
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.model import PretrainedBackboneModel
from lib.tokens.masking import MlmCollator, TokenMasker

PREDICTED = 0.2
SIZES = {"model_type": "llama", "tie_word_embeddings": True, "max_position_embeddings": 512}
SMALL = {"hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 6}
WIDE = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 2, "num_attention_heads": 4}
MODELS = {"llama-32k": SIZES | SMALL | {"vocab_size": 32_000}, "llama-128k": SIZES | WIDE | {"vocab_size": 128_000}}
"""Architectures by name: 8 million weights, and 34 million with 33 million in embeddings, the vocabulary size of Llama
3."""

PLAIN = "transformers + peft"


@dataclass(frozen=True)
class Sizes(Counted):
    """How large an adaptation is."""

    vocabulary: int = 0
    parameters: int = 0
    """Weights without LoRA's."""
    trained: int = 0
    """Weights of LoRA."""
    scored: int = 0
    """Tokens whose scores over the vocabulary are computed."""


@dataclass(frozen=True, kw_only=True)
class AdaptationCase(Case):
    """A step of adapting a decoder.

    Args:
        implementation: whose loop it is, `PLAIN` or `OURS`.
        model: name of the architecture.
        architecture: as a backbone of kind `pretrained` takes it.
        length: tokens of a sequence.
    """

    NAMED_BY = ("implementation", "model")

    implementation: str
    model: str
    architecture: dict[str, Any]
    length: int

    @property
    def tokens(self) -> int:
        """Tokens of all sequences."""
        return self.batch * self.length

    def prepare(self) -> "Adaptation":
        """Return the adaptation."""
        return Adaptation(self)

    def count(self) -> Sizes:
        """Train as often as memory grows, and return the sizes."""
        adaptation = self.prepare()
        for _ in range(2):  # the optimiser's state exists from the second time on
            adaptation()
        return adaptation.sizes

    def small(self) -> Self:
        """Return the same over a few tokens."""
        return replace(self, batch=1, length=16)


class Adaptation(TrainedModel):
    """A bidirectional model with LoRA, and a batch; called, it trains one step."""

    def __init__(self, case: AdaptationCase) -> None:
        torch.manual_seed(0)
        ours = case.implementation == OURS
        config = PretrainedBackboneConfig(
            architecture=case.architecture,
            attention="bidirectional",
            vocab_size=case.architecture["vocab_size"],
            pad_token_id=0,
        )
        model: nn.Module = MaskedLM.on(PretrainedBackboneModel)(config) if ours else LlamaForCausalLM(config.inner())
        parameters = sum(weight.numel() for weight in model.parameters())
        model = inject_adapter_in_model(_lora(), model) if ours else get_peft_model(model, _lora())  # type: ignore[arg-type]
        super().__init__(model, case.device, case.dtype)
        self.batch = {name: tensor.to(case.device) for name, tensor in _batch(case, at_previous=ours).items()}
        labels = self.batch["labels"]
        scored = int((labels != -100).sum()) if ours else labels.numel()
        self.sizes = Sizes(vocabulary=config.vocab_size, parameters=parameters, trained=self.weights, scored=scored)

    def __call__(self) -> None:
        """Train."""
        self.loss(self.batch).backward()
        self.update()


def adaptation_cost(models: Mapping[str, dict[str, Any]], *, repetitions: int, **setting: Any) -> pd.DataFrame:
    """Return the cost of an adaptation step, one row per model and implementation.

    Args:
        models: architectures by name.
        repetitions: of a step, after one that warms up.
        setting: `batch`, `length`, `device` and `dtype` of the cases, see `AdaptationCase`.

    Returns:
        Table `adaptation_cost` of `benchmarks.tables`; `parameters`, `trained` and `scored` are of `Sizes`, and
        `peak_mb` is the peak memory in MiB of some steps, the model's included.

    Raises:
        RunError: memory did not suffice.
    """
    place = torch.device(setting["device"])
    rows: list[dict[str, Any]] = []
    for model, architecture in models.items():
        cases = [
            AdaptationCase(implementation=implementation, model=model, architecture=architecture, **setting)
            for implementation in (PLAIN, OURS)
        ]
        times = partial(interleaved, repetitions=repetitions, device=place, queue="own", warm=True)
        rows += compare(cases, times, host_repetitions=0)
    return pd.DataFrame(rows, columns=COLUMNS["adaptation_cost"])


def _lora() -> LoraConfig:
    """Return LoRA of rank 64 on every projection, which adds twice its product."""
    projections = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return LoraConfig(r=64, lora_alpha=128, lora_dropout=0.05, target_modules=projections)


def _batch(case: AdaptationCase, *, at_previous: bool) -> dict[str, Tensor]:
    size = case.architecture["vocab_size"]
    masker = TokenMasker(1, np.arange(size) < 2, np.arange(2, size), seed=0, mask_probability=PREDICTED)
    ids = np.random.default_rng(0).integers(2, size, (case.batch, case.length))
    ids[:, 0] = 0  # what begins a text, and is never chosen
    examples = [{"id": str(row), "input_ids": ids[row], "epoch": 0, "index": row} for row in range(case.batch)]
    return MlmCollator(masker, 0, at_previous=at_previous)(examples)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(__doc__, on_device=True, models=MODELS, batch=8, length=512, repetitions=3)
    options.measure(parser, adaptation_cost, argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
