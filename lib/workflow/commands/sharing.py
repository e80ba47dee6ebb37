"""A finished model for others: its folder with a model card, as model hubs show it."""

import contextlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from huggingface_hub import EvalResult, ModelCard, ModelCardData

from lib.analysis.table import read_analysis
from lib.core.errors import ConfigError, DataError
from lib.core.files import atomic_path, mapping_text, require_new
from lib.core.model_folder import WEIGHTS
from lib.core.record import ADAPTER, KEPT, MODEL, RunId, RunRecord, differing_files, read_record
from lib.core.weights import ForeignStart
from lib.predicting.reader import open_reader
from lib.preparing.settings.dataset import Dataset
from lib.results.escapes import markdown
from lib.results.predictions import paired_predictions
from lib.study.reader import READER
from lib.study.runs import Run
from lib.tasks.settings import TASKS
from lib.workflow.commands.exporting import exported_class
from lib.workflow.planning.plan import Plan

READ_ME = "README.md"
TEMPLATE = Path(__file__).with_name("model_card.md")
PIPELINES = {
    "sequence_classification": "text-classification",
    "multi_label_classification": "text-classification",
    "pair_classification": "text-classification",
    "regression": "text-classification",
    "token_classification": "token-classification",
    "masked_lm": "fill-mask",
    "causal_lm": "text-generation",
    "text_to_text": "text2text-generation",
}
"""What the hub calls a task."""
CALLS = {
    "multi_label_classification": "use(texts, top_k=None, truncation=True)",
    "text-classification": "use(texts, truncation=True)",
    "token-classification": "use(texts)",
    "fill-mask": 'use(texts, tokenizer_kwargs={"truncation": True})',
}
"""How a pipeline reads texts of any length, by the task or by what the hub calls it."""
SCORES = {
    "f1_micro": "Micro-F1",
    "f1_macro": "Macro-F1",
    "accuracy": "Accuracy",
    "subset_accuracy": "Subset accuracy",
    "average_precision_macro": "Mean average precision",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "perplexity": "Perplexity",
    "loss": "Loss",
}
"""What a card shows of the record, by the name there without the split."""
CONFIDENCE = 0.95


def share(
    plan: Plan, place: str, out: str | Path, licence: str | None = None, languages: Sequence[str] = ()
) -> list[str]:
    """Copy the model of a finished run to `out`, with a model card made from the study and the run's record.

    Weights of other epochs and the state of the training, which `recipe.keep` names, stay behind.

    Args:
        plan: the study.
        place: the run, `<stage>/<model>/<dataset>/seed-<n>`.
        out: folder, to appear.
        licence: of the weights, by its name on the hub (`apache-2.0`); None = the card names none.
        languages: of the texts, as codes of ISO 639; the card names none without them.

    Returns:
        Names of the files.

    Raises:
        ConfigError: the study has no such run, or `out` is there.
        DataError: the run is not finished or not whole, or left no model, or one without its tokeniser.
        RunError: the model cannot be read, or weights are missing, NaN or inf.
    """
    run = plan.run_at(place)
    folder = Path(plan.paths.folder(run.id))
    record = read_record(folder)
    if problems := differing_files(folder, record):
        raise DataError(f"{folder}: not whole ({', '.join(problems)}). Expected what its record names; run it again.")
    if not (folder / MODEL).is_dir():
        raise DataError(f"{folder}: left no model. Expected a run that trains one.")
    require_new(out)
    _require_whole(folder / MODEL, run.work.task.kind)
    with atomic_path(out) as partial:
        left = shutil.ignore_patterns(*KEPT, ".*")
        shutil.copytree(folder / MODEL, partial, ignore=left, copy_function=shutil.copyfile, dirs_exist_ok=True)
        (partial / READ_ME).write_text(card(plan, run, record, licence, languages), encoding="utf-8")
        return sorted(path.name for path in partial.iterdir())


def _require_whole(folder: Path, task: str) -> None:
    """Refuse a model that others could not use: all its parts are there, and its numbers are finite.

    Raises:
        ProjectError: it is not whole.
    """
    has_weights = (folder / WEIGHTS).is_file()
    if (folder / READER).is_file() and (has_weights or not (folder / ADAPTER).is_dir()):
        open_reader(folder)
        return
    import transformers  # imports torch
    from peft.utils import SAFETENSORS_WEIGHTS_NAME

    from lib.backbones.stored import open_config, open_model, read_weights
    from lib.tokens.tokenizer import TextTokenizer

    if has_weights:
        open_model(getattr(transformers, TASKS.load(task, "task").Task.auto_model()), folder)
    else:  # adapters that were not merged
        read_weights(folder / ADAPTER, SAFETENSORS_WEIGHTS_NAME)
    TextTokenizer.of_model(folder, open_config(folder).vocab_size)


