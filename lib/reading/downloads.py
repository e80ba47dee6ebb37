"""Raw files from elsewhere: the Hugging Face hub and plain URLs. Each call fetches one file, whole or not at all.

The content of the files is not checked here.
"""

import logging
import os
import re
import shutil
from pathlib import Path

import requests
from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, RemoteEntryNotFoundError
from tenacity import Retrying, before_sleep_log, retry_if_exception, stop_after_attempt, wait_exponential

from lib.core.errors import DownloadError
from lib.core.files import atomic_path, file_digest
from lib.core.inputs import is_safe_address

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 16
_TIMEOUT_S = (10, 60)
"""Seconds to connect, and between two pieces of an answer."""


class NoSuchFileError(DownloadError):
    """A repository has no file of that name; without a network, the cache has none."""


def download_hub(repository: str, path: str, target: str | Path, *, revision: str, repo_type: str) -> str:
    """Fetch one file of a hub repository to `target`, and return the commit that it is of.

    The work is that of `huggingface_hub`, so its cache, tokens (`HF_TOKEN`), mirrors (`HF_ENDPOINT`), offline mode and
    repeated tries apply. The cached file is linked to the target, or copied where the cache is on another file system.
    A revision that is not a commit may name other content later; the log then warns of it, with the commit to pin.

    Args:
        repository: `owner/name`.
        path: the file's path inside the repository.
        target: file to appear.
        revision: commit, tag or branch.
        repo_type: `dataset` or `model`.

    Raises:
        NoSuchFileError: the file does not exist.
        DownloadError: repository or revision do not exist or need a token; the hub cannot be reached; the content is
            not the announced one.
    """
    place = f"{repository}, revision {revision}, file {path} ({constants.ENDPOINT})"
    try:
        cached = hf_hub_download(repository, path, repo_type=repo_type, revision=revision)
    except Exception as error:  # the HTTP client of the library has its own errors
        uncached = isinstance(error, EntryNotFoundError) and constants.is_offline_mode()
        missing = uncached or isinstance(error, RemoteEntryNotFoundError)
        said = " ".join(str(each) for each in (error, error.__cause__) if isinstance(each, Exception)).split()
        raise (NoSuchFileError if missing else DownloadError)(
            f"{place}: cannot be fetched ({' '.join(said)}). Check the spelling, the connection and HF_ENDPOINT; a "
            "private or gated repository needs a token in HF_TOKEN."
        ) from error
    blob = Path(cached).resolve()
    # The cache names a large file by its sha256, which the library does not compare after a plain transfer.
    if re.fullmatch("[0-9a-f]{64}", blob.name) and (found := file_digest(blob)) != blob.name:
        blob.unlink()
        raise DownloadError(
            f"{place}: the content's sha256 is {found}, but the hub announced {blob.name}. It was deleted; run again."
        )
    with atomic_path(target) as partial:
        try:
            os.link(blob, partial)
        except OSError:
            shutil.copyfile(blob, partial)
    commit = Path(cached).as_posix().partition("/snapshots/")[2].partition("/")[0]
    if not re.fullmatch("[0-9a-f]{40}", revision):
        pin = f"set 'revision: {commit}' next to 'repository: {repository}'"
        logger.warning("%s: the revision is not a commit. To pin it, %s", place, pin)
    return commit


def require_hub(repository: str, path: str, *, revision: str) -> None:
    """Check once, without a retry, that a model's file can be had: the cache has it, or the hub answers.

    For programs that somebody waits for; `download_hub` waits for a hub that does not answer, as long workflows should.

    Args:
        repository: `owner/name`.
        path: the file's path inside the repository.
        revision: commit, tag or branch.

    Raises:
        DownloadError: the hub does not answer, and the cache has no such file.
    """
    if constants.is_offline_mode() or isinstance(try_to_load_from_cache(repository, path, revision=revision), str):
        return
    try:
        requests.head(constants.ENDPOINT, timeout=_TIMEOUT_S[0])
    except requests.RequestException as error:
        raise DownloadError(
            f"{repository}, revision {revision}, file {path}: {constants.ENDPOINT} does not answer "
            f"({type(error).__name__}). Check the connection and HF_ENDPOINT, and run again."
        ) from error


