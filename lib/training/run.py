"""A run from its settings to its record: what is the same for every stage.

A run works in a folder of its own, outside what the workflow declares, so that a killed job resumes; its results
are moved to their place at the end, the record last.
"""

import contextlib
import hashlib
import importlib
import json
import logging
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import yaml
from datasets import Dataset
from transformers import PreTrainedModel
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, set_seed
from transformers.utils.logging import disable_progress_bar

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.parameters import count_parameters
from lib.core.errors import RunError
from lib.core.files import atomic_path, write_json, write_text
from lib.core.kinds import MECHANISMS
from lib.core.randomness import derive_seed
from lib.core.record import CONFIG, HISTORY, MODEL, RUN, Parent, RunRecord
from lib.core.settings.run import Run
from lib.data.tokenizer import WordPieceTokenizer
from lib.data.tokens import load_tokens
from lib.training.trainer import KeyedTrainer

logger = logging.getLogger(__name__)

TRAINER_STATE = "trainer_state.json"


class RunFolders:
    """Where a run works and where its results go.

    Args:
        run: the run's settings.
        out: folder of the results; refused if it holds a finished run.
        work: folder under which runs keep their working checkpoints; None = beside `out`.
    """

    def __init__(self, run: Run, out: str | Path, work: str | Path | None):
        self.out = Path(out)
        if (self.out / RUN).exists():
            raise RunError(
                f"{self.out / RUN}: there is a finished run. Expected a new folder, since nothing is overwritten; "
                "give --out another one, or delete this one."
            )
        settings = run.model_dump_json(exclude={"execution"})
        key = hashlib.sha256(settings.encode()).hexdigest()[:12]
        name = f"{run.stage}-{run.model}-{run.dataset}-seed-{run.seed}-{key}"
        self.work = Path(work or self.out.parent / f".{self.out.name}.work") / name
        try:
            self.work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                f"{self.work}: cannot be made ({error.strerror}). Expected a folder with write permission and space."
            ) from error

    def last_checkpoint(self) -> str | None:
        """Return the newest complete working checkpoint, and remove any that a kill left incomplete."""
        complete = []
        for folder in self.work.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
            try:
                json.loads((folder / TRAINER_STATE).read_text(encoding="utf-8"))
            except (OSError, json.JSONDecodeError):
                logger.warning("%s: incomplete, removed", folder)
                shutil.rmtree(folder)
            else:
                complete.append(folder)
        return str(max(complete, key=lambda folder: int(folder.name.split("-")[-1]))) if complete else None

    def publish(self, staged: Path) -> None:
        """Move the finished results to their place, the record last, and drop the working folder."""
        self.out.mkdir(parents=True, exist_ok=True)
        for path in sorted(staged.iterdir(), key=lambda path: path.name == RUN):
            with atomic_path(self.out / path.name) as partial:
                shutil.move(path, partial)
        shutil.rmtree(self.work)
        with contextlib.suppress(OSError):  # other runs are at work there
            self.work.parent.rmdir()


def place_trackers(run: Run, folders: RunFolders) -> None:
    """Tell the trackers, which read the environment, to keep their files beside the results.

    To be called before a Trainer is made. What the user's environment says already, stands.
    """
    if run.execution.report_to:
        folders.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("WANDB_DIR", str(folders.out))
    os.environ.setdefault("WANDB_PROJECT", run.execution.wandb_project)
    if run.execution.wandb_entity:
        os.environ.setdefault("WANDB_ENTITY", run.execution.wandb_entity)
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(folders.out / "tensorboard")


def seed_everything(seed: int) -> None:
    """Seed torch's global state, from which initial weights and dropout draw."""
    set_seed(derive_seed("weights", seed) % 2**32)


def load_split(folder: str, *, sort: bool = False) -> Dataset:
    """Return a tokenised split; `sort` puts the longest documents first, which saves padding in evaluation."""
    tokens = load_tokens(folder)
    if sort:
        order = np.argsort(-np.asarray(tokens["length"]), kind="stable")
        tokens = tokens.select(order, keep_in_memory=True)
    return tokens


def encoder_config(run: Run, tokenizer: WordPieceTokenizer, **options) -> EncoderConfig:
    """Return the model configuration of a run; `options` are those of its head."""
    return EncoderConfig(
        **run.encoder.model_dump(),
        vocab_size=len(tokenizer.backend),
        pad_token_id=tokenizer.backend.pad_token_id,
        mechanism=MECHANISMS.parse(run.mechanism).model_dump(),
        feature_seed=run.seed,
        **options,
    )


