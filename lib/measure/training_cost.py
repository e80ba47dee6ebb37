"""What training costs: a step of masked language modelling, and an epoch of fine-tuning on documents of many lengths.

All inputs are random ids. The documents of the epoch are as long as IMDb's reviews; nothing else of them is IMDb's.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, PreTrainedModel

from lib.attention.kernels import set_kernels
from lib.attention.settings import Kernels, each_of, kinds_of, parse_mechanisms
from lib.backbones.encoder import EncoderForMaskedLM, EncoderForSequenceClassification
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.settings import Settings as Encoder
from lib.backbones.onednn import use_onednn
from lib.data.padding import known_beforehand, pad_ids
from lib.data.samplers import LengthGroupedSampler
from lib.measure.comparison import Case, Counted, compare
from lib.measure.cost import interleaved, operation_counter
from lib.measure.tables import COLUMNS
from lib.measure.token_lengths import typical_lengths

BERT = "bert"
VOCABULARY = 30_522
LENGTH = 512
"""Tokens of a sequence of masked language modelling, and most of a document."""

DOCUMENTS_A_STEP = 64
"""Batch size of the study's recipe, whatever the micro-batches."""

PREDICTED = 0.15

Work = Literal["mlm", "finetune_epoch", "finetune_epoch_padded"]


@dataclass(frozen=True, kw_only=True)
class TrainingCase(Case):
    """Training a model on some batches.

    Args:
        implementation: `ours` or `transformers`.
        model: name of the mechanism, or `bert`.
        mechanism: its parameters, or a list that repeats over the layers; None for BERT.
        encoder: sizes and dropouts.
        step: `mlm`, a step of masked language modelling on sequences of 512 tokens; `finetune_epoch`, an epoch of
            classification of documents in batches of similar length; `finetune_epoch_padded`, every batch 512 long.
        documents: number of documents of an epoch, random ids of the lengths of IMDb's reviews.
    """

    NAMED_BY = ("model", "step")

    implementation: str
    model: str
    mechanism: dict[str, Any] | list[dict[str, Any]] | None
    encoder: Encoder
    step: Work
    documents: int

    @property
    def lengths(self) -> list[int]:
        """Tokens of each sequence."""
        if self.step == "mlm":
            return [LENGTH] * self.batch
        return typical_lengths("imdb", self.documents, LENGTH).tolist()

    @property
    def tokens(self) -> int:
        """Real tokens of all sequences."""
        return sum(self.lengths)

    def prepare(self) -> "TimedTraining":
        """Return the training."""
        return TimedTraining(self)

    def count(self) -> Counted:
        """Train on the first batch as often as memory grows; the longest batch needs most, and comes first."""
        training = replace(self, documents=min(self.documents, self.batch)).prepare()
        with operation_counter() as counter:
            training()
        for _ in range(2):  # the optimiser's state exists from the second time on, and memory settles
            training()
        return Counted(counter.get_total_flops() if self.step == "mlm" else math.nan)


class TrainedModel:
    """A model in training on a device, and AdamW over those of its weights that train.

    Args:
        model: to train.
        device: `cpu` or `cuda`.
        dtype: of the forward pass, such as `float32`.
        kernels: what our attention computes with.
        fused: whether AdamW is a single kernel; None = torch chooses.
    """

    def __init__(
        self, model: nn.Module, device: str, dtype: str, kernels: Kernels = "torch", *, fused: bool | None = None
    ) -> None:
        self.model = model.to(device).train()
        set_kernels(self.model, kernels)
        self.device, self.dtype = torch.device(device), getattr(torch, dtype)
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.weights = sum(weight.numel() for weight in trained)
        self.optimiser = torch.optim.AdamW(trained, lr=1e-5, fused=fused)

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the loss of a batch."""
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            return self.model(**batch).loss

    def update(self) -> None:
        """Do the optimiser's step."""
        self.optimiser.step()
        self.optimiser.zero_grad()


