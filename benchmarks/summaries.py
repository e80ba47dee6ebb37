"""Summarise measurements as Markdown from their table, or from several as one.

python benchmarks/summaries.py training_cost --table FILE --out FILE
"""

from collections.abc import Mapping

import pandas as pd

from benchmarks.tables import (
    BY_TRITON,
    COMPILED,
    EXACT,
    LEAST,
    MODERN,
    OURS,
    QUOTED_GB,
    Crossover,
    attention_rows,
    crossovers,
    read_table,
)
from lib.core import program
from lib.core.files import write_text

ONCE = "*"
"""Marks a number that was measured once."""

PADDINGS = {"none": "Without padding", "ragged": "With padding"}
STEPS = {
    "mlm": "step of masked language modelling",
    "finetune_epoch": "epoch of fine-tuning",
    "finetune_epoch_padded": "epoch of fine-tuning, all padded",
}
ENCODER_PASSES = {"forward": "Forward pass", "step": "Training step"}
PASSES = {"forward": "Forward pass", "forward_backward": "Forward and backward pass"}


def attention_summary(costs: pd.DataFrame) -> str:
    """Return milliseconds by length, kept bytes as a multiple of exact attention's, and crossovers, as Markdown.

    There is a table without padding and one with. Times that were measured once are marked and counted. Rows measured
    again while the allocator kept freed memory are only in a table of their own, compared with other implementations.

    Raises:
        DataError: exact attention to compare with is missing.
    """
    every, costs = costs, costs[~costs["memory_kept"]]
    first, lengths = costs.iloc[0], sorted(costs["length"].unique())
    texts = [
        f"{_machine(first)}{_clock(costs)}, {first['heads']} heads of width {first['head_size']}. Each time is that "
        f"of a forward and backward pass over {first['batch'] * first['length']:,} tokens in sequences of the given "
        f"length. {_count_once(costs)} The column `kept` has the bytes kept for the backward pass at {lengths[0]:,} "
        "tokens, as a multiple of exact attention's. The last column has the two lengths between which a mechanism "
        "becomes faster than the faster of the exact attentions, ours and torch's. At a length it is faster if each of "
        f"at least {LEAST} repetitions took less time than any of exact attention; `none seen`: not so at the longest."
        f"{_on_host(costs)}"
    ]
    for padding, title in PADDINGS.items():
        if (costs["padding"] == padding).any():
            rows = _attention_table(costs, padding, lengths)
            texts.append(f"### {title}")
            if fused := sorted(set(costs[costs["padding"] == padding]["kernels"]) - {"torch", "triton"}):
                texts.append(f"Torch computes exact attention by its kernel `{'` or `'.join(fused)}`.")
            texts.append(_markdown(rows))
    if every["memory_kept"].any():
        texts.append(f"### Compared with other implementations\n\n{_markdown(_leads(every))}")
    return "\n\n".join(texts) + "\n"


def training_summary(costs: pd.DataFrame) -> str:
    """Return the cost of a step or an epoch of training as Markdown, one row per implementation, model and step."""
    rows = [
        {
            "implementation": row["implementation"],
            "model": _model(row),
            "step (random ids)": STEPS[row["step"]],
            "longest [tokens]": f"{row['length']:,}",
            "sequences per batch": f"{row['batch']:,}",
            "tokens": f"{row['tokens']:,}",
            "time [ms]": _time(row["median_ms"], row["repetitions"]),
            **({} if costs["host_ms"].isna().all() else {"host [ms]": _launched(row["host_ms"])}),
            **_speed_and_memory(row),
        }
        for _, row in costs.iterrows()
    ]
    note = (
        f"{_machine(costs.iloc[0])}{_clock(costs)}. All inputs are random ids. The documents of an epoch are as long "
        f"as IMDb's reviews, cut to 512 tokens, in batches of similar length or all padded to 512 tokens. "
        f"{_count_once(costs)} Peak memory leaves out what was in use before, interpreter and libraries included."
        f"{_on_host(costs)}"
    )
    return f"{note}\n\n{_markdown(rows)}\n"


