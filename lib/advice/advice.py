"""Advice on a user's own texts: the cost of candidates, which one to take, and the study that runs it."""

import contextlib
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from lib.advice.answer import facts, mechanism, opening, share, table
from lib.advice.columns import find_columns
from lib.advice.encoders import MULTILINGUAL, PublishedEncoder, published_encoder
from lib.advice.estimates import Hardware, ModelSteps, candidates, exact_model, find_stages, this_hardware
from lib.advice.evidence import tfidf_fact
from lib.advice.preparing import OwnTexts, own_texts
from lib.advice.question import LIMITS, Question
from lib.advice.rows import Row, choose, near_the_best, recipe, row, template
from lib.advice.scores import difference_shown, scores_near
from lib.advice.studies import SEEDS, advised_study
from lib.advice.texts import fetch, find_tokenizer, kept_of, language_of, lost, ngram_settings, token_lengths
from lib.advice.training_steps import StepsCase, Turns, measure_turns
from lib.backbones.settings import BackboneSettings
from lib.core.errors import ConfigError, DownloadError, RunError
from lib.core.files import check_target
from lib.core.inputs import resolve_paths
from lib.preparing.settings.preparation import Split
from lib.study.configuration import load_study, read_layers
from lib.study.recipe import Recipe
from lib.tokens.coverage import MOST_EMPTY
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import from_published
from lib.workflow.planning.plan import Plan

BEARABLE = 0.05
"""Share of the text that a limit may lose."""

DISAGREEMENT = 0.2
"""Assumed share of test documents that two models classify differently, before any training."""

WANTED = 0.1
"""Difference in accuracy that a test split has to show, at least, if documents are to compare models."""

BUSY = 0.1
"""Share of the cores that other programs may keep busy without a warning."""

MEASURED = (128, 512, 2048)
"""Tokens of the documents that are measured, as far as there are such long ones; shorter ones have little attention."""

ENGLISH = "en"
"""Language of the study's vocabulary, and of the texts whose scores are printed."""

_LEFT = 4.0
"""Seconds that the answer takes after the measurement."""


