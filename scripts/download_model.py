"""Download configuration and weights of a model from the Hugging Face hub, or its tokeniser.

A model whose states transformers would not compute is refused here, before any other job waits for it.
"""

import json
from pathlib import Path

from lib.backbones.settings import BACKBONES
from lib.core import program
from lib.core.errors import DownloadError
from lib.reading.hub_files import CONFIG, download_model, download_tokenizer


def main(argv: program.Argv = None) -> None:
    """Parse the options and download the files."""
    parser = program.parser(__doc__)
    parser.add_argument("--repository", required=True, help="owner/name")
    parser.add_argument("--revision", default="main", help="commit, tag or branch")
    parser.add_argument("--tokenizer", action="store_true", help="fetch the tokeniser in place of the model")
    parser.add_argument("--out", required=True, help="folder to appear")
    options = parser.parse_args(argv)
    download = download_tokenizer if options.tokenizer else download_model
    download(options.repository, options.out, revision=options.revision)
    if options.tokenizer:
        return
    where, rules = f"{options.repository}, revision {options.revision}", BACKBONES.load("pretrained", "fields")
    try:
        fields = json.loads((Path(options.out) / CONFIG).read_text(encoding="utf-8"))
    except ValueError as error:
        raise DownloadError(f"{where}: its {CONFIG} cannot be read ({error}). Name another revision.") from error
    known = isinstance(fields, dict) and fields.get("model_type") in list(rules.FAMILIES)
    if known and (reason := rules.config_error(fields)):
        raise DownloadError(f"{where}: its {CONFIG} {reason}.")


if __name__ == "__main__":
    program.start(main)