class TimedTraining(TrainedModel):
    """A model and the batches of a case; called, it trains on all of them once."""

    def __init__(self, case: TrainingCase) -> None:
        torch.manual_seed(0)
        fused = True if case.device == "cuda" else None  # on a GPU, as the Trainer's
        super().__init__(_model(case), case.device, case.dtype, case.kernels, fused=fused)
        masked = case.step == "mlm"
        self.batches_a_step = 1 if masked else max(1, DOCUMENTS_A_STEP // case.batch)
        batches = _masked_batches(case) if masked else _document_batches(case)
        scored = masked and case.mechanism is not None
        self.batches = [
            {name: tensor.to(case.device) for name, tensor in known_beforehand(batch, scored=scored).items()}
            for batch in batches
        ]

    def __call__(self) -> None:
        """Train."""
        for number, batch in enumerate(self.batches, start=1):
            self.loss(batch).backward()
            if number % self.batches_a_step == 0 or number == len(self.batches):
                self.update()


def training_cost(
    mechanisms: Mapping[str, Any],
    *,
    batch: int,
    document_batch: int,
    repetitions: int,
    **setting: Any,
) -> pd.DataFrame:
    """Return what training costs, a row for each implementation, model and work; on a GPU, what fails is left out.

    Args:
        mechanisms: parameters by name, or lists of such that repeat over the layers.
        batch: sequences of a step of masked language modelling.
        document_batch: documents of a batch.
        repetitions: of a step; an epoch, which has many steps, is measured once.
        setting: `encoder`, `documents`, `device` and `dtype` of the cases, see `TrainingCase`.

    Returns:
        Table `training_cost` of `lib.measure.tables`; `batch` is sequences held at a time, `tokens` counts
        real ones, and `peak_mb` is that of three passes over the first batch; see `lib.measure.comparison.compare`.

    Raises:
        RunError: memory did not suffice.
    """
    place = torch.device(setting["device"])
    cases = list(training_cases(mechanisms, batch=batch, document_batch=document_batch, **setting))
    turns = partial(interleaved, device=place, queue="own")
    # One kind of work after the other, so that no more models are held at once than are compared.
    steps, epochs = ([case for case in cases if (case.step == "mlm") == masked] for masked in (True, False))
    rows = [
        *compare(steps, partial(turns, repetitions=repetitions, warm=True), host_repetitions=3),
        *compare(epochs, partial(turns, repetitions=1), host_repetitions=0),
    ]
    return pd.DataFrame(rows, columns=COLUMNS["training_cost"])


def training_cases(
    mechanisms: Mapping[str, Any], *, batch: int, document_batch: int, **setting: Any
) -> Iterator[TrainingCase]:
    """Yield what `training_cost` measures: a step of every model and BERT, epochs of exact attention and BERT.

    Arguments are those of `training_cost`.
    """
    models: dict[str, Any] = {BERT: None, **mechanisms}
    kinds = {name: kinds_of(each_of(parse_mechanisms(parameters))) for name, parameters in mechanisms.items()}
    exact = [name for name, kind in kinds.items() if kind == "sdpa"][:1]
    wanted: list[tuple[str, Work, int]] = [(model, "mlm", batch) for model in models]
    wanted += [(model, "finetune_epoch_padded", document_batch) for model in (BERT, *exact)]
    wanted += [(model, "finetune_epoch", document_batch) for model in exact]
    for model, work, size in wanted:
        owner = "transformers" if model == BERT else "ours"
        case = TrainingCase(
            implementation=owner, model=model, mechanism=models[model], step=work, batch=size, **setting
        )
        yield from case.with_kernels(parse_mechanisms(case.mechanism)) if case.mechanism else (case,)


def _model(case: TrainingCase) -> PreTrainedModel:
    masked, encoder = case.step == "mlm", case.encoder
    if case.mechanism is not None:
        sizes = encoder.model_dump(exclude={"kind", "mechanism"})
        config = EncoderConfig(mechanism=case.mechanism, vocab_size=VOCABULARY, **sizes)
        model = (EncoderForMaskedLM if masked else EncoderForSequenceClassification)(config)
        use_onednn(model)
        return model
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


def _masked_batches(case: TrainingCase) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, VOCABULARY, (case.batch, LENGTH), generator=generator)
    predicted = torch.rand(ids.shape, generator=generator) < PREDICTED
    return [{"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.masked_fill(~predicted, -100)}]


def _document_batches(case: TrainingCase) -> list[dict[str, Tensor]]:
    lengths, generator = case.lengths, np.random.default_rng(0)
    order = [index for _, index in LengthGroupedSampler(lengths, case.batch, seed=0)]
    batches = []
    for start in range(0, len(order), case.batch):
        chosen = order[start : start + case.batch]
        rows: list[Any] = [generator.integers(1000, VOCABULARY, lengths[index]) for index in chosen]
        width = max(map(len, rows)) if case.step == "finetune_epoch" else LENGTH
        ids, mask = pad_ids(rows, width, 0)
        batches.append({"input_ids": ids, "attention_mask": mask, "labels": torch.tensor(chosen) % 2})
    return batches
