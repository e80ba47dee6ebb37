"""Summaries of what was measured, as Markdown, from its tables alone."""

import pandas as pd

from lib.measure.crossovers import EXACT, OURS, attention_rows, crossovers

ONCE = "*"
"""Marks a number that was measured once."""

PADDINGS = {"none": "Without padding", "ragged": "With padding"}
STEPS = {
    "mlm": "step of masked language modelling",
    "finetune_epoch": "epoch of fine-tuning",
    "finetune_epoch_padded": "epoch of fine-tuning, all padded",
}


def attention_summary(costs: pd.DataFrame) -> str:
    """Return milliseconds by length, kept bytes as a multiple of exact attention's, and crossovers, as Markdown.

    There is a table without padding and one with. Times that were measured once are marked and counted.

    Args:
        costs: columns `lib.measure.tables.ATTENTION_COLUMNS`.

    Raises:
        DataError: exact attention to compare with is missing.
    """
    first, lengths = costs.iloc[0], sorted(costs["length"].unique())
    texts = [
        f"{_machine(first)}, {first['heads']} heads of width {first['head_size']}. Each time is that of a forward and "
        f"backward pass over {first['batch'] * first['length']:,} tokens in sequences of the given length. "
        f"{_count_once(costs)} The column `kept` has the bytes kept for the backward pass at {lengths[0]:,} tokens, "
        f"beside exact attention's."
    ]
    for padding, title in PADDINGS.items():
        if (costs["padding"] == padding).any():
            rows = _attention_table(costs, padding, lengths)
            texts.append(f"### {title}\n\n{pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True)}")
    return "\n\n".join(texts) + "\n"


def training_summary(costs: pd.DataFrame) -> str:
    """Return what a step or an epoch of training takes, a row for each implementation, model and step, as Markdown.

    Args:
        costs: columns `lib.measure.tables.TRAINING_COLUMNS`.
    """
    rows = [
        {
            "implementation": row["implementation"],
            "model": row["model"],
            "step (random ids)": STEPS[row["step"]],
            "sequences per batch": f"{row['batch']:,}",
            "tokens": f"{row['tokens']:,}",
            "time [ms]": _time(row["median_ms"], row["repetitions"]),
            "tokens per second": f"{row['tokens_per_s']:,.0f}",
            "peak memory [MiB]": f"{row['peak_mb']:,.0f}",
        }
        for _, row in costs.iterrows()
    ]
    note = (
        f"{_machine(costs.iloc[0])}. All inputs are random ids. The documents of an epoch are as long as IMDb's "
        f"reviews, cut to 512 tokens, in batches of similar length or all padded to 512 tokens. {_count_once(costs)} "
        f"Peak memory leaves out what was in use before, interpreter and libraries included."
    )
    return f"{note}\n\n{pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True)}\n"


def _attention_table(costs: pd.DataFrame, padding: str, lengths: list[int]) -> list[dict[str, str]]:
    groups, crossing = attention_rows(costs, padding), crossovers(costs, padding)
    exact_bytes = groups[OURS, EXACT].loc[lengths[0], "bytes_kept"]
    implementations = list(dict.fromkeys(implementation for implementation, _ in groups))
    rows = []
    for (implementation, mechanism), group in sorted(
        groups.items(), key=lambda item: implementations.index(item[0][0])
    ):
        length = crossing.get(mechanism) if implementation == OURS else None
        since = "-" if length is None else f"{'<= ' if length == lengths[0] else ''}{length:,.0f}"
        times = {n: _time(*group.loc[n, ["median_ms", "repetitions"]]) if n in group.index else "-" for n in lengths}
        rows.append(
            {
                "implementation": implementation,
                "mechanism": mechanism,
                **{f"{n:,} [ms]": times[n] for n in lengths},
                "kept": f"{group.loc[lengths[0], 'bytes_kept'] / exact_bytes:.2f}x",
                "faster than exact from": since,
            }
        )
    return rows


def _time(milliseconds: float, repetitions: int) -> str:
    return f"{milliseconds:,.0f}{ONCE if repetitions == 1 else ''}"


def _machine(row: pd.Series) -> str:
    return f"{row['processor']}, {row['device']}, {row['threads']} thread(s), torch {row['torch']}, {row['dtype']}"


def _count_once(costs: pd.DataFrame) -> str:
    once = (costs["repetitions"] == 1).sum()
    return (
        f"{once} of {len(costs)} rows were measured once (marked `{ONCE}`), the others are medians of up to "
        f"{costs['repetitions'].max()} repetitions."
    )
