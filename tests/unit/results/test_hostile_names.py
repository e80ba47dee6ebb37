"""Names of classes are data in every output: one list of hostile names through all of them."""

import csv
import html.parser
import io
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from run_records import scope_of, write_predictions, write_run
from text_descriptions import write_texts

from lib.core.files import csv_cell
from lib.results.escapes import one_line
from lib.results.kinds.bars import BarsFigure
from lib.results.kinds.classes import ClassesTable
from lib.results.kinds.confusion import ConfusionFigure
from lib.results.kinds.stage import StageTable
from lib.results.quantities import quantity
from lib.results.style import save_figure
from lib.results.table import Column, Table
from studies.hate_speech.results.kinds.texts import TextsTable

NAMES = [
    "$", "$$", "$x$", r"\$", "a|b", "*bold*", "_x_", "a_b^2", "accuracy", "macro average", "none", "class accuracy",
    "100%", "<b>x</b>", "&amp;", r"\textbf{x}", r"\frac{", "two\nlines", "[link](x)", "![image](x)", "`code`", "-",
    "[x]", "*", "=1+1", "🙂", "é", "null", "#1", "~~x~~", '"q"', "it's", "yes", "loss", "{0}", "%s", "a,b;c", " x ",
]  # fmt: skip
SUMMARY = ["accuracy", "macro average"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that predicts classes of these names, with their scores in its record."""
    metrics = {f"test_f1_class_{name}": number / 100 for number, name in enumerate(NAMES)}
    folder = write_run(tmp_path_factory.mktemp("runs"), "finetune", "sdpa", "imdb", **metrics)
    numbers = [*range(len(NAMES))]
    return write_predictions(folder, NAMES, [*numbers, 0], [*numbers, -1])


@pytest.fixture(scope="module")
def printed():
    """What rows are called that the project has as well."""
    return [
        {"accuracy": "class class accuracy", "macro average": "class macro average"}.get(name, name) for name in NAMES
    ]


@pytest.fixture(scope="module")
def tables(folder, tmp_path_factory):
    """Every table that names classes, and the column or the row of each class."""
    scope = scope_of([folder], {"finetune": ["imdb"]}, ["sdpa"])
    columns = [f"test_f1_class_{name}" for name in NAMES]
    described = write_texts(tmp_path_factory.mktemp("texts") / "texts.parquet", *({"label": name} for name in NAMES))
    of_texts = scope_of([], {}, [], texts=["imdb"], files=[described])
    return {
        "classes": ClassesTable(kind="classes", stage="finetune", models=["sdpa"]).make(scope),
        "stage": StageTable(kind="stage", stage="finetune", columns=columns).make(scope),
        "texts": TextsTable(kind="texts").make(of_texts),
    }


def expected(kind, printed):
    """Return what the names are in a table, and whether they are its first column or its heading."""
    if kind == "classes":
        return [*printed, *SUMMARY], False
    if kind == "stage":
        return ["model", *(f"imdb {quantity(f'test_f1_class_{name}').label}" for name in NAMES)], True
    return [*(f"{name} [%]" for name in sorted(NAMES))], True


def found(rows, kind):
    if kind == "texts":
        return rows[0][3 : 3 + len(NAMES)]
    return rows[0] if kind == "stage" else [row[0] for row in rows[1:]]


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


@pytest.mark.parametrize("kind", ["classes", "stage", "texts"])
def test_hostile_names_in_markdown_and_pages(tables, printed, kind):
    names, _ = expected(kind, printed)
    rendered = MarkdownIt("gfm-like", {"linkify": False}).render(tables[kind].to_markdown())
    for rows in (cells(rendered), cells(tables[kind].to_html().split("</style>")[-1])):
        assert [" ".join(cell.split()) for cell in found(rows, kind)] == shown(names)
        assert len({len(row) for row in rows}) == 1


@pytest.mark.parametrize("kind", ["classes", "stage", "texts"])
def test_hostile_names_in_latex(tables, kind):
    body = tables[kind].to_latex().split("\\toprule\n")[1].split("\n\\bottomrule")[0]
    rows = [row for row in body.split("\n") if row != r"\midrule"]
    assert len(rows) == 1 + len(tables[kind].frame)
    assert all(row.endswith(r"\\") and not row.startswith(("[", "*")) for row in rows)
    counts = {row.replace(r"\&", "").count("&") for row in rows}
    assert len(counts) == 1
    bare = body.replace(r"\\", "").replace(r"\textbackslash{}", "").replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") == bare.count(r"\$")


def test_hostile_names_in_figures(folder, tmp_path):
    scope = scope_of([folder], {"finetune": ["imdb"]}, ["sdpa"])
    columns = [f"test_f1_class_{name}" for name in NAMES[:5]]
    figures = {
        "matrix": ConfusionFigure(kind="confusion", stage="finetune").draw(scope),
        "bars": BarsFigure(kind="bars", stage="finetune", columns=columns).draw(scope),
    }
    for name, figure in figures.items():
        save_figure(figure, [tmp_path / f"{name}.svg"])
    written = {name: svg_texts(tmp_path / f"{name}.svg") for name in figures}
    predicted = [one_line(name) for name in NAMES if name != "none"]
    assert [written["matrix"].count(name) for name in predicted] == [2] * len(predicted)
    assert (written["matrix"].count("none"), written["matrix"].count("class none")) == (1, 2)
    assert set(columns) <= {text.replace(" ", "_") for text in written["bars"]}


def svg_texts(path):
    return [text.text for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


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
