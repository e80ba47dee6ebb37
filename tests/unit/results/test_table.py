import pandas as pd
import pytest

from lib.core.errors import DataError
from lib.results.table import Column, Key, Table

FRAME = pd.DataFrame(
    {
        "model": ["sdpa", "lsh_h2"],
        "f1": [91.256, 90.0],
        "f1_sd": [0.126, float("nan")],
        "note_of_ours": ["50 % & more", None],
        "size": [28_512_345.0, float("nan")],
    }
)
COLUMNS = {"f1": Column("F1 [%]", 2), "size": Column("size", 0)}


@pytest.fixture
def table():
    return Table(FRAME, COLUMNS, "95 % of $x_1$.")


def test_csv_of_a_table(table):
    assert table.to_csv() == (
        "model,f1,f1_sd,note_of_ours,size\nsdpa,91.26,0.13,50 % & more,28512345\nlsh_h2,90.00,,,\n"
    )


def test_markdown_of_a_table(table):
    header, alignment, *rows = table.to_markdown().splitlines()
    assert [cell.strip() for cell in header.strip("|").split("|")] == ["model", "F1 [%]", "note of ours", "size"]
    assert [cell.strip("-") for cell in alignment.strip("|").split("|")] == [":", ":", ":", ":"]
    assert [cell.endswith(":") for cell in alignment.strip("|").split("|")] == [False, True, False, True]
    assert [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[:2]] == [
        ["sdpa", "91.26 ± 0.13", "50 % & more", "28512345"],
        ["lsh_h2", "90.00", "-", "-"],
    ]
    assert rows[2:] == ["", r"95 % of \$x_1\$. ±: standard deviation over seeds."]


def test_latex_of_a_table(table):
    lines = [line for line in table.to_latex().splitlines() if line]
    assert lines == [
        r"\begin{tabular}{lrlr}",
        r"\toprule",
        r"model & F1 [\%] & note of ours & size \\",
        r"\midrule",
        r"sdpa & 91.26 $\pm$ 0.13 & 50 \% \& more & 28512345 \\",
        r"lsh\_h2 & 90.00 & - & - \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par 95 \% of \$x\_1\$. $\pm$: standard deviation over seeds.",
    ]


def test_page_of_a_table():
    frame = pd.DataFrame({"model": ["a<b", "c"], "score": [1.0, 2.0]})
    table = Table(frame, {"score": Column("score & more", 1)}, "x < y", bold={"score": [False, True]})
    page = table.to_html()
    assert [part in page for part in ("a&lt;b", "score &amp; more", "<b>2.0</b>", "<p>x &lt; y</p>")] == [True] * 4
    assert (page.count("text-align: left"), page.count("text-align: right")) == (2, 2)
    assert "<b>1.0</b>" not in page
    assert page == table.to_html()


def test_columns_called_alike():
    """One would hide the other."""
    frame = pd.DataFrame({"low": [1.0], "high": [2.0]})
    with pytest.raises(DataError, match="to, to"):
        Table(frame, {"low": Column("to", 1), "high": Column("to", 1)})


def test_names_that_join_alike():
    a, b = Key(("a", "b_c")), Key(("a_b", "c"))
    columns = {a: Column("a/b_c", 1), b: Column("a_b/c", 1)}
    with pytest.raises(DataError, match="a_b_c, a_b_c"):
        Table(pd.DataFrame({a: [1.0], b: [2.0]}), columns)
    imdb, spread = Key(("imdb",)), Key(("imdb_sd",))
    table = Table(pd.DataFrame({imdb: [65.0], spread: [93.0]}), {imdb: Column("imdb", 2), spread: Column("imdb_sd", 2)})
    assert table.to_csv() == "imdb,imdb_sd\n65.00,93.00\n"
    assert table.to_markdown().splitlines()[-1].split() == ["|", "65.00", "|", "93.00", "|"]


def test_digits_of_times():
    """And minutes below one are seconds. Printed values of others stay as they were."""
    frame = pd.DataFrame({"model": ["a", "b"], "minutes": [0.016, 0.5], "long": [0.5, 123.456]})
    frame = frame.assign(printed=[0.512, 98.765], less=[-0.123, 25.34], f1=[98.765, 1.234])
    columns = {"minutes": Column("imdb time [min/epoch]", 4), "long": Column("time [min]", 2)}
    columns |= {"printed": Column("time [min], published", 2), "f1": Column("F1 [%]", 2)}
    columns |= {"less": Column("imdb time against sdpa [%]", 1, signed=True)}
    table = Table(frame, columns)
    csv = "model,minutes,long,printed,less,f1\na,0.0160,0.50,0.51,-0.1,98.77\nb,0.5000,123.46,98.77,+25.3,1.23\n"
    assert table.to_csv() == csv
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.to_markdown().splitlines()]
    assert rows[0][:3] == ["model", "imdb time [s/epoch]", "time [min]"]
    assert rows[2:4] == [["a", "0.96", "0.50", "0.51", "-0.1", "98.77"], ["b", "30", "123", "98.77", "+25", "1.23"]]
    assert "Times have two digits" in table.to_markdown()
    assert "Times have two digits" not in Table(frame[["model", "f1"]], columns).to_markdown()


@pytest.mark.parametrize("decimals", [0, 2])
def test_sign_of_zero(decimals):
    """A loss of 0.004 points is no gain."""
    step = 10.0**-decimals
    values = [-step, -0.4 * step, -0.0, 0.0, 0.4 * step, step]
    zero, one = f"{0:.{decimals}f}", f"{step:.{decimals}f}"
    for signed in (True, False):
        table = Table(pd.DataFrame({"less": values}), {"less": Column("less", decimals, signed=signed)})
        assert table.to_csv().splitlines()[1:] == [f"-{one}", *[zero] * 4, f"{'+' if signed else ''}{one}"]
