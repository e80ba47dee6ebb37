"""Measure training, compared with BERT: a step of masked language modelling, and an epoch of fine-tuning.

All inputs are random ids. The documents of the epoch are as long as IMDb's reviews; nothing else of them is IMDb's.

Without further options it measures all mechanisms of config/config.yaml in an encoder of BERT-small's sizes. On a GPU
it needs only torch, transformers, pydantic and pandas, and also measures the Triton kernels of mechanisms that have
them, the shorter sequences of a pretraining, attention within a window, and the state-space encoder.

python benchmarks/training_cost.py --out FILE
python benchmarks/training_cost.py --names sdpa favor-m64 ssm --compile --steps mlm --out FILE
"""

import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, PreTrainedModel

from benchmarks import options
from benchmarks.compared import IN_ADDITION_TO_THE_GRID
from benchmarks.comparison import Case, Counted, Name, compare
from benchmarks.cost import operation_counter
from benchmarks.tables import COLUMNS, LEAST
from benchmarks.timing import interleaved
from benchmarks.token_lengths import typical_lengths
from lib.advice.training_steps import TrainedModel
from lib.attention.contract import set_step
from lib.attention.settings import each_of, kinds_of, parse_mechanisms
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.model import EncoderModel
from lib.backbones.encoder.settings import Settings as Encoder
from lib.backbones.faster import use_onednn
from lib.backbones.heads.masked_lm import MaskedLM
from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.backbones.settings import BACKBONES, VOCABULARY
from lib.backbones.ssm.configuration import SsmConfig
from lib.backbones.ssm.model import SsmModel
from lib.tokens.batches import LengthGroupedSampler, known_beforehand, pad_ids, rounded

BERT = "bert"
STATE_SPACE = "ssm"
"""Kind of the state-space encoder, which has no attention mechanism."""

LENGTH = 512
"""Most tokens of a document, and of a sequence of masked language modelling."""
SHORT = 128
"""Tokens of three quarters of the sequences of the study's pretraining."""

DOCUMENTS_A_STEP = 64
"""Batch size of the study's recipe, whatever the micro-batches."""

PREDICTED = 0.15

Work = Literal["mlm", "finetune_epoch_padded", "finetune_epoch"]


@dataclass(frozen=True, kw_only=True)
class TrainingCase(Case):
    """Training a model on some batches.

    Args:
        implementation: `ours` or `transformers`.
        model: name of the mechanism, or `bert`.
        mechanism: its parameters, or a list that repeats over the layers; `STATE_SPACE` as the only kind for that
            encoder; None for BERT.
        encoder: sizes and dropouts.
        step: `mlm`, a step of masked language modelling on sequences of `length` tokens; `finetune_epoch`, an epoch of
            classification of documents in batches of similar length; `finetune_epoch_padded`, every batch as long as
            the longest document.
        length: most tokens of a sequence.
        documents: number of documents of an epoch, random ids of the lengths of IMDb's reviews.
        compiled: whether torch compiles the blocks.
    """

    NAMED_BY = ("model", "step", "length", "compiled")

    implementation: str
    model: str
    mechanism: dict[str, Any] | list[dict[str, Any]] | None
    encoder: Encoder
    step: Work
    length: int = LENGTH
    documents: int
    compiled: bool = False

    @property
    def counted_as(self) -> Name:
        """See `Case.counted_as`: the operations of compiled blocks are not seen."""
        return replace(self, kernels="torch", compiled=False).name

    @property
    def lengths(self) -> list[int]:
        """Tokens of each sequence."""
        if self.step == "mlm":
            return [self.length] * self.batch
        return typical_lengths("imdb", self.documents, self.length).tolist()

    @property
    def tokens(self) -> int:
        """Real tokens of all sequences."""
        return sum(self.lengths)

    def prepare(self) -> "TimedTraining":
        """Return the training."""
        return TimedTraining(self)

    def ways(self, *, compile: bool) -> Iterator["TrainingCase"]:
        """Yield the case by torch's operations, by kernels if there are some, and compiled if that is asked for."""
        if self.mechanism is None:
            ways = [self]
        elif _kind(self.mechanism) == STATE_SPACE:
            ways = list(self.by_kernels(BACKBONES.has(STATE_SPACE, "kernels")))
        else:
            ways = list(self.with_kernels(parse_mechanisms(self.mechanism)))
        yield from ways
        if compile:
            yield replace(ways[-1], compiled=True)

    def count(self) -> Counted:
        """Train on the first batch as often as memory grows; the longest batch needs most, and comes first."""
        training = replace(self, documents=min(self.documents, self.batch)).prepare()
        operations = math.nan
        if self.step == "mlm" and self.name == self.counted_as:
            with operation_counter() as counter:
                training()
            operations = counter.get_total_flops()
        for _ in range(3):  # the optimiser's state exists from the second time on, and memory settles
            training()
        return Counted(operations)


