"""Replace the measured tables of a page by new ones.

python scripts/tools/cost_page.py --page docs/attention_cost.md --summaries attention_cost.md training_cost.md
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from lib.core import program
from lib.core.files import write_text
from lib.measure.summaries import refresh


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("--page", required=True, metavar="FILE", help="Markdown file to refresh")
    parser.add_argument(
        "--summaries", required=True, nargs="+", metavar="FILE", help="Markdown files, named as their places"
    )
    arguments = parser.parse_args(argv)
    summaries = {Path(path).stem: Path(path).read_text(encoding="utf-8") for path in arguments.summaries}
    write_text(arguments.page, refresh(Path(arguments.page).read_text(encoding="utf-8"), summaries))


if __name__ == "__main__":
    sys.exit(program.run(main))
