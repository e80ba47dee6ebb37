import matplotlib.style
import pytest
from defusedxml import minidom
from matplotlib.figure import Figure

from lib.results.style import (
    PANEL_INCHES,
    STYLE,
    colours_and_markers,
    legend_beside,
    legend_entry,
    panel_grid,
    save_figure,
)


def test_colours_of_families():
    given = colours_and_markers({"sdpa": "sdpa", "sdpa-then-favor": "favor", "favor-m64": "favor"})
    assert given == {"sdpa": ("C0", "o"), "sdpa-then-favor": ("C1", "o"), "favor-m64": ("C1", "s")}


@pytest.fixture
def figure():
    with matplotlib.style.context(STYLE):
        made = Figure(figsize=(3, 2))
        made.subplots().plot([1, 2], [3, 4])
    return made


@pytest.mark.parametrize(("suffix", "head"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_figure_files_repeat(figure, tmp_path, suffix, head):
    one, two = (tmp_path / f"figures/{name}.{suffix}" for name in ("one", "two"))
    save_figure(figure, [one, two])
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes().startswith(head)
    assert b"Date" not in one.read_bytes()


def test_note_below_a_figure(figure, tmp_path):
    for name, note in (("plain", None), ("noted", "one two three " * 9)):
        save_figure(figure, [tmp_path / f"{name}.svg"], note)
    plain, noted = (minidom.parse(str(tmp_path / f"{name}.svg")).documentElement for name in ("plain", "noted"))
    lines = [text.firstChild.data for text in noted.getElementsByTagName("text") if "one" in text.firstChild.data]
    assert len(lines) == 3
    height, taller = (float(each.getAttribute("height").removesuffix("pt")) for each in (plain, noted))
    assert taller > height


@pytest.mark.parametrize("rows", [3, 60])
def test_legend_of_many_rows(rows):
    with matplotlib.style.context(STYLE):
        figure, panels = panel_grid(1, PANEL_INCHES)
        names = [f"model-{number}" for number in range(rows)]
        legend_beside(figure, [legend_entry(name) for name in names], names)
        figure.draw_without_rendering()
    legend, panel = (artist.get_window_extent() for artist in (*figure.legends, *panels))
    assert 0 <= legend.y0 < legend.y1 <= figure.bbox.height
    assert panel.x1 <= legend.x0 < legend.x1 <= figure.bbox.width
    assert panel.width > 0.6 * PANEL_INCHES[0] * figure.dpi
    assert [text.get_text() for text in figure.legends[0].get_texts()] == names
