"""The advice in words: a first paragraph, one table and three facts."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from lib.advice.cost import processor
from lib.advice.curve import GAIN, MOST, Curve, documents_needed
from lib.advice.encoders import PublishedEncoder
from lib.advice.estimates import Hardware, Row, ratio
from lib.advice.preparing import FEWEST_OF_CLASS, HELD_OUT, OwnTexts
from lib.advice.quick import USUAL, Fall, Forecast, Quick
from lib.advice.studies import StudySize
from lib.advice.texts import lost
from lib.core.files import mapping_text
from lib.evaluation.statistics import FEW_DOCUMENTS, Estimate, smallest_difference

LEVEL, POWER = 0.05, 0.8
"""Two-sided level of intervals and tests, and power of a test for a difference between two models."""

DISAGREEMENT = 0.2
"""Assumed share of test documents that two models classify differently, before any training."""

_NAMED = 20
"""Classes that are listed with their sizes, at most."""


def quick_answer(quick: Quick) -> str:
    """Return which of the quick rows is the best, and whether it differs from the others."""
    average = quick.paired.metric.removeprefix("f1_")
    found = f"**Best without training: `{quick.rows[quick.best].name}`, {average}-F1 {_score(quick, quick.best)} %.**"
    for place, row in enumerate(quick.rows):
        if place != quick.best:
            ahead = quick.paired.difference(quick.best, place)
            shown = "" if ahead.difference_interval(1 - LEVEL)[0] > 0 else ", no significant difference"
            found += f" It has {100 * ahead.mean:.1f} points more than `{row.name}` ({_points(ahead)}{shown})."
    return found


def labels_answer(curve: Curve, documents: int) -> str:
    """Return how many documents must be labelled in addition to so many, or why more are not shown to help."""
    found, whole = documents_needed(*curve.largest(), documents), curve.largest()[0][-1]
    gain, ends = f"gain {100 * GAIN:.0f} points of macro-F1", _documents(found.low, found.high)
    if found.shown:
        said = f"**To {gain} label about {_documents(found.about)} documents more ({ends}).**"
        return f"{said} That is for `{curve.row}` with {documents:,} at hand (90 % interval)."
    gained, *bounds = (f"{100 * value:+.1f}" for value in curve.last_doubling())
    said = f"**More labels are not shown to help:** `{curve.row}` gained {gained} points ({' to '.join(bounds)}) by the"
    return f"{said} last doubling, to {whole:,} documents. To {gain}, {ends} may be needed beyond {documents:,}."


def leak_answer(by: str, falls: Mapping[str, Fall], split: Mapping[str, Any] | None) -> str:
    """Return how far random folds promise too much, and how the study is split.

    Args:
        by: the column that leaks most, or that was given.
        falls: of the columns that were scored.
        split: settings of the study that keep its values in one split each; None = it cannot.
    """
    fall, others = falls[by], [f"`{name}` leaks as well." for name, each in falls.items() if each.leaks and name != by]
    low, high = (f"{100 * end:.1f}" for end in fall.interval)
    found = (
        f"**`{by}` leaks:** documents of one value are alike." if fall.leaks else f"**`{by}` is not shown to leak.**"
    )
    kept = "Splits by it lack values or a class, so the study draws at random: for new values its scores are too high."
    if split:
        written = mapping_text({"split": dict(split)}, one_line=True)[1:-1]
        kept = f"The study keeps each value in one split (`{written}`), and the scores here in one fold. "
        kept += "If your next documents have the same values, leave it out (`--by none`)."
    scores = f"{share(fall.random)} in random folds, and {share(fall.apart)} where no value is in two folds"
    lost = f"{100 * fall.lost:.1f} ({low} to {high}) points less"
    return " ".join([f"{found} Macro-F1 of TF-IDF is {scores}: {lost}. {kept}", *others])


def training_answer(
    encoder: PublishedEncoder, size: StudySize, rows: Sequence[Row], gain: Forecast | None, study: str
) -> str:
    """Return the time and the expected gain of training the encoder, and the command of the study.

    Args:
        encoder: the encoder.
        size: of the study.
        rows: of the encoder; none if they were not measured, or the study has none.
        gain: points over the best quick row; None = unknown.
        study: its file.
    """
    found = "**The study trains no encoder.**"
    if size.trained:
        takes = "time unknown, since it was not measured"
        if rows:
            seconds = sum(row.seconds for row in rows)
            takes = f"about {duration(seconds)} a seed here, {duration(size.seeds * seconds)} in all"
        tokens = min(size.limit, encoder.reach)
        found = f"**Training `{encoder.name}` ({encoder.title}, exact attention), at most {tokens:,} tokens: {takes}.**"
    if gain and size.trained:
        low, high = gain.minutes
        found += (
            f" Expected change of the best macro-F1: {gain.low:+.1f} to {gain.high:+.1f} points, the 80 % interval of "
            f"{gain.files} past files ({low:.0f} to {high:.0f} minutes each; from the others, it held on {gain.held})."
        )
    return f"{found} The study: `snakemake --configfile {shlex.quote(study)} --cores all`"


def budget_answer(minutes: float, expected: float, whole: StudySize, size: StudySize) -> str:
    """Return the share of a CPU budget that a study takes, and the parts of the whole study that it gives up."""
    counts = {
        "seeds": (whole.seeds, size.seeds),
        "tokens of a document": (whole.limit, size.limit),
        "training documents": (whole.documents, size.documents),
    }
    gone = [f"{all_ - kept:,} of {all_:,} {what}" for what, (all_, kept) in counts.items() if kept < all_]
    if not size.trained:
        gone = ["trainings"] if size.frozen else ["all encoders"]
    takes = f"The study takes about {expected:.1f} of {minutes:g} minutes of CPU time"
    return f"{takes}. For that, it gives up {', '.join(gone) or 'nothing'}."


def facts(own: OwnTexts, lengths: np.ndarray, limits: Sequence[int]) -> list[str]:
    """Return two facts: the documents and the difference that they can show; their length and the losses by cutting.

    Args:
        own: the texts.
        lengths: tokens of those that were drawn [n].
        limits: tokens that documents may be cut to.
    """
    splits = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in own.splits.items())
    documents = f"{own.documents:,} documents ({splits})"
    if own.labelled:
        sizes = ", ".join(f"{name}: {count:,}" for name, count in own.classes.items())
        if len(own.classes) > _NAMED:
            sizes = f"{min(own.classes.values()):,} to {max(own.classes.values()):,} documents each"
        documents += f" of {len(own.classes):,} classes ({sizes})"
    if own.set_sizes:
        mean, most = sum(own.classes.values()) / own.documents, max(map(int, own.set_sizes))
        rare = sum(count < FEWEST_OF_CLASS for count in own.classes.values())
        documents += f", {mean:.1f} per document, {most} at most, and none in {own.set_sizes['0']:,} documents"
        documents += f" (`label_set: {own.settings['label_set']}`; fewer than {FEWEST_OF_CLASS} in {rare:,} classes)"
    test = own.splits.get("test") or round(HELD_OUT * own.documents)  # without labels: that they would have
    shown = smallest_difference(0.0, DISAGREEMENT / test, 1, test, LEVEL, POWER) or 1.0 if test > 1 else 1.0
    least = f"no difference below {100 * shown:.0f} points" if shown <= DISAGREEMENT else "no difference"
    more = "; `split: {folds: 5}` tests each document once" if shown > DISAGREEMENT and own.labelled else ""
    cut = [(limit, *map(share, lost(lengths, limit))) for limit in limits]
    losses = "; ".join(f"{limit:,} loses {text} ({of_documents} of documents)" for limit, text, of_documents in cut)
    return [
        f"{documents}. {test:,} test documents can show {least} between two given models (power {POWER:g}, if they "
        f"disagree on a fifth){more}.",
        f"Tokens: median {np.median(lengths):,.0f}, 95 % have at most {np.quantile(lengths, 0.95):,.0f}, the longest "
        f"has {lengths.max():,}. Text that is lost by cutting: {losses}.",
    ]


def table(
    quick: Quick | None,
    curves: Sequence[Curve],
    trained: Sequence[Row],
    mechanisms: Sequence[Row],
    gain: Forecast | None,
    hardware: Hardware,
) -> str:
    """Return the table of the rows, that of learning curves, and how they were made.

    Args:
        quick: rows without training.
        curves: their learning curves.
        trained: rows of the encoder that trains.
        mechanisms: exact attention and other mechanisms, in this order.
        gain: what training is expected to add to the best quick row.
        hardware: of this machine.
    """
    cells = _quick_cells(quick) if quick else []
    for row in (*trained, *mechanisms):
        expected, time, cost = "-", f"{duration(row.seconds)} a seed", row.cost
        if gain and quick and row is trained[0]:
            ends = (min(100.0, 100 * quick.paired.f1().max() + each) for each in (gain.low, gain.high))
            expected = f"expected: {' to '.join(f'{end:.1f}' for end in ends)}"
        if row in mechanisms:
            relative = f"{ratio(row.training, mechanisms[0].training)} of `{mechanisms[0].model}`"
            time = "1" if row is mechanisms[0] else relative
        reduced = f", {cost.micro_batch_tokens:,} tokens at once" if cost.reduced else ""
        memory = f"{cost.mb / 1024:.2f}{reduced if cost.fits else ', too much'}"
        cells.append([row.model, expected, "-", time, "-", memory])
    if not cells:
        return "Nothing was scored or measured."
    score = f"{quick.paired.metric.removeprefix('f1_') if quick else 'macro'}-F1 [%] (95 %)"
    titles = ["row", score, "minus the best (95 %)", "time", "documents/s, one core", "memory [GiB]"]
    align = ("left", *["right"] * (len(titles) - 1))
    text = pd.DataFrame(cells, columns=titles).to_markdown(index=False, colalign=align, disable_numparse=True)
    notes = [_how_scored(quick)] if quick else []
    if trained:
        where = f"{processor(torch.device(hardware.device))} ({hardware.gibibytes:.1f} GiB), {hardware.precision}"
        notes.append(f"Times and memory of trainings are estimates for {where}; docs/advice.md says how.")
    return "\n\n".join([text, *notes, *([curve_table(curves)] if curves else [])])


def curve_table(curves: Sequence[Curve]) -> str:
    """Return the table of learning curves, and how it was made."""
    cells: dict[str, dict[str, str]] = {}
    for curve in curves:
        scores = 100 * curve.paired.f1()
        for size, mean, spread in zip(curve.sizes, scores.mean(axis=0), scores.std(axis=0, ddof=1), strict=True):
            name = f"{size.documents:,}" + (f" ({size.each} of each class)" if size.each else "")
            cells.setdefault(name, {})[curve.row] = f"{mean:.1f} ({spread:.1f})"
    text = pd.DataFrame(cells).T.fillna("-").rename_axis("learns from").to_markdown(disable_numparse=True)
    short = [f"`{curve.row}`" for curve in curves if curve.left_out]
    late = f" There was no time for larger sizes of {' and '.join(short)}." if short else ""
    draws = " and ".join(str(len(curve.paired.predictions)) for curve in curves)
    said = f"macro-F1 [%] by the documents learnt from, mean (standard deviation) of {draws} draws; C is {USUAL:g}"
    return f"{text}\n\nLearning curves: {said}.{late}"


def _quick_cells(quick: Quick) -> list[list[str]]:
    cells = []
    for place, row in enumerate(quick.rows):
        behind = quick.paired.difference(place, quick.best)
        difference = "best" if place == quick.best else f"{100 * behind.mean:.1f} ({_points(behind)})"
        speed = number(1 / max(row.cpu, 1e-6))
        cells.append([row.name, _score(quick, place), difference, f"{row.seconds:.0f} s", speed, "-"])
    return cells


def _how_scored(quick: Quick) -> str:
    """Return on which documents the quick rows were scored, and how."""
    scored, usual = len(quick.labels), " and ".join(row.name for row in quick.rows if not row.chosen)
    over = f"values of `{quick.by}`" if quick.by else "documents"
    fewest = quick.paired.documents_of_classes.min()
    drawn = f", drawn from {quick.drawn_from:,} to be read in time" if scored < quick.drawn_from else ""
    short = f", too short perhaps, since a class has {fewest}" if fewest < FEW_DOCUMENTS else ""
    rare = f" Classes of fewer than {quick.folds} are left out." if quick.left_out else ""
    return (
        f"Scores: {quick.folds} folds of {scored:,} training documents{drawn}; logistic regression, C chosen inside of "
        f"the folds that train{f', but {USUAL:g} for {usual}' if usual else ''}; intervals over {over}{short}.{rare}"
    )


def _documents(*numbers: float) -> str:
    """Return numbers of documents to two significant digits; those beyond the forecast's reach are one."""
    beyond = f"more than {MOST} times as many"
    found = [f"{float(f'{each:.2g}'):,.0f}" if each < np.inf else beyond for each in numbers]
    return " to ".join(dict.fromkeys(found))


def _score(quick: Quick, place: int) -> str:
    """Return F1 of a row in per cent, with its interval."""
    low, high = quick.paired.score(place).score_interval(1 - LEVEL)
    return f"{100 * quick.paired.f1()[0, place]:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def _points(difference: Estimate) -> str:
    """Return the interval of a difference, in points."""
    low, high = difference.difference_interval(1 - LEVEL)
    return f"{100 * low:.1f} to {100 * high:.1f}"


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
