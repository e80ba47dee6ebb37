"""New experiments by hand, beside the grid: a folder with a ready `config.yaml` that the stage's script runs.

Layout, as in the study reproduced: `<experiments>/pretraining/<name>` and `<experiments>/finetuning/<name>`. A folder
is also the run's output folder.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from lib.core.errors import ConfigError
from lib.core.files import write_text
from lib.core.record import CONFIG, MODEL, RUN
from lib.core.settings.run import Start
from lib.workflow.plan import WIKIPEDIA, Plan

INHERITED = ("seed", "precision", "mechanism", "encoder", "tokenizer")


def new_pretraining(plan: Plan, experiments: str | Path, name: str, mechanism: str, resumed: str | None) -> Path:
    """Write the configuration of a new pretraining.

    Args:
        plan: the configuration that gives the defaults.
        experiments: folder of all experiments.
        name: of the new experiment; must be new.
        mechanism: attention mechanism of a pretraining from scratch.
        resumed: an earlier pretraining to go on from, whose configuration is taken over; None starts from scratch.

    Returns:
        The new `config.yaml`.

    Raises:
        ConfigError: the name is taken, the mechanism unknown, or there is nothing to resume.
    """
    folder = _new_folder(experiments, "pretraining", name)
    if resumed is None:
        settings = _template(plan, "pretrain", mechanism, WIKIPEDIA)
    else:
        settings = _read_config(Path(experiments) / "pretraining" / resumed)
        settings["start"] = _resume(Path(experiments) / "pretraining" / resumed)
    return _write(folder, settings | {"model": name})


def new_finetuning(plan: Plan, experiments: str | Path, name: str, pretrained: str, dataset: str) -> Path:
    """Write the configuration of a new fine-tuning, which inherits architecture and tokeniser.

    Args:
        plan: the configuration that gives the defaults of the dataset.
        experiments: folder of all experiments.
        name: of the new experiment; must be new.
        pretrained: name of a pretraining experiment, or the folder of any finished run (of the grid, say).
        dataset: dataset to fine-tune on.

    Returns:
        The new `config.yaml`.

    Raises:
        ConfigError: the name is taken, the dataset unknown, or the pretrained run is not there.
    """
    folder = _new_folder(experiments, "finetuning", name)
    source = Path(experiments) / "pretraining" / pretrained
    if not source.is_dir():
        source = Path(pretrained)
    inherited = _read_config(source)
    if dataset not in plan.datasets:
        raise ConfigError(f"{dataset!r} is not a dataset of the configuration; known: {', '.join(plan.datasets)}.")
    settings = _template(plan, "finetune", plan.models[0], dataset)
    settings |= {key: inherited[key] for key in INHERITED}
    settings["start"] = Start(run=str(source), checkpoint=str(source / MODEL)).model_dump()
    return _write(folder, settings | {"model": name})


def _template(plan: Plan, stage: str, model: str, dataset: str) -> dict[str, Any]:
    if model not in plan.models:
        raise ConfigError(f"{model!r} is not a model of the configuration; known: {', '.join(plan.models)}.")
    seed = plan.experiment.seeds[0]
    return json.loads(plan.run_settings(stage, model, dataset, seed)) | {"execution": json.loads(plan.execution)}


def _new_folder(experiments: str | Path, kind: str, name: str) -> Path:
    folder = Path(experiments) / kind / name
    if folder.exists():
        raise ConfigError(f"{folder}: there is an experiment of this name. Choose another one; names are unique.")
    return folder


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}). Expected the configuration of an earlier run.") from error


def _resume(folder: Path) -> dict[str, Any]:
    """Return where a resumed run starts: weights of a finished run, or all of an unfinished one's state."""
    if (folder / RUN).is_file():
        return Start(run=str(folder), checkpoint=str(folder / MODEL)).model_dump()
    checkpoints = list(folder.parent.glob(f".{folder.name}.work/*/checkpoint-*"))
    if not checkpoints:
        raise ConfigError(f"{folder}: neither a finished run nor a working checkpoint. Run it first, or start anew.")
    newest = max(checkpoints, key=lambda path: int(path.name.split("-")[-1]))
    return Start(run=str(folder), checkpoint=str(newest), load_only_model_state=False).model_dump()


def _write(folder: Path, settings: dict[str, Any]) -> Path:
    path = folder / CONFIG
    write_text(path, yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
    return path
