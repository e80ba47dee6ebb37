"""What all figures share: style sheet, colours and markers of models, files."""

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, ScalarFormatter
from numpy.typing import ArrayLike

from lib.core.errors import DataError
from lib.core.files import atomic_path
from lib.results.escapes import one_line, unquoted

STYLE = Path(__file__).with_suffix(".mplstyle")
BASELINE_COLOUR = "0.35"
BEHIND: dict[str, Any] = {"color": BASELINE_COLOUR, "zorder": 1.5}
"""Style of lines behind those of models."""
CHANCE = "chance level"
"""What legends call the accuracy of guessing. No model can be called so, since names have no spaces."""
POINT: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.5}
MARKERS = "os^Dv<>P"
COLOURS = 7
"""Colours of the style sheet."""
LINES = ("-", "--", "-.", ":")
PALER = 0.2
"""Share of white that each further model of a family has more in its colour."""
ERROR_BAR: dict[str, Any] = {"elinewidth": 1, "capsize": 3, "capthick": 1}
"""Style of all error bars, as arguments of `Axes.errorbar`."""
PANEL_INCHES = (3.5, 3.3)
PANELS = 4
"""Most panels in a row."""
LEGEND_MARGIN_INCHES = 0.1
"""Least distance of a legend from the edges above and below it."""


