import pytest
from cost_tables import markdown_tables, memory_table, sequence_table

from lib.measure.figures import memory_length_figure, sequence_time_figure
from lib.measure.summaries import memory_summary, sequence_summary

LENGTHS = [512, 2048, 8192]


def sequences():
    layers = {"lstm": ("recurrent", [50, 50, 50]), "sdpa": ("attention", [5, 20, 80]),
              "sdpa-naive": ("attention", [10, 40, None])}  # fmt: skip
    return sequence_table({
            "layer": layer, "family": family, "pass": kind, "threads": threads, "length": length,
            "us_per_token": time and factor * time / threads, "min_ms": time and 0.9 * factor * time * length / 1000,
            "max_ms": time and 2 * factor * time * length / 1000, "repetitions": 0 if time is None else 1 + (time < 50),
            "skipped": "more than 8 GiB" if time is None else None,
        }
        for kind, factor in (("forward", 1), ("forward_backward", 3))
        for threads in (1, 2)
        for layer, (family, times) in layers.items()
        for length, time in zip(LENGTHS, times, strict=True)
    )  # fmt: skip


def memories():
    peaks = {
        "sdpa": [20, 80, (40, 1)],
        "sdpa-naive": [30, 400, None],
    }
    rows = []
    for name, line in peaks.items():
        for length, peak in zip(LENGTHS, line, strict=True):
            peak, heads = peak if isinstance(peak, tuple) else (peak, 8)
            matrix = 8 * (length / 512) ** 2 if name == "sdpa-naive" else None
            rows.append(
                {
                    "mechanism": name, "length": length, "heads": heads, "peak_mb": peak, "matrix_mb": matrix,
                    "computed_mb": matrix and 3 * matrix, "seconds": peak and length / 1000,
                    "skipped": None if peak else "more than 1 GiB",
                }
            )  # fmt: skip
    return memory_table(rows)


def lines(axes):
    return {line.get_gid(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines if line.get_gid()}


def test_the_figure_of_time_has_a_row_for_each_pass_and_a_column_for_each_number_of_threads():
    figure = sequence_time_figure(sequences())
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["1 thread (cpu)", "2 threads (cpu)"]
    assert len(figure.axes) == 4
    forward, both = lines(figure.axes[0]), lines(figure.axes[3])
    assert set(forward) == set(both) == {"lstm", "sdpa", "sdpa-naive"}
    assert forward["lstm"] == (LENGTHS, [50, 50, 50])
    assert forward["sdpa-naive"] == (LENGTHS[:2], [10, 40])
    assert both["sdpa"] == (LENGTHS, [7.5, 30, 120])
    styles = {line.get_gid(): line.get_linestyle() for line in figure.axes[0].lines}
    assert styles == {"lstm": "--", "sdpa": "-", "sdpa-naive": "-"}
    band = figure.axes[0].collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == pytest.approx((45, 100))
    assert {text.get_text() for text in figure.legends[0].get_texts()} == set(styles)


def test_the_figure_of_memory_goes_on_where_nothing_was_measured():
    figure = memory_length_figure(memories())
    drawn = lines(figure.axes[0])
    assert drawn.pop("N x N matrices, computed") == (LENGTHS, [24, 384, 6144])
    assert drawn.pop("quoted")[0] == [512, 2048, 8192, 128_000]
    assert (
        drawn
        == {
            "sdpa": (LENGTHS, [20, 80, 320]),  # 40 MiB with one head of eight
            "one head: sdpa": ([8192], [320]),
            "sdpa-naive": (LENGTHS[:2], [30, 400]),
        }
    )
    assert figure.get_supxlabel() == "hollow marker: measured with one head, drawn times 8"
    assert not memory_length_figure(memories()[lambda table: table["heads"] == 8]).get_supxlabel()


def test_the_summary_of_time_has_a_table_for_each_pass():
    text = sequence_summary(sequences())
    forward, both = markdown_tables(text)
    assert list(forward[0]) == ["layer", "threads", "512 [µs]", "2,048 [µs]", "8,192 [µs]"]
    cells = {(row["layer"], row["threads"]): list(row.values())[2:] for row in forward}
    assert cells["lstm", "1"] == ["50*", "50*", "50*"]
    assert cells["sdpa", "2"] == ["2.5", "10", "40*"]
    assert cells["sdpa-naive", "1"] == ["10", "40", "not measured: more than 8 GiB"]
    assert len(forward) == len(both) == 6
    assert "16 of 32 rows were measured once" in text
    assert "Some Processor, cpu, torch 2.0, float32. Microseconds per token" in text


def test_the_summary_of_memory_stands_beside_what_is_quoted():
    text = memory_summary(memories())
    memory, seconds = markdown_tables(text)
    assert [row["tokens"] for row in memory] == ["512", "2,048", "8,192"]
    assert [row["pairs"] for row in memory] == ["262,144", "4,194,304", "67,108,864"]
    assert [row["quoted"] for row in memory] == ["~1 GB", "~4 GB", "~16 GB"]
    assert [row["N x N matrix"] for row in memory] == ["8 MiB", "128 MiB", "2.0 GiB"]
    assert [row["sdpa-naive, computed"] for row in memory] == ["24 MiB", "384 MiB", "6.0 GiB"]
    assert [row["sdpa-naive"] for row in memory] == ["30 MiB", "400 MiB", "not measured: more than 1 GiB"]
    assert [row["sdpa"] for row in memory] == ["20 MiB", "80 MiB", "40 MiB (1 of 8 heads)"]
    assert [row["sdpa"] for row in seconds] == ["0.51", "2.05", "8.19 (1 of 8 heads)"]
    assert "cpu, 2 thread(s), torch 2.0, float32, 8 heads of width 64." in text


def test_lengths_that_the_lecture_does_not_quote_have_no_quote():
    table = memories()
    table["length"] = table["length"].replace({512: 1024, 8192: 128_000})
    memory, _ = markdown_tables(memory_summary(table))
    assert [row["quoted"] for row in memory] == ["-", "~4 GB", ">>100 GB"]
