"""What training costs: a step of masked language modelling, and an epoch of fine-tuning on documents of many lengths.

All inputs are random ids. The documents of the epoch are as long as IMDb's reviews; nothing else of them is IMDb's.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, PreTrainedModel

from lib.attention.contract import set_kernels
from lib.attention.kernels import has_kernels
from lib.attention.parameters import Kernels
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.masked_lm import EncoderForMaskedLM
from lib.backbones.encoder.parameters import Parameters as Encoder
from lib.backbones.encoder.sequence_classification import EncoderForSequenceClassification
from lib.data.padding import known_beforehand, pad_ids
from lib.data.samplers import LengthGroupedSampler
from lib.measure.cost import (
    clock_mhz,
    host_seconds,
    interleaved,
    matrix_rate,
    operation_counter,
    processor,
    runs,
    warm_up,
    with_peak_mb,
)
from lib.measure.tables import TRAINING_COLUMNS

BERT = "bert"
VOCABULARY = 30_522
LENGTH = 512
"""Tokens of a sequence of masked language modelling, and most of a document."""

DOCUMENTS_A_STEP = 64
"""As in the study's recipe, whatever the size of the batches that are held at a time."""

PREDICTED = 0.15
IMDB_LENGTHS = (
    14, 81, 121, 141, 152, 162, 171, 181, 194, 207, 221,
    238, 260, 288, 315, 351, 400, 460, 556, 724, 2813,
)  # fmt: skip
"""Tokens of IMDb's reviews, with BERT's vocabulary: the quantiles 0, 0.05, ..., 1."""

Work = Literal["mlm", "finetune_epoch", "finetune_epoch_padded"]


@dataclass(frozen=True)
class Case:
    """One row of the comparison.

    Args:
        implementation: `ours` or `transformers`.
        model: name of the mechanism, or `bert`.
        mechanism: its parameters; None for BERT.
        encoder: sizes and dropouts.
        work: `mlm`, a step of masked language modelling on sequences of 512 tokens; `finetune_epoch`, an epoch of
            classification of documents in batches of similar length; `finetune_epoch_padded`, every batch 512 long.
        batch: sequences that are held at a time; an optimiser step of classification has `DOCUMENTS_A_STEP`.
        documents: number of documents of an epoch, random ids of the lengths of IMDb's reviews.
        device: such as `cpu`.
        dtype: of the forward pass, such as `float32`.
        kernels: what our attention computes with.
    """

    implementation: str
    model: str
    mechanism: dict[str, Any] | None
    encoder: dict[str, Any]
    work: Work
    batch: int
    documents: int
    device: str
    dtype: str
    kernels: Kernels = "torch"


