"""The page of measurements: text by hand, and summaries that the programs write between marks."""

import re
from collections.abc import Mapping

from lib.core.errors import DataError


def refresh(page: str, summaries: Mapping[str, str]) -> str:
    """Return `page` with `summaries` in their places.

    Args:
        page: Markdown in which the place of each summary lies between the lines `<!-- NAME: written by make
            bench-page -->` and `<!-- end of NAME -->`.
        summaries: Markdown by name.

    Raises:
        DataError: the page has no place of that name.
    """
    for name, summary in summaries.items():
        begin, end = f"<!-- {name}: written by make bench-page -->", f"<!-- end of {name} -->"
        place = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
        if not place.search(page):
            raise DataError(f"the page has no place for {name}. Expected the lines {begin} and {end}; put them in.")
        before, after = place.split(page, maxsplit=1)
        page = f"{before}{begin}\n\n{summary.strip()}\n\n{end}{after}"
    return page
