"""New experiments by hand, in addition to a study: a folder with a ready `config.yaml` that `scripts/train.py` runs.

The folder `<experiments>/<stage>/<name>` is also the run's output folder.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lib.core.errors import MOST_OF_VALUE, ConfigError, cut
from lib.core.files import mapping_text, read_mapping, write_text
from lib.core.identity import RunId
from lib.core.program import read_settings
from lib.core.record import CONFIG, MODEL, RUN
from lib.core.search_space import laid_over
from lib.core.settings import FolderName, sentences
from lib.study.run import RunSettings, Start
from lib.study.runs import Run, derive
from lib.workflow.planning.plan import Plan

INHERITED = ("seed", "precision", "backbone", "tokenizer")
"""What a new run takes over from the one whose weights it starts from."""


def new_experiment(
    plan: Plan,
    experiments: str | Path,
    stage: str,
    name: str,
    *,
    model: str | None,
    dataset: str | None,
    start: str | None,
) -> Path:
    """Write the configuration of a new run of a stage.

    Args:
        plan: the study that gives the defaults.
        experiments: folder of all experiments.
        stage: of the study.
        name: of the new experiment; must be new, and a `FolderName`.
        model: of the study; None = the first that trains at this stage. With `start` it must be None, since backbone,
            tokeniser, seed and precision come from there.
        dataset: of the stage; None = its only one.
        start: run whose weights it takes: `<stage>/<name>` of an experiment, or the folder of any finished run.

    Returns:
        The new `config.yaml`.

    Raises:
        ConfigError: the name is taken or no name of a folder, something is unknown, two arguments contradict each
            other, the start has no weights, or the new run would be refused. Nothing is written then.
    """
    folder = _new_folder(experiments, stage, name)
    run = _run_like(plan, stage, model, dataset, start)
    settings = json.loads(run.settings)
    settings.pop("tuning", None)  # one training, with the settings of the stage
    for best in plan.settings_from(run):
        if not Path(best).is_file():
            raise ConfigError(
                f"{best}: no such file, from which {stage} takes settings. Let the search choose them first."
            )
        settings = laid_over(settings, read_mapping(best))
    for weights in plan.imitated_weights(run):
        settings["task"] |= {"teacher_weights": weights}
    settings |= {
        "tokenizer": plan.tokenizer(run)[0],
        "data": plan.data(run),
        "execution": json.loads(plan.execution),
    }
    for vectors in plan.word_vectors(run):
        settings["backbone"] |= {"vectors_folder": vectors}
    for weights in plan.start(run):
        settings["start"] = Start.of(weights).model_dump()
    if start is not None:
        settings |= _from_start(plan, _run_folder(experiments, start), run, list(settings["data"]))
    return _write(folder, settings | {"model": name})


def _run_like(plan: Plan, stage: str, model: str | None, dataset: str | None, start: str | None) -> Run:
    """Return the study's own run whose settings a new experiment takes over; arguments as of `new_experiment`.

    Raises:
        ConfigError: something is unknown, or two arguments contradict each other.
    """
    sections = plan.experiment.stages
    if stage not in sections:
        raise ConfigError(f"{stage!r} is not a stage of the study; known: {', '.join(sections)}.")
    datasets = list(sections[stage].data)
    if dataset is None and len(datasets) > 1:
        raise ConfigError(f"{stage} works on several datasets. Name one of: {', '.join(datasets)}.")
    dataset = dataset or datasets[0]
    if dataset not in datasets:
        raise ConfigError(f"{dataset!r} is not a dataset of {stage}; known: {', '.join(datasets)}.")
    if model is not None and start is not None:
        raise ConfigError(f"model {model!r} and start {start!r}: the backbone comes from the start. Give one of them.")
    passing = [name for name in plan.experiment.models if plan.graph.has_runs(name, stage, dataset)]
    trained = [name for name in passing if plan.graph.trains(name, stage, dataset)]
    if not trained:
        raise ConfigError(f"{stage} trains no model of the study on {dataset}. Name another stage, or add a model.")
    if model is not None and model not in trained:
        raise ConfigError(f"{model!r} is not a model that {stage} trains; known: {', '.join(trained)}.")
    return derive(plan.graph, RunId(stage, model or trained[0], dataset, plan.graph.seeds_of(stage, dataset)[0]), {})


def _from_start(plan: Plan, source: Path, run: Run, splits: Sequence[str]) -> dict[str, Any]:
    """Return the settings that a new experiment takes from the run in `source`, whose weights it starts from.

    Raises:
        ConfigError: `source` is not a run, has no weights, or its tokeniser is not one of the study's.
    """
    inherited = _read_config(source)
    _check_weights(source, inherited)
    tokenizers = {plan.paths.tokenizer(each): each for each in plan.experiment.tokenizers}
    if inherited["tokenizer"] not in tokenizers:
        raise ConfigError(
            f"{source}: its tokeniser {inherited['tokenizer']} is none of the study's, whose tokens the run would "
            f"read: {', '.join(tokenizers)}. Use the study that the run belongs to (--configfile)."
        )
    tokenizer = tokenizers[inherited["tokenizer"]]
    tokens_name = tokenizer + str(run.tokens_name).removeprefix(
        str(run.tokenizer)
    )  # the number of tokens in the settings
    return {
        **{field: inherited[field] for field in INHERITED},
        "data": {split: plan.paths.tokens(run.id.dataset, tokens_name, split) for split in splits},
        "start": Start.of(source / MODEL).model_dump(),
    }


def resumed_experiment(experiments: str | Path, stage: str, name: str, resumed: str) -> Path:
    """Write the configuration of a run that continues another one, whose configuration it takes over.

    An unfinished run resumes at its newest whole checkpoint of the settings and inputs that it has now. A finished
    one resumes with its optimiser's state if it kept that (`keep: [last, state]`), else by its weights alone. Thawed
    weights stay so: with more epochs, those until the thaw would by default be more, too.

    Args:
        experiments: folder of all experiments.
        stage: of the new experiment.
        name: of the new experiment; must be new.
        resumed: `<stage>/<name>` of an experiment, or the folder of any run.

    Returns:
        The new `config.yaml`.

    Raises:
        ConfigError: the name is taken or no name of a folder, the run is of another stage, or there is nothing to
            resume. Nothing is written then.
        DataError: an input of an unfinished run cannot be read.
    """
    folder = _new_folder(experiments, stage, name)
    source = _run_folder(experiments, resumed)
    settings = _read_config(source)
    if settings["stage"] != stage:
        raise ConfigError(
            f"{source}: a run of {settings['stage']}, not of {stage}. Resume it there, or take its weights "
            "with --start."
        )
    _check_weights(source, settings)
    if (source / RUN).is_file():
        state = source / MODEL / "state"
        whole = state.is_dir()
        start = Start(
            run=str(source), checkpoint=str(state if whole else source / MODEL), load_only_model_state=not whole
        )
    else:
        from lib.training.checkpoints import newest_checkpoint  # torch takes seconds to import

        newest = newest_checkpoint(read_settings(RunSettings, settings), source)
        start = Start(run=str(source), checkpoint=str(newest), load_only_model_state=False)
    if not start.load_only_model_state and (recipe := read_settings(RunSettings, settings).recipe) and recipe.freezes:
        thaw = recipe.frozen_epochs
        settings["recipe"] |= {"freeze_epochs": thaw} if thaw else {"freeze_layers": 0, "freeze_embeddings": False}
    return _write(folder, settings | {"model": name, "start": start.model_dump()})


def _new_folder(experiments: str | Path, stage: str, name: str) -> Path:
    for what, value in (("stage", stage), ("name", name)):
        try:
            TypeAdapter(FolderName).validate_python(value)
        except ValidationError as error:
            reasons = "; ".join(reason for _, reason in sentences(error))
            raise ConfigError(
                f"{what} {cut(value, MOST_OF_VALUE)!r}: {reasons}. It names a folder. Choose another one."
            ) from error
    folder = Path(experiments) / stage / name
    if os.path.exists(folder):
        raise ConfigError(f"{folder}: there is an experiment of this name. Choose another one; names are unique.")
    return folder


def _run_folder(experiments: str | Path, run: str) -> Path:
    experiment = Path(experiments) / run
    return experiment if os.path.isdir(experiment) else Path(run)  # pathlib raises an error of a name that is too long


def _read_config(folder: Path) -> dict[str, Any]:
    """Return the settings of a run, all of them.

    Raises:
        ConfigError: there are none, or some are missing or wrong, as of an imported run.
    """
    path = folder / CONFIG
    if not os.path.isfile(path):
        raise ConfigError(f"{path}: no such file. Expected the configuration of an earlier run.")
    settings = read_mapping(path)
    try:
        read_settings(RunSettings, settings)
    except ConfigError as error:
        raise ConfigError(
            f"{path}: not all settings of a run; an imported run lacks most. Name a run of this project, or make one "
            f"from the study (--model). In the file, {error}"
        ) from error
    return settings


def _check_weights(source: Path, settings: dict[str, Any]) -> None:
    """Raise a ConfigError if a run has no weights, and will have none when it has finished."""
    if settings.get("recipe") is None:
        reason = f"{source}: a run that trains nothing, such as TF-IDF, so there are no weights to start from"
    elif (source / RUN).is_file() and not (source / MODEL).is_dir():
        reason = f"{source / MODEL}: no such folder, so there are no weights to start from; an archived run has none"
    else:
        return
    raise ConfigError(f"{reason}. Name a run that has weights, or make one from the study (--model).")


def _write(folder: Path, settings: dict[str, Any]) -> Path:
    path = folder / CONFIG
    try:
        read_settings(RunSettings, settings)
    except ConfigError as error:
        raise ConfigError(
            f"{path}: not written, since no program would take it. Name another run or model, or change the study "
            f"(--configfile). In the file, {error}"
        ) from error
    write_text(path, mapping_text(settings))
    return path
