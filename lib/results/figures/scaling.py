"""The held-out loss against the seconds of training, and the power law through the least that they buy."""

from typing import Any, ClassVar, Literal

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator, ScalarFormatter
from pydantic import Field

from lib.core.settings import PositiveFloat
from lib.results.frontiers import FrontierSettings, by_seed, evaluations, power_law
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, Topic
from lib.results.style import MARKERS, PANEL_INCHES, STYLE, legend_beside, legend_entry, panel_grid


class Settings(FrontierSettings, FigureSettings):
    """Held-out loss against seconds of training, one curve per mechanism over its sizes, one panel per dataset."""

    about: ClassVar[Topic] = "cost"
    needs_training: ClassVar[bool] = True

    kind: Literal["scaling"]
    beyond: PositiveFloat = Field(
        10.0,
        ge=1,
        description="By what factor the power law is drawn beyond the last evaluation, dashed; 1 = not at all.",
    )


def draw(settings: Settings, scope: Scope) -> Figure:
    """Draw every evaluation as a point, and the mean of the seeds' power laws as a line, both axes logarithmic.

    The line is dashed where no training has been: there it is an extrapolation. A seed with too few evaluations for a
    power law adds points only.

    Raises:
        DataError: see `evaluations`.
    """
    points = evaluations(settings, scope)
    datasets = [dataset for dataset in scope.stages[settings.stage] if dataset in set(points["dataset"])]
    styles = {
        curve: {"color": f"C{place}", "marker": MARKERS[place % len(MARKERS)]}
        for place, curve in enumerate(settings.curves)
    }
    with matplotlib.style.context(STYLE):
        figure, panels = panel_grid(len(datasets), PANEL_INCHES)
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(dataset)
            axes.set(xscale="log", yscale="log", xlabel="training time [s]", ylabel="held-out loss [nats]")
            # Losses span less than a decade, in which a logarithmic axis would name no value.
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(ScalarFormatter())
            here = points[points["dataset"] == dataset]
            for curve, style in styles.items():
                _draw_curve(axes, here[here["curve"] == curve], curve, style, settings.beyond)
        handles = [legend_entry(curve, linewidth=1.4, **style) for curve, style in styles.items()]
        if any(line.is_dashed() for axes in panels for line in axes.lines):
            handles.append(legend_entry("extrapolated", linestyle="--", color="0.4"))
        legend_beside(figure, handles, [str(handle.get_label()) for handle in handles])
    return figure


def _draw_curve(axes: Axes, points: pd.DataFrame, curve: str, style: dict[str, Any], beyond: float) -> None:
    axes.plot(
        points["seconds"], points["loss"], linestyle="", markersize=2.5, alpha=0.35, gid=f"{curve} evaluations", **style
    )
    laws = [law for found in by_seed(points).values() if (law := power_law(found)) is not None]
    if not laws:
        return
    first, last = points["seconds"].min(), points["seconds"].max()
    ends_of = {"-": (first, last)} | ({"--": (last, last * beyond)} if beyond > 1 else {})
    for line, ends in ends_of.items():
        seconds = np.geomspace(*ends, 50)
        mean = np.exp(np.mean([np.log(law.loss(seconds)) for law in laws], axis=0))
        axes.plot(seconds, mean, linestyle=line, color=style["color"], linewidth=1.4, gid=f"{curve} {line}")
