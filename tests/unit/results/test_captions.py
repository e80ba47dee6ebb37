"""Every table and figure of every shipped study has a caption, and every caption renders."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils.core import publish_string
from jinja2 import Environment, StrictUndefined
from small_studies import SMALL

from lib.analysis.settings import ANALYSES
from lib.core.extensions import shipped, use
from lib.results.settings import FIGURES, TABLES
from lib.study.configuration import load_study, read_layers
from lib.workflow.planning.first_page import FirstPage
from lib.workflow.planning.plan import Plan

ROOT = Path(__file__).resolve().parents[3]
PLACES = ("workflow", "benchmarks", "studies/*")
CAPTIONS = {path.stem: path for place in PLACES for path in ROOT.glob(f"{place}/report/*.rst")}
NAMES = CAPTIONS.keys()
use(shipped())
KINDS = {*TABLES.kinds(), *FIGURES.kinds(), *ANALYSES.kinds()}


def rendered(path, study):
    page = FirstPage(Plan(study).report, "small")
    config = study.model_dump(mode="json") | {"opening": page.opening, "facts": page.facts}
    snakemake = SimpleNamespace(config=config, wildcards=SimpleNamespace(dataset="imdb"))
    template = Environment(undefined=StrictUndefined).from_string(path.read_text(encoding="utf-8"))
    return template.render(snakemake=snakemake)


@pytest.mark.extended
@pytest.mark.parametrize("path", CAPTIONS.values(), ids=CAPTIONS)
def test_captions_render(path):
    text = rendered(path, load_study([("small.yaml", SMALL)]))
    html = publish_string(text, writer="html5", settings_overrides={"halt_level": 2, "report_level": 2}).decode()
    assert "<p>" in html
    assert "{{" not in html


def test_kind_has_a_caption():
    assert KINDS <= NAMES


def test_first_page_in_order(tmp_path):
    """The answer, F1 of all models, F1 by class, errors, each with all its datasets; without any wish, the answer."""
    layers = [*read_layers([ROOT / "config/demo.yaml"]), ("own", {"execution": {"results": str(tmp_path)}})]
    plan = Plan(load_study(layers))
    for file in plan.targets():
        Path(file).parent.mkdir(exist_ok=True, parents=True)
        Path(file).touch()
    opened = re.findall(r":file: \S+/(\S+)\.", FirstPage(plan.report, "demo").opening())
    divided = [f"{name}_{dataset}" for name in ("f1_classes", "errors") for dataset in plan.experiment.datasets]
    assert opened == ["answer", "f1_intervals", *divided]
    unnamed = Plan(load_study([*layers, ("own", {"report": {"opens_with": None}})]))
    opening = FirstPage(unnamed.report, "demo").opening()
    assert opening.index("<h1>demo</h1>") < opening.index("tables/answer.html") == opening.index("tables/")