def colours_and_markers(families: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Give each model a colour, by its family, and a marker, by its place among the models of that colour.

    With more families than colours some share one; their models differ in the marker, while there are enough of these.

    Args:
        families: models, in order, each with its family; families follow in the order of their first models.

    Returns:
        Colour and marker of each model, in the order of `families`.
    """
    order = list(dict.fromkeys(families.values()))
    members: Counter[int] = Counter()
    found = {}
    for model, family in families.items():
        colour = order.index(family) % COLOURS
        found[model] = f"C{colour}", MARKERS[members[colour] % len(MARKERS)]
        members[colour] += 1
    return found


def line_styles(families: Mapping[str, str], baseline: str | None = None) -> dict[str, dict[str, Any]]:
    """Return how each model's line is drawn, as arguments of `Axes.plot`, label and name included.

    Members of a family differ in marker, style and shade. Later ones are paler, wider and behind earlier ones, so that
    all of them show where their lines coincide. The baseline is grey, and takes no colour from the others.

    Args:
        families: models, in order, each with its family.
        baseline: the one of them that is the baseline, if any.
    """
    chosen = colours_and_markers({model: family for model, family in families.items() if model != baseline})
    styles = {}
    for model, (colour, marker) in chosen.items():
        place = MARKERS.index(marker) % len(LINES)
        sizes = {"linewidth": 1.1 + 0.9 * place, "markersize": 4.5 + 2 * place, "zorder": 2 - 0.01 * place}
        styles[model] = {"color": _paler(colour, PALER * place), "marker": marker, "linestyle": LINES[place], **sizes}
    grey = {"color": BASELINE_COLOUR, "marker": "X", "linestyle": ":", "linewidth": 1.1, "markersize": 4.5}
    shared = {"markeredgecolor": "white", "markeredgewidth": 0.4, "dash_capstyle": "butt"}
    return {model: {**styles.get(model, grey), **shared, "label": model, "gid": model} for model in families}


def _paler(colour: str, share: float) -> str:
    """Return a colour of the style sheet with this share of white, in hexadecimal."""
    with matplotlib.style.context(STYLE):
        red, green, blue = (1 - (1 - part) * (1 - share) for part in to_rgb(colour))
        return to_hex((red, green, blue))


def draw_points(axes: Axes, x: Any, y: Any, name: str | None = None, **style: Any) -> None:
    """Draw points with their error bars, as `Axes.errorbar`; only the points bear the name, not the caps."""
    points, *_ = axes.errorbar(x, y, **ERROR_BAR, **style)
    if points is not None:
        points.set_gid(name)


def panel_grid(number: int, inches: tuple[float, float], in_a_row: int = PANELS) -> tuple[Figure, list[Axes]]:
    """Return a figure with `number` panels of that width and height, in rows of `in_a_row` at most.

    Raises:
        DataError: there is no panel.
    """
    if number == 0:
        raise DataError("the figure has no panel: no run has what it draws. Name other stages, models or datasets.")
    columns = min(number, in_a_row)
    rows = math.ceil(number / columns)
    figure = Figure(figsize=(inches[0] * columns, inches[1] * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels[number:]:
        axes.remove()
    return figure, panels[:number]


def name_above(axes: Axes, x: float, name: str) -> None:
    """Write the name of the line at `x` above a panel."""
    place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (0, 2), "textcoords": "offset points"}
    axes.annotate(name, (x, 1), **place, ha="center", fontsize=7, color=BASELINE_COLOUR)


def draw_histogram(axes: Axes, lengths: ArrayLike, edges: np.ndarray, place: int, name: str, label: str) -> None:
    """Draw which share of the documents is how long, as the outline number `place` of its panel."""
    shares = 100 * np.histogram(lengths, edges)[0] / max(1, np.size(lengths))
    style: dict[str, Any] = {"color": f"C{place}", "linestyle": LINES[place % len(LINES)], "linewidth": 1.2}
    axes.stairs(shares, edges, **style, label=label, gid=name)


def label_histogram(axes: Axes, lengths: str, unit: str, width: int) -> None:
    """Label a panel of histograms of documents, whose bins are `width` units wide."""
    axes.set(xlabel=lengths, ylabel=f"documents [% per {width} {unit}{'s' * (width > 1)}]")
    axes.set(xlim=(0, None), ylim=(0, None))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=5, fontsize=7)  # below the axis' label


def legend_entry(label: str, **style: Any) -> Line2D:
    """Return a line for a legend that is drawn nowhere else."""
    return Line2D([], [], label=label, **style)


def legend_beside(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """Put a legend to the right of the panels, in columns no higher than the figure, and widen this by its width."""
    legend = figure.legend(handles, labels, loc="outside right upper")
    show_names(figure)
    height = figure.bbox.height - 2 * LEGEND_MARGIN_INCHES * figure.dpi
    if (columns := math.ceil(legend.get_window_extent().height / height)) > 1:
        legend.remove()
        legend = figure.legend(handles, labels, loc="outside right upper", ncols=columns)
        show_names(figure)
    figure.set_figwidth(figure.get_figwidth() + legend.get_window_extent().width / figure.dpi)


def show_names(figure: Figure) -> None:
    """Show the texts of a figure as they are: only numbers on axes hold mathematics, names may hold dollar signs."""
    every = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    of_numbers = [axis for axis in every if isinstance(axis.get_major_formatter(), LogFormatter | ScalarFormatter)]
    numbers = {text for axis in of_numbers for text in (*axis.get_ticklabels(which="both"), axis.get_offset_text())}
    for text in figure.findobj(Text):
        if text not in numbers:
            text.set_parse_math(False)
            text.set_text("\n".join(map(one_line, text.get_text().split("\n"))))


NOTE_CHARACTERS_PER_INCH = 16
"""Characters of a note's small type per inch."""


def save_figure(figure: Figure, files: Iterable[str | Path], note: str | None = None) -> None:
    """Write `figure` to each of the files atomically, in the format that its suffix names (png, svg, pdf).

    The same figure gives the same bytes, since no date is written.

    Args:
        figure: to write.
        files: one per format.
        note: text below the figure.
    """
    if note:
        lines = textwrap.wrap(unquoted(note), round(figure.get_figwidth() * NOTE_CHARACTERS_PER_INCH))
        figure.text(0, -0.02, "\n".join(lines), fontsize="small", verticalalignment="top")
    show_names(figure)
    with matplotlib.style.context(STYLE):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the layout is found once, and is most of the time of a drawing
        box = figure.get_tightbbox().padded(matplotlib.rcParams["savefig.pad_inches"]) if note else None
        for file in files:
            metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(Path(file).suffix)
            with atomic_path(file) as partial:
                figure.savefig(partial, metadata=metadata, bbox_inches=box)
