"""A search by optuna: consecutive trials, with settings that depend on the scores of earlier ones.

Trial n is a function of (seed, n, the trials before it): its sampler has its own seed. A search that was killed
continues with the trials in its journal; the interrupted trial is drawn again, with the same settings, and resumes from
its working checkpoint.
"""

import logging
import math
import shutil
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import TrialState

from lib.core.attempts import remove
from lib.core.errors import RunError
from lib.core.files import write_json
from lib.core.program import read_settings
from lib.core.randomness import derive_seed
from lib.core.record import BEST, HISTORY, RUN, TRIALS, RunRecord, Stretch, read_record, with_stretch
from lib.core.search_space import Dimension, laid_over, spelled, variant_name
from lib.study.run import RunSettings
from lib.study.tuning import TunedRun, Tuning
from lib.tasks.settings import TASKS
from lib.training.folders import RunFolders
from lib.training.predictor import Observer
from lib.training.record import write_record
from lib.training.run import train
from lib.training.trainer import Trainer

logger = logging.getLogger(__name__)

JOURNAL = "trials.journal"
NAME = "trials"
TRIAL = "trial-"
"""Prefix of the folders of trials in that of the attempt."""
EFFORT = ("epochs", "steps", "tokens", "seconds", "peak_memory_mb")
"""Record fields of every trial, also of an unfinished one."""


