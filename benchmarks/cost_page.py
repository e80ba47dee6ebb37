"""Replace the measured tables of a page by new ones.

python benchmarks/cost_page.py --page benchmarks/attention_cost.md --summaries attention_cost.md training_cost.md \
    --without 'With padding'
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lib.core import program
from lib.core.errors import DataError
from lib.core.files import write_text


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


def without(summary: str, titles: Sequence[str]) -> str:
    """Return `summary` without its sections `### TITLE` of these titles, which are too long for a page."""
    return "".join(part for part in re.split(r"(?m)^(?=### )", summary) if part.partition("\n")[0][4:] not in titles)


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("--page", required=True, metavar="FILE", help="Markdown file to refresh")
    parser.add_argument(
        "--summaries", required=True, nargs="+", metavar="FILE", help="Markdown files, named as their places"
    )
    parser.add_argument("--without", nargs="+", default=[], metavar="TITLE", help="sections that the page leaves out")
    arguments = parser.parse_args(argv)
    texts = {Path(path).stem: Path(path).read_text(encoding="utf-8") for path in arguments.summaries}
    summaries = {name: without(text, arguments.without) for name, text in texts.items()}
    write_text(arguments.page, refresh(Path(arguments.page).read_text(encoding="utf-8"), summaries))


if __name__ == "__main__":
    program.start(main)