class Training:
    """A model, its optimiser and the batches of a case; called, it trains on all of them once."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.case = case
        self.model = _model(case).to(case.device).train()
        set_kernels(self.model, case.kernels)
        on_gpu = case.device == "cuda"  # there, as in a training
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=on_gpu or None)
        scored = case.work == "mlm" and case.mechanism is not None
        self.batches = [
            {name: tensor.to(case.device) for name, tensor in known_beforehand(batch, scored=scored).items()}
            for batch in (_masked_batches(case) if case.work == "mlm" else _document_batches(case))
        ]

    @property
    def tokens(self) -> int:
        """Real tokens of all batches."""
        return sum(
            int(batch.get("attention_mask", torch.ones_like(batch["input_ids"])).sum()) for batch in self.batches
        )

    def __call__(self) -> None:
        """Train."""
        case = self.case
        batches_a_step = 1 if case.work == "mlm" else max(1, DOCUMENTS_A_STEP // case.batch)
        for number, batch in enumerate(self.batches, start=1):
            with torch.autocast(case.device, getattr(torch, case.dtype), enabled=case.dtype != "float32"):
                loss = self.model(**batch).loss
            loss.backward()
            if number % batches_a_step == 0 or number == len(self.batches):
                self.optimiser.step()
                self.optimiser.zero_grad()


def training_cost(
    mechanisms: Mapping[str, dict[str, Any]],
    encoder: Encoder,
    *,
    batch: int,
    documents: int,
    document_batch: int,
    device: str,
    dtype: str,
    repetitions: int,
) -> pd.DataFrame:
    """Return what training costs, a row for each implementation, model and work; on a GPU, what fails is left out.

    Args:
        mechanisms: parameters by name.
        encoder: sizes and dropouts of all models, BERT's included.
        batch: sequences of a step of masked language modelling.
        documents: number of documents of an epoch, random ids of the lengths of IMDb's reviews.
        document_batch: documents of a batch.
        device: `cpu` or `cuda`.
        dtype: of the forward pass.
        repetitions: of a step; an epoch is measured once.

    Returns:
        Columns `TRAINING_COLUMNS`. Of those, `kernels` is what our attention computes with, `batch` is sequences held
        at a time, `tokens` counts real ones, `gemm_share` is a step's operations a second over those of large matrix
        products, `peak_mb` is the peak memory in MiB of three passes over the first batch, `host_ms` the time after
        which the host has launched all of a step on a GPU, and `clock_mhz` the clock of the GPU just after the
        repetitions.

    Raises:
        RunError: memory did not suffice.
    """
    place = torch.device(device)
    cases = training_cases(
        mechanisms,
        encoder,
        batch=batch,
        documents=documents,
        document_batch=document_batch,
        device=device,
        dtype=dtype,
    )
    rate = matrix_rate(place, getattr(torch, dtype))
    rows = []
    # One kind of work after the other, so that no more models are held at once than are compared.
    for kind in ("mlm", "finetune_epoch"):
        group = {number: Training(case) for number, case in enumerate(cases) if case.work.startswith(kind)}
        group = {number: training for number, training in group.items() if runs(training, cases[number], place)}
        if kind == "mlm":
            for training in group.values():
                warm_up(training, place)
        turns = repetitions if kind == "mlm" else 1  # an epoch has many steps
        times = interleaved(group, dict.fromkeys(group, turns), place, "own")
        clock = clock_mhz(place)
        on_host = {number: host_seconds(training, place, 3) for number, training in group.items() if kind == "mlm"}
        tokens = {number: training.tokens for number, training in group.items()}
        group.clear()
        operations: dict[str, float] = {}
        for number, count in tokens.items():
            case, median = cases[number], statistics.median(times[number])
            # The longest batch needs most, and comes first.
            first = replace(case, documents=min(documents, case.batch))
            counted, peak = with_peak_mb(_train, first, device=place)
            if case.kernels == "torch":
                operations[case.model] = counted
            # What Triton's kernels do is not seen; torch's row comes before.
            done = operations.get(case.model, math.nan)
            rows.append(
                {
                    "implementation": case.implementation,
                    "model": case.model,
                    "kernels": case.kernels,
                    "step": case.work,
                    "batch": case.batch,
                    "tokens": count,
                    "median_ms": 1000 * median,
                    "tokens_per_s": count / median,
                    "gemm_share": done / median / rate if kind == "mlm" else math.nan,
                    "peak_mb": peak,
                    "host_ms": 1000 * on_host.get(number, math.nan),
                    "clock_mhz": clock,
                    "device": device,
                    "dtype": dtype,
                    "threads": torch.get_num_threads(),
                    "repetitions": turns,
                    "processor": processor(place),
                    "torch": torch.__version__,
                }
            )
    return pd.DataFrame(rows, columns=TRAINING_COLUMNS)


def training_cases(
    mechanisms: Mapping[str, dict[str, Any]],
    encoder: Encoder,
    *,
    batch: int,
    documents: int,
    document_batch: int,
    device: str,
    dtype: str,
) -> list[Case]:
    """Return what `training_cost` measures: a step of every model and BERT, epochs of exact attention and BERT.

    On a GPU, models whose attention has Triton kernels have a step with torch's operations, and then one with them.

    Args:
        mechanisms: parameters by name.
        encoder: sizes and dropouts of all models, BERT's included.
        batch: sequences of a step of masked language modelling.
        documents: number of documents of an epoch, random ids of the lengths of IMDb's reviews.
        document_batch: documents of a batch.
        device: `cpu` or `cuda`.
        dtype: of the forward pass.
    """
    models: dict[str, dict[str, Any] | None] = {BERT: None, **mechanisms}
    wanted: list[tuple[str, Work, int]] = [(model, "mlm", batch) for model in models]
    exact = next((name for name, parameters in mechanisms.items() if parameters["kind"] == "sdpa"), None)
    wanted.append((BERT, "finetune_epoch_padded", document_batch))
    if exact is not None:
        wanted += [(exact, "finetune_epoch_padded", document_batch), (exact, "finetune_epoch", document_batch)]
    cases = []
    for model, work, size in wanted:
        case = Case(
            implementation="transformers" if model == BERT else "ours",
            model=model,
            mechanism=models[model],
            encoder=encoder.model_dump(),
            work=work,
            batch=size,
            documents=documents,
            device=device,
            dtype=dtype,
        )
        cases.append(case)
        if case.mechanism and device == "cuda" and has_kernels(case.mechanism["kind"]):
            cases.append(replace(case, kernels="triton"))
    return cases


def _train(case: Case) -> int:
    """Train as often as memory grows, and return the operations of one time."""
    training = Training(case)
    with operation_counter() as counter:
        training()
    for _ in range(2):  # the optimiser's state exists from the second time on, and memory settles
        training()
    return counter.get_total_flops()


def document_lengths(documents: int) -> list[int]:
    """Return lengths of `documents` documents in tokens, spread evenly over those of IMDb's reviews and cut to 512."""
    at = (np.arange(documents) + 0.5) / documents
    lengths = np.interp(at, np.linspace(0, 1, len(IMDB_LENGTHS)), IMDB_LENGTHS)
    return np.minimum(lengths.round().astype(int), LENGTH).tolist()


