"""English words by their synonyms: what WordNet lists in one set of synonyms with them.

Inflected words that are no entry of their own stay, since an entry in their place would break the sentence, and so do
function words, whose entries are others (`in` is an inch).
"""

import functools
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import nltk
from nltk.corpus.reader.wordnet import WordNetCorpusReader, WordNetError
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from lib.core.errors import DataError
from lib.core.files import files_in
from lib.preparing.settings.augmentation import Augmentation
from studies.hate_speech.augmentation.words import Request, cased, chosen, replaceable, replaced

_PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
_FILES = [name for part in _PARTS_OF_SPEECH for name in (f"index.{part}", f"data.{part}", f"{part}.exc")]


class Rewriter:
    """Replaces words by synonyms.

    Args:
        settings: share of the words.
        source: a folder with a WordNet database, or an archive with one.
        device: not used.

    Raises:
        DataError: the source is no WordNet database.
    """

    def __init__(self, settings: Augmentation, source: Sequence[str | Path], device: str) -> None:
        (path,) = map(Path, source)
        self._source = path
        self._share = settings.share
        self._folder = tempfile.TemporaryDirectory()  # the reader continues to read from it
        self._wordnet = _opened(path, Path(self._folder.name))
        self._synonyms = functools.cache(self._looked_up)

    def rewrite(self, requests: Sequence[Request]) -> list[str | None]:
        """See `studies.hate_speech.augmentation.words.Rewriter.rewrite`.

        Raises:
            DataError: the database is damaged.
        """
        return [self._rewritten(request) for request in requests]

    def _rewritten(self, request: Request) -> str | None:
        synonyms = {
            (start, end): found
            for start, end in replaceable(request.text)
            if (found := self._synonyms(request.text[start:end].lower()))
        }
        if not synonyms:
            return None
        places = chosen(request, list(synonyms), self._share)
        return replaced(
            request.text,
            {
                (start, end): cased(str(request.draws.choice(synonyms[start, end])), request.text[start:end])
                for start, end in places
            },
        )

    def _looked_up(self, word: str) -> list[str]:
        """Return the synonyms of a lower-case word, sorted; several words are separated by spaces."""
        if word in ENGLISH_STOP_WORDS:
            return []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of an entry that leads nowhere, which is an error here
                sets = [synset.lemma_names() for synset in self._wordnet.synsets(word)]
        except (AttributeError, LookupError, OSError, ValueError, WordNetError) as error:
            raise DataError(
                f"{self._source}: its entry of {word!r} cannot be read ({error!r}). Expected a whole WordNet database; "
                "fetch it again."
            ) from error
        found = {name.replace("_", " ") for names in sets if word in [name.lower() for name in names] for name in names}
        return sorted(name for name in found if name.lower() != word)


class _Reader(WordNetCorpusReader):
    def map_wn(self, version: str = "wordnet") -> None:
        """Leave out what only other languages need, and what needs a second WordNet."""


def _opened(source: Path, folder: Path) -> _Reader:
    """Return a reader of a copy of the database in `folder`."""
    unpacked = source
    if source.is_file():
        unpacked = folder / "archive"
        try:
            # Of a .zip, the library refuses names that lead elsewhere in any case.
            shutil.unpack_archive(source, unpacked, filter=None if source.suffix == ".zip" else "data")
        except Exception as error:  # each kind of archive brings its own
            raise DataError(
                f"{source}: cannot be unpacked ({error}). Expected an archive (.zip, .tar.gz) of a WordNet database."
            ) from error
    found = [path.parent for path in files_in(unpacked, f"**/{_FILES[0]}")]
    if not found:
        raise DataError(
            f"{source}: holds no file {_FILES[0]}. Expected a WordNet database, version 3: its folder, or an archive."
        )
    database = folder / "wordnet"
    database.mkdir()
    try:
        for name in _FILES:
            shutil.copyfile(found[0] / name, database / name)
        # Not in every archive; nothing here asks for the names of the files that WordNet was compiled from.
        (database / "lexnames").write_text("".join(f"{number:02d}\tfile{number}\t0\n" for number in range(100)))
        nltk.data.path.append(str(database))  # the library reads from folders that are listed there, and no others
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning about missing languages
            return _Reader(str(database), None)
    except (OSError, ValueError, StopIteration, WordNetError) as error:
        raise DataError(
            f"{source}: is no whole WordNet database ({error!r}). Expected {', '.join(_FILES)} in one folder, as "
            "WordNet 3 has them."
        ) from error
