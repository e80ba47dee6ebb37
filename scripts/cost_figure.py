"""Draw what attention costs, and sum it up, from the table that was measured.

python scripts/cost_figure.py --costs attention_cost.csv --time FILE ... --memory FILE ... --summary FILE
"""

import sys
from collections.abc import Sequence

import pandas as pd

from lib.core import program
from lib.core.files import write_text
from lib.results.costs import attention_memory_figure, attention_time_figure, cost_summary
from lib.results.figures import save_figure


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("--costs", required=True, metavar="FILE", help="table of attention_cost.py")
    parser.add_argument("--time", required=True, nargs="+", metavar="FILE", help="figure of time: .svg, .png, .pdf")
    parser.add_argument("--memory", required=True, nargs="+", metavar="FILE", help="figure of peak memory")
    parser.add_argument("--summary", required=True, metavar="FILE", help="summary to write, as Markdown")
    arguments = parser.parse_args(argv)
    costs = pd.read_csv(arguments.costs)
    save_figure(attention_time_figure(costs), arguments.time)
    save_figure(attention_memory_figure(costs), arguments.memory)
    write_text(arguments.summary, cost_summary(costs))


if __name__ == "__main__":
    sys.exit(program.run(main))
