"""The advice in words."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from lib.advice.choices import BEARABLE, Choice, Limit
from lib.advice.estimates import Machine
from lib.measure.cost import processor


def texts(files: Sequence[Path], documents: int, lengths: np.ndarray) -> str:
    """Return what the texts are like.

    Args:
        files: that hold them.
        documents: number of documents.
        lengths: tokens of those that were drawn [n].
    """
    counted = "all of them" if len(lengths) == documents else f"{len(lengths):,} of them"
    return (
        f"# {', '.join(map(str, files))}\n\n"
        f"{documents:,} documents. Tokens of {counted}: median {np.median(lengths):,.0f}, "
        f"95 % have at most {np.quantile(lengths, 0.95):,.0f}, the longest has {lengths.max():,}."
    )


def machine(place: Machine, documents: int, longest: int) -> str:
    """Return what the estimates hold for, and what they rest on.

    Args:
        place: the machine.
        documents: number of training documents.
        longest: tokens of the longest documents that were measured with every model.
    """
    threads = f"{_counted(torch.get_num_threads(), 'thread')}, " if place.device == "cpu" else ""
    return (
        f"Estimates for {processor(torch.device(place.device))} ({place.device}, {threads}{place.gibibytes:.1f} GiB), "
        f"{place.precision}, {documents:,} training documents: from steps measured here on documents of up to "
        f"{longest:,} tokens; beyond that they are extrapolated. Memory is the peak of a run, evaluations left out."
    )


def limit(found: Limit, baseline: str | None) -> str:
    """Return the section about a length limit.

    Args:
        found: what is known at it.
        baseline: model that reads whole texts without a training loop, if the study has one.
    """
    rows = []
    for choice in found.choices:
        row = {"model": choice.model}
        for name, cost in zip(("adaptation", "fine-tuning"), choice.costs, strict=True):
            row[f"{name} [min/epoch]"] = _number(cost.seconds / 60)
            row[f"{name} [GiB]"] = f"{cost.mb / 1024:.2f}"
        rows.append(row | {"fits": _fit(choice)} | ({"F1 [%]": _score(choice.f1)} if found.scores else {}))
    heading = (
        f"## At most {found.tokens:,} tokens: {_share(found.lost)} of the text is lost, {_share(found.cut)} of "
        "documents cut"
    )
    if found.scores is None:
        evidence = "No results at hand for documents of about this length."
    else:
        evidence = f"F1: on {found.scores.dataset}, cut to {found.scores.max_tokens:,} tokens ({found.scores.source})"
        beside = found.scores.by_model.get(baseline or "")
        evidence += "." if beside is None else f"; {baseline}, which reads whole texts, has {beside:.2f}."
    table = pd.DataFrame(rows).to_markdown(
        index=False, colalign=("left", *["right"] * (len(rows[0]) - 1)), disable_numparse=True
    )
    return f"{heading}\n\n{table}\n\n{evidence}"


def advice(taken: Choice, table: Sequence[Limit], points: float, baseline: str | None) -> str:
    """Return the advice in a sentence, with its reason.

    Args:
        taken: what is advised.
        table: what is known at each limit, ascending.
        points: macro-F1, in per cent, by which a model may lie below the best one.
        baseline: as of `limit`.
    """
    found = next(each for each in table if each.tokens == taken.limit)
    longer = [each for each in table if each.tokens > taken.limit]
    if not found.lost:
        length = "which loses nothing"
    elif found.lost <= BEARABLE:
        length = f"the shortest limit that loses no more than {_share(BEARABLE)} of the text ({_share(found.lost)})"
    elif not longer:
        length = f"the longest limit asked for, which still loses {_share(found.lost)} of the text"
    else:
        length = f"which loses {_share(found.lost)} of the text, but at {longer[0].tokens:,} no model fits this machine"
    fitting = [choice for choice in found.choices if choice.fits]
    known = {choice.model: choice.f1 for choice in fitting if choice.f1 is not None}
    if not known or found.scores is None:
        reason = f"the fastest of {len(fitting)} models that fit; nothing is known about scores at such lengths"
    else:
        best = max(known, key=lambda model: known[model])
        rival = "the best of them" if best == taken.model else f"{best} has {known[best]:.2f} %"
        reason = (
            f"the fastest of those that fit and lie within {_counted(points, 'point')} of the best macro-F1 on "
            f"{found.scores.dataset} ({taken.f1:.2f} %; {rival}; {found.scores.source})"
        )
    sentence = (
        f"## Advice\n\nTake {taken.model} with at most {taken.limit:,} tokens, {length}: it is {reason}, and "
        f"adaptation with fine-tuning takes about {duration(3600 * taken.hours)} here."
    )
    simple = found.scores.by_model.get(baseline or "") if found.scores else None
    if simple is not None and taken.f1 is not None and simple >= taken.f1 - points:
        sentence += f" But try {baseline} first: it has {simple:.2f} %, in seconds."
    return sentence


def before(stage: str, corpus: str, epochs: float, seconds: float) -> str:
    """Return what a stage before the adaptation takes."""
    return (
        f"Before that, {stage} on {corpus} ({_counted(epochs, 'epoch')}) takes at most about {duration(seconds)}; "
        "weights that another study left spare it (docs/starting_weights.md)."
    )


def duration(seconds: float) -> str:
    """Return a time in the unit that gives it few digits."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{_number(seconds / size)} {unit}"
    return f"{_number(seconds)} seconds"


def _fit(choice: Choice) -> str:
    if not choice.fits:
        return "no"
    reduced = [cost.micro_batch_tokens for cost in choice.costs if cost.reduced]
    return f"in micro-batches of {min(reduced):,} tokens" if reduced else "yes"


def _score(f1: float | None) -> str:
    return "-" if f1 is None else f"{f1:.2f}"


def _counted(number: float, noun: str) -> str:
    return f"{number:g} {noun}{'s' * (number != 1)}"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _number(value: float) -> str:
    """Return two significant digits below 10, and whole numbers above."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
