"""Download one file to a path of the project: of a Hugging Face repository, or from a URL.

A broken transfer is resumed. Size and sha256 of a URL's file are checked, if they are given.
"""

from lib.core import program
from lib.reading.downloads import download_hub, download_url


def main(argv: program.Argv = None) -> None:
    """Parse the options and download the file."""
    parser = program.parser(__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--repository", help="owner/name")
    source.add_argument("--url")
    parser.add_argument("--revision", default="main", help="of a repository: commit, tag or branch")
    parser.add_argument("--file", help="of a repository: path inside it")
    parser.add_argument("--type", default="dataset", choices=["dataset", "model"], help="kind of repository")
    parser.add_argument("--size", type=int, help="of a URL: expected bytes")
    parser.add_argument("--sha256", help="of a URL: expected checksum")
    parser.add_argument("--out", required=True, help="file to appear")
    options = parser.parse_args(argv)
    if options.url:
        download_url(options.url, options.out, size=options.size, sha256=options.sha256)
    else:
        download_hub(options.repository, options.file, options.out, revision=options.revision, repo_type=options.type)


if __name__ == "__main__":
    program.start(main)
