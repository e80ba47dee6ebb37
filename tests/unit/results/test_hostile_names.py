"""Names of classes are data in every output: one list of hostile names through all of them."""

import csv
import html.parser
import io

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from lib.core.files import csv_cell
from lib.results.escapes import one_line
from lib.results.table import Column, Table

NAMES = [
    "$", "$$", "$x$", r"\$", "a|b", "*bold*", "_x_", "a_b^2", "accuracy", "macro average", "none", "class accuracy",
    "100%", "<b>x</b>", "&amp;", r"\textbf{x}", r"\frac{", "two\nlines", "[link](x)", "![image](x)", "`code`", "-",
    "[x]", "*", "=1+1", "🙂", "é", "null", "#1", "~~x~~", '"q"', "it's", "yes", "loss", "{0}", "%s", "a,b;c", " x ",
]  # fmt: skip
ROWS = Table(pd.DataFrame({"label": NAMES, "score": 1.0}), {"score": Column("score", 0)})
HEADINGS = Table(pd.DataFrame([[1.0] * len(NAMES)], columns=NAMES), {name: Column(name, 0) for name in NAMES})


def shown(names):
    return [" ".join(one_line(name).split()) for name in names]


class Cells(html.parser.HTMLParser):
    """The cells of a page, row by row."""

    def __init__(self):
        super().__init__()
        self.rows, self.inside = [], False

    def handle_starttag(self, tag, attrs):
        self.inside = tag in ("td", "th")
        if tag == "tr":
            self.rows.append([])
        elif self.inside:
            self.rows[-1].append("")
        elif self.rows:
            assert tag in ("tbody", "thead", "table", "p"), "a name became a part of the page"

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")


def cells(page):
    parser = Cells()
    parser.feed(page)
    return [row for row in parser.rows if row]


@pytest.mark.parametrize("table", [ROWS, HEADINGS])
def test_hostile_names_in_markdown_and_pages(table):
    rendered = MarkdownIt("gfm-like", {"linkify": False}).render(table.to_markdown())
    for rows in (cells(rendered), cells(table.to_html().split("</style>")[-1])):
        found = rows[0] if table is HEADINGS else [row[0] for row in rows[1:]]
        assert [" ".join(cell.split()) for cell in found] == shown(NAMES)
        assert len({len(row) for row in rows}) == 1


@pytest.mark.parametrize("table", [ROWS, HEADINGS])
def test_hostile_names_in_latex(table):
    body = table.to_latex().split("\\toprule\n")[1].split("\n\\bottomrule")[0]
    rows = [row for row in body.split("\n") if row != r"\midrule"]
    assert len(rows) == 1 + len(table.frame)
    assert all(row.endswith(r"\\") and not row.startswith(("[", "*")) for row in rows)
    counts = {row.replace(r"\&", "").count("&") for row in rows}
    assert len(counts) == 1
    bare = body.replace(r"\\", "").replace(r"\textbackslash{}", "").replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") == bare.count(r"\$")


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), min_size=1, max_size=4, unique=True))
@settings(max_examples=40, deadline=None)
def test_any_name_in_markdown_and_pages(names):
    table = Table(pd.DataFrame({"label": names, "score": [1.0] * len(names)}), {"score": Column("score", 0)})
    rendered = MarkdownIt("gfm-like", {"linkify": False}).render(table.to_markdown())
    for rows in (cells(rendered), cells(table.to_html().split("</style>")[-1])):
        assert [" ".join(row[0].split()) for row in rows[1:]] == shown(names)
        assert {len(row) for row in rows} == {2}
    assert [row[0] for row in csv.reader(io.StringIO(table.to_csv()))][1:] == list(map(csv_cell, names))


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        *((text, f"'{text}") for text in ("=1+2", "-2+3", "@SUM(A1)", "\t=1")),
        *((text, text) for text in ("a=b", "-1", "-0.17 (-2.52 to 2.18)")),
        ("a\rb", "a b"),
    ],
)
def test_formulas_in_csv(text, cell):
    table = Table(pd.DataFrame({text: [text], "score": [-1.0]}), {"score": Column("score", 0)})
    assert list(csv.reader(io.StringIO(table.to_csv()))) == [[cell, "score"], [cell, "-1"]]
