"""What it costs to adapt a decoder opened to both sides: a step of MNTP with LoRA, beside transformers and peft.

Both train the same Llama on the same batch of random ids. Ours computes scores over the vocabulary where a token is
predicted; the plain loop computes them everywhere, as `labels` of a causal language model have it.
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from peft import LoraConfig, get_peft_model, inject_adapter_in_model
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from lib.backbones.heads.masked_lm import MaskedLM
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.model import PretrainedBackboneModel
from lib.data.masking import MlmCollator, TokenMasker
from lib.measure.cost import processor, timed, with_peak_mb
from lib.measure.tables import ADAPTATION_COLUMNS

PREDICTED = 0.2
SIZES = {"model_type": "llama", "tie_word_embeddings": True, "max_position_embeddings": 512}
MODELS = {
    "llama-32k": SIZES
    | {
        "vocab_size": 32_000,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 6,
    },
    "llama-128k": SIZES
    | {
        "vocab_size": 128_000,
        "hidden_size": 256,
        "intermediate_size": 688,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    },
}
"""Architectures by name: of 8 million weights, and of 34 million, 33 of which are embeddings as Llama 3 has them."""

Implementation = Literal["transformers + peft", "ours"]


@dataclass(frozen=True)
class Case:
    """One row of the comparison.

    Args:
        implementation: whose loop it is.
        architecture: as a backbone of kind `pretrained` takes it.
        batch: sequences of a step.
        length: tokens of a sequence.
        repetitions: of the step.
        device: such as `cpu`.
        dtype: of the forward pass, such as `float32`.
    """

    implementation: Implementation
    architecture: dict[str, Any]
    batch: int
    length: int
    repetitions: int
    device: str
    dtype: str


class Adaptation:
    """A bidirectional model with LoRA, its optimiser and a batch; called, it trains one step.

    Attributes:
        parameters: weights without LoRA's.
        trained: weights of LoRA.
        scored: tokens for which scores over the vocabulary are computed.
    """

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case = case
        ours = case.implementation == "ours"
        config = PretrainedBackboneConfig(
            architecture=case.architecture,
            attention="bidirectional",
            vocab_size=case.architecture["vocab_size"],
            pad_token_id=0,
        )
        model: nn.Module = MaskedLM.on(PretrainedBackboneModel)(config) if ours else LlamaForCausalLM(config.inner())
        self.parameters = sum(weight.numel() for weight in model.parameters())
        model = inject_adapter_in_model(_lora(), model) if ours else get_peft_model(model, _lora())  # type: ignore[arg-type]
        self.model = model.to(case.device).train()
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.trained = sum(weight.numel() for weight in trained)
        self.optimiser = torch.optim.AdamW(trained, lr=2e-4, weight_decay=0.01)
        self.batch = {name: tensor.to(case.device) for name, tensor in _batch(case, at_previous=ours).items()}
        labels = self.batch["labels"]
        self.scored = int((labels != -100).sum()) if ours else labels.numel()

    def loss(self) -> Tensor:
        """Return the loss of the batch."""
        case = self.case
        with torch.autocast(case.device, getattr(torch, case.dtype), enabled=case.dtype != "float32"):
            return self.model(**self.batch).loss

    def __call__(self) -> None:
        """Train."""
        self.loss().backward()
        self.optimiser.step()
        self.optimiser.zero_grad()


def adaptation_cost(
    models: Mapping[str, dict[str, Any]],
    *,
    batch: int,
    length: int,
    repetitions: int,
    device: str,
    dtype: str,
) -> pd.DataFrame:
    """Return what a step of adaptation costs, a row for each model and implementation.

    Args:
        models: architectures by name.
        batch: sequences of a step.
        length: tokens of a sequence.
        repetitions: of a step, after one that warms up.
        device: `cpu`, where each row has a process of its own, or `cuda`.
        dtype: of the forward pass.

    Returns:
        Columns `ADAPTATION_COLUMNS`. Of those, `parameters` counts weights without LoRA's and `trained` LoRA's,
        `scored` the tokens for which scores over the vocabulary are computed, and `peak_mb` is the peak memory in MiB
        of all steps, the model's included.

    Raises:
        RunError: memory did not suffice.
    """
    place = torch.device(device)
    rows = []
    for name, architecture in models.items():
        for implementation in ("transformers + peft", "ours"):
            case = Case(implementation, architecture, batch, length, repetitions, device, dtype)
            small = replace(case, batch=1, length=16, repetitions=1)
            (sizes, seconds), peak = with_peak_mb(
                measure, case, device=place, warm_up=(small,), preloaded=["lib.measure.adaptation_cost"]
            )
            median, tokens = statistics.median(seconds), batch * length
            rows.append(
                {
                    "implementation": implementation,
                    "model": name,
                    "vocabulary": architecture["vocab_size"],
                    "batch": batch,
                    "tokens": tokens,
                    "median_ms": 1000 * median,
                    "tokens_per_s": tokens / median,
                    "peak_mb": peak,
                    "device": device,
                    "dtype": dtype,
                    "threads": torch.get_num_threads(),
                    "repetitions": repetitions,
                    "processor": processor(place),
                    "torch": torch.__version__,
                }
                | sizes
            )
    return pd.DataFrame(rows, columns=ADAPTATION_COLUMNS)


def measure(case: Case) -> tuple[dict[str, int], list[float]]:
    """Return the sizes of a case by column, and the seconds of every repetition of its step."""
    adaptation, place = Adaptation(case), torch.device(case.device)
    timed(adaptation, place)
    seconds = [timed(adaptation, place) for _ in range(case.repetitions)]
    return {name: getattr(adaptation, name) for name in ("parameters", "trained", "scored")}, seconds


def _lora() -> LoraConfig:
    """Return LoRA of rank 64 on every projection, which adds twice its product."""
    projections = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return LoraConfig(r=64, lora_alpha=128, lora_dropout=0.05, target_modules=projections)


def _batch(case: Case, *, at_previous: bool) -> dict[str, Tensor]:
    size = case.architecture["vocab_size"]
    masker = TokenMasker(1, np.arange(size) < 2, np.arange(2, size), seed=0, mask_probability=PREDICTED)
    ids = np.random.default_rng(0).integers(2, size, (case.batch, case.length))
    ids[:, 0] = 0  # what begins a text, and is never chosen
    examples = [{"id": str(row), "input_ids": ids[row], "epoch": 0, "index": row} for row in range(case.batch)]
    return MlmCollator(masker, 0, at_previous=at_previous)(examples)
