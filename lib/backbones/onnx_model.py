"""Document classifiers as ONNX, in fp32 and with weights of 8 bits: files, and what these gain and lose.

Shapes: B batch, C classes.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import binomtest
from transformers import PretrainedConfig, PreTrainedModel

from lib.core.errors import ConfigError, RunError, require

EXACT, INTEGERS = "model.onnx", "model_int8.onnx"
INPUTS = ("input_ids", "attention_mask")
OPTIONS: dict[str, Any] = {"input_names": INPUTS, "output_names": ["logits"], "external_data": False, "verbose": False}
SHAPES = ((2, 12), (1, 5), (3, 15))
"""Texts and tokens of the batches that are computed by torch and by the file in fp32; the first one is traced."""
TOLERANCE = 1e-5
"""Largest difference of a probability."""
CONFIDENCE = 0.95
DIFFERENCES = ["largest difference of a probability", "other labels than torch", "interval [%]"]
COLUMNS = ["model", "documents per second", *DIFFERENCES]

SETS = "multi_label_classification"
"""What transformers calls the problem of documents that may have several classes."""

Batch = dict[str, np.ndarray]


def save_onnx(model: PreTrainedModel, out: Path) -> None:
    """Write a classifier as `EXACT` and `INTEGERS`, for texts of any number and length.

    `INTEGERS` has weights of 8 bits, and quantises the other factors as it computes.

    Args:
        model: the classifier.
        out: folder to write into.

    Raises:
        ConfigError: torch cannot export the model.
        RunError: a package of the extra `onnx` is missing, or the model computes other probabilities in ONNX.
    """
    for package in ("onnx", "onnxruntime", "onnxscript"):
        require(package, "--onnx")
    from onnxruntime.quantization import quantize_dynamic

    sizes = {name: dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC) for name in INPUTS}
    batches = [_batch(model.config.vocab_size, model.config.pad_token_id or 0, *shape) for shape in SHAPES]
    try:
        torch.onnx.export(model.eval(), (), out / EXACT, kwargs=_tensors(batches[0]), dynamic_shapes=sizes, **OPTIONS)
    except Exception as error:  # of many kinds, by the operation that it cannot trace
        problem = f"torch cannot export its computation to ONNX ({type(error).__name__})"
        raise ConfigError(f"{model.name_or_path}: {problem}. Load it after `import lib`.") from error
    session = _session(out / EXACT)
    for batch in batches:
        difference = np.abs(_by_torch(model, batch) - _by_onnx(session, batch, model.config)).max()
        if not difference <= TOLERANCE:
            problem = f"computes other probabilities in ONNX (by {difference:.1g})"
            raise RunError(f"{model.name_or_path}: {problem}, so it is not exported. Load it after `import lib`.")
    quantize_dynamic(out / EXACT, out / INTEGERS)


def measure(model: PreTrainedModel, out: Path, documents: Sequence[Sequence[int]]) -> pd.DataFrame:
    """Return how fast torch and both files classify documents, each by itself, and how their results differ.

    They take turns, document by document, so that other work on the machine slows all of them alike.

    Args:
        model: the classifier, in evaluation mode.
        out: folder of both files.
        documents: their tokens.

    Returns:
        A row for torch and each file: documents per second of one core, the largest difference of a probability from
        torch's, documents with another label than torch's, and the interval of their share.
    """
    sessions = {name: _session(out / name) for name in (EXACT, INTEGERS)}
    found: dict[str, list[np.ndarray]] = {name: [] for name in ("torch", *sessions)}
    seconds, threads = dict.fromkeys(found, 0.0), torch.get_num_threads()
    torch.set_num_threads(1)
    for number, ids in enumerate([documents[0], *documents]):  # the first one twice, once to warm up
        batch = {"input_ids": np.array([ids], dtype=np.int64), "attention_mask": np.ones((1, len(ids)), np.int64)}
        for name, rows in found.items():
            begun = time.process_time()
            row = _by_onnx(sessions[name], batch, model.config) if name in sessions else _by_torch(model, batch)
            if number:
                seconds[name] += time.process_time() - begun
                rows.append(row[0])
    torch.set_num_threads(threads)
    measured, true = [], np.array(found["torch"])
    for name, rows in found.items():
        changed = int((_given(np.array(rows), model.config) != _given(true, model.config)).any(axis=1).sum())
        interval = binomtest(changed, len(rows)).proportion_ci(CONFIDENCE, method="wilson")
        difference = np.abs(np.array(rows) - true).max()
        share = f"{100 * interval.low:.2f} to {100 * interval.high:.2f}"
        measured.append((name, f"{len(rows) / seconds[name]:.1f}", f"{difference:.1g}", changed, share))
    return pd.DataFrame(measured, columns=COLUMNS)


def _batch(vocab_size: int, padding: int, texts: int, tokens: int) -> Batch:
    """Return random texts of different lengths."""
    ids = np.random.default_rng(tokens).integers(vocab_size, size=(texts, tokens))
    ids[ids == padding] = (padding + 1) % vocab_size
    mask = (np.arange(tokens) < tokens - 4 * np.arange(texts)[:, None]).astype(np.int64)
    return {"input_ids": np.where(mask == 1, ids, padding), "attention_mask": mask}


def _session(file: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _tensors(batch: Batch) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(values) for name, values in batch.items()}


@torch.inference_mode()
def _by_torch(model: PreTrainedModel, batch: Batch) -> np.ndarray:
    """Return probabilities [B, C]."""
    return _probabilities(model(**_tensors(batch)).logits, model.config)


def _by_onnx(session: Any, batch: Batch, config: PretrainedConfig) -> np.ndarray:
    """Return probabilities [B, C]."""
    return _probabilities(torch.from_numpy(session.run(None, batch)[0]), config)


def _probabilities(scores: torch.Tensor, config: PretrainedConfig) -> np.ndarray:
    """Return probabilities [B, C] of scores [B, C]."""
    return (scores.sigmoid() if config.problem_type == SETS else scores.softmax(-1)).numpy()


def _given(probabilities: np.ndarray, config: PretrainedConfig) -> np.ndarray:
    """Return the class of each document [n, 1], or where it may have several whether each has 0.5 or more [n, C]."""
    return probabilities >= 0.5 if config.problem_type == SETS else probabilities.argmax(axis=1, keepdims=True)
