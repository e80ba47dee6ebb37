"""A teacher's scores of the training documents, stored with the tokens that the student reads."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from datasets import Dataset, List, Value

from lib.core.errors import DataError, RunError
from lib.core.files import atomic_path
from lib.study.run import RunSettings
from lib.tokens.stored import TokenDataset, load_tokens
from lib.training.interruptions import explained_size, explained_workers, until_it_fits
from lib.training.predictor import Predictor, assemble, load_split

logger = logging.getLogger(__name__)

COLUMN = "teacher_logits"


def teach(run: RunSettings, model: str | Path, tokens: str | Path, target: str | Path) -> None:
    """Write the tokens of a student's training documents with the teacher's scores of each, `teacher_logits` [C].

    Args:
        run: settings of the teacher; its `data.train` has the documents in the teacher's tokens.
        model: folder of the teacher's model.
        tokens: the same documents in the student's tokens.
        target: new folder of a tokenised split.

    Raises:
        ProjectError: the teacher's model does not fit its settings, or lacks documents of the student.
    """
    documents = load_split(run.data["train"], sort=True)
    logits = until_it_fits(run, lambda fitting: _logits(fitting, model, documents))
    if not np.isfinite(logits).all():
        raise RunError(f"{model}: scores are NaN or inf. Train the teacher again, in fp32 or bf16.")
    taught = with_logits(load_tokens(tokens), documents["id"][:], logits)
    with atomic_path(target) as partial:
        taught.save_to_disk(partial)
    logger.info("%s: %d documents scored by %s", target, len(taught), run.model)


@explained_size()
def _logits(run: RunSettings, model: str | Path, documents: Dataset) -> np.ndarray:
    task, backbone, tokenizer, teacher = assemble(run)
    backbone.load_weights(teacher, model, with_head=True)
    predictor = Predictor(run, task, teacher, tokenizer)
    with explained_workers(run.execution):
        return predictor.predict(TokenDataset(documents), "test").predictions


def with_logits(tokens: Dataset, ids: Sequence[str], logits: np.ndarray) -> Dataset:
    """Return `tokens` with the column `teacher_logits`.

    Args:
        tokens: dataset with `id` [n].
        ids: ids of the documents that were scored [m].
        logits: scores of these documents [m, C].

    Raises:
        DataError: a document was not scored.
    """
    rows = {name: row for row, name in enumerate(ids)}
    if missing := [name for name in tokens["id"] if name not in rows]:
        raise DataError(
            f"the teacher did not score {len(missing)} of {len(tokens)} documents, such as {missing[0]!r}. Expected "
            "both to train on the same documents; prepare and tokenise the dataset again."
        )
    chosen = logits[[rows[name] for name in tokens["id"]]].astype(np.float32)
    return tokens.add_column(COLUMN, list(chosen), feature=List(Value("float32")))