def encoder_summary(costs: pd.DataFrame) -> str:
    """Return milliseconds of whole encoders by length, compared with `MODERN`, a table per kind of pass."""
    first = costs.iloc[0]
    texts = [
        f"{_machine(first)}, width {first['hidden_size']}. Each time is that of a pass over random ids: one text of "
        f"the given length, or several that make {first['tokens']:,} tokens. In brackets: how many times as fast as "
        f"`{MODERN}`. Weights leave out the embeddings. {_count_once(costs[costs['repetitions'] > 0])}"
    ]
    for kind, title in ENCODER_PASSES.items():
        chosen = costs[costs["pass"] == kind]
        modern = chosen[chosen["model"] == MODERN].set_index("length")["median_ms"]
        rows = [
            {"implementation": implementation, "model": model, "weights [M]": f"{weights / 1e6:,.1f}"}
            | {
                f"{row['length']:,} [ms]": _measured(row, _compared(row, modern.get(row["length"])))
                for _, row in group.iterrows()
            }
            for (implementation, model, weights), group in chosen.groupby(
                ["implementation", "model", "parameters"], sort=False
            )
        ]
        texts.append(f"### {title}\n\n{_markdown(rows)}")
    return "\n\n".join(texts) + "\n"


def adaptation_summary(costs: pd.DataFrame) -> str:
    """Return the cost of a step of adapting an opened decoder as Markdown, one row per model and implementation."""
    first, length = costs.iloc[0], costs["tokens"][0] // costs["batch"][0]
    rows = [
        {
            "model": row["model"],
            "vocabulary": f"{row['vocabulary']:,}",
            "weights [M]": f"{row['parameters'] / 1e6:,.1f}",
            "implementation": row["implementation"],
            "tokens scored": f"{row['scored']:,} of {row['tokens']:,}",
            "time [ms]": _time(row["median_ms"], row["repetitions"]),
            **_speed_and_memory(row),
        }
        for _, row in costs.iterrows()
    ]
    note = (
        f"{_machine(first)}. A step of MNTP with LoRA on {first['batch']} sequences of {length} random ids: forward, "
        "backward and AdamW. A token that is scored has a score for each entry of the vocabulary. Peak memory includes "
        f"the model, and leaves out interpreter and libraries. {_count_once(costs)}"
    )
    return f"{note}\n\n{_markdown(rows)}\n"


def sequence_summary(costs: pd.DataFrame) -> str:
    """Return microseconds per token by layer, threads and length, a table for each kind of pass, as Markdown."""
    first = costs.iloc[0]
    texts = [
        f"{_machine(first, threads=False)}. Microseconds per token of one layer of width {first['hidden_size']} over "
        f"one sequence: recurrent and state-space layers over both directions, and attention with "
        f"{first['heads']} heads and its projections. {_count_once(costs[costs['repetitions'] > 0])}"
    ]
    for kind, title in PASSES.items():
        rows = [
            {"layer": layer, "threads": threads}
            | {
                f"{row['length']:,} [µs]": _measured(row, _time(row["us_per_token"], row["repetitions"]))
                for _, row in group.iterrows()
            }
            for (threads, layer), group in costs[costs["pass"] == kind].groupby(["threads", "layer"], sort=False)
        ]
        texts.append(f"### {title}\n\n{_markdown(rows)}")
    return "\n\n".join(texts) + "\n"


