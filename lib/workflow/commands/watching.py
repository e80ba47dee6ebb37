"""Live progress of a study in a terminal. Touches no job."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lib.core.attempts import PARTS
from lib.core.identity import RunId
from lib.workflow.commands.progress import STATES, RunProgress, hours, progress, running_runs, stage_counts
from lib.workflow.planning.plan import Plan

SECONDS = 5.0
"""Between two looks, as often as a training says how far it is."""
HEIGHTS = "▁▂▃▄▅▆▇█"
FAILED = 5
"""Failed runs that are named; all are counted."""


def watch(plan: Plan) -> dict[RunId, RunProgress]:
    """Show the progress of a study until none of its runs is left to do, or the user presses Ctrl-C.

    Returns:
        How far every run is at the end.
    """
    found = progress(plan)
    with contextlib.suppress(KeyboardInterrupt), Live(watched(plan, found), auto_refresh=False, transient=True) as live:
        while any(run.state in ("running", "waiting") for run in found.values()):
            time.sleep(SECONDS)
            found = progress(plan)
            live.update(watched(plan, found), refresh=True)
    return found


def watched(plan: Plan, found: Mapping[RunId, RunProgress]) -> Group:
    """Return what is shown: stages with bars, running runs with their losses as curves, failures, hours."""
    stages = Table("stage", "", *STATES, box=None, pad_edge=False, header_style="bold")
    for column in stages.columns[2:]:
        column.justify = "right"
    for stage, counts in stage_counts(found).items():
        bar = ProgressBar(total=sum(counts), completed=counts[STATES.index("done")], width=PARTS)
        stages.add_row(stage, bar, *(Text(str(count), style="" if count else "dim") for count in counts))
    first = f"{plan.paths.results}: {len(found)} runs"
    return Group(first, "", stages, *_running(plan, found), *_failed(found), "", hours(found))


def _running(plan: Plan, found: Mapping[RunId, RunProgress]) -> Iterator[str | Table]:
    if not (running := running_runs(plan, found)):
        return
    table = Table("running", "loss so far", box=None, pad_edge=False, header_style="bold")
    for title in ("", "epoch", "tokens/s", "ends"):
        table.add_column(title, no_wrap=True)  # so a narrow terminal cuts names and curves
    for run in running:
        name, losses = (Text(text, no_wrap=True, overflow="ellipsis") for text in (run.name, curve(run.losses)))
        losses.stylize("cyan")
        table.add_row(name, losses, run.loss, run.epoch, run.speed, run.ends)
    yield from ("", table)


def _failed(found: Mapping[RunId, RunProgress]) -> Iterator[Text | str]:
    failed = [(key, run) for key, run in found.items() if run.state in ("failed", "missing")]
    if failed:
        yield ""
    for key, run in failed[:FAILED]:
        yield Text(f"{run.state}: {key.path}: {run.error}", style="red", no_wrap=True, overflow="ellipsis")
    if len(failed) > FAILED:
        yield Text(f"and {len(failed) - FAILED} more; make status names all", style="red")


def curve(losses: Sequence[float | None]) -> str:
    """Return losses as a curve of `PARTS` characters: blocks between the lowest and the highest, blanks to come."""
    known = [loss for loss in losses if loss is not None]
    if not known:
        return " " * PARTS
    low, high = min(known), max(known)
    steps = (len(HEIGHTS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if loss is None else HEIGHTS[round((loss - low) * steps)] for loss in losses).ljust(PARTS)
