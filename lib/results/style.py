"""What all figures share: style sheet, colours and markers of models, files."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure

from lib.core.files import atomic_path

STYLE = Path(__file__).with_suffix(".mplstyle")
BASELINE_COLOUR = "0.35"
MARKERS = "os^Dv<>P"
LINES = ("-", "--", "-.", ":")
PANEL_INCHES = (3.5, 3.3)


def looks(families: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Give each model a colour, by its family, and a marker, by its place within the family.

    Args:
        families: models, in order, each with its family; families follow in the order of their first models.

    Returns:
        Colour and marker of each model, in the order of `families`.
    """
    order = list(dict.fromkeys(families.values()))
    members: Counter[str] = Counter()
    look = {}
    for model, family in families.items():
        look[model] = f"C{order.index(family)}", MARKERS[members[family] % len(MARKERS)]
        members[family] += 1
    return look


def save_figure(figure: Figure, files: Iterable[str | Path]) -> None:
    """Write `figure` to each of the files atomically, in the format that its suffix names (png, svg, pdf).

    The same figure gives the same bytes, since no date is written.
    """
    for file in files:
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(Path(file).suffix)
        with matplotlib.style.context(STYLE), atomic_path(file) as partial:
            figure.savefig(partial, metadata=metadata)