class TimedTraining(TrainedModel):
    """A model and the batches of a case; called, it trains on all of them once."""

    def __init__(self, case: TrainingCase) -> None:
        torch.manual_seed(0)
        fused = True if case.device == "cuda" else None  # on a GPU, as the Trainer's
        super().__init__(_model(case), case.device, case.dtype, case.kernels, fused=fused, compiled=case.compiled)
        self.steps_taken = 0
        masked = case.step == "mlm"
        self.batches_a_step = 1 if masked else max(1, DOCUMENTS_A_STEP // case.batch)
        batches = _masked_batches(case) if masked else _document_batches(case)
        scored = masked and case.mechanism is not None
        known = [known_beforehand(batch, scored=scored) for batch in batches]
        if self.graphs is not None:
            known = [rounded(batch) for batch in known]
        self.batches = [{name: tensor.to(case.device) for name, tensor in batch.items()} for batch in known]

    def __call__(self) -> None:
        """Train."""
        for number, batch in enumerate(self.batches, start=1):
            self.gradients(batch)
            if number % self.batches_a_step == 0 or number == len(self.batches):
                self.update()
                self.steps_taken += 1
                set_step(self.model, self.steps_taken)  # as in training: rotations of LSH are drawn again


def training_cost(
    mechanisms: Mapping[str, Any],
    *,
    lengths: Sequence[int],
    steps: Sequence[Work],
    batch: int,
    document_batch: int,
    repetitions: int,
    compile: bool,
    **setting: Any,
) -> pd.DataFrame:
    """Return what training costs, a row for each implementation, model and work; on a GPU, what fails is left out.

    Models of one kind of work and length take turns.

    Args:
        mechanisms: parameters by name, or lists of such that repeat over the layers; `{"kind": "ssm"}` for the
            state-space encoder.
        lengths: tokens of a sequence of masked language modelling.
        steps: kinds of work.
        batch: sequences of a step of masked language modelling.
        document_batch: documents of a batch.
        repetitions: of a step; an epoch, which has many steps, is measured `LEAST` times.
        compile: whether every model is measured with compiled blocks as well.
        setting: `encoder`, `documents`, `device` and `dtype` of the cases, see `TrainingCase`.

    Returns:
        Table `training_cost` of `benchmarks.tables`; `length` is the most tokens of a sequence, `batch` is sequences
        held at a time, `tokens` counts real ones, and `peak_mb` is that of three passes over the first batch; see
        `benchmarks.comparison.compare`.

    Raises:
        RunError: memory did not suffice.
    """
    turns = partial(interleaved, device=torch.device(setting["device"]), queue="own")
    step_turns, epoch_turns = partial(turns, repetitions=repetitions, warm=True), partial(turns, repetitions=LEAST)
    sizes = {"batch": batch, "document_batch": document_batch}
    planned = training_cases(mechanisms, lengths=lengths, steps=steps, compile=compile, **sizes, **setting)
    rows: list[dict[str, Any]] = []
    # One kind of work after the other, so that no more models are held at once than are compared.
    for (masked, _), group in itertools.groupby(planned, key=lambda case: (case.step == "mlm", case.length)):
        rows += compare(list(group), step_turns if masked else epoch_turns, host_repetitions=3 if masked else 0)
    return pd.DataFrame(rows, columns=COLUMNS["training_cost"])


def training_cases(
    mechanisms: Mapping[str, Any],
    *,
    lengths: Sequence[int],
    batch: int,
    document_batch: int,
    steps: Sequence[Work] = get_args(Work),
    compile: bool = False,
    **setting: Any,
) -> Iterator[TrainingCase]:
    """Yield what `training_cost` measures: a step of every model and BERT, epochs of exact attention and BERT.

    On a CPU, where an epoch takes long, BERT has padded batches only. Arguments are those of `training_cost`.
    """
    models: dict[str, Any] = {BERT: None, **mechanisms}
    exact = [name for name, each in mechanisms.items() if _kind(each) == "sdpa"][:1]
    grouped = (BERT, *exact) if setting["device"] == "cuda" else exact
    wanted: list[tuple[str, Work, int, int]] = [
        *((model, "mlm", length, batch) for length in lengths for model in models),
        *((model, "finetune_epoch_padded", LENGTH, document_batch) for model in (BERT, *exact)),
        *((model, "finetune_epoch", LENGTH, document_batch) for model in grouped),
    ]
    for model, work, length, size in wanted:
        if work in steps:
            case = TrainingCase(
                implementation="transformers" if model == BERT else "ours",
                model=model,
                mechanism=models[model],
                step=work,
                length=length,
                batch=size,
                **setting,
            )
            yield from case.ways(compile=compile)


def state_space_layers(encoder: Encoder) -> int:
    """Return how many state-space layers have about the weights of the blocks of `encoder`: 7 for 4."""
    return round(7 / 4 * encoder.num_hidden_layers)


def _kind(mechanism: Any) -> str:
    """Return the kind of a mechanism, of several, or of the state-space encoder."""
    return STATE_SPACE if mechanism == {"kind": STATE_SPACE} else kinds_of(each_of(parse_mechanisms(mechanism)))


def _model(case: TrainingCase) -> PreTrainedModel:
    masked, encoder = case.step == "mlm", case.encoder
    if case.mechanism is None:
        return (BertForMaskedLM if masked else BertForSequenceClassification)(_bert(encoder))
    head = MaskedLM if masked else SequenceClassification
    if _kind(case.mechanism) == STATE_SPACE:
        sizes: dict[str, Any] = {"hidden_size": encoder.hidden_size, "num_hidden_layers": state_space_layers(encoder)}
        model = head.on(SsmModel)(SsmConfig(vocab_size=VOCABULARY, **sizes))
    else:
        sizes = encoder.model_dump(exclude={"kind", "mechanism"})
        model = head.on(EncoderModel)(EncoderConfig(mechanism=case.mechanism, vocab_size=VOCABULARY, **sizes))
    use_onednn(model)
    return model


def _bert(encoder: Encoder) -> BertConfig:
    return BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=encoder.hidden_size,
        num_hidden_layers=encoder.num_hidden_layers,
        num_attention_heads=encoder.num_attention_heads,
        intermediate_size=encoder.intermediate_size,
        hidden_dropout_prob=encoder.mlp_dropout,
        attention_probs_dropout_prob=encoder.attention_dropout,
        max_position_embeddings=LENGTH,
    )


