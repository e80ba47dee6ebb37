"""Long papers of eleven classes, which differ in a few topic words among those of other classes."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lib.core.generated import RAW_FILES
from lib.data.generated.language import COMMON, TOPICS, sentences

_CLASSES = tuple(TOPICS)
_PATTERNS = (
    "we show that the TERM of the OTHER is ADJ in NUMBER cases",
    "the OTHER was described by NAME and NAME for a ADJ NOUN",
    "let the OTHER be ADJ and let the OTHER have NUMBER parts",
    "section NUMBER compares the OTHER with the work of NAME",
    "our result on the OTHER holds for NUMBER of the ADJ examples",
    "it follows that the TERM and the OTHER are ADJ",
)
_SHORTEST, _LONGEST = 26, 36


def paper(rng: random.Random, label: int) -> str:
    """Return a paper of class number `label`."""
    everything = [word for words in TOPICS.values() for word in words]
    lists = COMMON | {"TERM": TOPICS[_CLASSES[label]], "OTHER": everything}
    made = sentences(rng, _PATTERNS, lists, rng.randint(_SHORTEST, _LONGEST))
    return "\n".join(" ".join(made[start : start + 6]) for start in range(0, len(made), 6))


def write(documents: int, rng: random.Random, folder: Path) -> None:
    """Write the three Parquet files, `text` and `label`: a tenth for test, a tenth for validation."""
    labels = [number % len(_CLASSES) for number in range(documents)]
    rng.shuffle(labels)
    texts = [paper(rng, label) for label in labels]
    tenth = documents // 10
    parts = {"test": slice(tenth), "train": slice(2 * tenth, None), "validation": slice(tenth, 2 * tenth)}
    for part, (name,) in RAW_FILES["arxiv"]["files"].items():
        rows = parts[part]
        pq.write_table(pa.table({"text": texts[rows], "label": pa.array(labels[rows], pa.int64())}), folder / name)