def memory_summary(costs: pd.DataFrame) -> str:
    """Return memory and seconds of a pass by length and mechanism, with quoted values, as Markdown."""
    first, heads = costs.iloc[0], costs["heads"].max()
    memory, seconds = [], []
    for length, group in costs.groupby("length"):
        few = {n: f" ({n} of {heads} heads)" if n < heads else "" for n in group["heads"]}
        group = group.sort_values("matrix_mb", kind="stable")  # puts mechanisms with matrices next to them
        naive = group.iloc[0]
        whole = heads / naive["heads"]
        memory.append(
            {
                "tokens": f"{length:,}",
                "pairs": f"{length**2:,}",
                "quoted": _quoted(length),
                "N x N matrix": _size(whole * naive["matrix_mb"]),
                f"{naive['mechanism']}, computed": _size(whole * naive["computed_mb"]),
            }
        )
        seconds.append({"tokens": f"{length:,}"})
        for _, row in group.iterrows():
            memory[-1][row["mechanism"]] = _measured(row, _size(row["peak_mb"]) + few[row["heads"]])
            seconds[-1][row["mechanism"]] = _measured(row, f"{row['seconds']:,.2f}{few[row['heads']]}")
    tables = [_markdown(rows) for rows in (memory, seconds)]
    return (
        f"{_machine(first)}, {heads} heads of width {first['head_size']}. Peak memory of one forward and backward pass "
        "over one sequence, without projections. `N x N matrix`: one of all heads, which the backward pass keeps; "
        "`computed`: the three that exist at once; `quoted`: values that a lecture quotes, with names of models."
        f"\n\n{tables[0]}\n\nSeconds of that one pass:\n\n{tables[1]}\n"
    )


def _attention_table(costs: pd.DataFrame, padding: str, lengths: list[int]) -> list[dict[str, str]]:
    groups, crossing = attention_rows(costs, padding), crossovers(costs, padding)
    exact_bytes = groups[OURS, EXACT].loc[lengths[0], "bytes_kept"]
    implementations = list(dict.fromkeys(implementation for implementation, _ in groups))
    rows = []
    for (implementation, mechanism), group in sorted(
        groups.items(), key=lambda item: implementations.index(item[0][0])
    ):
        times = {n: _time(*group.loc[n, ["median_ms", "repetitions"]]) if n in group.index else "-" for n in lengths}
        kept = group["bytes_kept"].get(lengths[0])
        rows.append(
            {
                "implementation": implementation,
                "mechanism": mechanism,
                **{f"{n:,} [ms]": times[n] for n in lengths},
                **_host(group["host_ms"]),
                "kept": "-" if kept is None else f"{kept / exact_bytes:.2f}x",
                "faster than exact from": _crossing(crossing, mechanism) if implementation == OURS else "-",
            }
        )
    return rows


def _leads(costs: pd.DataFrame) -> list[dict[str, str]]:
    """Return how many times as long as ours every other implementation takes, by what became of freed memory."""
    columns = {False: "freed memory returned", True: "freed memory kept"}
    kept = costs[costs["memory_kept"]]
    same = costs["length"].isin(kept["length"]) & (costs["padding"] == "none")
    times = costs[same].set_index(["implementation", "mechanism", "length", "memory_kept"])["median_ms"]
    rows = []
    for implementation, mechanism, length in dict.fromkeys(index[:3] for index in times.index if index[0] != OURS):
        ratios = {
            kind: times[implementation, mechanism, length, kind] / times[OURS, mechanism, length, kind]
            for kind in columns
        }
        cells = {columns[kind]: f"{ratio:.2f}x" for kind, ratio in ratios.items()}
        rows.append({"implementation": implementation, "mechanism": mechanism, "tokens": f"{length:,}", **cells})
    return rows


def _model(row: pd.Series) -> str:
    """Return the name of a model, and how it was computed."""
    return row["model"] + (BY_TRITON if row["kernels"] == "triton" else "") + (COMPILED if row["compiled"] else "")


def _crossing(crossing: Mapping[str, Crossover | None], mechanism: str) -> str:
    if mechanism not in crossing:
        return "-"
    found = crossing[mechanism]
    if found is None:
        return "none seen"
    return f"<= {found.faster:,}" if found.slower is None else f"{found.slower:,} to {found.faster:,}"


