"""A finished model for others: its folder with a model card, as model hubs show it."""

import contextlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from huggingface_hub import EvalResult, ModelCardData

from lib.analysis.table import read_analysis
from lib.core.errors import ConfigError, DataError
from lib.core.files import atomic_path, files_in, mapping_text, require_new
from lib.core.identity import RunId
from lib.core.model_folder import WEIGHTS
from lib.core.record import ADAPTER, MODEL, RunRecord, differing_files, read_record
from lib.core.weights import ForeignStart, WordVectorsStart
from lib.preparing.settings.dataset import Dataset
from lib.results.escapes import markdown
from lib.results.predictions import paired_predictions
from lib.study.runs import Run
from lib.tasks.settings import TASKS
from lib.workflow.commands.exporting import exported_class
from lib.workflow.planning.plan import Plan

READ_ME = "README.md"
PIPELINES = {
    "sequence_classification": "text-classification",
    "pair_classification": "text-classification",
    "regression": "text-classification",
    "token_classification": "token-classification",
    "masked_lm": "fill-mask",
    "causal_lm": "text-generation",
    "text_to_text": "text2text-generation",
}
"""What the hub calls a task."""
CALLS = {
    "text-classification": "use(texts, truncation=True)",
    "token-classification": "use(texts)",
    "fill-mask": 'use(texts, tokenizer_kwargs={"truncation": True})',
}
"""How a pipeline reads texts of any length, by what the hub calls its task."""
SCORES = {
    "f1_macro": "Macro-F1",
    "accuracy": "Accuracy",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "perplexity": "Perplexity",
    "loss": "Loss",
}
"""What a card shows of the record, by the name there without the split."""
CONFIDENCE = 0.95
KEPT = ("best", "last", "state")
"""Folders inside that of a model, by `recipe.keep`: weights of other epochs, and the state of the training."""


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
        raise DataError(
            f"{folder}: not whole ({', '.join(problems)}). Expected all that its record names; run it again."
        )
    if not (folder / MODEL).is_dir():
        raise DataError(f"{folder}: left no model. Expected a run that trains one.")
    require_new(out)
    _require_whole(folder / MODEL, run.work.task.kind)
    with atomic_path(out) as partial:
        for file in files_in(folder / MODEL):
            name = file.relative_to(folder / MODEL)
            if name.parts[0] in KEPT:
                continue
            copy = partial / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        (partial / READ_ME).write_text(card(plan, run, record, licence, languages), encoding="utf-8")
        return sorted(path.name for path in partial.iterdir())


def _require_whole(folder: Path, task: str) -> None:
    """Refuse a model that others could not use: all its weights are there and finite, and its tokeniser, too.

    Raises:
        ProjectError: it is not whole.
    """
    import transformers  # imports torch
    from peft.utils import SAFETENSORS_WEIGHTS_NAME

    from lib.backbones.stored import open_config, open_model, read_weights
    from lib.tokens.tokenizer import TextTokenizer

    if (folder / WEIGHTS).is_file():
        open_model(getattr(transformers, TASKS.load(task, "task").Task.auto_model()), folder)
    else:  # adapters that were not merged
        read_weights(folder / ADAPTER, SAFETENSORS_WEIGHTS_NAME)
    TextTokenizer.of_model(folder, open_config(folder).vocab_size)


