"""What tests of figures and summaries of analyses share."""

import json
import runpy
from pathlib import Path

from lib.analysis.settings import ANALYSES

PROGRAM = Path(__file__).resolve().parents[2] / "scripts/analysis_figure.py"


FAMILIES = {"sdpa": "sdpa", "favor-m64": "favor"}


def draw(kind, frame, families=FAMILIES):
    return ANALYSES.load(kind, "figure").draw(frame, families)


def titles(figure):
    return [axes.get_title("left") for axes in figure.axes if axes.axison]


def lines(axes):
    return {line.get_gid(): line.get_xydata() for line in axes.lines}


def kinds_of(package):
    """Return the kinds of analyses of `lib` or of a study."""
    return {kind for kind in ANALYSES.kinds() if ANALYSES.module(kind).startswith(f"{package}.")}


def assert_said(kind, frame, lines):
    """Compare parts of a summary, and the order of its models."""
    text = ANALYSES.load(kind, "figure").summarise(frame).to_markdown()
    assert [line for line in lines if line not in text] == [], text
    models = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith(("| sdpa", "| favor"))]
    assert models == sorted(models, reverse=True), "models keep their order"


def assert_drawn(kind, frame, folder):
    """Draw twice by the program, `one` and `two`, with the same bytes."""
    frame.to_csv(folder / "table.csv", index=False)
    analysis = json.dumps({"kind": kind, "families": list(FAMILIES.items())})
    summaries = [str(folder / f"table.{suffix}") for suffix in ("md", "tex")]
    arguments = ["--analysis", analysis, "--table", str(folder / "table.csv"), "--summary", *summaries]
    main = runpy.run_path(str(PROGRAM))["main"]
    for name in ("one", "two"):
        main([*arguments, "--out", *(str(folder / f"{name}.{suffix}") for suffix in ("svg", "png", "pdf"))])
    for suffix in ("svg", "pdf"):
        assert (folder / f"one.{suffix}").read_bytes() == (folder / f"two.{suffix}").read_bytes()
    assert (folder / "one.png").stat().st_size > 5_000
    assert (folder / "table.md").read_text().startswith("| model")
    assert "\nsdpa & " in (folder / "table.tex").read_text()
