"""Download a file from a URL, resuming broken transfers, and check its size and sha256."""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.reading.downloads import download_url


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the options and download the file."""
    parser = program.parser(__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--size", type=int, help="expected bytes")
    parser.add_argument("--sha256", help="expected checksum")
    parser.add_argument("--out", required=True, help="file to appear")
    options = parser.parse_args(argv)
    download_url(options.url, options.out, size=options.size, sha256=options.sha256)


if __name__ == "__main__":
    sys.exit(program.run(main))
