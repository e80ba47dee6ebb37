"""Run Snakemake's linter on the workflow; CONTRIBUTING.md lists the findings that are ignored, and why.

python scripts/tools/lint_workflow.py --configfile config/demo.yaml

Exits with 1 if there is another finding, or if an ignored one has disappeared.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from lib.core import program
from lib.core.errors import ProjectError

ROOT = Path(__file__).resolve().parents[2]
SECTION = "Allowed findings of Snakemake's linter"


def main(argv: program.Argv = None) -> int:
    """Run the program."""
    arguments = program.study_parser(__doc__).parse_args(argv)
    command = [sys.executable, "-m", "snakemake", "--lint", "--configfile", *arguments.configfile]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "Lints for" not in process.stderr and process.returncode:
        raise ProjectError(f"snakemake --lint failed: {process.stderr[-2000:]}")
    titles = re.findall(r"^    \* (.*):$", process.stderr, re.MULTILINE)
    found = Counter(re.sub(r" in line \d+\.?$", "", title) for title in titles)
    pages = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = pages.partition(f"## {SECTION}\n")[2].partition("\n## ")[0]
    refused = set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))
    for title in sorted(found.keys() - refused):
        print(f"{title}: {found[title]} times. Fix it, or add it to the ignored ones in CONTRIBUTING.md.")
    for title in sorted(refused - found.keys()):
        print(f"{title}: no longer found. Remove it from CONTRIBUTING.md.")
    return int(found.keys() != refused)


if __name__ == "__main__":
    program.start(main, trouble=2)
