"""Signs in a user's files that the advice may take them for something that they are not.

Where an answer would give columns or classes another meaning, the advice stops and asks. The rest is said.
"""

import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from lib.core.errors import MOST_OF_VALUE, ConfigError, DataError, cut
from lib.preparing.settings.preparation import MOST_LABELS, LabelSet
from lib.reading.cells import cell_text
from lib.reading.same_texts import text_digest

_FASTTEXT = "__label__"
_LIST = re.compile(r"\[.*[,'\"].*\]")
_SPLIT = re.compile("(?<![a-z])(train|test|dev|val)(?:ing|id|idation)?(?![a-z])")


def check_documents(path: Path, columns: Mapping[str, Sequence[Any]], *, header: bool, labelled: bool) -> None:
    """Ask about a first line that may be a document, and about labels inside of texts.

    Args:
        path: the file.
        columns: values of its first documents, by column.
        header: whether the names of the columns are its first line.
        labelled: whether the texts may have labels.

    Raises:
        DataError: a person has to say the meaning.
    """
    for name, values in columns.items():
        inside = sum(str(value).startswith(_FASTTEXT) and " " in str(value) for value in values)
        if labelled and inside:
            said = f"{path}: {inside:,} of the first {len(values):,} texts begin with `{_FASTTEXT}`, as of fastText."
            raise DataError(f"{said} Make label and text two columns (docs/add_dataset.md), or say --unlabelled.")
        times = sum(cell_text(value) == cell_text(name) for value in values)
        if header and name.strip() and times:
            raise DataError(
                f"{path}: {cut(repr(name), MOST_OF_VALUE)} is the name of a column and its value in {times:,} of the "
                f"first {len(values):,} documents. If the first line is a document, name all columns, for instance by "
                "--dialect '{columns: [label, text]}'; if not, name two by --column and --label (or --unlabelled)."
            )


def check_names(files: Sequence[Path]) -> None:
    """Ask about files without labels whose names, or those of their folders, may be the classes.

    Raises:
        DataError: a person has to say the meaning.
    """
    names = list(dict.fromkeys(re.sub(r"\d+", "", f"{path.parent.name}/{path.name}") for path in files))
    if len(names) > 1 and not _splits(files):
        raise DataError(
            f"{files[0]}: has no labels, but the names of the files may be classes, as {names[0]} and {names[1]}. If "
            "they are, make them a column (docs/add_dataset.md has the command); if each file is a document and its "
            "folder the class, say --dialect '{document: file}'; if there are no classes, say --unlabelled."
        )


def label_set(where: str, cells: Iterable[str]) -> LabelSet | None:
    """Return how labels list several: as `[a, b]`, or as `a;b` where others have both parts and fewer or more of them.

    Of several signs, that between labels leaves the fewest of them. A sign that leaves more labels than there are
    values is a part of their names.

    Args:
        where: their column, for messages.
        cells: different values of it, lists as texts.

    Returns:
        None if each is one label.

    Raises:
        ConfigError: the labels between one sign may have another one between them.
    """
    values = [*filter(None, islice(cells, MOST_LABELS))]
    if any(map(_LIST.fullmatch, values)):
        return LabelSet()
    found = {}
    for sign in ";|,":
        parts = [{part.strip() for part in value.split(sign)} - {""} for value in values]
        sizes = defaultdict(set)
        for part, size in ((part, len(each)) for each in parts for part in each):
            sizes[part].add(size)
        mixed = {part for part, each in sizes.items() if len(each) > 1}
        if len(sizes) <= len(values) and any(len(each) > 1 and each <= mixed for each in parts):
            found[sign] = sizes.keys()
    sign = min(found, key=lambda sign: len(found[sign]), default="")
    if found and (other := label_set(where, found[sign])):
        signs = f"{sign!r} and {other.separator!r} may both be between labels"
        raise ConfigError(f"{where}: {signs}. Expected one sign, or 'label_set.separator' in a study of your own.")
    return LabelSet(separator=sign) if found else None


def remarks(files: Sequence[Path], labels: Counter[str], documents: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """Yield a sentence about each thing that is said.

    Args:
        files: the files, which the study joins.
        labels: how often each label occurs.
        documents: text and label of each, as text; empty ones do not count.
    """
    if splits := _splits(files):
        keep = " (to keep them, make each a part of `files`, with `split: {held_out: test}`)" if labels else ""
        yield f"The files of {' and '.join(sorted(splits))} are joined, and split again{keep}."
    alike = defaultdict(list)
    for name, count in labels.items():
        seen = "".join(sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign)[0] != "C")
        alike["".join(seen.casefold().split())].append(f"{name!r} ({count:,})")
    for names in alike.values():
        if len(names) > 1:
            said = f"{' and '.join(names)} are classes of their own, but differ only in case, white space, width or "
            yield f"{said}unseen characters. If they are one class, give it one name in the file, or by `values`."
    pairs = array("q")
    for text, label in documents:
        if text and not text.isspace() and label:
            pairs.extend((hash(text_digest(text)), hash(label)))
    numbers = np.asarray(pairs).reshape(-1, 2)
    texts, different = np.unique(np.unique(numbers, axis=0)[:, 0], return_counts=True)
    if count := int(np.isin(numbers[:, 0], texts[different > 1]).sum()):
        said = f"{count:,} of {len(numbers):,} documents have the text of another one with another label."
        yield f"{said} No model can be right about all; `duplicates: drop` keeps the first of each text."


def _splits(files: Sequence[Path]) -> set[str]:
    """Return the splits that the names of the files say; nothing if these are fewer than two."""
    found = {split for path in files for split in _SPLIT.findall(path.name.lower())}
    return found if len(found) > 1 else set()
