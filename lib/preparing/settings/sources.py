"""Where documents come from: the hub, addresses, files at hand, or a generator."""

import io
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from lib.core.inputs import FORMATS, expand_ranges, format_of, is_safe_address, repeated, unknown_format
from lib.core.settings import BaseSettings, PositiveInt, Repository, Revision, Seed, Size, TokenizerName, check, unset

Part = Annotated[str, Field(pattern=r"^[a-z_]+$")]
"""Name of a part as published: train, test, ..."""

_GROUND_TRUTH = (
    "Files of the labels by part, if those of the texts have none: XML of the Hyperpartisan format; or any other "
    "format, with the columns `id` and `label` of the dataset. Without `id`, label n belongs to text n; plain text has "
    "one label per line: `{train: [train_labels.txt]}`."
)

_SECRET = re.compile(
    "^[^/]*//[^/?#]*@|[?&;#][^=&]*(token(?!i)|key(?!w)|secret|sig(?!nif)|pass|pwd|auth(?!o)|cred|session|jwt)[^=&]*=",
    re.IGNORECASE,
)
"""User name and password in an address, or a value by whose name it lets somebody read the file."""


def _format_problem(name: str) -> str | None:
    """Return why the name of a file says no format; None if it does. That of an archive is inside."""
    suffix = format_of(name)
    return None if suffix in (*FORMATS, ".zip") else unknown_format(suffix)


class HubSource(BaseSettings):
    """Files of a dataset repository on the Hugging Face hub."""

    repository: Repository
    """`owner/name` of the dataset repository."""
    revision: Revision = "main"
    """Commit; if `unpinned`, also a tag or branch."""
    unpinned: bool = False
    """Accept a revision that may change; the download warns once."""
    files: dict[Part, list[str]]
    """Paths in the repository, by part, in dataset order; `{00000..00040}` is a range. Each is downloaded: of a corpus,
    name only the first ones that have the articles of its slices."""
    ground_truth: dict[Part, list[str]] = Field(default_factory=dict, description=_GROUND_TRUTH)

    @check
    def _files_are_pinned_and_in_their_folder(self) -> Iterator[str]:
        if not self.unpinned and not re.fullmatch("[0-9a-f]{40}", self.revision):
            yield f"revision = '{self.revision}' is not a commit (40 digits). Give it, or set unpinned: true"
        if twice := repeated(self._paths):
            yield f"files: {twice}"
        for path in self._paths:
            if path.startswith("/") or not set(path.split("/")).isdisjoint({"", ".", ".."}) or not path.isprintable():
                yield f"files: {path!r} is no place inside a repository. Name it as the repository shows it"
            elif problem := _format_problem(path):
                yield f"files: {path!r}: {problem}. Name other files"

    @property
    def _paths(self) -> list[str]:
        return [path for kind in (self.files, self.ground_truth) for paths in kind.values() for path in paths]

    @field_validator("files", "ground_truth")
    @classmethod
    def _ranges_are_expanded(cls, files: dict[str, list[str]]) -> dict[str, list[str]]:
        return {part: expand_ranges(patterns) for part, patterns in files.items()}


class RemoteFile(BaseSettings):
    """One file behind a URL."""

    url: str
    """https address without passwords and tokens, since results keep it (user name and password go into `~/.netrc`);
    the last part of its path is the file's name."""
    size: Annotated[int, Field(gt=0, le=10**15)] | None = None
    """Expected size in bytes."""
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")
    """Expected checksum."""
    unpinned: bool = False
    """Accept any content that the server sends; the download warns once."""

    @check
    def _file_has_a_safe_address_and_is_pinned(self) -> Iterator[str]:
        if has_secret := _SECRET.search(self.url):
            yield "url: holds a secret. Write name and password in ~/.netrc; with a token, name it as a local source"
        elif not self.url.isprintable() or not is_safe_address(self.url):
            yield f"url: {self.url!r} is no address that nobody can change on the way. Give an https address"
        elif self.name in ("", ".."):
            yield f"url: {self.url!r} names no file. Expected a name at the end of its path"
        if not self.unpinned and self.sha256 is None and not has_secret:
            yield f"{self.url} has no sha256, so its content may change. Give it, or set unpinned: true"

    @property
    def name(self) -> str:
        """The last part of the URL's path."""
        return PurePosixPath(urlsplit(self.url).path).name


class UrlSource(BaseSettings):
    """Files behind plain URLs."""

    files: dict[Part, list[RemoteFile]]
    """Files by part, in dataset order."""
    ground_truth: dict[Part, list[RemoteFile]] = Field(default_factory=dict, description=_GROUND_TRUTH)

    @check
    def _files_have_formats_and_are_named_once(self) -> Iterator[str]:
        for kind in ("files", "ground_truth"):
            if twice := repeated(file.url for part in getattr(self, kind).values() for file in part):
                yield f"{kind}: {twice}"
        for file in self.all_files:
            if problem := _format_problem(file.name):
                yield f"{file.url}: {problem}. Fetch the file by hand, and name it as a local source by such a name"

    @property
    def all_files(self) -> list[RemoteFile]:
        """All files, ground truth included."""
        return [file for kind in (self.files, self.ground_truth) for part in kind.values() for file in part]