def advise(question: Question, name: str = "config/texts.yaml", begun: float | None = None) -> tuple[str, str]:
    """Return the advice as Markdown, and the file that follows it as YAML.

    Args:
        question: question of the user.
        name: name of that file; it need not exist.
        begun: when the program was started, by `time.monotonic`; None = now.

    Raises:
        ProjectError: the texts or the study do not allow an answer.
    """
    begun = time.monotonic() if begun is None else begun
    plan = Plan(load_study(read_layers([question.study])))
    graph = plan.graph
    stages = find_stages(graph)
    models = candidates(graph, stages)
    if not models:
        both = f"{stages.adaptation} and {stages.classification}"
        raise ConfigError(f"{question.study}: no model passes {both} on tokens. Expected one at least.")
    exact = exact_model(graph, stages, models)
    backbones = {model: graph.backbone_at(model, stages.classification, None) for model in models}
    hardware = this_hardware(plan.study.execution, question.device, graph.experiment.precision)
    files = resolve_paths(question.texts)
    check_target(Path(name), question.study, *filter(None, [question.vocabulary]), *files)
    columns = find_columns(files, question.column, question.label, question.dialect, labelled=question.labelled)
    own = own_texts(files, column=columns.text, label=columns.label, dialect=columns.dialect)
    test = own.splits.get("test") or round(Split().test * own.documents)  # without labels: that they would have
    shown = difference_shown(test, DISAGREEMENT) if test > 1 else None
    language, spoken = language_of(own.texts)
    foreign = language != ENGLISH and question.encoder is None
    ngrams = ngram_settings(own.texts) if own.labelled else {}
    encoder = published_encoder(labelled=own.labelled, multilingual=foreign, folder=question.encoder)
    passed = [stages.adaptation, stages.classification] if own.labelled else [stages.adaptation]
    *other, task = (next(iter(graph.experiment.stages[stage].data.values())).task for stage in passed)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = graph.tokenizer_of(models[0], template(graph, stages.classification, LIMITS[0]))
        place, counting, kept = _tokenizers(question, plan, tokenizer, encoder, own.texts, Path(folder))
        lengths = token_lengths(own.texts, counting)
        limits = sorted(question.limits or LIMITS[: 1 + sum(limit < lengths.max() for limit in LIMITS)])
        limit = next((each for each in limits if lost(lengths, each)[0] <= BEARABLE), limits[-1])
        cut = np.minimum(lengths, limit)
        scores = scores_near(graph, stages.classification, limit) if language == ENGLISH else None
        points = max(question.points, scores.noise) if scores else question.points
        f1 = {model: scores.by_model.get(model) if scores else None for model in models}
        tfidf = tfidf_fact(own, ngrams, question.seconds)
        worth = _worth_measuring(backbones, exact, near_the_best(f1, points), int(np.median(lengths)))
        measured = {model: backbones[model] for model in worth}
        if not foreign:
            measured[encoder.title] = encoder.parameters()
        cases = {model: StepsCase(each, task, str(place), hardware) for model, each in measured.items()}
        masked = replace(cases[exact], task=other[0]) if other else None
        seconds = question.seconds - (time.monotonic() - begun) - _LEFT
        turns, busy, cores = _measured(exact, cases, masked, cut, seconds)

    works = [(recipe(graph, stage, limit), stage == stages.adaptation) for stage in passed]
    every = {each: row(each, turns[each], works, cut, own, hardware, f1=f1[each]) for each in models if each in turns}
    rows = [each for model, each in every.items() if (backbones[model].longest() or limit) >= limit]
    of_encoder = [] if foreign else _rows_of(encoder, turns[encoder.title], cut, own, hardware)
    if not any(each.fits for each in (*of_encoder, *rows)):
        named = ", ".join(each.model for each in (*of_encoder, *rows))
        memory = f"{hardware.gibibytes:.1f} GiB"
        raise RunError(f"{limit} tokens: none of {named} fits into {memory}. Name smaller --limits or --encoder.")
    taken = choose(rows, every[exact], points)
    notes = [*columns.notes, *own.notes, *kept, *_remarks(ngrams, language, spoken, busy, cores)]
    found, whole = facts(own, lengths, limits, test, shown), sum(each.seconds for each in of_encoder) * len(SEEDS)
    parts = [opening(encoder, min(encoder.reach, limit), whole, name)]
    parts.append("\n".join(f"- {fact}" for fact in (*found, *filter(None, [tfidf]))))
    if notes:
        parts.append("## Your texts\n\n" + "\n".join(f"- {note}" for note in notes))
    longest = turns[exact][0].classification.longest
    parts.append(table([*of_encoder, *rows], every[exact], scores, points, hardware, longest))
    if taken is not None and shown is not None and shown <= WANTED and not foreign and limit > encoder.reach:
        parts.append(mechanism(taken, every[exact], limit))
    execution = _execution(files[0], of_encoder, hardware)
    return "\n\n".join(parts), advised_study(encoder, question, own, limit, execution, hardware.precision, ngrams)


def _measured(
    exact: str, cases: dict[str, StepsCase], masked: StepsCase | None, lengths: np.ndarray, seconds: float
) -> tuple[Turns, float, int]:
    """Return the costs of steps, the cores that other programs kept busy meanwhile, and the number of cores."""
    longest, process, cores = max(8, int(np.quantile(lengths, 0.95))), psutil.Process(), psutil.cpu_count() or 1
    psutil.cpu_percent()  # it counts from now on, and so does the next
    process.cpu_percent()
    measured = sorted({min(longest, length) for length in MEASURED})
    turns = measure_turns(exact, cases, masked, measured, seconds, predictions=True)
    return turns, (psutil.cpu_percent() * cores - process.cpu_percent()) / 100, cores


