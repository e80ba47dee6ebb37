"""From a user's own texts to a mechanism: what each one costs here at each length limit, and which to take."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lib.advice import wording
from lib.advice.choices import Choice, Limit, bearable, choose, enough, ratio, start
from lib.advice.published import RECIPE, PublishedEncoder, published_encoder, published_study
from lib.advice.question import Question
from lib.advice.scores import Scores, scores_near
from lib.advice.studies import OwnStudy, recipe, template
from lib.advice.texts import find_tokenizer, language_of, lost, read_sample, token_lengths
from lib.core.errors import ConfigError, RunError
from lib.core.inputs import resolve_paths
from lib.data.settings.preparation import Split
from lib.data.tokenizer import TextTokenizer
from lib.measure.estimates import Cost, Machine, ModelSteps, this_machine
from lib.measure.step_turns import Turns, measure_turns
from lib.measure.steps import StepsCase, grows
from lib.measure.study_steps import Stages, candidates, find_stages
from lib.study.configuration import load_study, read_layers
from lib.study.graph import Graph
from lib.study.recipe import Recipe
from lib.workflow.plan import Plan

LIMITS = (512, 1024, 2048, 4096, 8192, 16_384)
"""Tokens that documents are cut to."""

HELD_OUT = 0.1
"""Share of texts without labels that are held out."""

_LEFT = 4.0
"""Seconds that the answer takes after the measurement."""


def advise(question: Question, name: str = "config/texts.yaml", begun: float | None = None) -> tuple[str, str]:
    """Return the advice as Markdown, and the file that follows it as YAML.

    Args:
        question: what is asked.
        name: of that file; it need not exist.
        begun: when the program was started, by `time.monotonic`; None = now.

    Raises:
        ProjectError: the texts or the study do not allow an answer.
    """
    begun = time.monotonic() if begun is None else begun
    layers = read_layers([question.study])
    plan = Plan(load_study(layers))
    graph, baseline = plan.graph, plan.study.report.baseline
    stages = find_stages(graph)
    models = candidates(graph, stages)
    if not models:
        both = f"{stages.adaptation} and {stages.classification}"
        raise ConfigError(f"{question.study}: no model passes {both} on tokens. Expected one at least.")
    exact = next((model for model in models if grows(graph.backbone_at(model, stages.classification, None))), models[0])
    machine = this_machine(plan.study.execution, question.device, graph.experiment.precision)

    files = resolve_paths(question.texts)
    sample = read_sample(
        files, column=question.column, size=question.sample, label=question.label, labels=question.labels
    )
    split = Split()
    share = 1 - HELD_OUT if question.label is None else 1 - split.validation - split.test
    documents = max(1, round(share * sample.documents))
    test = round(split.test * sample.documents)  # what a test split would have, too, if the texts had labels
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = graph.tokenizer_of(models[0], template(graph, stages.classification, LIMITS[0]))
        place = find_tokenizer(plan, tokenizer, Path(folder) / tokenizer, sample.texts, question.vocabulary)
        backend = TextTokenizer.load(place)
        lengths, language = token_lengths(sample.texts, backend), language_of(sample.texts, backend)
        limits = sorted(question.limits or LIMITS[: 1 + sum(limit < lengths.max() for limit in LIMITS)])
        chosen = limits[enough([lost(lengths, limit)[0] for limit in limits])]
        at_hand = question.encoder is not None
        beginning = start(sample.documents, test, chosen, language, at_hand=at_hand)
        encoder = published_encoder(
            labelled=question.label is not None, multilingual=beginning.multilingual, folder=question.encoder
        )
        turns = _measured(
            graph,
            stages,
            models,
            exact,
            machine,
            encoder if beginning.published and not beginning.multilingual else None,
            tokenizer=place,
            lengths=np.minimum(lengths, chosen),
            scores=scores_near(plan, stages.classification, chosen) if language.english else None,
            points=question.points,
            seconds=question.seconds - (time.monotonic() - begun) - _LEFT,
        )

    table = [_at_limit(plan, stages, turns, exact, machine, lengths, documents, limit) for limit in limits]
    if not language.english:
        table = [
            replace(limit, scores=None, choices=[replace(each, f1=None) for each in limit.choices]) for limit in table
        ]
    taken = choose(table, question.points)
    if taken is None:
        raise RunError(
            f"{limits[0]} tokens: none of {', '.join(models)} fits into {machine.gibibytes:.1f} GiB. Expected one at "
            "least; ask for a shorter limit with --limits, or for a smaller encoder with --study."
        )
    beginning = start(sample.documents, test, taken.limit, language, at_hand=at_hand)
    longest = max(each[0].classification.longest for each in turns.steps.values())
    before = (
        [] if question.weights else list(_costs_before(graph, stages, turns.steps[taken.model], taken.model, machine))
    )
    price = _price(turns, encoder, machine, np.minimum(lengths, min(taken.limit, encoder.reach)), documents)
    text = "\n\n".join(
        [
            wording.texts(files, sample.documents, lengths, language),
            wording.machine(machine, documents, longest, turns.busy),
            *(wording.limit(limit, baseline) for limit in table),
            wording.advice(taken, table, question, baseline, beginning, encoder, test, price, before),
            *wording.other_costs(taken.limit, {mechanism.kind for mechanism in graph.experiment.mechanisms.values()}),
        ]
    )
    held_out, execution = sample.documents - documents, _execution(files[0], taken, machine)
    if beginning.published and question.weights is None:
        execution.get("training", {}).pop("micro_batch_tokens", None)  # it is not that model's
        return text, published_study(
            question,
            encoder,
            limit=taken.limit,
            documents=sample.documents,
            held_out=held_out,
            execution=execution,
            precision=machine.precision,
        )
    own = OwnStudy(
        question=question,
        model=taken.model,
        limit=taken.limit,
        documents=sample.documents,
        held_out=held_out,
        execution=execution,
        precision=machine.precision,
    )
    extends = Path(os.path.relpath(question.study, Path(name).parent)).as_posix()
    return text, own.write(layers, stages, extends)


def _measured(
    graph: Graph,
    stages: Stages,
    models: Sequence[str],
    exact: str,
    machine: Machine,
    encoder: PublishedEncoder | None,
    *,
    tokenizer: Path,
    lengths: np.ndarray,
    scores: Scores | None,
    points: float,
    seconds: float,
) -> Turns:
    """Return what steps of all models cost, and those of the published encoder, if there is one.

    Most turns go to those that may be advised: of each kind of mechanism the one that computes least, of those whose
    scores are near enough; with more hashes, larger chunks or more features no mechanism is faster.
    """

    def case(backbone: Any, stage: str) -> StepsCase:
        task = next(iter(graph.experiment.stages[stage].data.values())).task
        return StepsCase(
            backbone=backbone,
            task=task,
            tokenizer=str(tokenizer),
            device=machine.device,
            precision=machine.precision,
            lengths=(),
            most_tokens=machine.micro_batch_tokens,
            seconds=seconds,
            most_mb=machine.most_mb,
        )

    backbones = {model: graph.backbone_at(model, stages.classification, None) for model in models}
    cases = {model: case(backbone, stages.classification) for model, backbone in backbones.items()}
    known = {model: scores.by_model.get(model) if scores else None for model in models}
    near = bearable(known, points, scores.noise if scores else None)
    usual = int(np.median(lengths))
    cheapest: dict[str, str] = {}
    for model in sorted(near, key=lambda model: backbones[model].products_per_token(usual, 0.0)):
        mechanism = backbones[model].held_mechanism
        cheapest.setdefault(mechanism.kind if mechanism else backbones[model].kind, model)
    first = [*cheapest.values()]
    if encoder is not None:
        cases = {encoder.name: case(encoder.parameters(), stages.classification)} | cases
        if lengths.max() <= encoder.reach:
            first.append(encoder.name)
    return measure_turns(
        exact,
        cases,
        case(backbones[exact], stages.adaptation),
        first,
        usual=max(8, usual),
        longest=max(8, int(np.quantile(lengths, 0.95))),
        seconds=seconds,
    )


def _at_limit(
    plan: Plan,
    stages: Stages,
    turns: Turns,
    exact: str,
    machine: Machine,
    lengths: np.ndarray,
    documents: int,
    limit: int,
) -> Limit:
    """Return cost and known score of every model that reads this number of tokens."""
    scores = scores_near(plan, stages.classification, limit)
    recipes = [recipe(plan.graph, stage, limit) for stage in (stages.adaptation, stages.classification)]
    cut = np.minimum(lengths, limit)

    def costs(steps: ModelSteps) -> tuple[Cost, Cost]:
        adaptation, classification = (
            steps.cost(machine, settings, cut, documents, masked=masked)
            for settings, masked in zip(recipes, (True, False), strict=True)
        )
        return adaptation, classification

    def seconds(found: tuple[Cost, Cost]) -> float:
        return sum(cost.seconds * settings.passes(documents) for cost, settings in zip(found, recipes, strict=True))

    own = [name for name in turns.steps if name in plan.graph.experiment.models]
    by_model = {name: [costs(steps) for steps in turns.steps[name]] for name in own}
    totals = {name: [seconds(each) for each in found] for name, found in by_model.items()}
    choices = []
    for model in plan.graph.experiment.models:  # in the order of the study
        if model not in by_model:
            continue
        reach = plan.graph.backbone_at(model, stages.classification, None).longest()
        if reach is not None and reach < limit:
            continue
        order = np.argsort(totals[model])
        middle = by_model[model][int(order[len(order) // 2])]
        epochs = [cost.seconds / 60 for _, cost in by_model[model]]
        choices.append(
            Choice(
                model,
                limit,
                *middle,
                hours=float(np.median(totals[model])) / 3600,
                ratio=ratio(totals[model], totals[exact]),
                f1=scores.by_model.get(model) if scores else None,
                minutes=(min(epochs), max(epochs)),
                exact=model == exact,
            )
        )
    return Limit(limit, *lost(lengths, limit), scores, choices)


def _price(
    turns: Turns, encoder: PublishedEncoder, machine: Machine, lengths: np.ndarray, documents: int
) -> tuple[float, float] | None:
    """Return the minutes of an epoch of the published encoder, in the fastest and the slowest turn, if measured."""
    steps = turns.steps.get(encoder.name, ())
    recipe = Recipe.model_validate(RECIPE)
    minutes = [each.cost(machine, recipe, lengths, documents, masked=False).seconds / 60 for each in steps]
    return (min(minutes), max(minutes)) if minutes else None


def _costs_before(
    graph: Graph, stages: Stages, steps: Sequence[ModelSteps], model: str, machine: Machine
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
            costs = [each.cost(machine, work.recipe, lengths, len(lengths), masked=True).seconds for each in steps]
            yield stage, entry, float(np.median(costs)) * work.recipe.passes(len(lengths))


def _execution(file: Path, taken: Choice, machine: Machine) -> dict[str, Any]:
    """Return the settings of `execution` that differ from the study's."""
    execution: dict[str, Any] = {"results": f"results/{file.name.split('.')[0]}"}
    training: dict[str, Any] = {"device": "cpu"} if machine.device == "cpu" else {}
    if reduced := [cost.micro_batch_tokens for cost in taken.costs if cost.reduced]:
        training["micro_batch_tokens"] = min(reduced)
    if training:
        execution["training"] = training
    if machine.device == "cpu":
        execution["job"] = {"gpu": 0}
    return execution
