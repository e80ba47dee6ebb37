"""Advice on a user's own texts: the cost of each mechanism at each length limit, and which one to take."""

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lib.advice import wording
from lib.advice.choices import Choice, Limit, bearable, choose, enough, ratio, start_advice
from lib.advice.columns import find_columns
from lib.advice.encoders import SEEDS, EncoderCost, PublishedEncoder, published_encoder, published_study
from lib.advice.estimates import (
    Hardware,
    ModelSteps,
    Stages,
    candidates,
    exact_model,
    find_stages,
    this_hardware,
)
from lib.advice.evidence import evidence_hint
from lib.advice.preparing import OwnTexts, own_texts
from lib.advice.question import Question
from lib.advice.scores import ModelScores, scores_near
from lib.advice.studies import OwnStudy, recipe, template
from lib.advice.texts import find_tokenizer, hub_tokenizer, kept_of, language_of, lost, ngram_settings, token_lengths
from lib.advice.training_steps import Load, StepsCase, Turns, batches_of_texts, measure_turns
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

_LEFT = 4.0
"""Seconds that the answer takes after the measurement."""

_OF_ENCODER = 0.4
"""Share of the time that goes to the measurement of a published encoder."""

START_UP = 15.0
"""Seconds that a run takes before its first step, for imports above all."""


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
    own = replace(own, notes=[*columns.notes, *own.notes])
    documents = own.splits["train"]
    test = own.splits.get("test") or round(Split().test * own.documents)  # without labels: that they would have
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = graph.tokenizer_of(models[0], template(graph, stages.classification, LIMITS[0]))
        language, at_hand = language_of(own.texts), question.encoder is not None
        multilingual = not language.english and not at_hand
        encoder = published_encoder(labelled=own.labelled, multilingual=multilingual, folder=question.encoder)
        if question.encoder is None:
            place = find_tokenizer(plan, tokenizer, Path(folder) / tokenizer, own.texts, question.vocabulary)
        else:
            from_published(question.encoder, place := Path(folder) / "published")
        counting = place
        if multilingual and question.weights is None:
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
        chosen = limits[enough([lost(lengths, limit)[0] for limit in limits])]
        start = start_advice(test, chosen, language, at_hand=at_hand)
        ngrams = ngram_settings(own.texts) if own.labelled else {}
        read = min(encoder.reach, chosen) if start.published and question.weights is None else chosen
        evidence = evidence_hint(own, lengths, read, ngrams, question.seconds)
        load = Load()
        left, of_encoder = question.seconds - (time.monotonic() - begun) - _LEFT, None
        if start.published and not multilingual and question.weights is None:
            of_encoder = _encoder_steps(
                graph, stages, encoder, hardware, place, np.minimum(lengths, encoder.reach), _OF_ENCODER * left
            )
            left *= 1 - _OF_ENCODER
        turns = _measured(
            graph,
            stages,
            models,
            exact,
            hardware,
            tokenizer=place,
            lengths=np.minimum(lengths, chosen),
            scores=scores_near(plan, stages.classification, chosen) if language.english else None,
            points=question.points,
            seconds=left,
        )
        busy = load.cores()

    table = _table(plan, stages, turns, exact, hardware, lengths, documents, limits, labelled=own.labelled)
    if not language.english:
        table = [
            replace(limit, scores=None, choices=[replace(each, f1=None) for each in limit.choices]) for limit in table
        ]
    taken = choose(table, question.points)
    if taken is None:
        raise RunError(
            f"{limits[0]} tokens: none of {', '.join(models)} fits into {hardware.gibibytes:.1f} GiB. Expected one at "
            "least; ask for a shorter limit with --limits, or for a smaller encoder with --study."
        )
    start = start_advice(test, taken.limit, language, at_hand=at_hand)
    published = start.published and question.weights is None
    if published and counting is place and not at_hand and len(backend.backend) != encoder.architecture["vocab_size"]:
        kept = [f"Lengths are in tokens of the study's `{tokenizer}`; in those of {encoder.title} they differ."]
    longest = max(each[0].classification.longest for each in turns.values())
    before = [] if question.weights else list(_costs_before(graph, stages, turns[taken.model], taken.model, hardware))
    rows = [] if of_encoder is None else _encoder_rows(encoder, of_encoder, hardware, lengths, taken.limit, own)
    if published:
        advised, read, steps = encoder.name, min(encoder.reach, taken.limit), of_encoder
    else:
        advised, read, steps = taken.model, taken.limit, turns[taken.model]
    if published:
        seconds = sum(row.seconds for row in rows) * len(SEEDS) if rows else None
    else:
        pretraining = sum(each[-1] for each in before)
        seconds = (3600 * taken.hours + pretraining) * len(graph.experiment.seeds)
    text = "\n\n".join(
        [
            wording.opening(taken, encoder if published else None, own, seconds, name),
            wording.facts(taken, table, question.points, start, encoder if published else None, own, lengths, test),
            *([wording.prediction(advised, steps, np.minimum(lengths, read), hardware)] if own.labelled else []),
            *wording.warnings([*own.notes, *kept], language, ngrams),
            *evidence,
            *wording.encoder_table(rows),
            *(wording.limit(limit) for limit in table),
            wording.machine(hardware, documents, longest, busy),
            *wording.before(before, taken.model, published=published),
        ]
    )
    execution = _execution(files[0], taken, hardware)
    if published:
        execution.get("training", {}).pop("micro_batch_tokens", None)  # it is not that model's
        return text, published_study(
            question,
            own,
            encoder,
            limit=taken.limit,
            execution=execution,
            precision=hardware.precision,
            ngrams=ngrams,
        )
    study = OwnStudy(
        question=question,
        own=own,
        model=taken.model,
        limit=taken.limit,
        execution=execution,
        precision=hardware.precision,
        ngrams=ngrams,
    )
    extends = Path(os.path.relpath(question.study, Path(name).parent)).as_posix()
    return text, study.write(layers, stages, extends)


