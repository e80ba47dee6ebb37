"""External causes that end a training run: signals, lack of memory, dead workers. Changes no number."""

import contextlib
import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, resource_tracker
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

import torch
from accelerate.utils.memory import should_reduce_batch_size

from lib.core.errors import RunError
from lib.study.execution import Training
from lib.study.run import RunSettings
from lib.training import distributed

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
"""Signals that Slurm and Snakemake end a job with; Slurm can also send them as a warning (`--signal`)."""

SECONDS = 2.0
"""Longest time between a broken connection to a data loader worker and the signal of its death."""


class _Ending(BaseException):
    """A signal ends the run. No `Exception`: where a file may be damaged, each of those is taken for the damage."""


class Interruption:
    """A context where SIGTERM and SIGUSR1 end the run with an error, so that it is started again.

    Attributes:
        heard: number of the signal that was received, if any.
        waits: whether a signal is only noted, because the training loop checks for it after every optimiser step.
    """

    def __init__(self) -> None:
        self.waits = False
        self.heard: int | None = None
        self._ends = False
        self._process = os.getpid()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only this thread may set handlers
            self._before = {number: signal.signal(number, self._hear) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        """Set the handlers of before.

        Raises:
            RunError: a signal has ended the run, also where a library made another error of that.
        """
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._ends and error is not None:
            self.leave(error)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            return  # in a data loader worker, which ends with the training process
        self.heard = number
        if not self.waits:
            self._ends = True
            raise _Ending

    def leave(self, cause: BaseException | None = None) -> None:
        """End the run.

        Args:
            cause: the error that the signal led to, if any.

        Raises:
            RunError: always.
        """
        name = signal.Signals(self.heard).name if self.heard else "a signal to another process of it"
        raise RunError(f"ended by {name}. The next start of this run resumes from the last checkpoint.") from cause


class OutOfMemoryError(RunError):
    """Memory ran out.

    Args:
        message: message for the user.
        fitting: the `micro_batch_tokens` to try next; None = it cannot be lowered.
    """

    def __init__(self, message: str, *, fitting: int | None):
        super().__init__(message)
        self.fitting = fitting


def died_of_worker(error: Exception) -> bool:
    """Whether an error of torch reports a dead data loader worker; it may come from any call."""
    return "DataLoader worker" in str(error)


@contextlib.contextmanager
def explained_size() -> Iterator[None]:
    """Turn a lack of memory for the weights of a model into an error with a remedy.

    Raises:
        RunError: the weights do not fit in memory.
    """
    try:
        yield
    except RuntimeError as error:
        if not should_reduce_batch_size(error):
            raise
        raise RunError(
            f"out of memory ({str(error).splitlines()[0]}), before any document was read. Expected the weights to fit: "
            "take a smaller backbone (hidden_size, num_hidden_layers) or vocabulary, or a machine with more memory."
        ) from error


@contextlib.contextmanager
def explained_memory(execution: Training, documents: int, longest: int, *, evaluating: bool = False) -> Iterator[None]:
    """Turn a lack of memory for documents into an error with a remedy.

    Args:
        execution: execution settings of the run.
        documents: documents that this process may have at once: those of an optimiser step, or all of an evaluation.
        longest: tokens of the longest of them.
        evaluating: whether they are evaluated, for the message.

    Raises:
        OutOfMemoryError: the device's memory ran out.
    """
    try:
        yield
    except RuntimeError as error:
        if not should_reduce_batch_size(error):
            raise
        cause = f"out of memory ({str(error).splitlines()[0]}){' in an evaluation' if evaluating else ''}"
        most = min(documents * longest, execution.micro_batch_tokens)
        if most <= longest:
            raise OutOfMemoryError(
                f"{cause}, with 1 document of up to {longest} tokens at once. Make it fit: cut documents shorter "
                "(max_tokens), take a smaller backbone or precision bf16, or a device with more memory.",
                fitting=None,
            ) from error
        fitting = max(longest, most // 2)
        raise OutOfMemoryError(
            f"{cause}, with up to {most} tokens at once, in documents of up to {longest} "
            f"(execution.training.micro_batch_tokens: {execution.micro_batch_tokens}). Lower it to {fitting}, or "
            "set execution.training.auto_micro_batch to true, which does this; optimiser steps stay the same.",
            fitting=fitting if distributed.count() == 1 else None,
        ) from error


def _spare_workers() -> None:
    """Start the server that the data loader workers of a distributed training are forked from, without the signals.

    torchrun and Slurm send them to it and to the workers as well, and the training needs both up to its checkpoint.
    Processes inherit blocked signals; the tracker of resources, which unblocks them when it starts, comes first.
    """
    if multiprocessing.get_start_method() != "forkserver":
        return  # workers are forked from the training, and its handler does nothing in them
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def explained_workers(execution: Training, interruption: Interruption | None = None) -> Iterator[None]:
    """Turn the death of a data loader worker into an error with a remedy.

    Args:
        execution: execution settings of the run.
        interruption: a signal that was received; None = no signal is awaited.

    Raises:
        RunError: a data loader worker died, or received the signal, too.
    """
    if execution.workers and interruption is not None:
        _spare_workers()
    try:
        try:
            yield
        except (ConnectionError, EOFError):
            time.sleep(SECONDS)  # here the signal raises torch's error, which would come later from any call
            raise
    except RuntimeError as error:
        if not died_of_worker(error):
            raise
        if interruption is not None and interruption.heard:
            interruption.leave()
        raise RunError(
            f"a data loader worker died ({str(error).splitlines()[0]}); usually memory ran out. Raise "
            f"execution.job.mem_mb, or lower execution.training.workers = {execution.workers}. The next start of a "
            "training resumes from its last checkpoint."
        ) from error


def until_it_fits(run: RunSettings, attempt: Callable[[RunSettings], Result]) -> Result:
    """Return the result of `attempt` on a run, with ever fewer tokens at once if `auto_micro_batch` allows that.

    Raises:
        OutOfMemoryError: memory ran out, and the tokens may not or cannot be fewer.
    """
    while True:
        try:
            return attempt(run)
        except OutOfMemoryError as error:
            if error.fitting is None or not run.execution.auto_micro_batch:
                raise
            logger.warning("%s", error)
            execution = run.execution.model_copy(update={"micro_batch_tokens": error.fitting})
        run = run.model_copy(update={"execution": execution})
        gc.collect()
        torch.cuda.empty_cache()