def card(plan: Plan, run: Run, record: RunRecord, licence: str | None, languages: Sequence[str] = ()) -> str:
    """Return the model card of a finished run: header in YAML, then what it is, its data, recipe, scores and origin."""
    folder = Path(plan.paths.folder(run.id))
    scores = list(_scores(folder, record))
    task, corpus = run.work.task.kind, run.corpus
    repository = corpus.hub.repository if corpus.source == "hub" and corpus.hub else None
    first = run
    while first.parent:
        first = plan.run_at(first.parent.path)
    header = ModelCardData(
        license=licence,
        language=list(languages) or None,
        tags=_tags(run),
        base_model=first.start.repository if isinstance(first.start, ForeignStart) else None,
        datasets=[repository] if repository else None,
        model_name=f"{run.id.model}-{run.id.dataset}",
        pipeline_tag=PIPELINES.get(task),
        library_name="transformers",
        eval_results=[
            EvalResult(
                PIPELINES.get(task, task),
                repository or run.id.dataset,
                f"{run.id.dataset} (generated)" if corpus.composed else run.id.dataset,
                name,
                value,
                dataset_split="test",
            )
            for name, value, _ in scores
        ]
        or None,
    )
    settings = json.loads(run.settings)
    recipe = mapping_text({"precision": record.precision} | (settings.get("recipe") or {})).strip()
    machine = ", ".join(filter(None, [record.hardware or record.device, record.instruction_set]))
    inputs = "\n".join(f"- {name}: `{parent.digest}`" for name, parent in record.parents.items())
    return f"""---
{header.to_yaml()}
---

# {run.id.model} on {run.id.dataset}

{_what(run, first, record, settings)}

## Scores on test

{_table(scores, *_baseline(plan, run))}

Seed {run.id.seed}, one training.{_reserves(record)}
{_cost_of_predictions(plan, run)}
## Data

{_data(run)}

## Recipe

```yaml
{recipe}
```

Tokens read: {record.tokens or 0:,}; epochs: {record.epochs:g}; minutes: {record.seconds / 60:.1f}; machine:
{machine}.{f" Resumed under other conditions: {record.mixed}." if record.mixed else ""}

## How to load it

{_loading(run, folder / MODEL)}

## Origin

Run `{run.id.path}`, commit `{record.git_commit}`, code `{record.code}`; digests of its inputs:

{inputs}

Versions: {", ".join(f"{name} {version}" for name, version in record.versions.items())}.
"""


def _cost_of_predictions(plan: Plan, run: Run) -> str:
    """Return the section on the cost of a prediction, if an analysis of the study has measured it for the model."""
    for name, analysis in plan.study.report.analyses.items():
        table = plan.paths.table(name)
        if analysis.kind != "prediction_cost" or not Path(table).is_file():
            continue
        seeds = {each.id._replace(seed=run.id.seed): each.id.seed for each in plan.report.analysed(name)}
        rows = read_analysis(table)
        for row in rows[rows["model"] == run.id.model].to_dict("records") if run.id in seeds else ():
            price = (
                " A million documents cost {price_per_million:.2f} {currency}, at {price_per_hour:g} {currency} per "
                "hour and core."
            )
            return """
## Cost of a prediction

{documents_per_second:,.1f} documents per second and core. One document by itself takes {latency_p50_ms:.1f} ms (median)
or {latency_p99_ms:.1f} ms (99th percentile).{price} Measured on {processor} ({instruction_set}), one thread,
{measured}, on {documents} test documents, with the model of seed {seed}.
""".format(price=price.format(**row) if "currency" in row else "", seed=seeds[run.id], **row)
    return ""


def _reserves(record: RunRecord) -> str:
    share = record.shared.get("test", 0)
    shared = f" Of the test documents, {100 * share:.1f} % have a text that training has as well." if share else ""
    return f"{shared} **It has hardly learnt: {record.hardly_learnt}.**" if record.hardly_learnt else shared


def _what(run: Run, first: Run, record: RunRecord, settings: dict[str, Any]) -> str:
    mechanism = settings["backbone"].get("mechanism")
    lines = [
        f"Task: `{run.work.task.kind}`. Backbone: `{run.backbone.kind}`, {record.parameters.get('total', 0):,} weights."
    ]
    if mechanism:
        repeated = ", repeated over the layers" if isinstance(mechanism, list) else ""
        lines.append(f"Attention: `{json.dumps(mechanism)}`{repeated}.")
    if run.parent:
        lines.append(f"It starts from the run `{run.parent.path}`.")
    if first.start:
        lines.append(f"The first weights are {_origin(first.start)}.")
    if run.max_tokens:
        lines.append(f"It reads {run.max_tokens:,} tokens; longer texts are cut.")
    if labels := settings.get("labels"):
        lines.append(f"Classes: {', '.join(map(markdown, labels))}.")
    return "\n".join(lines)


def _origin(start: ForeignStart | WordVectorsStart) -> str:
    if isinstance(start, WordVectorsStart):
        return f"drawn, but for the embeddings of words: the word vectors `{start.word_vectors}` of the study"
    return f"those of `{start.repository}` at `{start.revision}`" if start.repository else "a local folder's"


def _data(run: Run) -> str:
    corpus = run.corpus
    chosen = corpus.chosen.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    licence = (
        f"Licence of the texts: {markdown(corpus.license)}."
        if corpus.license
        else "The study names no licence of the texts."
    )
    placement = corpus.placement.model_dump(mode="json") if isinstance(corpus, Dataset) and corpus.placement else None
    described = {corpus.source: chosen} | ({"placement": placement} if placement else {})
    source = mapping_text(described).strip()
    made = " Its texts are generated; it is no published corpus." if corpus.composed else ""
    return f"`{run.id.dataset}`.{made} {licence}\n\n```yaml\n{source}\n```"


