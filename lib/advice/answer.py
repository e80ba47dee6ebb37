"""The advice in words: a first line, three facts, remarks and one table."""

import shlex
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from lib.advice.cost import processor
from lib.advice.encoders import PublishedEncoder
from lib.advice.estimates import Hardware
from lib.advice.preparing import OwnTexts
from lib.advice.rows import TOLERANCE, Row, ratio
from lib.advice.scores import POWER, ModelScores
from lib.advice.texts import lost

_NAMED = 20
"""Classes that are listed with their sizes, at most."""


def opening(encoder: PublishedEncoder, tokens: int, seconds: float, study: str) -> str:
    """Return the advice in one sentence, and the command that follows it.

    Args:
        encoder: the advised encoder.
        tokens: of a document that are read, at most.
        seconds: expected time of the study; 0 = it was not measured.
        study: its file.
    """
    time = f"about {duration(seconds)} here" if seconds else "time unknown, since it was not measured"
    command = f"snakemake --configfile {shlex.quote(study)} --cores all"
    model = f"`{encoder.name}` ({encoder.title}, exact attention)"
    return f"**Take {model}, at most {tokens:,} tokens: {time}.** `{command}`"


def mechanism(taken: Row, exact: Row, limit: int) -> str:
    """Return what the mechanism costs that suits long documents, and where its study is described.

    Args:
        taken: the advised model that has been pretrained on long articles.
        exact: exact attention.
        limit: tokens that documents are cut to.
    """
    compared = "" if taken is exact else f", {ratio(taken.training, exact.training)} of the time of exact attention"
    return (
        f"**To read {limit:,} tokens at once, take `{taken.model}`:** about {duration(taken.seconds)} a seed here"
        f"{compared}, after its pretraining. Write its study as in docs/add_dataset.md#the-whole-grid-on-your-texts."
    )


def facts(own: OwnTexts, lengths: np.ndarray, limits: Sequence[int], test: int, shown: float | None) -> list[str]:
    """Return two facts: the documents and the difference that they can show; their length and the losses by cutting.

    Args:
        own: the texts.
        lengths: tokens of those that were drawn [n].
        limits: tokens that documents may be cut to.
        test: documents of a test split.
        shown: smallest difference in accuracy that they show; None = not even the largest.
    """
    splits = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in own.splits.items())
    documents = f"{own.documents:,} documents ({splits})"
    if own.labelled:
        sizes = ", ".join(f"{name}: {count:,}" for name, count in own.classes.items())
        if len(own.classes) > _NAMED:
            sizes = f"{min(own.classes.values()):,} to {max(own.classes.values()):,} documents each"
        documents += f" of {len(own.classes):,} classes ({sizes})"
    least = "no difference" if shown is None else f"no difference below {100 * shown:.0f} points"
    cut = [(limit, *map(share, lost(lengths, limit))) for limit in limits]
    losses = "; ".join(f"{limit:,} loses {text} ({of_documents} of documents)" for limit, text, of_documents in cut)
    return [
        f"{documents}. {test:,} test documents can show {least} between two given models (power {POWER:g}, if they "
        "disagree on a fifth).",
        f"Tokens: median {np.median(lengths):,.0f}, 95 % have at most {np.quantile(lengths, 0.95):,.0f}, the longest "
        f"has {lengths.max():,}. Text that is lost by cutting: {losses}.",
    ]


def table(
    rows: Sequence[Row], exact: Row, scores: ModelScores | None, points: float, hardware: Hardware, longest: int
) -> str:
    """Return the table of the candidates, and how it was made.

    Args:
        rows: the candidates.
        exact: exact attention.
        scores: scores of other texts; None = none is known.
        points: points of F1 that may be lost for speed, those that are noise included.
        hardware: of this machine.
        longest: tokens of the longest documents that were measured.
    """
    score = f"F1 on {scores.dataset}, {scores.max_tokens:,} tokens [%]" if scores else ""
    core = "one core" if hardware.device == "cpu" else "the GPU"
    cells = []
    for row in rows:
        reduced = [cost.micro_batch_tokens for cost in row.costs if cost.reduced]
        seen = row.prediction
        cells.append(
            {
                "model": row.model,
                "a seed [min]": number(row.seconds / 60),
                "time / exact": "1" if row is exact else str(ratio(row.training, exact.training)),
                "memory [GiB]": f"{max(cost.mb for cost in row.costs) / 1024:.2f}",
                "fits": (f"by {min(reduced):,} tokens at once" if reduced else "yes") if row.fits else "no",
                f"documents/s, {core}": number(1 / seen.per_document) if seen else "-",
                "one document [s] (99th percentile)": f"{number(seen.p50)} ({number(seen.p99)})" if seen else "-",
            }
            | ({score: "-" if row.f1 is None else f"{row.f1:.2f}"} if score else {})
        )
    align = ("left", *["right"] * (len(cells[0]) - 1))
    scored = "whatever its score, since none is known at this length."
    if scores:
        scored = f"and its score is at most {points:.1f} points below the best. Scores are of other texts (published, "
        scored += "1 seed), so they may differ on yours."
    notes = [
        f"Estimates for {processor(torch.device(hardware.device))} ({hardware.gibibytes:.1f} GiB), "
        f"{hardware.precision}: steps on random tokens, measured in turns on up to {longest:,} tokens per document "
        "and extrapolated beyond. Training and evaluations are counted; reading and tokenising texts is not. Memory is "
        "that of weights, gradients, the optimiser's state and kept activations; the peak is higher.",
        f"A mechanism is advised in place of `{exact.model}` where the whole interval of its time is below "
        f"{1 - TOLERANCE:g}, which takes six turns, {scored}",
    ]
    text = pd.DataFrame(cells).to_markdown(index=False, colalign=align, disable_numparse=True)
    return "\n\n".join([f"## Candidates\n\n{text}", *notes])


def duration(seconds: float) -> str:
    """Return a time in minutes up to three hours, and in hours or days beyond."""
    minutes = max(1, round(seconds / 60))
    if minutes < 180:
        return f"{minutes} minute{'s' * (minutes > 1)}"
    return f"{minutes / 60:,.0f} hours" if minutes < 48 * 60 else f"{minutes / 1440:,.0f} days"


def share(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.1f} %"


def number(value: float) -> str:
    """Return two significant digits below 10, and whole numbers above."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
