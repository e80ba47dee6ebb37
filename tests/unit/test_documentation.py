"""Pages name what exists: the version, and every kind that the code finds. MkDocs checks links and anchors."""

import re

import pytest
import yaml

from lib.analysis.settings import ANALYSES
from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.preparing.generators import generators
from lib.results.settings import FIGURES, TABLES
from lib.tasks.settings import TASKS


def section(page, title):
    """Return the part of a page below a heading of the second level."""
    return page.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_version_and_date_of_the_citation(repository):
    citation = yaml.safe_load((repository / "CITATION.cff").read_text(encoding="utf-8"))
    version, date = citation["version"], citation["date-released"].isoformat()
    assert f'\nversion = "{version}"\n' in (repository / "pyproject.toml").read_text(encoding="utf-8")
    released = re.findall(r"^## \[([\d.]+)\] - (\S+)$", (repository / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert released[0] == (version, date)
    for name in ("README.md", "docs/results.md"):
        page = (repository / name).read_text(encoding="utf-8")
        assert f"version = {{{version}}}" in page
        assert f"year    = {{{date[:4]}}}" in page


KINDS = {
    "mechanism": ("mechanisms.md", "The kinds", MECHANISMS.kinds),
    "backbone": ("layout.md", "Parts that can be exchanged", BACKBONES.kinds),
    "task": ("layout.md", "Parts that can be exchanged", TASKS.kinds),
    "table": ("tables_and_figures.md", "Tables", TABLES.kinds),
    "figure": ("tables_and_figures.md", "Figures", FIGURES.kinds),
    "analysis": ("tables_and_figures.md", "Analyses", ANALYSES.kinds),
    "generator": ("add_dataset.md", "Generate a corpus", generators),
}


@pytest.mark.parametrize("axis", KINDS)
def test_pages_name_every_kind_and_no_other(repository, all_studies, axis):
    """A row of a table names its kinds in the first cell, or, where a row stands for an axis, in the last one."""
    name, title, kinds = KINDS[axis]
    text = section(repository / "docs" / name, title)
    rows = [row.strip("| ").split(" | ") for row in text.splitlines() if row.startswith("| ")]
    cells = [row[-1] for row in rows if row[0] == axis and "`" in row[-1]] or [
        row[0] for row in rows if row[0].startswith("`")
    ]
    named = re.findall("`([^`]+)`", " ".join(cells))
    assert sorted(named) == sorted(kinds()), f"docs/{name}, below '{title}', lists them"
