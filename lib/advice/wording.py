"""The advice in words."""

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import psutil
import torch

from lib.advice.choices import BEARABLE, TOLERANCE, WANTED, Choice, Limit, Ratio, StartAdvice
from lib.advice.cost import processor
from lib.advice.encoders import SEEDS, EncoderCost, PublishedEncoder
from lib.advice.estimates import Hardware, ModelSteps
from lib.advice.preparing import OwnTexts
from lib.advice.scores import POWER
from lib.advice.texts import Language

_NAMED = 20
"""Classes that are listed with their sizes, at most."""


BUSY = 0.1
"""Share of the cores that other programs may keep busy without a warning."""


def opening(taken: Choice, encoder: PublishedEncoder | None, own: OwnTexts, seconds: float | None, study: str) -> str:
    """Return the advice in one sentence, and the command that follows it.

    Args:
        taken: mechanism and limit that are advised.
        encoder: published encoder that is advised in place of the mechanism; None = the mechanism is.
        own: the texts.
        seconds: expected time of the study; None = unknown.
        study: its file.
    """
    if encoder is None:
        attention = "exact attention" if taken.exact else "approximate attention"
        model, tokens = f"`{taken.model}` ({attention})", f"at most {taken.limit:,} tokens"
    else:
        model = f"`{encoder.name}` ({encoder.title}, exact attention)"
        tokens = f"at most {min(taken.limit, encoder.reach):,} tokens"
        if own.labelled and taken.limit > encoder.reach:
            tokens += f", and {taken.limit:,} in segments"
    time = "time unknown" if seconds is None else f"about {_time(seconds)} here"
    command = f"snakemake --configfile {shlex.quote(study)} --cores all"
    return f"**Take {model}, {tokens}: {time}.** `{command}`"


def facts(
    taken: Choice,
    table: Sequence[Limit],
    points: float,
    start: StartAdvice,
    encoder: PublishedEncoder | None,
    own: OwnTexts,
    lengths: np.ndarray,
    test: int,
) -> str:
    """Return three reasons: the documents, their length, and the mechanisms.

    Args:
        taken: mechanism and limit that are advised.
        table: length limits, ascending.
        points: most points of F1 to lose for speed.
        start: what to start a model from.
        encoder: as of `opening`.
        own: the texts.
        lengths: tokens of those that were drawn [n].
        test: documents of a test split.
    """
    splits = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in own.splits.items())
    documents = f"{own.documents:,} documents ({splits})"
    if own.labelled:
        sizes = ", ".join(f"{name}: {count:,}" for name, count in own.classes.items())
        if len(own.classes) > _NAMED:
            sizes = f"{min(own.classes.values()):,} to {max(own.classes.values()):,} documents each"
        documents += f" of {len(own.classes):,} classes ({sizes})"
    documents += "."
    if start.few:
        shown = "no difference" if start.shown is None else f"no difference below {100 * start.shown:.0f} points"
        documents += (
            f" Too few to compare models: {_counted(test, 'test document')} can show {shown} (test of two given "
            f"models, power {POWER:g}, if two models disagree on a fifth); {100 * WANTED:.0f} points need about 1,600 "
            "documents."
        )
    if encoder is not None:
        documents += " A published encoder needs no pretraining."
    found = next(each for each in table if each.tokens == taken.limit)
    length = (
        f"Tokens: median {np.median(lengths):,.0f}, 95 % have at most {np.quantile(lengths, 0.95):,.0f}, the longest "
        f"has {lengths.max():,}. A limit of {taken.limit:,} loses {_share(found.lost)} of the text"
    )
    if encoder is not None and encoder.reach < taken.limit:
        lost = np.maximum(lengths - encoder.reach, 0).sum() / lengths.sum()
        length += f", and the {encoder.reach:,} that the encoder reads at once lose {_share(float(lost))}"
        length += "; its second row reads segments" if own.labelled else ""
    mechanism = _mechanism(taken, table, points, published=encoder is not None)
    return "\n".join(f"- {fact}" for fact in (documents, f"{length}.", mechanism))


def prediction(model: str, steps: Sequence[ModelSteps] | None, lengths: np.ndarray, place: Hardware) -> str:
    """Return the cost of a prediction, and how it is known.

    Args:
        model: that predicts.
        steps: its measurements; None = it was not measured.
        lengths: tokens of documents, cut to the reach of the model [n].
        place: the machine.
    """
    forward = steps[0].prediction if steps else None
    found = steps[0].predicting(lengths, place.micro_batch_tokens) if steps else None
    if forward is None or found is None:
        return f"**A prediction** with `{model}`: its cost is unknown, since it was not measured here."
    core, unit = ("one core", "second and core") if place.device == "cpu" else ("the GPU", "second")
    known = f"from forward passes measured on {core}, on random tokens, up to {forward.longest:,} per document"
    if lengths.max() > forward.longest:
        known += f", and extrapolated to {lengths.max():,}"
    return (
        f"**A prediction** with `{model}` here: {_number(1 / found.per_document)} documents per {unit}, "
        f"{_number(found.p50)} seconds for one document by itself (median; 99th percentile {_number(found.p99)}), "
        f"{_number(found.per_document * 1_000_000 / 60)} minutes for a million documents on {core}. Computed for the "
        f"lengths of your documents {known}. Reading and tokenising the texts comes on top."
    )


