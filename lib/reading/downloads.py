"""Raw files from elsewhere: the Hugging Face hub and plain URLs. Each call fetches one file, whole or not at all.

The content of the files is not checked here.
"""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import requests
from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from tenacity import Retrying, before_sleep_log, retry_if_exception, stop_after_attempt, wait_exponential

from lib.core.errors import DownloadError
from lib.core.files import atomic_path, file_digest
from lib.core.inputs import is_safe_address

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 16
_COMMIT = "[0-9a-f]{40}"
_TIMEOUT_S = (10, 60)
"""Seconds to connect, and between two pieces of an answer."""

_PASSING_FAULTS = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)


class NoSuchFileError(DownloadError):
    """A repository has no file of that name; without a network, the cache has none."""


def download_hub(
    repository: str,
    path: str,
    target: str | Path,
    *,
    revision: str = "main",
    repo_type: str = "dataset",
    attempts: int = 4,
    pause_s: float = 2.0,
) -> str:
    """Fetch one file of a hub repository to `target`, and return the commit that it is of.

    The work is that of `huggingface_hub`, so its cache, tokens (`HF_TOKEN`), mirrors (`HF_ENDPOINT`) and offline mode
    apply. The cached file is linked to the target, or copied where the cache is on another file system. A revision that
    is not a commit may name other content later; the log then warns of it, with the commit to pin.

    Args:
        repository: `owner/name`.
        path: the file's path inside the repository.
        target: file to appear.
        revision: commit, tag or branch.
        repo_type: `dataset` or `model`.
        attempts: tries while the hub cannot be reached or answers with a fault of its own.
        pause_s: seconds before the second try, doubled before each later one.

    Raises:
        NoSuchFileError: the file does not exist.
        DownloadError: repository or revision do not exist or need a token; the hub cannot be reached; the content is
            not the announced one.
    """
    place = f"{repository}, revision {revision}, file {path} ({constants.ENDPOINT})"
    try:
        cached = _retrying(_hub_fault_may_pass, attempts, pause_s)(
            hf_hub_download, repository, path, repo_type=repo_type, revision=revision
        )
    except Exception as error:  # the HTTP client of the library has its own errors
        page = f"{constants.ENDPOINT}/{'datasets/' if repo_type == 'dataset' else ''}{repository}"
        raise _explained(error, place, page) from error
    blob = Path(cached).resolve()
    # The cache names a large file by its sha256, which the library does not compare after a plain transfer.
    if re.fullmatch("[0-9a-f]{64}", blob.name) and (found := file_digest(blob)) != blob.name:
        blob.unlink()
        raise DownloadError(
            f"{place}: the content's sha256 is {found}, but the hub announced {blob.name}. The damaged file was "
            "deleted from the cache; run again."
        )
    with atomic_path(target) as partial:
        try:
            os.link(blob, partial)
        except OSError:
            shutil.copyfile(blob, partial)
    commit = Path(cached).as_posix().partition("/snapshots/")[2].partition("/")[0]
    if not re.fullmatch(_COMMIT, revision):
        logger.warning(
            "%s: the revision is not a commit, so the same configuration may fetch other content later. Fetched commit "
            "%s. To pin it, set 'revision: %s' next to 'repository: %s' in the configuration.",
            place,
            commit,
            commit,
            repository,
        )
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
        transfer = _Transfer(url, partial, size)
        try:
            _retrying(_url_fault_may_pass, attempts, pause_s)(transfer.attempt)
        except requests.HTTPError as error:
            answer = error.response
            answered = "with an error" if answer is None else f"{answer.status_code} {answer.reason}"
            raise DownloadError(
                f"{url}: the server answered {answered}; expected the file. Check the URL in the configuration."
            ) from error
        except _PASSING_FAULTS as error:
            what = f"the transfer broke off after {transfer.received:,} bytes" if transfer.received else "not reachable"
            raise DownloadError(
                f"{url}: {what}, in {attempts} attempts ({_first_line(error)}). Check the connection and run again; or "
                "download the file by other means and name it as a local source."
            ) from error
        except requests.RequestException as error:
            raise DownloadError(f"{url}: cannot be fetched ({_first_line(error)}). Check the URL.") from error
        transfer.check_size(transfer.received)
        found = transfer.digest.hexdigest()
        if sha256 is not None and found != sha256:
            raise DownloadError(
                f"{url}: the sha256 of the file is {found}, expected {sha256}. It was deleted. Run again, or, if the "
                "publisher replaced the file, correct 'sha256' and 'size' in the configuration."
            )
    if sha256 is None:
        logger.warning(
            "%s: no sha256 is given, so the same configuration may fetch other content later. Fetched %s bytes with "
            "sha256 %s. To pin them, set 'size: %s' and 'sha256: %s' next to this URL in the configuration.",
            url,
            transfer.received,
            found,
            transfer.received,
            found,
        )


