"""More documents of chosen classes: prepared splits to augmented ones."""

import importlib
import logging
import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lib.core.errors import DataError
from lib.core.files import atomic_path, write_json
from lib.core.randomness import derive_seed
from lib.preparing.drawing import assign_splits
from lib.preparing.folds import SPLITS
from lib.preparing.labelled import SUMMARY, Index, distribute, summarise_splits
from lib.preparing.parts import PartWriter, read_part, schema_of_part
from lib.preparing.settings.augmentation import Augmentation
from lib.preparing.settings.preparation import Preparation
from studies.hate_speech.augmentation.words import Request, Rewriter

logger = logging.getLogger(__name__)

_BATCH = 512
"""Documents held in memory at once."""
_COPY = re.compile(r"-copy-\d+$")
"""How the id of a copy ends."""


def augment_dataset(
    prepared: Mapping[str, str | Path],
    target: str | Path,
    settings: Augmentation,
    preparation: Preparation,
    sources: Mapping[str, Sequence[str | Path]],
    device: str = "auto",
) -> None:
    """Add copies with other words to a prepared dataset.

    Writes `train.parquet`, `validation.parquet` and `test.parquet` with the columns of the prepared ones, copies behind
    their documents and called `<id>-copy-<n>`, and `summary.json`: copies by way, and those that are missing because no
    word could be replaced; documents, classes, duplicate texts and copies by split; documents of validation and test
    that are in training in another version (original or copy). A copy is a function of seed, id, text and n.

    Args:
        prepared: Parquet file of each split, with a label per document.
        target: folder to appear, whole or not at all.
        settings: which documents are copied, how often and how. If `leaked`, the documents of all splits are, and all
            are then split again by the shares of the preparation's split, whose `documents` was followed before.
        preparation: names of the classes, and the split.
        sources: input of each way: a WordNet database, or the folders of a model and its tokeniser.
        device: `auto`, `cpu` or `cuda`, for models.

    Raises:
        ConfigError: the model's tokeniser is not usable.
        DataError: a file cannot be read, a document is called like a copy, or a WordNet database is none.
        RunError: there is no usable model.
    """
    ways: dict[str, Rewriter] = {
        way: importlib.import_module(f"{__package__}.{way}").Rewriter(settings, sources[way], device)
        for way in settings.ways
    }
    classes = {preparation.labels.index(label) for label in settings.labels}
    index = Index(preparation.labels)
    origins = array("Q")  # number of the document that each one is, or is a copy of
    counts: Counter[str] = Counter()
    with atomic_path(target) as folder:
        folder.mkdir()
        pooled = folder / "pooled.parquet"
        schema = schema_of_part(prepared[SPLITS[0]])
        with PartWriter(pooled, schema) as writer:
            for part, split in enumerate(SPLITS):
                chosen = classes if settings.leaked or split == "train" else set()
                rows = read_part(prepared[split])
                while batch := list(islice(rows, _BATCH)):
                    copies = _copies([row for row in batch if row["label"] in chosen], settings, ways, counts)
                    for row in batch:
                        if _COPY.search(row["id"]):
                            raise DataError(
                                f"{prepared[split]}: a document is called {row['id']!r}, as copies are. Expected ids "
                                "that end otherwise; rename it, or set the dataset's 'id' to null."
                            )
                        origin = origins[-1] + 1 if origins else 0
                        for version in [row, *copies.get(row["id"], [])]:
                            writer.write(*version.values())
                            index.add(part, version["label"], version["text"])
                            origins.append(origin)
        assignment = index.of_each("part").astype(np.int8)
        if settings.leaked:
            shares = preparation.split.model_copy(update={"documents": {}})
            assignment = assign_splits(index.of_each("label"), preparation.labels, shares)
        distribute(pooled, assignment, folder, schema)
        pooled.unlink()
        summary = {"augmentation": _counted(counts, settings)} | summarise_splits(index, assignment)
        write_json(folder / SUMMARY, summary | _kinship(np.frombuffer(origins, np.uint64), assignment))


def _copies(
    rows: Sequence[dict[str, Any]], settings: Augmentation, ways: Mapping[str, Rewriter], counts: Counter[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the copies of documents by their id, in order, and count them."""
    texts: dict[tuple[str, int], str | None] = {}
    for number, (way, rewriter) in enumerate(ways.items()):
        taken = range(number + 1, settings.copies + 1, len(ways))
        keys = [(row["id"], copy) for row in rows for copy in taken]
        requests = [
            Request(row["text"], np.random.default_rng(derive_seed("augmentation", settings.seed, row["id"], copy)))
            for row in rows
            for copy in taken
        ]
        found = rewriter.rewrite(requests)
        texts |= zip(keys, found, strict=True)
        counts[way] += sum(text is not None for text in found)
        counts["missing"] += found.count(None)
    counts["documents"] += len(rows)
    return {
        row["id"]: [
            row | {"id": f"{row['id']}-copy-{copy}", "text": text}
            for copy in range(1, settings.copies + 1)
            if (text := texts[row["id"], copy]) is not None
        ]
        for row in rows
    }


def _counted(counts: Counter[str], settings: Augmentation) -> dict[str, Any]:
    """Return the documents that were copied, the copies, and those that no word could be replaced for."""
    if counts["missing"]:
        logger.warning("%d copies were not made, since no word of their texts can be replaced", counts["missing"])
    return {
        "documents": counts["documents"],
        "copies": {way: counts[way] for way in settings.ways},
        "missing": counts["missing"],
    }


def _kinship(origins: np.ndarray, assignment: np.ndarray) -> dict[str, Any]:
    """Return how many documents of each split are copies, and have their original or a copy of it in training."""
    is_copy = np.diff(origins, prepend=origins[:1] + 1) == 0
    in_training = np.isin(origins, origins[assignment == 0])
    return {
        "copies": {name: int(is_copy[assignment == number].sum()) for number, name in enumerate(SPLITS)},
        "versions_in_train": {
            name: int(in_training[assignment == number].sum()) for number, name in enumerate(SPLITS) if number
        },
    }