def card(plan: Plan, run: Run, record: RunRecord, licence: str | None, languages: Sequence[str] = ()) -> str:
    """Return the model card of a finished run: header in YAML, then what it is, its data, recipe, scores and origin."""
    folder, task = Path(plan.paths.folder(run.id)), run.work.task.kind
    loads = (folder / MODEL / WEIGHTS).is_file() or (folder / MODEL / ADAPTER).is_dir()
    settings = json.loads(run.settings)
    recipe = settings.get("recipe") or {}
    first = run
    while first.parent:
        first = plan.run_at(first.parent.path)
    baseline, of_baseline = _baseline(plan, run)
    scores: list[dict[str, Any]] = [
        {
            "name": shown,
            "value": value,
            "interval": _interval(folder) if name == (record.score or "f1_macro") else None,
            "baseline": of_baseline.get(f"test_{name}"),
        }
        for name, shown in SCORES.items()
        if (value := record.metrics.get(f"test_{name}")) is not None
    ]
    header = _header(run, first, {score["name"]: score["value"] for score in scores})
    header.license, header.language = licence, list(languages) or None
    made = ModelCard.from_template(
        header,
        template_path=str(TEMPLATE),
        run=run,
        first=first,
        record=record,
        mechanism=settings["backbone"].get("mechanism"),
        labels=settings.get("labels"),
        scores=scores,
        confidence=CONFIDENCE,
        baseline=baseline,
        cost=_cost_of_predictions(plan, run),
        source=_source(run),
        recipe=mapping_text({"precision": record.precision} | recipe).strip(),
        merged=(recipe.get("lora") or {"merge": True})["merge"],
        call=CALLS.get(task) or CALLS.get(PIPELINES.get(task, "")),
        reader=TASKS.load(task, "task").Task.auto_model() if loads else None,
        predicts=(folder / MODEL / READER).is_file(),
        without_project=_without_project(folder / MODEL) if loads else None,
        markdown=markdown,
        to_json=json.dumps,
    )
    return made.content.rstrip() + "\n"


def _header(run: Run, first: Run, scores: Mapping[str, float]) -> ModelCardData:
    """Return what the hub reads of a card: the task, terms to search for, and the scores."""
    task, corpus, dataset = run.work.task.kind, run.corpus, run.id.dataset
    repository = corpus.hub.repository if corpus.source == "hub" and corpus.hub else None
    mechanisms = dict.fromkeys(mechanism.kind for mechanism in run.backbone.held_mechanisms)
    results = [
        EvalResult(
            PIPELINES.get(task, task),
            repository or dataset,
            f"{dataset} (generated)" if corpus.composed else dataset,
            name,
            value,
            dataset_split="test",
        )
        for name, value in scores.items()
    ]
    return ModelCardData(
        tags=[run.backbone.kind, *mechanisms, *(["generated-data"] if corpus.composed else [])],
        base_model=first.start.repository if isinstance(first.start, ForeignStart) else None,
        datasets=[repository] if repository else None,
        model_name=f"{run.id.model}-{dataset}",
        pipeline_tag=PIPELINES.get(task),
        library_name="transformers" if run.reads_tokens else "sklearn",
        eval_results=results or None,
    )


def _cost_of_predictions(plan: Plan, run: Run) -> dict[str, Any] | None:
    """Return the cost of a prediction, if an analysis of the study has measured it for the model."""
    for name, analysis in plan.study.report.analyses.items():
        table = plan.paths.table(name)
        if analysis.kind != "prediction_cost" or not Path(table).is_file():
            continue
        seeds = {each.id._replace(seed=run.id.seed): each.id.seed for each in plan.report.analysed(name)}
        rows = read_analysis(table)
        for row in rows[rows["model"] == run.id.model].to_dict("records") if run.id in seeds else ():
            return {**row, "seed": seeds[run.id]}
    return None


def _source(run: Run) -> str:
    """Return where the texts of a run come from, as the study says it."""
    corpus = run.corpus
    chosen = corpus.chosen.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    described: dict[str, Any] = {corpus.source: chosen}
    if isinstance(corpus, Dataset) and corpus.placement:
        described["placement"] = corpus.placement.model_dump(mode="json")
    return mapping_text(described).strip()


def _without_project(model: Path) -> str:
    """Say whether other programs can read a model."""
    try:
        name = exported_class(model)
    except ConfigError as error:
        return f"Without that package it cannot be read: {str(error).removeprefix(f'{model}: ')}"
    return f"`python scripts/tools/export.py --model <this folder> --out <folder>` makes a {name}."


def _interval(folder: Path) -> tuple[float, float]:
    grid = pd.DataFrame([{"row": "model", "seed": 0, "folder": str(folder), "original": str(folder)}])
    return paired_predictions(grid).score(0).score_interval(CONFIDENCE)


def _baseline(plan: Plan, run: Run) -> tuple[str | None, Mapping[str, float | None]]:
    """Return the study's baseline on the same data with the same seed, if it is finished: its name and its metrics."""
    name, stage, dataset = plan.study.report.baseline, run.id.stage, run.id.dataset
    if name and name != run.id.model and plan.graph.has_runs(name, stage, dataset):
        owner = plan.graph.owner(name, stage, dataset)
        with contextlib.suppress(DataError):
            return name, read_record(plan.paths.folder(RunId(stage, owner, dataset, run.id.seed))).metrics
    return None, {}
