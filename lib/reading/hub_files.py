"""Published models on the Hugging Face hub: which files of a repository make up a model, or a tokeniser."""

import contextlib
import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lib.core.errors import DownloadError
from lib.core.files import atomic_path
from lib.core.model_folder import FORMS, shards
from lib.reading.downloads import NoSuchFileError, download_hub
from lib.tokens.tokenizer_files import LAYOUTS, NEXT_TO_IT, layouts

CONFIG = "config.json"


def download_model(repository: str, folder: str | Path, *, revision: str) -> None:
    """Fetch configuration and weights of a model to `folder`, whole or not at all.

    Files that came before a break stay in the cache of `huggingface_hub`, so another call fetches only the others.

    Args:
        repository: `owner/name`.
        folder: to appear.
        revision: commit, tag or branch; all files are of the same commit.

    Raises:
        DownloadError: as `download_hub` raises it; or the repository holds no weights, or a damaged index of them.
    """
    fetch: Callable[..., str] = functools.partial(download_hub, repository, repo_type="model")
    with atomic_path(folder) as partial:
        commit = fetch(CONFIG, partial / CONFIG, revision=revision)
        for name in [form for weights in FORMS for form in (weights, f"{weights}.index.json")]:
            with contextlib.suppress(NoSuchFileError):
                fetch(name, partial / name, revision=commit)
                break
        else:
            raise DownloadError(
                f"{repository}, revision {revision}: holds neither {' nor '.join(FORMS)}, whole or in shards."
            )
        for shard in shards(partial / name) if name.endswith(".index.json") else ():
            try:
                fetch(shard, partial / shard, revision=commit)
            except NoSuchFileError as error:
                raise DownloadError(f"{error} {name} names this file. Name another revision.") from error


def read_config(repository: str, *, revision: str) -> dict[str, Any]:
    """Return the `config.json` of a model, which stays in the cache of `huggingface_hub`; a commit is asked for once.

    Raises:
        DownloadError: as `download_hub` raises it.
        ValueError: it is no JSON.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / CONFIG
        download_hub(repository, CONFIG, target, revision=revision, repo_type="model")
        return json.loads(target.read_text(encoding="utf-8"))


def download_tokenizer(repository: str, folder: str | Path, *, revision: str) -> None:
    """Fetch a tokeniser of one of `LAYOUTS` to `folder`, whole or not at all; arguments as of `download_model`.

    Raises:
        DownloadError: as `download_hub` raises it; or the tokeniser needs sentencepiece.
    """
    fetch: Callable[..., str] = functools.partial(download_hub, repository, repo_type="model")
    with atomic_path(folder) as partial:
        commit = revision
        for layout in LAYOUTS:
            with contextlib.suppress(NoSuchFileError):
                for name in layout:
                    commit = fetch(name, partial / name, revision=commit)
                break
        else:
            raise DownloadError(
                f"{repository}, revision {revision}: holds no {layouts()}. If it needs sentencepiece, convert it where "
                f"that is installed: AutoTokenizer.from_pretrained('{repository}').save_pretrained('FOLDER')."
            )
        for name in NEXT_TO_IT:
            with contextlib.suppress(NoSuchFileError):
                fetch(name, partial / name, revision=commit)