def download_url(
    url: str,
    target: str | Path,
    *,
    size: int | None = None,
    sha256: str | None = None,
    attempts: int = 8,
    pause_s: float = 1.0,
) -> None:
    """Fetch the file behind `url` to `target`, and check it.

    A broken transfer is resumed where it stopped, or started again if the server cannot resume. Without a checksum, the
    file may be another one later; the log then warns of it, with the size and the checksum to pin.

    Args:
        url: https address, or http of this machine itself.
        target: file to appear.
        size: expected bytes, if known.
        sha256: expected checksum, if known.
        attempts: tries while the host cannot be reached, breaks the transfer, or answers with a fault of its own.
        pause_s: seconds before the second try, doubled before each later one.

    Raises:
        DownloadError: the server has no such file, cannot be reached, sends something of another size or sum, or
            leads to an address that is not safe.
    """
    with atomic_path(target) as partial:
        transfer = _Transfer(url, partial)
        try:
            Retrying(
                retry=retry_if_exception(_may_pass),
                stop=stop_after_attempt(attempts),
                wait=wait_exponential(multiplier=pause_s, max=60),
                before_sleep=before_sleep_log(logger, logging.WARNING),
                reraise=True,
            )(transfer.attempt)
        except requests.RequestException as error:
            answer = error.response  # its text may show an address with a signature, to which the server led
            said = (str(error).strip() or type(error).__name__).splitlines()[0]
            what = said if answer is None else f"the server answered {answer.status_code} {answer.reason}"
            raise DownloadError(
                f"{url}: cannot be fetched ({what}); {transfer.received:,} bytes came. Check it, or use a local source."
            ) from error
        found = {"size": transfer.received, "sha256": file_digest(partial)}
        for name, wanted in (("size", size), ("sha256", sha256)):
            if wanted not in (None, found[name]):
                raise DownloadError(f"{url}: the {name} of the file is {found[name]}, expected {wanted}. Correct it.")
    if sha256 is None:
        logger.warning("%s: no sha256 is given. To pin it, set 'size: %s' and 'sha256: %s'", url, *found.values())


class _Transfer:
    """One download, over all its attempts. It is resumed where the server tells a version of the file."""

    def __init__(self, url: str, path: Path):
        self.url = url
        self.path = path
        self.received = 0
        self.version: str | None = None

    def attempt(self) -> None:
        start = self.received if self.version else 0
        # Any compression on the way would make ranges and sizes mean something else.
        headers = {"Accept-Encoding": "identity"}
        if self.version and start:
            headers |= {"Range": f"bytes={start}-", "If-Range": self.version}
        with requests.get(self.url, headers=headers, stream=True, timeout=_TIMEOUT_S) as response:
            if not all(is_safe_address(each.url) for each in (*response.history, response)):
                raise DownloadError(f"{self.url}: leads to an address without https. Name the file as a local source.")
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                start = 0
            elif not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                self.version = None
                raise requests.ConnectionError("the server resumed at another place than asked")
            etag = response.headers.get("ETag", "")
            self.version = etag if etag.startswith('"') else None  # weak ones (W/"...") cannot vouch for bytes
            self.received = start
            with self.path.open("ab" if start else "wb") as file:
                for chunk in response.iter_content(_CHUNK_BYTES):
                    file.write(chunk)
                    self.received += len(chunk)


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, requests.HTTPError):
        status = 0 if error.response is None else error.response.status_code
        return status in (requests.codes.request_timeout, requests.codes.too_many_requests) or status >= 500
    return isinstance(error, requests.ConnectionError | requests.Timeout | requests.exceptions.ChunkedEncodingError)