def _loading(run: Run, model: Path) -> str:
    task, recipe = run.work.task.kind, json.loads(run.settings).get("recipe") or {}
    if not (recipe.get("lora") or {"merge": True})["merge"]:
        adapters = (
            "This folder holds adapters and a head, without the weights that they were trained on. Write the folder of "
            "those into `adapter/adapter_config.json` (`base_model_name_or_path`); `open_model` of "
            "`lib.backbones.stored`, in the project that trained it, and `scripts/tools/predict.py` then read this one."
        )
        return f"{adapters}\n\n{_without_project(model)}"
    if use := CALLS.get(PIPELINES.get(task, "")):
        call = f"""from transformers import pipeline

texts, use = ["A text."], pipeline("{PIPELINES[task]}", model=".")
print({use})"""
    else:
        reader = TASKS.load(task, "task").Task.auto_model()
        call = f"""from transformers import AutoTokenizer, {reader}

tokenizer, model = AutoTokenizer.from_pretrained("."), {reader}.from_pretrained(".")
print(model(**tokenizer(["A text."], return_tensors="pt")))"""
    return f"""After `import lib`, the package of the project that trained it, transformers reads this folder, here or
by its name on the hub (in place of `"."`). Texts are cut to the tokens that the run read.

```python
import lib
{call}
```

{_without_project(model)}"""


def _without_project(model: Path) -> str:
    """Say whether other programs can read a model."""
    try:
        name = exported_class(model)
    except ConfigError as error:
        return f"Without that package it cannot be read: {str(error).removeprefix(f'{model}: ')}"
    return (
        f"`python scripts/tools/export.py --model <this folder> --out <new folder>` makes a `{name}` of transformers."
    )


def _scores(folder: Path, record: RunRecord) -> Iterator[tuple[str, float, tuple[float, float] | None]]:
    """Yield name, value and interval of each score on test."""
    for name, shown in SCORES.items():
        value = record.metrics.get(f"test_{name}")
        if value is not None:
            yield shown, value, _interval(folder) if name == "f1_macro" else None


def _interval(folder: Path) -> tuple[float, float]:
    grid = pd.DataFrame([{"row": "model", "seed": 0, "folder": str(folder), "original": str(folder)}])
    return paired_predictions(grid).score(0).score_interval(CONFIDENCE)


def _tags(run: Run) -> list[str]:
    """Return the hub's search terms: backbone, mechanisms, and whether the data are generated."""
    mechanisms = dict.fromkeys(mechanism.kind for mechanism in run.backbone.held_mechanisms)
    generated = ["generated-data"] if run.corpus.composed else []
    return [run.backbone.kind, *mechanisms, *generated]


def _baseline(plan: Plan, run: Run) -> tuple[str | None, Mapping[str, float | None]]:
    """Return the study's baseline on the same data with the same seed, if it is finished: its name and its metrics."""
    name, stage, dataset = plan.study.report.baseline, run.id.stage, run.id.dataset
    if name and name != run.id.model and plan.graph.has_runs(name, stage, dataset):
        owner = plan.graph.owner(name, stage, dataset)
        with contextlib.suppress(DataError):
            return name, read_record(plan.paths.folder(RunId(stage, owner, dataset, run.id.seed))).metrics
    return None, {}


def _table(
    scores: Iterable[tuple[str, float, tuple[float, float] | None]],
    baseline: str | None,
    of_baseline: Mapping[str, float | None],
) -> str:
    metrics = {shown: name for name, shown in SCORES.items()}
    rows = []
    for name, value, interval in scores:
        cells = [name, f"{value:.4g}", "" if interval is None else "{:.4g} to {:.4g}".format(*interval)]
        if baseline:
            theirs = of_baseline.get(f"test_{metrics[name]}")
            cells.append("" if theirs is None else f"{theirs:.4g}")
        rows.append(f"| {' | '.join(cells)} |")
    if not rows:
        return "The run has none."
    note = f"Intervals of {CONFIDENCE:.0%} are over test documents, for this model; they know nothing of other seeds."
    titles = ["score", "value", "interval", *([f"baseline ({baseline})"] if baseline else [])]
    head = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    return "\n".join([*head, *rows, "", note])
