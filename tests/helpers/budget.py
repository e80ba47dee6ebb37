"""Compare the code lines of each house with the budget in CONTRIBUTING.md: python tests/helpers/budget.py

Comments, docstrings and blank lines do not count. Exits with 1 if a house has more lines than its budget.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `([\w ,/]+)` \| ([\d,]+) \|", re.MULTILINE)


def code_lines(text):
    """Return the number of lines with code."""
    strings = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    documented = {
        line
        for node in strings
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") and n not in documented for n, line in lines)


def house(path):
    """Return the house of a file."""
    first, *rest = path.parts[:-1] or ("tests" if path.name == "conftest.py" else "",)
    return "tests of studies and benchmarks" if first in ("studies", "benchmarks") and "tests" in rest else first


def main():
    """Print lines and budget of each house, and return whether one has too many."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = Counter()
    for name in filter(None, listed.stdout.split("\n")):
        if (ROOT / name).is_file():
            found[house(Path(name))] += code_lines((ROOT / name).read_text(encoding="utf-8"))
    broken = False
    for houses, most in ROW.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        lines, budget = sum(found[each] for each in houses.split(", ")), int(most.replace(",", ""))
        print(f"{lines:8,} of {budget:6,} code lines: {houses}")
        broken |= lines > budget
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