def warnings(found: list[str], language: Language, ngrams: Mapping[str, Any] | None) -> list[str]:
    """Return the section on changes that the study makes to the documents, and warnings about them.

    Args:
        found: sentences about the documents and their tokens.
        language: language of the texts.
        ngrams: settings of TF-IDF that differ from the defaults; None = it finds nothing.
    """
    if ngrams:
        written = ", ".join(f"{name}: {value}" for name, value in ngrams.items())
        found.append(
            "TF-IDF of words does not suit these texts, such as those of scripts without spaces between words, or "
            f"those whose words it cuts at vowel signs. The study has `{written}`, so that it counts characters."
        )
    elif ngrams is None:
        found.append("TF-IDF finds no n-gram that two documents have, so the study leaves it out.")
    if not language.english:
        found.append(
            f"These texts are not English: '{language.name}' in {_share(language.share)}. The scores at hand are of "
            "English datasets, so none is used, and pretraining on English articles would teach the model little "
            "about them."
        )
    return ["## Your texts\n\n" + "\n".join(f"- {each}" for each in found)] if found else []


def encoder_table(rows: Sequence[EncoderCost]) -> list[str]:
    """Return the section on the cost of a published encoder; none if it was not measured."""
    if not rows:
        return []
    table = pd.DataFrame(
        {
            "row": row.row,
            "tokens/s": f"{row.tokens_per_second:,.0f}",
            "epoch [min]": _number(row.epoch_seconds / 60),
            "a run with its evaluations [min]": _number(row.seconds / 60),
        }
        for row in rows
    ).to_markdown(index=False, colalign=("left", "right", "right", "right"), disable_numparse=True)
    return [f"## The published encoder here\n\n{table}\n\nThe study has {len(SEEDS)} seeds of each row."]


def machine(place: Hardware, documents: int, longest: int, busy: float) -> str:
    """Return the conditions under which the estimates hold.

    Args:
        place: the machine.
        documents: number of training documents.
        longest: tokens of the longest documents that were measured.
        busy: cores that other programs kept busy meanwhile.
    """
    threads = f"{_counted(torch.get_num_threads(), 'thread')}, " if place.device == "cpu" else ""
    found = (
        f"Estimates for {processor(torch.device(place.device))} ({place.device}, {threads}{place.gibibytes:.1f} GiB), "
        f"{place.precision}, {documents:,} training documents: from steps measured in turns on documents of up to "
        f"{longest:,} tokens; beyond that they are extrapolated. Evaluations are left out. Memory is that of weights, "
        "gradients, the optimiser's state and what the backward pass needs; the peak is somewhat higher."
    )
    cores = psutil.cpu_count() or 1
    if busy > BUSY * cores:
        found += (
            f"\n\n**The machine is busy:** other programs kept {busy:.1f} of {cores} cores busy meanwhile. All minutes "
            "are those of the machine in this state; on a quiet one they are lower. The ratios to exact attention "
            "hold, since the models took turns."
        )
    return found


def limit(found: Limit) -> str:
    """Return the section about a length limit."""
    rows = [
        {
            "model": choice.model,
            "adaptation [min/epoch]": _number(choice.adaptation.seconds / 60),
            **({} if choice.classification is None else {"fine-tuning [min/epoch]": _between(*choice.minutes)}),
            "time / exact": "1" if choice.exact else _ratio(choice.ratio),
            "memory [GiB]": f"{max(cost.mb for cost in choice.costs) / 1024:.2f}",
            "fits": _fit(choice),
        }
        for choice in found.choices
    ]
    heading = (
        f"## At most {found.tokens:,} tokens: {_share(found.lost)} of the text is lost, {_share(found.cut)} of "
        "documents cut"
    )
    align = ("left", *["right"] * (len(rows[0]) - 1)) if rows else ()
    table = pd.DataFrame(rows).to_markdown(index=False, colalign=align, disable_numparse=True)
    return f"{heading}\n\n{table}"


def before(costs: Sequence[tuple[str, str, float]], model: str, *, published: bool) -> list[str]:
    """Return the cost of the pretraining that a mechanism needs first.

    Args:
        costs: runs that the adaptation starts from: stage, corpus, seconds.
        model: that is pretrained.
        published: whether a published encoder is advised.
    """
    if not costs:
        return []
    seconds = sum(each[-1] for each in costs)
    which = f"Training {model} instead" if published else f"Training {model}"
    return [
        f"{which} first takes a pretraining, at most about {duration(seconds)} here. If you have a pretrained one, "
        "name its folder with --weights."
    ]


