"""What every command-line program of `scripts/` does around its one call into `lib`."""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence

from lib.core.errors import ProjectError


def parser(documentation: str | None) -> argparse.ArgumentParser:
    """Return an argument parser that shows the script's own documentation."""
    return argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)


def run(main: Callable[[Sequence[str] | None], None], argv: Sequence[str] | None = None) -> int:
    """Run `main(argv)` with logging to standard error; a `ProjectError` ends it with a message and status 1."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Request-level chatter of these libraries says nothing about the project's own progress.
    for library in ("httpx", "httpcore", "urllib3", "filelock", "datasets"):
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        main(argv)
    except ProjectError as error:
        logging.getLogger("lib").error("%s", error)
        return 1
    return 0