def train(trainer: KeyedTrainer, run: Run, folders: RunFolders) -> None:
    """Train from the last working checkpoint if there is one, else from the run's start."""
    checkpoint = folders.last_checkpoint()
    if checkpoint is None and run.start is not None and not run.start.load_only_model_state:
        checkpoint = run.start.checkpoint
        if not (Path(checkpoint) / TRAINER_STATE).is_file():
            raise RunError(
                f"{checkpoint}: holds no training state. Expected a working checkpoint, since start."
                "load_only_model_state is false; set it to true to take the weights alone."
            )
    if checkpoint is not None:
        logger.info("resuming from %s", checkpoint)
    if trainer.args.disable_tqdm:
        disable_progress_bar()
    trainer.train(resume_from_checkpoint=checkpoint)


def finish(
    *,
    run: Run,
    folders: RunFolders,
    trainer: KeyedTrainer,
    tokenizer: WordPieceTokenizer,
    metrics: Mapping[str, float | None],
    predictions: Mapping[str, pd.DataFrame] | None = None,
) -> None:
    """Write the model and the record of a finished training, and publish them.

    Args:
        run: the run's settings.
        folders: where it works and where its results go.
        trainer: after training; its model is the one to keep.
        tokenizer: saved with the model.
        metrics: final figures of the record.
        predictions: file name to frame, for stages that predict.
    """
    if not trainer.is_world_process_zero():
        return
    if "wandb" in run.execution.report_to:
        importlib.import_module("wandb").finish()  # so that its log is whole before the results are
    staged = folders.work / "results"
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    write_text(staged / CONFIG, yaml.safe_dump(run.model_dump(mode="json"), sort_keys=False, allow_unicode=True))
    model: PreTrainedModel = trainer.accelerator.unwrap_model(trainer.model)
    model.save_pretrained(staged / MODEL)
    # Whoever uses the model later cuts documents as its training did, unless told otherwise.
    tokenizer.backend.model_max_length = max(trainer.lengths)
    tokenizer.backend.save_pretrained(staged / MODEL)
    history = _ordered(pd.DataFrame(trainer.recorder.rows))
    history.to_csv(staged / HISTORY, index=False)
    for name, frame in (predictions or {}).items():
        frame.to_parquet(staged / name, index=False)
    write_json(staged / RUN, _record(run, trainer, history, metrics).model_dump(mode="json"))
    folders.publish(staged)


def _ordered(history: pd.DataFrame) -> pd.DataFrame:
    """Put the columns in one order; a resumed run has them as its checkpoint stored them."""
    first = ["epoch", "step", "seconds", "train_loss", "learning_rate"]
    return history[[*first, *sorted(set(history) - set(first))]]


def _record(run: Run, trainer: KeyedTrainer, history: pd.DataFrame, metrics: Mapping[str, float | None]) -> RunRecord:
    seconds = float(history["seconds"].sum())
    on_gpu = trainer.args.device.type == "cuda"
    tokens = int(trainer.state.num_input_tokens_seen)
    parents = {"tokenizer": Path(run.tokenizer)} | {split: Path(folder) for split, folder in run.data.items()}
    if run.start is not None:
        parents["start"] = Path(run.start.checkpoint)
    return RunRecord(
        stage=run.stage,
        model=run.model,
        dataset=run.dataset,
        seed=run.seed,
        parents={name: Parent(path=str(path), digest=_folder_digest(path)) for name, path in parents.items()},
        parameters=count_parameters(trainer.model),
        epochs=len(history),
        steps=trainer.state.global_step,
        tokens=tokens,
        seconds=seconds,
        seconds_per_epoch=seconds / len(history),
        tokens_per_second=tokens / seconds,
        peak_memory_mb=trainer.recorder.measured_peak(),
        peak_memory_kind="gpu" if on_gpu else "resident",
        precision=run.precision,
        device=str(trainer.args.device),
        hardware=torch.cuda.get_device_name() if on_gpu else f"{platform.machine()}, {torch.get_num_threads()} threads",
        versions={"python": platform.python_version()}
        | {package: version(package) for package in ("torch", "transformers", "datasets", "tokenizers", "accelerate")},
        git_commit=_git_commit(),
        metrics=dict(metrics),
    )


def _folder_digest(folder: Path) -> str:
    """Return a digest of the weights, tables or vocabulary in `folder`; logs and states of libraries do not count."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in (".safetensors", ".arrow") or path.name in ("vocab.txt", "tokenizer.json"):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _git_commit() -> str | None:
    """Return the commit of the code, with a mark if files differ from it; None outside a git checkout."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()
