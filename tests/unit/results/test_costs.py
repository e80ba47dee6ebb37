import pandas as pd
import pytest

from lib.core.errors import DataError
from lib.results.costs import attention_memory_figure, attention_time_figure, cost_summary, crossovers

LENGTHS = [512, 1024, 2048, 4096]
TIMES = {
    ("ours", "sdpa"): [100, 200, 400, 800],
    ("ours", "lsh-h2-c64"): [200, 200, 200, 200],  # equal at 1,024, faster after
    ("ours", "lsh-h4-c64"): [400, 400, 400, 400],
    ("ours", "favor-m64"): [50, 50, 50, 50],
    ("ours", "favor-m512"): [900, 900, 900, 900],
    ("ours", "sdpa-naive"): [300, 600],
    ("ours", "lsh-h2-c64+projections"): [250, 250, 250, 250],
    ("torch", "sdpa"): [100, 200, 400, 800],
    ("reformer-pytorch", "lsh-h2-c64"): [500, 500, 500, 500],
    ("transformers", "lsh-h2-c64+projections"): [900, 900, 900, 900],
}


def costs(**times):
    rows = [
        {"implementation": implementation, "mechanism": mechanism, "length": length, "batch": 4096 // length,
         "padding": padding, "device": "cpu", "dtype": "float32", "threads": 2, "median_ms": factor * time,
         "bytes_kept": 1000 if mechanism == "sdpa" else 500, "peak_mb": 10.0}
        for (implementation, mechanism), line in TIMES.items()
        for length, time in zip(LENGTHS, line, strict=False)
        for padding, factor in (("none", 1), ("ragged", 7))
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_crossovers_are_interpolated_between_logarithms():
    found = crossovers(costs())
    assert found["lsh-h2-c64"] == pytest.approx(1024)
    assert found["lsh-h4-c64"] == pytest.approx(2048)
    assert found["favor-m64"] == 512  # there, or before
    assert found["favor-m512"] is None
    assert set(found) == {"lsh-h2-c64", "lsh-h4-c64", "favor-m64", "favor-m512"}
    table = costs()
    table.loc[table["mechanism"] == "lsh-h2-c64", "median_ms"] = 283  # 283 = 100 * 2^1.5, half-way
    assert crossovers(table)["lsh-h2-c64"] == pytest.approx(512 * 2**1.5, rel=1e-3)


def test_a_crossover_is_after_the_last_length_at_which_exact_attention_is_faster():
    table = costs()
    chosen = (table["mechanism"] == "favor-m64") & (table["length"] == 2048) & (table["padding"] == "none")
    table.loc[chosen, "median_ms"] = 500
    assert 2048 < crossovers(table)["favor-m64"] < 4096


def test_the_figures_draw_every_line_and_mark_every_crossover():
    left, right = attention_time_figure(costs()).axes
    drawn = {line.get_gid() for line in left.lines if line.get_gid() and not line.get_gid().startswith("_")}
    assert drawn == {"sdpa", "lsh-h2-c64", "lsh-h4-c64", "favor-m64", "favor-m512", "sdpa-naive"}
    stars = [line for line in left.lines if line.get_marker() == "*"]
    assert sorted(line.get_xdata()[0] for line in stars) == pytest.approx([512, 1024, 2048])
    assert sorted(line.get_ydata()[0] for line in stars) == pytest.approx([50, 200, 400])
    labels = {text.get_text() for text in right.get_legend().get_texts()}
    assert labels == {
        "sdpa: torch",
        "lsh-h2-c64: reformer-pytorch",
        "lsh-h2-c64+projections: transformers",
    }
    memory = attention_memory_figure(costs()).axes
    assert [len(axes.lines) for axes in memory] == [6, 6]


def test_the_summary_has_a_row_for_each_implementation_and_mechanism():
    text = cost_summary(costs())
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert rows[0] == [
        "implementation", "mechanism", *(f"{n:,} [ms]" for n in LENGTHS), "kept", "faster than exact from"
    ]  # fmt: skip
    body = {(row[0], row[1]): row[2:] for row in rows[2:]}
    assert set(body) == set(TIMES)
    assert body["ours", "sdpa-naive"] == ["300", "600", "-", "-", "0.50x", "-"]
    assert body["ours", "favor-m64"] == ["50", "50", "50", "50", "0.50x", "<= 512"]
    assert body["ours", "lsh-h4-c64"][-1] == "2,048"
    assert body["torch", "sdpa"][-2:] == ["1.00x", "-"]
    assert "4,096 tokens" in text


def test_a_table_without_exact_attention_is_refused():
    table = costs()
    with pytest.raises(DataError, match="no row of ours sdpa without padding"):
        crossovers(table[table["mechanism"] != "sdpa"])
    with pytest.raises(DataError, match="has no column peak_mb"):
        attention_time_figure(table.drop(columns="peak_mb"))
