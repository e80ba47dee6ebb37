import matplotlib.colors
import numpy as np
import pandas as pd
import pytest
from cost_tables import attention_table, markdown_tables, training_table

from lib.core.errors import DataError
from lib.measure.figures import attention_memory_figure, attention_time_figure
from lib.measure.summaries import attention_summary, training_summary
from lib.measure.tables import Crossover, crossovers

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


TIMED = ["min_ms", "median_ms", "max_ms"]
SPREAD = {"min": 0.98, "median": 1, "max": 1.02}
ONCE = {("ours", "sdpa-naive"): [512, 1024], ("transformers", "lsh-h2-c64+projections"): LENGTHS}


def costs():
    return attention_table(
        {
            "implementation": implementation,
            "mechanism": mechanism,
            "length": length,
            "batch": 4096 // length,
            "padding": padding,
            **{f"{name}_ms": share * factor * time for name, share in SPREAD.items()},
            "bytes_kept": 1000 if mechanism == "sdpa" else 500,
            "repetitions": 1 if length in ONCE.get((implementation, mechanism), ()) else 3,
        }
        for (implementation, mechanism), line in TIMES.items()
        for length, time in zip(LENGTHS, line, strict=False)
        for padding, factor in (("none", 1), ("ragged", 7))
        if not (padding == "ragged" and mechanism == "sdpa-naive")
    )


def costs_on_a_gpu():
    """The same with rows by Triton, ten times as fast, of which one is missing, and torch's own kernels named."""
    table = costs().assign(device="cuda", clock_mhz=1500.0, host_ms=0.5)
    exact = table["mechanism"] == "sdpa"
    table["kernels"] = table["kernels"].mask(exact, table["padding"].map({"none": "flash", "ragged": "efficient"}))
    ours = table[(table["implementation"] == "ours") & table["mechanism"].isin(["lsh-h2-c64", "favor-m64"])]
    ours = ours[(ours["mechanism"] != "favor-m64") | (ours["length"] > 512)]
    return pd.concat(
        [table, ours.assign(kernels="triton", **{name: ours[name] / 10 for name in TIMED})], ignore_index=True
    )


def test_what_triton_computes_has_rows_lines_and_crossovers_of_its_own():
    table = costs_on_a_gpu()
    found = crossovers(table)
    assert found["lsh-h2-c64"] == Crossover(512, 2048)
    assert found["lsh-h2-c64 (triton)"] == Crossover(None, 512)
    assert found["favor-m64 (triton)"] == Crossover(None, 1024)  # it has no row before
    drawn = lines(attention_time_figure(table))
    assert {"lsh-h2-c64 (triton)", "lsh-h4-c64"} <= drawn.keys()
    assert "lsh-h2-c64" not in drawn  # what torch computes where there is a kernel
    assert drawn.keys() - {"lsh-h2-c64 (triton)", "favor-m64 (triton)"} < lines(attention_time_figure(costs())).keys()
    summary = attention_summary(table)
    rows, _ = markdown_tables(summary)
    by_triton = {row["mechanism"]: row for row in rows if "(triton)" in row["mechanism"]}
    assert by_triton["lsh-h2-c64 (triton)"]["512 [ms]"] == "20"
    assert by_triton["favor-m64 (triton)"]["512 [ms]"] == by_triton["favor-m64 (triton)"]["kept"] == "-"
    assert "1,500 MHz" in summary
    assert "1,500 to" not in summary
    assert by_triton["lsh-h2-c64 (triton)"]["host [ms]"] == "0.50"
    assert "host [ms]" not in attention_summary(costs())
    assert summary.index("kernel `flash`") < summary.index("With padding") < summary.index("kernel `efficient`")


def test_crossovers_lie_between_lengths_that_were_measured():
    assert crossovers(costs()) == {
        "lsh-h2-c64": Crossover(512, 2048),  # at 1,024 as fast as exact attention
        "lsh-h4-c64": Crossover(1024, 4096),
        "favor-m64": Crossover(None, 512),  # there, or before
        "favor-m512": None,
    }


