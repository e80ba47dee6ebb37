"""Download configuration and weights of a model from the Hugging Face hub, or its tokeniser."""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.data.published import download_model, download_tokenizer


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the options and download the files."""
    parser = program.parser(__doc__)
    parser.add_argument("--repository", required=True, help="owner/name")
    parser.add_argument("--revision", default="main", help="commit, tag or branch")
    parser.add_argument("--tokenizer", action="store_true", help="fetch the tokeniser in place of the model")
    parser.add_argument("--out", required=True, help="folder to appear")
    options = parser.parse_args(argv)
    download = download_tokenizer if options.tokenizer else download_model
    download(options.repository, options.out, revision=options.revision)


if __name__ == "__main__":
    sys.exit(program.run(main))
