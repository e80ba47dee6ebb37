"""Fits of backbones that read texts, as files without code: words as JSON, numbers as safetensors. Needs no torch."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from lib.core.errors import RunError

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer

WORDS, NUMBERS = "fit.json", "fit.safetensors"
REMEDY = "Run the stage again, or copy the folder again from where it was made."


class Fit(NamedTuple):
    """Fit of a backbone to texts."""

    words: Mapping[str, Sequence[str]]
    """Lists of words, by name."""
    numbers: Mapping[str, np.ndarray]
    """Arrays, by name."""


def write_fit(fit: Fit, folder: Path) -> None:
    """Write a fit to a folder, which may be there."""
    folder.mkdir(exist_ok=True)
    (folder / WORDS).write_text(json.dumps(fit.words, ensure_ascii=False), encoding="utf-8")
    save_file({name: np.array(array, order="C") for name, array in fit.numbers.items()}, folder / NUMBERS)


def read_fit(folder: Path, words: Iterable[str], numbers: Iterable[str]) -> Fit:
    """Return the fit in a folder.

    Args:
        folder: folder of the model.
        words: names of the lists that are expected.
        numbers: names of the arrays that are expected.

    Raises:
        RunError: a file or a part of it is missing or damaged, or a number is NaN or inf.
    """
    path = folder / WORDS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        lists = {name: [*map(str, found[name])] for name in words}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RunError(f"{path}: is no fit ({type(error).__name__}: {error}). {REMEDY}") from error
    return Fit(lists, read_numbers(folder / NUMBERS, numbers))


def read_numbers(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Return arrays of a file by name; errors are those of `read_fit`."""
    try:
        found = load_file(path)
        numbers = {name: found[name] for name in names}
    except (OSError, SafetensorError, LookupError) as error:
        raise RunError(f"{path}: cannot be read ({type(error).__name__}: {error}). {REMEDY}") from error
    if wrong := [name for name, array in numbers.items() if not np.isfinite(array).all()]:
        raise RunError(f"{path}: {', '.join(wrong)} hold NaN or inf. {REMEDY}")
    return numbers


def require_shape(path: Path, name: str, array: np.ndarray, *shape: int) -> None:
    """Refuse an array of another shape than the other parts of a fit need.

    Raises:
        RunError: it has another one.
    """
    if array.shape != shape:
        raise RunError(f"{path}: {name} has the shape {[*array.shape]}; expected {[*shape]}. {REMEDY}")


def fit_of_terms(vectors: "TfidfVectorizer") -> Fit:
    """Return the fit of a vectoriser: its terms, in the order of their columns, and how rare they are."""
    return Fit({"terms": vectors.get_feature_names_out().tolist()}, {"idf": vectors.idf_})


def give_terms(vectors: "TfidfVectorizer", fit: Fit, folder: Path) -> None:
    """Give a new vectoriser the fit of another one.

    Raises:
        RunError: terms and numbers do not fit.
    """
    terms = fit.words["terms"]
    require_shape(folder / NUMBERS, "idf", fit.numbers["idf"], len(terms))
    vectors.vocabulary_ = {term: column for column, term in enumerate(terms)}
    vectors.idf_ = fit.numbers["idf"]