def _markdown(rows: list[dict[str, str]]) -> str:
    return pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True)


def _time(time: float, repetitions: int) -> str:
    digits = 0 if time >= 10 else 1 if time >= 1 else 2
    return f"{time:,.{digits}f}{ONCE if repetitions == 1 else ''}"


def _compared(row: pd.Series, milliseconds: float | None) -> str:
    """Return the time of a row, and how many times as fast as `milliseconds` it is, if these were measured."""
    time = _time(row["median_ms"], row["repetitions"])
    return time if milliseconds is None or pd.isna(milliseconds) else f"{time} ({milliseconds / row['median_ms']:.1f}x)"


def _speed_and_memory(row: pd.Series) -> dict[str, str]:
    return {"tokens per second": f"{row['tokens_per_s']:,.0f}", "peak memory [MiB]": f"{row['peak_mb']:,.0f}"}


def _size(mb: float) -> str:
    return f"{mb:,.0f} MiB" if mb < 1024 else f"{mb / 1024:,.1f} GiB"


def _quoted(length: int) -> str:
    if length not in QUOTED_GB:
        return "-"
    return f"{'>>' if length == max(QUOTED_GB) else '~'}{QUOTED_GB[length]} GB"


def _measured(row: pd.Series, cell: str) -> str:
    return cell if pd.isna(row["skipped"]) else f"not measured: {row['skipped']}"


def _machine(row: pd.Series, *, threads: bool = True) -> str:
    used = f"{row['threads']} thread(s), " if threads and row["device"] == "cpu" else ""
    return f"{row['processor']}, {row['device']}, {used}torch {row['torch']}, {row['dtype']}"


def _clock(costs: pd.DataFrame) -> str:
    clocks = costs["clock_mhz"].dropna()
    if clocks.empty:
        return ""
    least, most = f"{clocks.min():,.0f}", f"{clocks.max():,.0f}"
    return f", {least} MHz" if least == most else f", {least} to {most} MHz"


def _on_host(costs: pd.DataFrame) -> str:
    """Describe the column `host [ms]`, if there is one."""
    if costs["host_ms"].isna().all():
        return ""
    return (
        " The column `host` has the time that the host takes to launch it, the median over the rows that it stands for."
    )


def _host(milliseconds: pd.Series) -> dict[str, str]:
    """Return the column `host [ms]` of a row that summarises some rows of the table; empty on a CPU."""
    return {} if milliseconds.isna().all() else {"host [ms]": _launched(milliseconds.median())}


def _launched(milliseconds: float) -> str:
    return "-" if pd.isna(milliseconds) else _time(milliseconds, 2)


def _count_once(costs: pd.DataFrame) -> str:
    once = (costs["repetitions"] == 1).sum()
    return (
        f"{once} of {len(costs)} rows were measured once (marked `{ONCE}`), the others are medians of up to "
        f"{costs['repetitions'].max()} repetitions."
    )


SUMMARIES = {
    "attention_cost": attention_summary,
    "training_cost": training_summary,
    "encoder_cost": encoder_summary,
    "sequence_cost": sequence_summary,
    "memory_cost": memory_summary,
    "adaptation_cost": adaptation_summary,
}


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("summary", choices=SUMMARIES, help="what to sum up")
    parser.add_argument(
        "--table", nargs="+", required=True, metavar="FILE", help="CSV files of the program of the same name"
    )
    parser.add_argument(
        "--out", type=program.file_to_write, required=True, metavar="FILE", help="Markdown file to write"
    )
    arguments = parser.parse_args(argv)
    table = pd.concat([read_table(path, arguments.summary) for path in arguments.table], ignore_index=True)
    write_text(arguments.out, SUMMARIES[arguments.summary](table))


if __name__ == "__main__":
    program.start(main)
