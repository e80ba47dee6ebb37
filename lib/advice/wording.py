"""The advice in words."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import torch

from lib.advice.choices import BEARABLE, TOLERANCE, WANTED, Choice, Limit, Ratio, Start
from lib.advice.published import MULTILINGUAL, RECIPE, PublishedEncoder
from lib.advice.question import Question
from lib.advice.scores import POWER
from lib.advice.texts import MOST_PER_WORD, Language
from lib.measure.cost import processor
from lib.measure.estimates import Machine

EXACT_SUFFICES = 1024
"""Tokens up to which no mechanism was shown to learn more than exact attention in the same time: docs/benchmarks.md."""

BUSY = 0.1
"""Share of the cores that other programs may keep busy without a warning."""


def texts(files: Sequence[Path], documents: int, lengths: np.ndarray, language: Language) -> str:
    """Return what the texts are like.

    Args:
        files: that hold them.
        documents: number of documents.
        lengths: tokens of those that were drawn [n].
        language: of the texts.
    """
    counted = "all of them" if len(lengths) == documents else f"{len(lengths):,} of them"
    found = (
        f"# {', '.join(map(str, files))}\n\n"
        f"{documents:,} documents. Tokens of {counted}: median {np.median(lengths):,.0f}, "
        f"95 % have at most {np.quantile(lengths, 0.95):,.0f}, the longest has {lengths.max():,}. "
        f"Language: '{language.name}' in {_share(language.share)}. {language.tokens_per_word:.1f} tokens per word, "
        f"{_share(language.unknown)} of them unknown to the vocabulary."
    )
    if language.split_up:
        found += (
            f"\n\n**Warning: the vocabulary does not suit these texts.** English has 1.3 to 2.0 tokens per word; more "
            f"than {MOST_PER_WORD:g} mean that words are split into pieces, so all lengths below are longer than they "
            "need to be. Take a published encoder of that language, or train a tokeniser on your texts: source: "
            "trained, algorithm: bpe (docs/published_models.md)."
        )
    if not language.english:
        found += (
            "\n\n**Warning: these texts are not English.** The scores at hand are of English datasets, so none is "
            "shown, and pretraining on English articles would teach the model little about them."
        )
    return found


def machine(place: Machine, documents: int, longest: int, busy: float) -> str:
    """Return what the estimates hold for, and what they rest on.

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


def limit(found: Limit, baseline: str | None) -> str:
    """Return the section about a length limit.

    Args:
        found: what is known at it.
        baseline: model that reads whole texts without a training loop, if the study has one.
    """
    rows = []
    for choice in found.choices:
        row = {
            "model": choice.model,
            "adaptation [min/epoch]": _number(choice.adaptation.seconds / 60),
            "fine-tuning [min/epoch]": _between(*choice.minutes),
            "time / exact": "1" if choice.exact else _ratio(choice.ratio),
            "memory [GiB]": f"{max(cost.mb for cost in choice.costs) / 1024:.2f}",
            "fits": _fit(choice),
        }
        scores = found.scores and {f"F1 at {found.scores.max_tokens:,} tokens [%]": _score(choice.f1)}
        rows.append(row | (scores or {}))
    heading = (
        f"## At most {found.tokens:,} tokens: {_share(found.lost)} of the text is lost, {_share(found.cut)} of "
        "documents cut"
    )
    if found.scores is None:
        evidence = "No results at hand for documents like these."
    else:
        evidence = f"F1: on {found.scores.dataset}, cut to {found.scores.max_tokens:,} tokens ({found.scores.source})"
        score = found.scores.by_model.get(baseline or "")
        evidence += "." if score is None else f"; {baseline}, which reads whole texts, has {score:.2f}."
        evidence += " That is another dataset than yours."
        if found.scores.seeds == 1:
            evidence += " What another seed would give is not known."
        if found.scores.noise is not None:
            evidence += (
                f" Differences below {found.scores.noise:.1f} points are within the noise of {found.scores.documents:,}"
                " test documents."
            )
    table = pd.DataFrame(rows).to_markdown(
        index=False, colalign=("left", *["right"] * (len(rows[0]) - 1)), disable_numparse=True
    )
    return f"{heading}\n\n{table}\n\n{evidence}"


