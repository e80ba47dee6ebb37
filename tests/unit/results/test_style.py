import re
from pathlib import Path

import matplotlib.style
import pytest
from defusedxml import minidom
from matplotlib.figure import Figure

from lib.core.errors import ProjectError
from lib.results.style import (
    COLOURS,
    ERROR_BAR,
    MARKERS,
    PANEL_INCHES,
    STYLE,
    colours_and_markers,
    legend_beside,
    legend_entry,
    panel_grid,
    save_figure,
)

ROOT = Path(__file__).resolve().parents[3]


def test_a_family_is_what_the_study_says():
    given = colours_and_markers({"sdpa": "sdpa", "sdpa-then-favor": "favor", "favor-m64": "favor"})
    assert given == {"sdpa": ("C0", "o"), "sdpa-then-favor": ("C1", "o"), "favor-m64": ("C1", "s")}


def test_markers_of_a_large_family_begin_again():
    models = [f"m{number}" for number in range(len(MARKERS) + 1)]
    given = list(colours_and_markers(dict.fromkeys(models, "one")).values())
    assert [marker for _, marker in given] == [*MARKERS, MARKERS[0]]
    assert {colour for colour, _ in given} == {"C0"}


def test_no_two_models_look_alike_with_more_families_than_colours():
    families = {f"m{number}": f"family-{number // 2}" for number in range(2 * COLOURS + 6)}
    given = colours_and_markers(families)
    assert len(set(given.values())) == len(families)
    with matplotlib.style.context(STYLE):
        assert len(matplotlib.rcParams["axes.prop_cycle"]) == COLOURS


@pytest.fixture
def figure():
    with matplotlib.style.context(STYLE):
        made = Figure(figsize=(3, 2))
        made.subplots().plot([1, 2], [3, 4])
    return made


@pytest.mark.parametrize(("suffix", "head"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_suffix_names_the_format_and_files_repeat_to_the_byte(figure, tmp_path, suffix, head):
    one, two = (tmp_path / f"figures/{name}.{suffix}" for name in ("one", "two"))
    save_figure(figure, [one, two])
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes().startswith(head)
    assert b"Date" not in one.read_bytes()


def test_a_note_stands_below_the_figure(figure, tmp_path):
    for name, note in (("plain", None), ("noted", "one two three " * 9)):
        save_figure(figure, [tmp_path / f"{name}.svg"], note)
    plain, noted = (minidom.parse(str(tmp_path / f"{name}.svg")).documentElement for name in ("plain", "noted"))
    lines = [text.firstChild.data for text in noted.getElementsByTagName("text") if "one" in text.firstChild.data]
    assert len(lines) == 3
    height, taller = (float(each.getAttribute("height").removesuffix("pt")) for each in (plain, noted))
    assert taller > height


def test_what_cannot_be_written_is_named(figure, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ProjectError, match="cannot be written"):
        save_figure(figure, [tmp_path / "file/f.svg"])


DRAWN = (("lib", "bars"), ("lib", "pareto"), ("studies/toy", "groups"), ("studies/recall", "state_size"))


def test_all_error_bars_have_caps_of_one_style():
    """Every module that draws them takes the style of the package, so that a new kind has it, too."""
    drawing = re.compile(r"[xy]err\b")
    modules = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for place in ("lib", "studies")
        for path in (ROOT / place).rglob("*.py")
    }
    draw = {name: code for name, code in modules.items() if drawing.search(code)}
    kinds = {f"{place}/results/kinds/{name}.py" for place, name in DRAWN}
    assert kinds | {"studies/published/analysis/relations.py"} <= draw.keys()
    assert [name for name, code in draw.items() if not re.search(r"draw_points\(|\*\*ERROR_BAR", code)] == []
    assert [name for name, code in modules.items() if ".errorbar(" in code] == ["lib/results/style.py"]
    assert ERROR_BAR["capsize"] > 0


@pytest.mark.parametrize("rows", [3, 20, 60])
def test_a_legend_of_any_number_of_rows_is_in_the_figure(rows):
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