def _model(case: Case) -> PreTrainedModel:
    masked = case.work == "mlm"
    encoder = Encoder(**case.encoder)
    if case.mechanism is not None:
        sizes = encoder.model_dump(exclude={"kind", "mechanism"})
        config = EncoderConfig(mechanism=case.mechanism, vocab_size=VOCABULARY, **sizes)
        return (EncoderForMaskedLM if masked else EncoderForSequenceClassification)(config)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=encoder.hidden_size,
        num_hidden_layers=encoder.num_hidden_layers,
        num_attention_heads=encoder.num_attention_heads,
        intermediate_size=encoder.intermediate_size,
        hidden_dropout_prob=encoder.mlp_dropout,
        attention_probs_dropout_prob=encoder.attention_dropout,
        max_position_embeddings=LENGTH,
    )
    return (BertForMaskedLM if masked else BertForSequenceClassification)(config)


def _masked_batches(case: Case) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, VOCABULARY, (case.batch, LENGTH), generator=generator)
    predicted = torch.rand(ids.shape, generator=generator) < PREDICTED
    return [{"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.masked_fill(~predicted, -100)}]


def _document_batches(case: Case) -> list[dict[str, Tensor]]:
    lengths = document_lengths(case.documents)
    generator = np.random.default_rng(0)
    order = [index for _, index in LengthGroupedSampler(lengths, case.batch, seed=0)]
    batches = []
    rows: list[Any]
    for start in range(0, len(order), case.batch):
        chosen: Sequence[int] = order[start : start + case.batch]
        rows = [generator.integers(1000, VOCABULARY, lengths[index]) for index in chosen]
        width = max(map(len, rows)) if case.work == "finetune_epoch" else LENGTH
        ids, mask = pad_ids(rows, width, 0)
        batches.append({"input_ids": ids, "attention_mask": mask, "labels": torch.tensor(chosen) % 2})
    return batches
