"""Measure a published encoder with windowed layers, compared with transformers: ModernBERT-base, random weights.

The weights and the ids are random. The sizes are those of ModernBERT-base, or of fewer of its layers.

OMP_NUM_THREADS=1 python benchmarks/windowed_cost.py --lengths 4096 8192 --out FILE
"""

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, ModernBertConfig

from benchmarks import options
from benchmarks.cost import highest_mb, machine, spread, with_peak_mb
from benchmarks.limits import WARM_UP
from lib.advice.cost import resident_mb
from lib.advice.training_steps import TrainedModel
from lib.attention.interface import WINDOWS
from lib.backbones.faster import use_onednn

IMPLEMENTATIONS = {"transformers": "sdpa", "ours": WINDOWS}
"""Values of `attn_implementation`, by whose windows they are."""

DEVICE, DTYPE = "cpu", "float32"


@dataclass(frozen=True)
class WindowedCase:
    """One document that a classifier reads.

    Args:
        length: its tokens, all real.
        encoder: fields of its configuration that are not those of ModernBERT-base.
        trains: whether it learns from the document, too.
        implementation: a name of `IMPLEMENTATIONS`.
    """

    length: int
    encoder: Mapping[str, Any]
    trains: bool
    implementation: str = "ours"

    def prepare(self) -> "Reader":
        """Return the classifier and the document."""
        return Reader(self)


class Reader(TrainedModel):
    """A classifier that has read a short document; called, it reads its own, and learns from it if it trains."""

    def __init__(self, case: WindowedCase) -> None:
        torch.manual_seed(0)
        config = ModernBertConfig(**case.encoder)
        implementation = IMPLEMENTATIONS[case.implementation]
        model = AutoModelForSequenceClassification.from_config(config, attn_implementation=implementation)
        if case.implementation == "ours":
            use_onednn(model)  # as in a training
        super().__init__(model, DEVICE, DTYPE)
        self.vocabulary = config.vocab_size
        self.trains = case.trains
        self.take(WARM_UP)
        self()
        self.take(case.length)

    def take(self, tokens: int) -> None:
        """Take a document of random words."""
        ids = torch.randint(self.vocabulary, (1, tokens), generator=torch.Generator().manual_seed(0))
        self.batch = {"input_ids": ids, "labels": torch.ones(1, dtype=torch.long)}

    def __call__(self) -> torch.Tensor:
        """Return the loss."""
        if not self.trains:
            with torch.no_grad():
                return self.model.eval()(**self.batch).loss
        loss = self.loss(self.batch)
        loss.backward()
        self.update()
        return loss.detach()


def windowed_cost(
    encoder: Mapping[str, Any], *, lengths: Sequence[int], trains: bool, repetitions: int
) -> pd.DataFrame:
    """Return the cost of reading a document, or of a step of training on it, one row per implementation and length.

    Times are CPU seconds, so that other work on the machine counts less; give torch one thread (`OMP_NUM_THREADS=1`),
    since threads that wait compute, too. Both implementations take turns, after a pass over a short document.

    Args:
        encoder: fields that are not those of ModernBERT-base, such as `num_hidden_layers`.
        lengths: tokens of a document.
        trains: measure a step of training, with AdamW, in place of a forward pass.
        repetitions: turns.

    Returns:
        Columns of the cases, their layers, `spread` and `machine`. `faster`, `least` and `most` are the median, lowest
        and highest ratio of transformers' time to that of the row in the same turn. `peak_mb` is the peak memory in MiB
        of a pass beyond that of the weights and the optimiser's state.
        `difference` is the largest of the losses to transformers'.
    """
    rows: list[dict[str, Any]] = []
    for length in lengths:
        cases = {name: WindowedCase(length, encoder, trains, name) for name in IMPLEMENTATIONS}
        readers = {name: case.prepare() for name, case in cases.items()}
        losses: dict[str, list[float]] = {name: [] for name in readers}
        seconds: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(repetitions):
            for name, reader in readers.items():
                begun = time.process_time()
                loss = reader()
                seconds[name].append(time.process_time() - begun)
                losses[name].append(float(loss))
        del readers
        for name, case in cases.items():
            ratios = [theirs / own for theirs, own in zip(seconds["transformers"], seconds[name], strict=True)]
            pairs = zip(losses["transformers"], losses[name], strict=True)
            difference = max(abs(theirs - own) for theirs, own in pairs)
            peak, _ = with_peak_mb(peak_of_pass, case, device=torch.device(DEVICE))
            rows.append(
                {
                    "implementation": name,
                    "length": length,
                    "layers": ModernBertConfig(**encoder).num_hidden_layers,
                    "trains": trains,
                    **spread(seconds[name]),
                    "faster": statistics.median(ratios),
                    "least": min(ratios),
                    "most": max(ratios),
                    "peak_mb": peak,
                    "difference": difference,
                    **machine(DEVICE, DTYPE),
                }
            )
    return pd.DataFrame(rows)


def peak_of_pass(case: WindowedCase) -> float:
    """Return the highest memory of a pass in MiB, beyond that after a pass over a short document."""
    reader = case.prepare()
    mark = Path("/proc/self/clear_refs")
    if mark.exists():  # on Linux; elsewhere the peak of drawing the weights may hide that of a pass
        mark.write_text("5", encoding="ascii")
    before = resident_mb()
    reader()
    return highest_mb(torch.device(DEVICE)) - before


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(__doc__, lengths=(4_096, 8_192), encoder={}, trains=False, repetitions=5)
    options.measure(parser, windowed_cost, argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