def _masked_batches(case: TrainingCase) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, VOCABULARY, (case.batch, case.length), generator=generator)
    predicted = torch.rand(ids.shape, generator=generator) < PREDICTED
    return [{"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.masked_fill(~predicted, -100)}]


def _document_batches(case: TrainingCase) -> list[dict[str, Tensor]]:
    lengths, generator = case.lengths, np.random.default_rng(0)
    order = [index for _, index in LengthGroupedSampler(lengths, case.batch, seed=0)]
    batches = []
    for start in range(0, len(order), case.batch):
        chosen = order[start : start + case.batch]
        rows: list[Any] = [generator.integers(1000, VOCABULARY, lengths[index]) for index in chosen]
        width = max(map(len, rows)) if case.step == "finetune_epoch" else case.length
        ids, mask = pad_ids(rows, width, 0)
        batches.append({"input_ids": ids, "attention_mask": mask, "labels": torch.tensor(chosen) % 2})
    return batches


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    on_gpu = torch.cuda.is_available()
    batch = 64 if on_gpu else 4
    parser = options.parser(
        __doc__,
        on_device=True,
        mechanisms=options.of_the_grid() | (IN_ADDITION_TO_THE_GRID if on_gpu else {}),
        encoder={},
        lengths=(SHORT, LENGTH) if on_gpu else (LENGTH,),
        steps=get_args(Work),
        compile=False,
        batch=batch,
        documents=4096 if on_gpu else 64,
        document_batch=batch,
        repetitions=20 if on_gpu else 3,
    )
    options.measure(parser, lambda encoder, **rest: training_cost(encoder=Encoder(**encoder), **rest), argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