def _encoder_steps(
    graph: Graph,
    stages: Stages,
    encoder: PublishedEncoder,
    hardware: Hardware,
    tokenizer: Path,
    lengths: np.ndarray,
    seconds: float,
) -> Sequence[ModelSteps]:
    """Return the costs of steps of the published encoder, on documents or segments of these lengths."""
    cases = [
        StepsCase(
            encoder.parameters(),
            next(iter(graph.experiment.stages[stage].data.values())).task,
            str(tokenizer),
            hardware,
        )
        for stage in (stages.classification, stages.adaptation)
    ]
    return _turns(encoder.name, {encoder.name: cases[0]}, cases[1], [], lengths, seconds)[encoder.name]


def _encoder_rows(
    encoder: PublishedEncoder,
    turns: Sequence[ModelSteps],
    hardware: Hardware,
    lengths: np.ndarray,
    limit: int,
    own: OwnTexts,
) -> list[EncoderCost]:
    """Return the costs of the rows of the published encoder: documents cut to its reach, and read in segments."""
    documents, cut = own.splits["train"], np.minimum(lengths, limit)
    recipe = Recipe.model_validate(encoder.recipe(documents, labelled=own.labelled))
    ways = {encoder.name: np.minimum(cut, encoder.reach)}
    if own.labelled and limit > encoder.reach:
        segments = -(-cut // encoder.reach)
        ways[f"{encoder.name}-segments"] = np.repeat(-(-cut // segments), segments)
    evaluated = own.splits["validation" if own.labelled else "held_out"] * recipe.epochs
    if own.labelled:  # and once more in the end
        evaluated += own.documents - documents
    rows = []
    for name, pieces in ways.items():
        number = round(documents * len(pieces) / len(lengths))
        epoch = float(
            np.median([each.cost(hardware, recipe, pieces, number, masked=not own.labelled).seconds for each in turns])
        )
        forward = turns[0].classification.forward_share * epoch / documents
        rows.append(
            EncoderCost(
                name,
                tokens_per_second=number * float(pieces.mean()) / epoch,
                epoch_seconds=epoch,
                seconds=START_UP + epoch * recipe.epochs_over(documents) + forward * evaluated,
            )
        )
    return rows


def _measured(
    graph: Graph,
    stages: Stages,
    models: Sequence[str],
    exact: str,
    hardware: Hardware,
    *,
    tokenizer: Path,
    lengths: np.ndarray,
    scores: ModelScores | None,
    points: float,
    seconds: float,
) -> Turns:
    """Return the costs of steps of all models.

    Most turns go to those that may be advised: of each kind of mechanism the one that computes least, of those whose
    scores are near enough; with more hashes, larger chunks or more features no mechanism is faster.
    """

    def case(backbone: Any, stage: str) -> StepsCase:
        task = next(iter(graph.experiment.stages[stage].data.values())).task
        return StepsCase(backbone, task, str(tokenizer), hardware)

    backbones = {model: graph.backbone_at(model, stages.classification, None) for model in models}
    cases = {model: case(backbone, stages.classification) for model, backbone in backbones.items()}
    known = {model: scores.by_model.get(model) if scores else None for model in models}
    near = bearable(known, points, scores.noise if scores else None)
    usual = int(np.median(lengths))
    cheapest: dict[str, str] = {}
    for model in sorted(near, key=lambda model: backbones[model].products_per_token(usual, 0.0)):
        cheapest.setdefault(backbones[model].family, model)
    return _turns(exact, cases, case(backbones[exact], stages.adaptation), [*cheapest.values()], lengths, seconds)


def _turns(
    exact: str,
    cases: Mapping[str, StepsCase],
    masked: StepsCase,
    first: Sequence[str],
    lengths: np.ndarray,
    seconds: float,
) -> Turns:
    """Return the costs of steps on documents of these lengths, see `measure_turns`."""
    usual, longest = int(np.median(lengths)), max(8, int(np.quantile(lengths, 0.95)))
    few = max(8, min(usual, 256))
    return measure_turns(
        exact,
        cases,
        masked,
        first,
        trial=[(1, few), (2, few)],
        sizes=lambda affordable, most: batches_of_texts(max(8, usual), longest, affordable=affordable, most=most),
        seconds=seconds,
        predictions=True,
    )


def _table(
    plan: Plan,
    stages: Stages,
    turns: Turns,
    exact: str,
    hardware: Hardware,
    lengths: np.ndarray,
    documents: int,
    limits: Sequence[int],
    *,
    labelled: bool,
) -> list[Limit]:
    """Return cost and known score of every model at each limit, ascending, that it reads.

    Documents without labels cost the adaptation alone. All limits have the recipe of the shortest one that loses
    little. A longer limit reads more of the same texts, so it never costs less.
    """
    graph = plan.graph
    typical = limits[enough([lost(lengths, limit)[0] for limit in limits])]
    works = [stages.adaptation, stages.classification] if labelled else [stages.adaptation]
    recipes = [recipe(graph, stage, typical) for stage in works]
    epochs = [settings.epochs_over(documents) for settings in recipes]
    models = [model for model in graph.experiment.models if model in turns]
    seconds: dict[str, Any] = dict.fromkeys(models, 0.0)
    table = []
    for limit in limits:
        cut, scores = np.minimum(lengths, limit), scores_near(plan, stages.classification, limit)
        costs = {
            model: [
                [
                    each.cost(hardware, settings, cut, documents, masked=stage == stages.adaptation)
                    for stage, settings in zip(works, recipes, strict=True)
                ]
                for each in turns[model]
            ]
            for model in models
        }
        for model, found in costs.items():
            seconds[model] = np.maximum(seconds[model], [[cost.seconds for cost in turn] for turn in found])
        totals = {model: seconds[model] @ epochs for model in models}
        choices = []
        for model in models:
            reach = graph.backbone_at(model, stages.classification, None).longest()
            if reach is not None and reach < limit:
                continue
            middle = np.argsort(totals[model])[len(totals[model]) // 2]
            adaptation, *classification = (
                replace(cost, seconds=float(at_least))
                for cost, at_least in zip(costs[model][middle], seconds[model][middle], strict=True)
            )
            choices.append(
                Choice(
                    model,
                    limit,
                    adaptation,
                    classification[0] if labelled else None,
                    hours=float(np.median(totals[model])) / 3600,
                    ratio=ratio(totals[model], totals[exact]),
                    f1=scores.by_model.get(model) if scores else None,
                    minutes=(float(seconds[model][:, -1].min()) / 60, float(seconds[model][:, -1].max()) / 60),
                    exact=model == exact,
                )
            )
        table.append(Limit(limit, *lost(lengths, limit), scores, choices))
    return table


def _costs_before(
    graph: Graph, stages: Stages, steps: Sequence[ModelSteps], model: str, hardware: Hardware
) -> Iterator[tuple[str, str, float]]:
    """Yield each run on a corpus that the adaptation starts from: its stage, the corpus, and seconds at most."""
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
            yield stage, entry, float(np.median(costs)) * work.recipe.epochs_over(len(lengths))


def _execution(file: Path, taken: Choice, hardware: Hardware) -> dict[str, Any]:
    """Return the settings of `execution` that differ from the study's."""
    name = re.sub("[^A-Za-z0-9_-]+", "-", file.name.split(".")[0]).strip("-") or "texts"
    execution: dict[str, Any] = {"results": f"results/{name}"}
    training: dict[str, Any] = {"device": "cpu"} if hardware.device == "cpu" else {}
    if reduced := [cost.micro_batch_tokens for cost in taken.costs if cost.reduced]:
        training["micro_batch_tokens"] = min(reduced)
    if training:
        execution["training"] = training
    if hardware.device == "cpu":
        execution["job"] = {"gpu": 0}
    return execution