def changed(table, implementation, mechanism, length, **values):
    """Return the table with other values in one row without padding."""
    keys = {"implementation": implementation, "mechanism": mechanism, "length": length, "padding": "none"}
    chosen = (table[list(keys)] == pd.Series(keys)).all(axis=1)
    assert chosen.sum() == 1
    return table.assign(**{name: table[name].mask(chosen, value) for name, value in values.items()})


def test_a_crossover_is_after_the_last_length_at_which_exact_attention_is_faster():
    slow = {"min_ms": 490.0, "median_ms": 500.0, "max_ms": 510.0}
    assert crossovers(changed(costs(), "ours", "favor-m64", 2048, **slow))["favor-m64"] == Crossover(2048, 4096)


@pytest.mark.parametrize(("owner", "milliseconds"), [("torch", 40.0), ("ours", 40.0)])
def test_a_mechanism_is_compared_with_the_faster_of_the_exact_attentions(owner, milliseconds):
    fast = {"min_ms": milliseconds - 1, "median_ms": milliseconds, "max_ms": milliseconds + 1}
    assert crossovers(changed(costs(), owner, "sdpa", 512, **fast))["favor-m64"] == Crossover(512, 1024)


@pytest.mark.parametrize("noisy", [("ours", "favor-m64"), ("ours and torch", "sdpa")])
@pytest.mark.parametrize("values", [{"repetitions": 1}, {"repetitions": 2}, {"min_ms": 10.0, "max_ms": 5000.0}])
def test_noise_and_single_repetitions_decide_nothing(noisy, values):
    owners, mechanism = noisy

    def at(length):
        table = costs()
        for owner in owners.split(" and "):
            table = changed(table, owner, mechanism, length, **values)
        return crossovers(table)["favor-m64"]

    assert at(512) == Crossover(None, 1024)
    assert at(2048) == Crossover(None, 4096)
    assert at(4096) is None
    assert "none seen" in attention_summary(costs())


def test_noise_alone_seldom_looks_like_a_crossover():
    """Times of three repetitions call a mechanism that takes as long as exact attention faster in 1 of 20 cases."""
    generator, found = np.random.default_rng(0), 0
    for _ in range(200):
        table = costs()
        table = table[(table["length"] == 512) & (table["padding"] == "none") & (table["implementation"] == "ours")]
        table = table[table["mechanism"].isin(["sdpa", "favor-m64"])]
        times = generator.lognormal(5, 0.2, (2, 3))
        table = table.assign(median_ms=np.median(times, 1), min_ms=times.min(1), max_ms=times.max(1))
        found += crossovers(table)["favor-m64"] is not None
    assert found <= 20


def lines(figure):
    """The named lines of a figure, each with its panel's number."""
    return {
        line.get_gid(): number
        for number, axes in enumerate(figure.axes)
        for line in axes.lines
        if line.get_gid() in {text.get_text() for text in axes.get_legend().get_texts()}
    }


def test_the_figures_draw_every_line_in_the_panel_of_its_family_and_mark_every_crossover():
    figure = attention_time_figure(costs())
    expected = {
        "sdpa": 0,
        "sdpa-naive": 0,
        "sdpa: torch": 0,
        "lsh-h2-c64": 1,
        "lsh-h4-c64": 1,
        "lsh-h2-c64+projections": 1,
        "lsh-h2-c64: reformer-pytorch": 1,
        "lsh-h2-c64+projections: transformers": 1,
        "favor-m64": 2,
        "favor-m512": 2,
    }
    assert lines(figure) == lines(attention_memory_figure(costs())) == expected
    for axes in figure.axes[1:]:  # exact attention stands in grey in every other panel
        assert list(axes.lines[0].get_ydata()) == TIMES["ours", "sdpa"]
    colours = {line.get_gid(): line.get_color() for axes in figure.axes for line in axes.lines}
    assert colours["lsh-h2-c64"] == colours["lsh-h2-c64: reformer-pytorch"] != colours["lsh-h4-c64"]
    stars = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "*"]
    assert sorted(line.get_xdata()[0] for line in stars) == pytest.approx([512, 2048, 4096])
    assert sorted(line.get_ydata()[0] for line in stars) == pytest.approx([50, 200, 400])


