"""Advice on a user's own texts: the cost of candidates, which one to take, and the study that runs it."""

import contextlib
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from lib.advice.answer import duration, facts, opening, share, table
from lib.advice.columns import find_columns
from lib.advice.encoders import PublishedEncoder, published_encoder
from lib.advice.estimates import Hardware, ModelSteps, Stages, candidates, exact_model, find_stages, this_hardware
from lib.advice.evidence import tfidf_fact
from lib.advice.preparing import OwnTexts, own_texts
from lib.advice.question import Question
from lib.advice.rows import Row, choose, near_the_best, row
from lib.advice.scores import ModelScores, difference_shown, scores_near
from lib.advice.studies import SEEDS, OwnStudy, recipe, template
from lib.advice.texts import find_tokenizer, hub_tokenizer, kept_of, language_of, lost, ngram_settings, token_lengths
from lib.advice.training_steps import StepsCase, Turns, measure_turns
from lib.core.errors import ConfigError, DownloadError, RunError
from lib.core.files import check_target
from lib.core.inputs import resolve_paths
from lib.preparing.settings.preparation import Split
from lib.study.configuration import load_study, read_layers
from lib.study.graph import Graph
from lib.study.recipe import Recipe
from lib.tokens.coverage import MOST_EMPTY
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import from_published
from lib.workflow.planning.plan import Plan

LIMITS = (512, 1024, 2048, 4096, 8192, 16_384)
"""Tokens that documents are cut to."""

BEARABLE = 0.05
"""Share of the text that a limit may lose."""

DISAGREEMENT = 0.2
"""Assumed share of test documents that two models classify differently, before any training."""

WANTED = 0.1
"""Difference in accuracy that a test split has to show, at least, if documents are to compare models."""

REACH = 512
"""Longest text in tokens that the advised published encoders read."""

BUSY = 0.1
"""Share of the cores that other programs may keep busy without a warning."""