def _mechanism(taken: Choice, table: Sequence[Limit], points: float, *, published: bool) -> str:
    """Return which mechanism to take at which limit, and why; in second place if a published encoder is advised."""
    found = next(each for each in table if each.tokens == taken.limit)
    longer = [each for each in table if each.tokens > taken.limit]
    if not found.lost:
        length = "which cuts nothing off"
    elif found.lost <= BEARABLE:
        length = f"the shortest limit that loses no more than {_share(BEARABLE)} of the text ({_share(found.lost)})"
    elif not longer:
        length = f"the longest limit asked for, which still loses {_share(found.lost)} of the text"
    else:
        length = f"which loses {_share(found.lost)} of the text, but at {longer[0].tokens:,} no model fits this machine"
    exact = next((choice for choice in found.choices if choice.exact), None)
    name = "exact attention" if taken.exact else taken.model
    stages = "adaptation" if taken.classification is None else "adaptation and fine-tuning"
    others = [choice for choice in found.choices if not choice.exact and choice.fits]
    measured = [choice for choice in others if not math.isnan(choice.ratio.low)]
    equal = bool(measured) and all(choice.ratio.low > 1 - TOLERANCE for choice in measured)
    if taken.exact and equal:
        opening = "**The mechanism saves no time on your lengths: take exact attention**"
    elif published:
        opening = f"**If you train an encoder of your own on more such documents, take {name}**"
    else:
        opening = f"**Take {name}**"
    sentence = f"{opening} with at most {taken.limit:,} tokens, {length}. "
    if taken.exact:
        faster = [choice for choice in others if choice.ratio.faster]
        if faster:
            best = min(faster, key=lambda choice: choice.ratio.median)
            sentence += (
                f"The fastest mechanism, {best.model}, takes {_ratio(best.ratio)} of its time. "
                f"Its score{_place(found)} is too low ({_score(best.f1)} against {_score(taken.f1)} %). "
            )
        elif measured:
            best = min(measured, key=lambda choice: choice.ratio.median)
            sentence += (
                f"No mechanism that may be advised is {'' if equal else 'shown to be '}faster by {_share(TOLERANCE)}: "
                f"{best.model}, the best, takes {_ratio(best.ratio)} of its time. "
            )
        else:
            sentence += (
                "Whether a mechanism is faster is not known: there was time for too few turns. Ask again on a quiet "
                "machine, or with more --seconds. "
            )
    elif exact is not None and exact.fits:
        sentence += (
            f"It takes {_ratio(taken.ratio)} of the time of exact attention: {duration(3600 * taken.hours)} in place "
            f"of {duration(3600 * exact.hours)} for {stages} here. "
        )
    else:
        sentence += "Exact attention does not fit this machine's memory. "
    if not taken.exact and taken.f1 is not None and found.scores is not None:
        known = {choice.model: choice.f1 for choice in found.choices if choice.f1 is not None}
        best_name = max(known, key=lambda model: known[model])
        gap, noise = known[best_name] - taken.f1, found.scores.noise
        within = (
            f"within the noise ({noise:.1f} points)"
            if noise is not None and gap <= noise
            else f"within the {_counted(points, 'point')} that speed may cost"
        )
        sentence += (
            f"Its score{_place(found)} is {taken.f1:.2f} %, {gap:.2f} points below the best ({best_name}; "
            f"{found.scores.source}), {within}; on your texts it may differ."
        )
    elif not taken.exact:
        sentence += "Its score at this length is not known."
    else:
        takes = "takes" if taken.classification is None else "take"
        sentence += f"{stages.capitalize()} of our encoder {takes} about {duration(3600 * taken.hours)} here."
    return sentence.strip()


def _place(found: Limit) -> str:
    """Return the dataset and the length of the scores, and say if it is not the length of the limit."""
    if found.scores is None:
        return ""
    place = f" on {found.scores.dataset}, cut to {found.scores.max_tokens:,} tokens"
    return place if found.scores.max_tokens == found.tokens else f"{place} (at {found.tokens:,} none is known),"


def duration(seconds: float) -> str:
    """Return a time in the unit that gives it few digits."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{_number(seconds / size)} {unit}"
    return f"{_number(seconds)} seconds"


def _time(seconds: float) -> str:
    """Return a time in minutes up to three hours."""
    minutes = max(1, round(seconds / 60))
    return f"{_counted(minutes, 'minute')}" if minutes < 180 else duration(seconds)


def _between(low: float, high: float) -> str:
    """Return a range, or one number if both ends are written alike."""
    ends = [_number(low), _number(high)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _ratio(found: Ratio) -> str:
    """Return a ratio with its interval."""
    if math.isnan(found.low):
        return f"{found.median:.2f} ({_counted(found.turns, 'turn')})"
    return f"{found.median:.2f} [{found.low:.2f}, {found.high:.2f}]"


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