def test_what_was_measured_once_is_hollow_and_counted():
    figure = attention_time_figure(costs())
    hollow = {
        line.get_gid(): (list(line.get_xdata()), list(line.get_ydata()))
        for axes in figure.axes
        for line in axes.lines
        if line.get_linestyle() == "None" and line.get_marker() != "*"
    }
    assert hollow == {
        "measured once: sdpa-naive": ([512, 1024], [300, 600]),
        "measured once: lsh-h2-c64+projections: transformers": (LENGTHS, [900] * 4),
    }
    full = matplotlib.colors.to_rgb("white")
    for axes in figure.axes:
        for line in axes.lines:
            is_hollow = line.get_linestyle() == "None" and line.get_marker() != "*"
            assert (matplotlib.colors.to_rgb(line.get_markerfacecolor()) == full) == is_hollow
    assert figure.get_supxlabel().endswith("hollow marker: measured once (6 of 38 times drawn)")


def test_the_summary_has_a_table_for_each_padding_and_a_row_for_each_implementation_and_mechanism():
    text = attention_summary(costs())
    plain, ragged = markdown_tables(text)
    assert text.index("### Without padding") < text.index("### With padding")
    assert list(plain[0]) == [
        "implementation", "mechanism", *(f"{n:,} [ms]" for n in LENGTHS), "kept", "faster than exact from"
    ]  # fmt: skip
    body = {(row["implementation"], row["mechanism"]): list(row.values())[2:] for row in plain}
    assert set(body) == set(TIMES)
    assert body["ours", "sdpa"] == ["100", "200", "400", "800", "1.00x", "-"]
    assert body["ours", "sdpa-naive"] == ["300*", "600*", "-", "-", "0.50x", "-"]
    assert body["ours", "favor-m64"] == ["50", "50", "50", "50", "0.50x", "<= 512"]
    assert body["ours", "lsh-h4-c64"][-1] == "1,024 to 4,096"
    assert body["ours", "favor-m512"][-1] == "none seen"
    assert body["torch", "sdpa"][-2:] == ["1.00x", "-"]
    with_padding = {(row["implementation"], row["mechanism"]): row for row in ragged}
    assert set(with_padding) == set(TIMES) - {("ours", "sdpa-naive")}
    assert with_padding["torch", "sdpa"]["512 [ms]"] == "700"
    assert "4,096 tokens" in text
    assert "Some Processor, cpu, 2 thread(s), torch 2.0, float32, 8 heads of width 64" in text
    assert "10 of 74 rows were measured once (marked `*`)" in text


def test_the_summary_of_training_says_that_its_inputs_are_random():
    steps = [("mlm", 3), ("finetune_epoch_padded", 1), ("finetune_epoch", 1)]
    text = training_summary(
        training_table(
            {"implementation": "ours", "model": "sdpa", "step": step, "repetitions": number} for step, number in steps
        )
    )
    (rows,) = markdown_tables(text)
    assert [row["step (random ids)"] for row in rows] == [
        "step of masked language modelling", "epoch of fine-tuning, all padded", "epoch of fine-tuning"
    ]  # fmt: skip
    assert [row["time [ms]"] for row in rows] == ["100", "100*", "100*"]
    assert [row["longest [tokens]"] for row in rows] == ["512"] * 3
    assert "All inputs are random ids." in text
    assert "2 of 3 rows were measured once" in text


def test_the_summary_of_training_names_how_a_model_was_computed():
    ways = [("torch", False), ("triton", False), ("torch", True), ("triton", True)]
    text = training_summary(
        training_table(
            {"implementation": "ours", "model": "m", "step": "mlm", "length": 128, "kernels": kernels, "compiled": each}
            for kernels, each in ways
        )
    )
    (rows,) = markdown_tables(text)
    assert [row["model"] for row in rows] == ["m", "m (triton)", "m (compiled)", "m (triton) (compiled)"]
    assert {row["longest [tokens]"] for row in rows} == {"128"}


def test_a_table_without_exact_attention_is_refused():
    table = costs()
    for show in (crossovers, attention_summary, attention_time_figure, attention_memory_figure):
        with pytest.raises(DataError, match="no row of ours sdpa with padding none"):
            show(table[table["mechanism"] != "sdpa"])