MEASURED = (128, 512, 2048)
"""Tokens of the documents that are measured, as far as there are such long ones; shorter ones have little attention."""

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
    layers = read_layers([question.study])
    plan = Plan(load_study(layers))
    graph = plan.graph
    stages = find_stages(graph)
    models = candidates(graph, stages)
    if not models:
        both = f"{stages.adaptation} and {stages.classification}"
        raise ConfigError(f"{question.study}: no model passes {both} on tokens. Expected one at least.")
    exact = exact_model(graph, stages, models)
    hardware = this_hardware(plan.study.execution, question.device, graph.experiment.precision)

    files = resolve_paths(question.texts)
    check_target(Path(name), question.study, *filter(None, [question.vocabulary]), *files)
    columns = find_columns(files, question.column, question.label, question.dialect, labelled=question.labelled)
    own = own_texts(files, column=columns.text, label=columns.label, dialect=question.dialect, size=question.sample)
    test = own.splits.get("test") or round(Split().test * own.documents)  # without labels: that they would have
    shown = difference_shown(test, DISAGREEMENT) if test > 1 else None
    language, ngrams = language_of(own.texts), ngram_settings(own.texts) if own.labelled else {}
    foreign = not language.english and question.encoder is None
    encoder = published_encoder(labelled=own.labelled, multilingual=foreign, folder=question.encoder)
    notes = [*columns.notes, *own.notes]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = graph.tokenizer_of(models[0], template(graph, stages.classification, LIMITS[0]))
        if question.encoder is None:
            place = find_tokenizer(plan, tokenizer, Path(folder) / tokenizer, own.texts, question.vocabulary)
        else:
            from_published(question.encoder, place := Path(folder) / "published")
        counting = place
        if foreign and question.weights is None:
            with contextlib.suppress(DownloadError):
                counting = hub_tokenizer(encoder.place, Path(folder))
        backend = TextTokenizer.load(counting)
        lengths, (empty, kept) = token_lengths(own.texts, backend), kept_of(own.texts, backend)
        if empty > MOST_EMPTY:
            raise ConfigError(
                f"{question.encoder or question.study}: its tokeniser knows no token of {empty:.0%} of the texts. "
                "Expected one for their language; name the folder of a published encoder of it with --encoder."
            )
        limits = sorted(question.limits or LIMITS[: 1 + sum(limit < lengths.max() for limit in LIMITS)])
        limit = next((limit for limit in limits if lost(lengths, limit)[0] <= BEARABLE), limits[-1])
        few = shown is None or shown > WANTED
        published = question.weights is None and (question.encoder is not None or foreign or few or limit <= REACH)
        other = question.encoder is None and len(backend.backend) != encoder.architecture["vocab_size"]
        if published and counting is place and other:
            kept = [f"Lengths are in tokens of the study's `{tokenizer}`; in those of {encoder.title} they differ."]
        scores = scores_near(plan, stages.classification, limit) if language.english else None
        tfidf = tfidf_fact(own, lengths, min(encoder.reach, limit) if published else limit, ngrams, question.seconds)
        measured = encoder if published and not foreign else None
        psutil.cpu_percent()
        own_time, since = time.process_time(), time.monotonic()
        turns = _measured(
            graph,
            stages,
            _worth_measuring(graph, stages, models, exact, scores, question.points, int(np.median(lengths))),
            measured,
            hardware,
            place,
            np.minimum(lengths, limit),
            question.seconds - (since - begun) - _LEFT,
            labelled=own.labelled,
        )
        cores = psutil.cpu_count() or 1
        busy = psutil.cpu_percent() / 100 * cores - (time.process_time() - own_time) / (time.monotonic() - since)

    works = [(recipe(graph, stages.adaptation, limit), True)]
    if own.labelled:
        works.append((recipe(graph, stages.classification, limit), False))
    cut = np.minimum(lengths, limit)
    every = {
        model: row(model, each, works, cut, own, hardware, f1=scores.by_model.get(model) if scores else None)
        for model, each in turns.items()
        if model in models
    }
    reach = {model: graph.backbone_at(model, stages.classification, None).longest() or limit for model in every}
    rows = [each for model, each in every.items() if reach[model] >= limit]
    noise = (scores.noise if scores else None) or 0.0
    taken = choose(rows, every[exact], max(question.points, noise))
    if taken is None:
        raise RunError(
            f"{limit} tokens: none of {', '.join(each.model for each in rows)} fits into {hardware.gibibytes:.1f} GiB. "
            "Expected one at least; ask for a shorter limit with --limits, or for a smaller encoder with --study."
        )
    of_encoder = [] if measured is None else _rows_of(measured, turns[measured.title], cut, own, hardware)
    before = [] if question.weights else list(_costs_before(graph, stages, turns[taken.model], taken.model, hardware))
    if published:
        advised, read = f"`{encoder.name}` ({encoder.title}, exact attention)", min(encoder.reach, limit)
        seconds = sum(each.seconds for each in of_encoder) * len(SEEDS) if of_encoder else None
    else:
        advised, read = f"`{taken.model}` ({'exact' if taken.model == exact else 'approximate'} attention)", limit
        seconds = (taken.seconds + sum(before)) * len(graph.experiment.seeds)
    notes += kept
    if ngrams:
        written = ", ".join(f"{key}: {value}" for key, value in ngrams.items())
        notes.append(f"TF-IDF of words does not suit these texts. The study has `{written}`, so it counts characters.")
    elif ngrams is None:
        notes.append("TF-IDF finds no n-gram that two documents have, so the study leaves it out.")
    if not language.english:
        notes.append(
            f"These texts are not English: '{language.name}' in {share(language.share)}. Scores of English datasets "
            "say nothing about them, and pretraining on English articles would teach a model little."
        )
    if before:
        notes.append(
            f"Training `{taken.model}` of the study first takes a pretraining, at most about {duration(sum(before))} "
            "here. If you have a pretrained one, name its folder with --weights."
        )
    if busy > BUSY * cores:
        notes.append(
            f"**The machine is busy:** other programs kept {busy:.1f} of {cores} cores busy meanwhile. Minutes are "
            "lower on a quiet one; the ratios to exact attention hold, since the models took turns."
        )
    longest = max(each[0].classification.longest for each in turns.values())
    text = "\n\n".join(
        [
            opening(advised, read, seconds, name),
            "\n".join(f"- {fact}" for fact in (*facts(own, lengths, limits, test, shown), *filter(None, [tfidf]))),
            *(["## Your texts\n\n" + "\n".join(f"- {note}" for note in notes)] if notes else []),
            table([*of_encoder, *rows], every[exact], scores, question.points, hardware, longest),
        ]
    )
    study = OwnStudy(
        question, own, limit, _execution(files[0], None if published else taken, hardware), hardware.precision, ngrams
    )
    return text, study.of_encoder(encoder) if published else study.of_model(layers, stages, taken.model)