def tune(run: TunedRun, out: str | Path, work: str | Path | None = None, code: str | None = None) -> None:
    """Search the settings of `run` and write trials, best settings and record to `out`; keep no model.

    A score is the validation score of the model that a trial would keep, by the metric that selects the task's best
    epoch; for a pruned trial, that of its last evaluation. A trial whose loss is NaN or inf has diverged and has no
    score. Trials report to no tracker, and run in one process.

    Args:
        run: the settings of the search; those of a trial override them.
        out: new folder of the results.
        work: parent of the folders of journal and working checkpoints during the search; None = next to `out`.
        code: digest of the code that the run executes, for its record.

    Raises:
        ProjectError: the data, the start or the folders do not allow the trials, or all of them diverged.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # logged here in more detail
    with RunFolders(run, out, work, code) as folders:
        if folders.is_done():
            return
        _take_over(folders)
        _search(run, folders)


def _search(run: TunedRun, folders: RunFolders) -> None:
    tuning = run.tuning
    task = TASKS.load(run.task.kind, "task").Task
    score = f"eval_{task.best}"
    direction = StudyDirection.MAXIMIZE if task.greater_is_better else StudyDirection.MINIMIZE
    journal = _journal(folders.work / JOURNAL, direction)
    # In memory, so that the journal has only complete trials.
    study = optuna.create_study(direction=direction, pruner=_pruner(tuning))
    study.add_trials(journal.trials)
    distributions = {place: _distribution(dimension) for place, dimension in tuning.space.items()}
    while (number := len(study.trials)) < tuning.trials and not _is_spent(study, tuning.minutes):
        folders.beat(step=number, steps=tuning.trials)
        study.sampler = _sampler(tuning, derive_seed("tuning", run.seed, number) % 2**32)
        trial = study.ask(distributions)
        logger.info("trial %d: %s", number, variant_name(trial.params))
        scratch = folders.work / f"{TRIAL}{number}"
        _run_trial(run, trial, score, scratch)
        ended = study.trials[number]
        logger.info("trial %d: %s, %s %s", number, ended.user_attrs["state"], score, ended.value)
        journal.add_trial(ended)
        remove(scratch)
    _write_results(folders, study, score)


def _take_over(folders: RunFolders) -> None:
    """Copy the longest journal of the earlier attempts and the current trial, and remove those attempts."""
    journals = [path for attempt in folders.earlier() if (path := attempt / JOURNAL).is_file()]
    if journals:
        longest = max(journals, key=lambda path: path.stat().st_size)
        lines = longest.read_bytes()
        (folders.work / JOURNAL).write_bytes(lines[: lines.rfind(b"\n") + 1])
        for trial in longest.parent.glob(f"{TRIAL}*"):
            try:
                shutil.copytree(trial, folders.work / trial.name, symlinks=True)
            except OSError as error:  # its process is alive and writes there
                logger.warning("%s: started again (%s)", trial, error)
                shutil.rmtree(folders.work / trial.name, ignore_errors=True)
    folders.refuse_later()
    for attempt in folders.earlier():
        remove(attempt)


def _journal(path: Path, direction: StudyDirection) -> optuna.Study:
    try:
        storage = JournalStorage(JournalFileBackend(str(path)))
        return optuna.create_study(study_name=NAME, storage=storage, direction=direction, load_if_exists=True)
    except (ValueError, KeyError) as error:
        raise RunError(
            f"{path}: not a journal of trials ({error}). Expected that of an earlier start of this search. Delete it: "
            "the search starts again."
        ) from error


def _distribution(dimension: Dimension) -> BaseDistribution:
    if dimension.values is not None:
        return CategoricalDistribution(dimension.values)
    low, high, step, log = dimension.low, dimension.high, dimension.step, dimension.log
    assert low is not None  # the settings were checked
    assert high is not None
    if dimension.whole:
        return IntDistribution(int(low), int(high), log=log, step=int(step or 1))
    return FloatDistribution(low, high, log=log, step=step)


def _pruner(tuning: Tuning) -> BasePruner:
    return MedianPruner(n_startup_trials=tuning.startup_trials) if tuning.pruner == "median" else NopPruner()


def _sampler(tuning: Tuning, seed: int) -> BaseSampler:
    if tuning.sampler == "random":
        return RandomSampler(seed=seed)
    return TPESampler(seed=seed, n_startup_trials=tuning.startup_trials)


def _is_spent(study: optuna.Study, minutes: float | None) -> bool:
    """Whether the time for trials is used up; the time of a killed trial is unknown and does not count."""
    taken = sum((trial.duration or timedelta() for trial in study.trials), timedelta())
    return minutes is not None and taken >= timedelta(minutes=minutes)


def _run_trial(run: TunedRun, trial: optuna.Trial, score: str, scratch: Path) -> None:
    """Train with the settings of a trial, and report the outcome to its study.

    Attributes of the trial: its final `state`, its `effort` and its `stretches`; if complete, also its `record`.
    """
    values = laid_over(run.model_dump(exclude={"tuning"}), trial.params)
    settings = read_settings(RunSettings, values | {"execution": run.execution.model_copy(update={"report_to": []})})
    reports, folder = Reports(trial, score), scratch / "run"
    try:
        if not (folder / RUN).exists():  # else it was killed between the trial's end and the journal's line
            train(settings, folder, scratch / "work", observers=[reports])
        record = read_record(folder)
        reports.report(pd.read_csv(folder / HISTORY, float_precision="round_trip")[score])
        state, effort, stretches = "complete", record.model_dump(include=set(EFFORT)), record.stretches
        trial.set_user_attr("record", record.model_dump(mode="json"))
    except optuna.TrialPruned:
        state, effort, stretches = "pruned", reports.effort(), reports.stretches()
    except RunError as error:
        if not error.diverged:
            raise
        logger.info("trial %d: %s", trial.number, error)
        state, effort, stretches = "diverged", reports.effort(), reports.stretches()
    trial.set_user_attr("state", state)
    trial.set_user_attr("effort", effort)
    trial.set_user_attr("stretches", [each.model_dump(mode="json") for each in stretches])
    # The sampler ignores failed trials; so a diverged trial is reported as pruned, without an evaluation as the worst.
    if state == "complete":
        trial.study.tell(trial, record.metrics[score])
    else:
        trial.study.tell(trial, state=TrialState.PRUNED)


class Reports(Observer):
    """Reports the score of a trial at every evaluation, and ends the trial if the pruner of its study says so.

    Reports are numbered by evaluation, not by step, since the number of steps depends on the batch size.

    Args:
        trial: trial of a study with a pruner.
        score: name of the score among the metrics of an evaluation.
    """

    def __init__(self, trial: optuna.Trial, score: str):
        self.trial, self.score = trial, score
        self.reported = 0
        self.trainer: Trainer | None = None

    def report(self, scores: Iterable[float]) -> None:
        """Report the scores, one per evaluation, that have not been reported yet."""
        for value in list(scores)[self.reported :]:
            self.reported += 1
            self.trial.report(value, self.reported)

    def stretches(self) -> list[Stretch]:
        """Return the stretches of a training run that was ended."""
        return self.trainer.stretches if self.trainer else []

    def effort(self) -> dict[str, float]:
        """Return the effort of a training run that was ended; time and memory up to its last evaluation."""
        if self.trainer is None:
            return dict.fromkeys(EFFORT, 0)
        progress, rows = self.trainer.progress, self.trainer.history.rows
        epochs = round(progress.epoch, 6)
        return {
            "epochs": int(epochs) if epochs.is_integer() else epochs,
            "steps": progress.step,
            "tokens": progress.tokens,
            "seconds": sum(row["seconds"] for row in rows),
            "peak_memory_mb": max((row["peak_memory_mb"] for row in rows), default=0.0),
        }

    def began(self, trainer: Trainer) -> None:
        """Keep the trainer, which knows the effort."""
        self.trainer = trainer

    def evaluated(self, trainer: Trainer) -> None:
        """Report the score, after resuming also the earlier ones.

        Raises:
            optuna.TrialPruned: the pruner ends the trial.
            RunError: it diverged in the last steps, whose loss the training did not check.
        """
        rows = trainer.history.rows
        if not all(math.isfinite(value) for value in rows[-1].values() if isinstance(value, float)):
            raise RunError(f"the evaluation at step {trainer.progress.step} is NaN or inf.", diverged=True)
        self.report(row[self.score] for row in rows)
        if trainer.progress.step < trainer.steps and self.trial.should_prune():
            raise optuna.TrialPruned


def _write_results(folders: RunFolders, study: optuna.Study, score: str) -> None:
    """Write trials, best settings and record, and move them into place."""
    if not study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        raise RunError(
            f"all {len(study.trials)} trials of {folders.run.stage} diverged: every loss was NaN or inf. Expected at "
            "least one; narrow tuning.space, for instance to lower learning rates."
        )
    staged = folders.stage()
    pd.DataFrame([_row(trial, score) for trial in study.trials]).to_csv(staged / TRIALS, index=False)
    write_json(staged / BEST, study.best_params)
    write_record(_record(study), staged, folders.code)
    folders.move_to_out(staged)


def _row(trial: optuna.trial.FrozenTrial, score: str) -> dict[str, Any]:
    settings = {
        place: spelled(value) if isinstance(trial.distributions[place], CategoricalDistribution) else value
        for place, value in trial.params.items()
    }
    effort = trial.user_attrs["effort"]
    state = trial.user_attrs["state"]
    value = None if state == "diverged" else trial.value
    end = {"state": state, "epochs": effort["epochs"], "seconds": effort["seconds"]}
    return {"number": trial.number, **settings, score: value, **end}


def _record(study: optuna.Study) -> RunRecord:
    """Return the record of the best trial, with the total effort of all trials."""
    best = study.best_trial
    record = RunRecord.model_validate(best.user_attrs["record"])
    efforts: list[Mapping[str, Any]] = [trial.user_attrs["effort"] for trial in study.trials]
    total = {name: sum(effort[name] for effort in efforts) for name in EFFORT}
    speeds = {
        "seconds_per_epoch": total["seconds"] / total["epochs"],
        "tokens_per_second": total["tokens"] / total["seconds"],
        "peak_memory_mb": max(effort["peak_memory_mb"] for effort in efforts),
    }
    metrics = record.metrics | {"best_trial": best.number}
    return record.model_copy(update=total | speeds | {"metrics": metrics, "stretches": _stretches(study)})


def _stretches(study: optuna.Study) -> list[Stretch]:
    """Return the stretches of all trials in order; steps count over all of them, as in the record."""
    found: list[Stretch] = []
    before = 0
    for trial in study.trials:
        for values in trial.user_attrs.get("stretches", []):
            found = with_stretch(found, Stretch.model_validate(values | {"step": before + values["step"]}))
        before += trial.user_attrs["effort"]["steps"]
    return found
