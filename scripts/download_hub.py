"""Download one file of a Hugging Face repository to a path of the project."""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.reading.downloads import download_hub


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the options and download the file."""
    parser = program.parser(__doc__)
    parser.add_argument("--repository", required=True, help="owner/name")
    parser.add_argument("--revision", default="main", help="commit, tag or branch")
    parser.add_argument("--file", required=True, help="path inside the repository")
    parser.add_argument("--type", default="dataset", choices=["dataset", "model"], help="kind of repository")
    parser.add_argument("--out", required=True, help="file to appear")
    options = parser.parse_args(argv)
    download_hub(options.repository, options.file, options.out, revision=options.revision, repo_type=options.type)


if __name__ == "__main__":
    sys.exit(program.run(main))