def advice(
    taken: Choice,
    table: Sequence[Limit],
    question: Question,
    baseline: str | None,
    beginning: Start,
    encoder: PublishedEncoder,
    test: int,
    price: tuple[float, float] | None,
    before: Sequence[tuple[str, str, float]],
) -> str:
    """Return the advice with its reasons.

    Args:
        taken: mechanism and limit that are advised.
        table: what is known at each limit, ascending.
        question: what was asked.
        baseline: as of `limit`.
        beginning: what else the documents allow.
        encoder: published one to start from, if that is advised.
        test: documents of a test split.
        price: minutes of an epoch of that encoder, at least and at most; None = not measured.
        before: runs that the adaptation starts from: stage, corpus, seconds.
    """
    parts = []
    if beginning.few:
        shown = (
            "no difference at all"
            if beginning.shown is None
            else f"no difference in accuracy below {100 * beginning.shown:.0f} points"
        )
        parts.append(
            f"**Too few documents to compare models.** A tenth of them, {_counted(test, 'test document')}, can show "
            f"{shown} (test of two given models, power {POWER:g}, if two models disagree on a fifth). "
            f"For {100 * WANTED:.0f} points it takes about 1,600 documents in all. "
            "The scores above come from 26,710 and more training documents; what an encoder learns from so few as "
            "yours is not known here."
        )
    if beginning.published and question.weights is None:
        first = "tfidf, which needs no training steps, and " if question.label is not None else ""
        parts.append(
            f"**Take {first}a published encoder with exact attention: {encoder.title}** "
            f"({encoder.languages or 'languages as its authors say'}; reads {encoder.reach:,} tokens"
            f"{_loses(table, taken.limit, encoder, labelled=question.label is not None)}). {_price(price, encoder)} "
            "The study below does this."
        )
    parts.append(_mechanism(taken, table, question.points, beginning))
    if before and not beginning.published:
        parts += [
            f"Before that, {stage} on {corpus} takes at most about {duration(seconds)} here. A pretrained model spares "
            "it: name its folder with --weights, and the study below starts from it."
            for stage, corpus, seconds in before
        ]
    elif before:
        seconds = sum(each[-1] for each in before)
        parts.append(
            f"Training {taken.model} instead would first take a pretraining, at most about {duration(seconds)} here. "
            "If you have a pretrained one, name its folder with --weights."
        )
    found = next(each for each in table if each.tokens == taken.limit)
    simple = found.scores.by_model.get(baseline or "") if found.scores else None
    if simple is not None and taken.f1 is not None and found.scores and not beginning.published:
        least = max(question.points, found.scores.noise or 0.0)
        if simple >= taken.f1 - least:
            parts.append(
                f"But try {baseline} first: it has {simple:.2f} % on {found.scores.dataset}, without training steps."
            )
    return "## Advice\n\n" + "\n\n".join(parts)


def other_costs(limit: int, kinds: Collection[str]) -> list[str]:
    """Return what to think of that is not among the models above, if there is something.

    Args:
        limit: tokens that are advised.
        kinds: of the models' mechanisms.
    """
    if limit <= EXACT_SUFFICES or "window" in kinds:
        return []
    return [
        "Not among these models: attention in a window with a global token. Inside a published encoder, on papers of "
        "up to 2,048 tokens, its F1 was not significantly different from that of exact attention, with room for 4.9 "
        "points (docs/published.md). Its score on longer texts is not known. `--study config/mechanisms.yaml` "
        "measures its times here."
    ]


def _mechanism(taken: Choice, table: Sequence[Limit], points: float, beginning: Start) -> str:
    """Return which mechanism to take at which limit, and why."""
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
    exact = next((choice for choice in found.choices if choice.exact), None)
    name = "exact attention" if taken.exact else taken.model
    others = [choice for choice in found.choices if not choice.exact and choice.fits]
    measured = [choice for choice in others if not math.isnan(choice.ratio.low)]
    equal = bool(measured) and all(choice.ratio.low > 1 - TOLERANCE for choice in measured)
    if taken.exact and equal:
        opening = "**The mechanism saves no time on your lengths: take exact attention**"
    elif beginning.published and not taken.exact:
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
            f"of {duration(3600 * exact.hours)} for adaptation and fine-tuning here. "
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
        sentence += f"Adaptation and fine-tuning of our encoder take about {duration(3600 * taken.hours)} here."
    return sentence.strip()


def _place(found: Limit) -> str:
    """Return the dataset and the length of the scores, and say if it is not the length of the limit."""
    if found.scores is None:
        return ""
    place = f" on {found.scores.dataset}, cut to {found.scores.max_tokens:,} tokens"
    return place if found.scores.max_tokens == found.tokens else f"{place} (at {found.tokens:,} none is known),"


def _loses(table: Sequence[Limit], limit: int, encoder: PublishedEncoder, *, labelled: bool) -> str:
    """Return what the reach of a published encoder loses, if it loses anything that is known, and what loses less."""
    at = next((each for each in table if each.tokens == encoder.reach), None)
    if at is None or at.lost <= BEARABLE:
        return ""
    if encoder.languages == MULTILINGUAL.languages:
        return " of its own, of which these texts have fewer than are counted here; what it loses was not measured"
    sentence = f", which loses {_share(at.lost)} of the text"
    if labelled:
        sentence += "; tfidf reads all of it"
    if labelled and limit > encoder.reach:
        found = next(each for each in table if each.tokens == limit)
        sentence += (
            f", and {encoder.name}-segments up to {limit:,} tokens in segments of {encoder.reach:,}, in about "
            f"{(1 - found.lost) / (1 - at.lost):.1f} times the time"
        )
    return sentence


def _price(price: tuple[float, float] | None, encoder: PublishedEncoder) -> str:
    if price is None:
        why = "its tokeniser is not here" if encoder.languages == MULTILINGUAL.languages else "there was no time"
        return f"What {encoder.name} takes here was not measured: {why}."
    return (
        f"An epoch takes {_between(*price)} minutes here, and the study has {RECIPE['epochs']:g} for each of 3 seeds."
    )


def duration(seconds: float) -> str:
    """Return a time in the unit that gives it few digits."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{_number(seconds / size)} {unit}"
    return f"{_number(seconds)} seconds"


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
