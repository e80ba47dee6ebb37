import matplotlib.style
import pytest
from matplotlib.figure import Figure

from lib.results.style import STYLE, colours_and_markers, save_figure


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