def _worth_measuring(
    graph: Graph,
    stages: Stages,
    models: Sequence[str],
    exact: str,
    scores: ModelScores | None,
    points: float,
    usual: int,
) -> list[str]:
    """Return exact attention, and the models that may be advised.

    These are of each kind of mechanism the one that computes least, of those whose scores are near enough; with more
    hashes, larger chunks or more features no mechanism is faster.
    """
    backbones = {model: graph.backbone_at(model, stages.classification, None) for model in models}
    known = {model: scores.by_model.get(model) if scores else None for model in models}
    near = near_the_best(known, max(points, (scores.noise if scores else None) or 0.0))
    cheapest = {backbones[exact].family: exact}
    for model in sorted(near, key=lambda model: backbones[model].products_per_token(usual, 0.0)):
        cheapest.setdefault(backbones[model].family, model)
    return [exact, *(model for model in models if model in cheapest.values() and model != exact)]


def _measured(
    graph: Graph,
    stages: Stages,
    models: Sequence[str],
    encoder: PublishedEncoder | None,
    hardware: Hardware,
    tokenizer: Path,
    lengths: np.ndarray,
    seconds: float,
    *,
    labelled: bool,
) -> Turns:
    """Return the costs of steps of models, the first of which has exact attention, and of a published encoder."""

    def case(backbone: Any, stage: str) -> StepsCase:
        task = next(iter(graph.experiment.stages[stage].data.values())).task
        return StepsCase(backbone, task, str(tokenizer), hardware)

    last = stages.classification if labelled else stages.adaptation
    backbones = {model: graph.backbone_at(model, stages.classification, None) for model in models}
    cases = {model: case(backbone, last) for model, backbone in backbones.items()}
    if encoder is not None:
        cases[encoder.title] = case(encoder.parameters(), last)
    longest = max(8, int(np.quantile(lengths, 0.95)))
    measured = sorted({min(longest, length) for length in MEASURED})
    return measure_turns(
        models[0],
        cases,
        case(backbones[models[0]], stages.adaptation) if labelled else None,
        measured,
        seconds=seconds,
        predictions=True,
    )


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


def _costs_before(
    graph: Graph, stages: Stages, steps: Sequence[ModelSteps], model: str, hardware: Hardware
) -> Iterator[float]:
    """Yield the seconds, at most, of each run on a corpus that the adaptation starts from."""
    stage = stages.adaptation
    while (parent := graph.parent_stage(model, stage)) is not None:
        stage = parent
        for entry in graph.experiment.stages[stage].data:
            work = graph.work(model, stage, entry)
            if entry not in graph.experiment.corpora or work.recipe is None:
                continue
            parts = (graph.experiment.corpora[entry].short, graph.experiment.corpora[entry].long)
            lengths = np.repeat([part.max_tokens for part in parts], [part.articles for part in parts])
            costs = [each.cost(hardware, work.recipe, lengths, len(lengths), masked=True).seconds for each in steps]
            yield float(np.median(costs)) * work.recipe.epochs_over(len(lengths))


def _execution(file: Path, taken: Row | None, hardware: Hardware) -> dict[str, Any]:
    """Return the settings of `execution` that differ from the defaults; `taken` is the model that is trained."""
    name = re.sub("[^A-Za-z0-9_-]+", "-", file.name.split(".")[0]).strip("-") or "texts"
    training: dict[str, Any] = {"device": "cpu"} if hardware.device == "cpu" else {}
    if reduced := [cost.micro_batch_tokens for cost in taken.costs if cost.reduced] if taken else []:
        training["micro_batch_tokens"] = min(reduced)
    return (
        {"results": f"results/{name}"}
        | ({"training": training} if training else {})
        | ({"job": {"gpu": 0}} if hardware.device == "cpu" else {})
    )