class _Transfer:
    """One download, over all its attempts."""

    def __init__(self, url: str, path: Path, size: int | None):
        self.url = url
        self.path = path
        self.size = size
        self._restart()

    def _restart(self) -> None:
        self.received = 0
        self.digest = hashlib.sha256()
        self.version: str | None = None

    def check_size(self, found: int) -> None:
        if self.size is not None and found != self.size:
            raise DownloadError(
                f"{self.url}: the file has {found:,} bytes, expected {self.size:,}. It was not kept. Check the URL, "
                "or, if the publisher replaced the file, correct 'size' and 'sha256' in the configuration."
            )

    def attempt(self) -> None:
        # Any compression on the way would make ranges and sizes mean something else.
        headers = {"Accept-Encoding": "identity"}
        if self.received:
            headers["Range"] = f"bytes={self.received}-"
            if self.version is not None:
                headers["If-Range"] = self.version
        with requests.get(self.url, headers=headers, stream=True, timeout=_TIMEOUT_S) as response:
            if not all(is_safe_address(each.url) for each in (*response.history, response)):
                raise DownloadError(
                    f"{self.url}: leads to {response.url}, where the file could be changed on its way. Expected https "
                    "all along; fetch it by hand and name it as a local source, or give another URL."
                )
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                self._restart()
                raise requests.ConnectionError("the server's file is shorter than what came before")
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                self._restart()
            elif not response.headers.get("Content-Range", "").startswith(f"bytes {self.received}-"):
                self._restart()
                raise requests.ConnectionError("the server resumed at another place than asked")
            etag = response.headers.get("ETag", "")
            self.version = etag if etag.startswith('"') else None  # weak ones (W/"...") cannot vouch for bytes
            length = response.headers.get("Content-Length")
            total = None if length is None else self.received + int(length)
            if total is not None:
                self.check_size(total)
            with self.path.open("ab" if self.received else "wb") as file:
                for chunk in response.iter_content(_CHUNK_BYTES):
                    file.write(chunk)
                    self.digest.update(chunk)
                    self.received += len(chunk)
        if total is not None and self.received != total:
            raise requests.ConnectionError(f"{self.received:,} of {total:,} bytes came")


def _retrying(may_pass: Callable[[BaseException], bool], attempts: int, pause_s: float) -> Retrying:
    return Retrying(
        retry=retry_if_exception(may_pass),
        stop=stop_after_attempt(attempts),
        wait=wait_exponential(multiplier=pause_s, max=60),
        before_sleep=before_sleep_log(logger, logging.WARNING),
        reraise=True,
    )


def _url_fault_may_pass(error: BaseException) -> bool:
    if isinstance(error, requests.HTTPError):
        return error.response is not None and _status_may_pass(error.response.status_code)
    return isinstance(error, _PASSING_FAULTS)


def _hub_fault_may_pass(error: BaseException) -> bool:
    if (answer := _answer(error)) is not None:
        return _status_may_pass(answer.response.status_code)
    return isinstance(error, Exception) and not isinstance(error, HFValidationError) and not constants.is_offline_mode()


def _answer(error: BaseException) -> HfHubHTTPError | None:
    """Return the answer of the hub, which the library may hide behind a file that is not in the cache."""
    return next((each for each in (error, error.__cause__) if isinstance(each, HfHubHTTPError)), None)


def _explained(error: Exception, place: str, page: str) -> DownloadError:
    """Return the problem with downloading the file at `place` of the repository at `page`."""
    answer = _answer(error)
    if answer is not None and _asks_for_a_token(answer):
        return DownloadError(
            f"{place}: the hub gives this file only to those who are allowed to read it, and say so by a token. Accept "
            f"the licence on {page} with your account, make a token that may read it on {constants.ENDPOINT}/settings/"
            f"tokens, and run again with HF_TOKEN set to it, or after `hf auth login`. ({_first_line(answer)})"
        )
    things = {
        RepositoryNotFoundError: "repository",
        RevisionNotFoundError: "revision",
        RemoteEntryNotFoundError: "file",
    }
    for kind, thing in things.items():
        if isinstance(error, kind):
            return (NoSuchFileError if thing == "file" else DownloadError)(
                f"{place}: the hub has no such {thing}, or not for you. Check the spelling in the configuration; for a "
                f"private or gated repository set HF_TOKEN. ({_first_line(error)})"
            )
    uncached = isinstance(error, EntryNotFoundError) and constants.is_offline_mode()
    return (NoSuchFileError if uncached else DownloadError)(
        f"{place}: cannot be fetched ({_first_line(error)}). Check the connection and HF_ENDPOINT, and run again; or "
        "download the file by other means and name it as a local source."
    )


def _asks_for_a_token(answer: HfHubHTTPError) -> bool:
    if isinstance(answer, RepositoryNotFoundError):  # answered with 401, too, whether there is one or not
        return isinstance(answer, GatedRepoError)
    return answer.response.status_code in (requests.codes.unauthorized, requests.codes.forbidden)


def _status_may_pass(status: int) -> bool:
    return status in (requests.codes.request_timeout, requests.codes.too_many_requests) or status >= 500


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