def _tokenizers(
    question: Question, plan: Plan, name: str, encoder: PublishedEncoder, texts: Sequence[str], folder: Path
) -> tuple[Path, TextTokenizer, list[str]]:
    """Return the tokeniser of the models that are measured, the one that tokens are counted by, and warnings.

    Raises:
        ConfigError: the tokeniser knows no token of many of the texts.
        DownloadError: the study's vocabulary cannot be fetched.
    """
    if question.encoder is None:
        place = find_tokenizer(plan, name, folder / name, texts, question.vocabulary)
    else:
        from_published(question.encoder, place := folder / "published")
    counting = place
    if encoder is MULTILINGUAL:
        with contextlib.suppress(DownloadError):
            fetch(encoder.place, folder / "fetched")
            from_published(folder / "fetched", counting := folder / "of-encoder")
    backend = TextTokenizer.load(counting)
    empty, warnings = kept_of(texts, backend)
    if empty > MOST_EMPTY:
        said = f"{question.encoder or question.study}: its tokeniser knows no token of {empty:.0%} of the texts."
        raise ConfigError(f"{said} Name the folder of a published encoder of their language with --encoder.")
    if question.encoder is None and counting is place and len(backend.backend) != encoder.architecture["vocab_size"]:
        warnings = [f"Lengths are in tokens of the study's `{name}`; in those of {encoder.title} they differ."]
    return place, backend, warnings


def _remarks(ngrams: dict[str, Any] | None, language: str, spoken: float, busy: float, cores: int) -> Iterator[str]:
    """Yield a sentence about each thing that is unusual about the texts or the machine."""
    if ngrams:
        written = ", ".join(f"{key}: {value}" for key, value in ngrams.items())
        yield f"TF-IDF of words does not suit these texts. The study has `{written}`, so it counts characters."
    elif ngrams is None:
        yield "TF-IDF finds no n-gram that two documents have, so the study leaves it out."
    if language != ENGLISH:
        said = f"These texts are not English: '{language}' in {share(spoken)}."
        yield f"{said} Scores of English datasets say nothing about them, nor would pretraining on English help much."
    if busy > BUSY * cores:
        said = f"**The machine is busy:** other programs kept {busy:.1f} of {cores} cores busy meanwhile."
        yield f"{said} Minutes are lower on a quiet one; the ratios to exact attention hold."


def _worth_measuring(backbones: dict[str, BackboneSettings], exact: str, near: Sequence[str], usual: int) -> list[str]:
    """Return exact attention, and the models that may be advised.

    These are of each kind of mechanism the one that computes least, of those whose scores are near enough; with more
    hashes, larger chunks or more features no mechanism is faster.

    Args:
        backbones: of the models.
        exact: model with exact attention.
        near: models whose scores are near enough.
        usual: tokens of a usual document.
    """
    cheapest = {backbones[exact].family: exact}
    for model in sorted(near, key=lambda model: backbones[model].products_per_token(usual, 0.0)):
        cheapest.setdefault(backbones[model].family, model)
    return [exact, *(model for model in backbones if model in cheapest.values() and model != exact)]


def _rows_of(
    encoder: PublishedEncoder, turns: Sequence[ModelSteps], cut: np.ndarray, own: OwnTexts, hardware: Hardware
) -> list[Row]:
    """Return the rows of a published encoder: documents cut to its reach, and read in segments if they are longer."""
    works = [(Recipe.model_validate(encoder.recipe(own.splits["train"], labelled=own.labelled)), not own.labelled)]
    rows = [row(encoder.name, turns, works, np.minimum(cut, encoder.reach), own, hardware)]
    if own.labelled and cut.max() > encoder.reach:
        segments = -(-cut // encoder.reach)
        pieces = np.repeat(-(-cut // segments), segments)
        name = f"{encoder.name}-segments"
        rows.append(row(name, turns, works, pieces, own, hardware, pieces=len(pieces) / len(cut)))
    return rows


def _execution(file: Path, rows: Sequence[Row], hardware: Hardware) -> dict[str, Any]:
    """Return the settings of `execution` that differ from the defaults; `rows` are those of the study."""
    name = re.sub("[^A-Za-z0-9_-]+", "-", file.name.split(".")[0]).strip("-") or "texts"
    training: dict[str, Any] = {"device": "cpu"} if hardware.device == "cpu" else {}
    if reduced := [cost.micro_batch_tokens for row in rows for cost in row.costs if cost.reduced]:
        training["micro_batch_tokens"] = min(reduced)
    job = {"job": {"gpu": 0}} if hardware.device == "cpu" else {}
    return {"results": f"results/{name}"} | ({"training": training} if training else {}) | job