class LocalSource(BaseSettings):
    """Files of the user's own."""

    files: dict[Part, list[str]]
    """Paths, by part, in dataset order; patterns such as `data/*.jsonl.gz` are expanded and sorted."""
    ground_truth: dict[Part, list[str]] = Field(default_factory=dict, description=_GROUND_TRUTH)


class GeneratedSource(BaseSettings):
    """A corpus made by the project itself."""

    documents: Size
    """Documents to generate, over all parts."""
    seed: Seed = 0
    """Seed of the generator."""
    generator: str | None = None
    """Name of a module of `lib/generators`; null = the name of the corpus."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the generator, if it has any."""


class Dialect(BaseSettings):
    """How the text files of a source are written. A table is a CSV or TSV file."""

    encoding: str = "utf-8"
    """Encoding of the files (all but Parquet and XML), such as `windows-1252` or `utf-16`."""
    encoding_errors: Literal["refuse", "replace", "drop"] = "refuse"
    """A document with bytes that are not of the encoding, or with half a surrogate pair, is refused, or has U+FFFD in
    their place, or is dropped."""
    delimiter: Annotated[str, Field(pattern=r"^[^\r\n\"\\]$")] | None = None
    """Sign between two fields of a table, such as `;`; null = a comma in CSV, a tab in TSV. If it is given, a file
    `.txt` is a table, too."""
    quotes: bool | None = None
    """Whether quotation marks can enclose a field of a table (`true`), as spreadsheets and pandas write it, or are part
    of its text (`false`), as in the TSV files of GLUE; null = `true`, but `false` between tabs, where a file that can
    be read both ways is refused."""
    quotechar: Annotated[str, Field(pattern=r"^[^\r\n\\,;\t|]$")] | None = Field(None, exclude_if=unset)
    """Quotation mark of a table, such as `'`; null = `"`."""
    comment: Annotated[str, Field(pattern=r"^[^\r\n]+$")] | None = Field(None, exclude_if=unset)
    """Begin of lines of a table that are left out, such as `#`; null = none are."""
    skiprows: PositiveInt | None = Field(None, exclude_if=unset)
    """Number of first lines of a table that are left out, such as a title; null = 0."""
    escape: Literal["none", "backslash"] | None = Field(
        None,
        description='Whether a backslash escapes the next sign of a table, as in `"so \\"good\\""`; null = it does '
        "not, and a file that can be read both ways is refused.",
    )
    columns: Annotated[list[str], Field(min_length=1)] | None = None
    """Names of the columns of a table without a header, in order, such as `[label, text]`; null = its first line names
    them."""
    document: Literal["line", "file"] = "line"
    """Document of plain text: a line, or a whole file, whose label is the name of its folder: `local: {files: {train:
    [aclImdb/train/neg/*.txt, aclImdb/train/pos/*.txt]}}` with `labels: [neg, pos]`. Then no suffix is needed."""

    @field_validator("encoding")
    @classmethod
    def _encoding_is_known(cls, encoding: str) -> str:
        try:
            return io.TextIOWrapper(io.BytesIO(), encoding).encoding
        except (LookupError, ValueError) as error:
            raise ValueError(f"{error}. Expected an encoding of texts, such as utf-8 or windows-1252") from error


class Reading(BaseSettings):
    """Where a raw file holds identity and text."""

    text: str = "text"
    """Column of the text (Parquet, CSV, JSONL)."""
    id: str | None = None
    """Column of the identity; null numbers the documents. XML has its own."""
    dialect: Dialect | None = Field(None, exclude_if=unset)
    """How its text files are written; null = in UTF-8, and tables with a header."""


class Documents(Reading):
    """What corpora and datasets have: a chosen source, and the columns that hold identity and text."""

    source: Literal["hub", "url", "local", "generated"]
    """The section below that provides the raw files; the file may contain the others unused."""
    hub: HubSource | None = None
    url: UrlSource | None = None
    local: LocalSource | None = None
    generated: GeneratedSource | None = None
    tokenizer: TokenizerName | None = None
    """Name of the tokeniser of all models that do not name their own; null = the only one."""
    license: str | None = None
    """Licence of the texts, for model cards; null = none is named."""

    @check
    def _source_is_described(self) -> Iterator[str]:
        if getattr(self, self.source) is None:
            yield f"source is '{self.source}', but there is no section '{self.source}'. Add that section"
        files, ground_truth = (getattr(self.chosen, kind, {}) for kind in ("files", "ground_truth"))
        if extra := [part for part in ground_truth if part not in files]:
            yield f"{self.source}.ground_truth: has labels of {', '.join(extra)}, but files has {', '.join(files)}"

    @property
    def chosen(self) -> HubSource | UrlSource | LocalSource | GeneratedSource:
        """The section that provides the raw files."""
        return getattr(self, self.source)

    @property
    def composed(self) -> bool:
        """Whether its documents are in no published corpus: they are generated, or made of parts of texts."""
        return self.source == "generated"

    @property
    def remote_files(self) -> list[RemoteFile]:
        """The files behind URLs that are fetched for it."""
        return self.chosen.all_files if isinstance(self.chosen, UrlSource) else []
