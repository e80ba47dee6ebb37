"""Every table and figure of every shipped study has a caption, and every caption renders."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils.core import publish_string
from jinja2 import Environment, StrictUndefined
from small_studies import SMALL, changed

from lib.analysis.settings import ANALYSES
from lib.core.errors import ConfigError
from lib.core.extensions import shipped, use
from lib.results.settings import FIGURES, TABLES
from lib.study.configuration import SHIPPED, load_study, read_layers
from lib.workflow.planning.first_page import FirstPage
from lib.workflow.planning.plan import Plan

ROOT = Path(__file__).resolve().parents[3]
PLACES = ("workflow", "benchmarks", "studies/*")
CAPTIONS = {path.stem: path for place in PLACES for path in ROOT.glob(f"{place}/report/*.rst")}
STUDIES = sorted(SHIPPED.values())
NAMES = CAPTIONS.keys()
BENCH = {
    "attention_cost", "attention_time", "attention_memory", "training_cost", "favor_error", "lsh_recall",
    "sequence_cost", "sequence_time", "memory_cost", "memory_length", "adaptation_cost", "encoder_cost",
}  # fmt: skip
use(shipped())
KINDS = {*TABLES.kinds(), *FIGURES.kinds(), *ANALYSES.kinds()}


def fields_of(kind):
    """The settings of a table, figure or analysis."""
    axes = [axis for axis in (TABLES, FIGURES, ANALYSES) if kind in axis.kinds()]
    return {name for axis in axes for name in axis.settings(kind).model_fields}


def rendered(path, study):
    page = FirstPage(Plan(study).report, "small")
    config = study.model_dump(mode="json") | {"opening": page.opening, "facts": page.facts}
    snakemake = SimpleNamespace(config=config, wildcards=SimpleNamespace(dataset="imdb"))
    template = Environment(undefined=StrictUndefined).from_string(path.read_text(encoding="utf-8"))
    return template.render(snakemake=snakemake)


@pytest.mark.parametrize("path", CAPTIONS.values(), ids=CAPTIONS)
def test_captions_render_without_a_warning(path):
    text = rendered(path, load_study([("small.yaml", SMALL)]))
    html = publish_string(text, writer="html5", settings_overrides={"halt_level": 2, "report_level": 2}).decode()
    assert "<p>" in html
    assert "{{" not in html


def test_the_methods_paragraph_of_the_grid_names_seeds_and_papers():
    path = CAPTIONS["grid"]
    assert path.read_text().count("https://arxiv.org/abs/") == 5
    text = rendered(path, load_study([("small.yaml", SMALL)]))
    assert "<th>Seeds</th><td>1, 2</td>" in text
    assert "<th>Arithmetic</th><td>fp32</td>" in text


def test_the_methods_paragraph_of_any_study_names_what_it_has_and_nothing_that_was_removed():
    path = CAPTIONS["study"]
    study = load_study([("small.yaml", changed(SMALL, ("experiment/mechanisms/favor-m64", None)))])
    assert "<th>Models</th><td>tfidf, sdpa, lsh-h2-c64</td>" in rendered(path, study)


@pytest.mark.parametrize("name", ["grid", "study", "toy"])
def test_the_first_page_says_what_was_generated_and_has_the_sizes_of_the_study_itself(name):
    path = CAPTIONS[name]
    assert "BERT-small" not in path.read_text()
    text = rendered(path, load_study(read_layers([ROOT / "config/demo.yaml"])))
    assert "generated texts, not published corpora, under the names wikipedia, imdb, hyperpartisan, arxiv" in text
    assert "encoder: layers 2, width 64, heads 2, feed-forward width 128" in text
    text = rendered(path, load_study(read_layers([ROOT / "config/config.yaml"])))
    assert "generated texts" not in text


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_the_methods_paragraph_of_a_shipped_study_is_there(path):
    assert load_study(read_layers([path])).report.methods in NAMES


def test_a_methods_paragraph_that_is_not_there_is_refused():
    with pytest.raises(
        ConfigError, match=r"report\.methods: 'nobody' would be workflow/report/nobody\.rst, which is not"
    ):
        load_study([("small.yaml", changed(SMALL, ("report/methods", "nobody")))])


def test_every_kind_has_a_caption():
    assert KINDS <= NAMES


def test_no_caption_is_left_over():
    """Each is of a kind, of a benchmark, or the first page of a study; none is of a name that a result may have."""
    pages = {load_study(read_layers([path])).report.methods for path in STUDIES}
    assert KINDS | BENCH | pages | {"study"} == NAMES
    assert not KINDS & (BENCH | pages)


def sentences(kind):
    return CAPTIONS[kind].read_text().replace("\n", " ").split(". ")


@pytest.mark.parametrize("kind", sorted(kind for kind in KINDS if "pairs" in fields_of(kind)))
def test_a_caption_names_no_reference_where_pairs_may_be_named(kind):
    assert not [each for each in sentences(kind) if "reference" in each or "baseline" in each]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_caption_says_that_intervals_are_over_seeds_only_where_there_are_several(kind):
    for each in sentences(kind):
        assert "several seeds" in each or not ("interval" in each and "seeds" in each)


def test_the_title_is_the_one_of_the_study_or_else_its_name_and_no_setting_of_a_run():
    named = load_study([("small.yaml", changed(SMALL, ("report/title", "Which <attention> & for how long?")))])
    plain = load_study([("small.yaml", SMALL)])
    assert "<h1>Which &lt;attention&gt; &amp; for how long?</h1>" in FirstPage(Plan(named).report, "small").opening()
    assert "<tr><th>Study</th><td>small</td></tr>" in FirstPage(Plan(named).report, "small").facts()
    assert "<h1>small</h1>" in FirstPage(Plan(plain).report, "small").opening()
    assert [run.settings for run in named.runs] == [run.settings for run in plain.runs]
    for title in ("", " ", "two\nlines", "x" * 201):
        with pytest.raises(ConfigError, match=r"report\.title"):
            load_study([("small.yaml", changed(SMALL, ("report/title", title)))])


def test_the_answer_comes_first(tmp_path):
    own = {"report": {"opens_with": None}, "execution": {"results": str(tmp_path)}}
    made = load_study([*read_layers([ROOT / "config/demo.yaml"]), ("own", own)])
    plan = Plan(made)
    for file in [plan.paths.table(name, "html") for name in made.report.tables]:
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).touch()
    opening = FirstPage(plan.report, "demo").opening()
    assert opening.index("<h1>demo</h1>") < opening.index("tables/answer.html")
    assert opening.index("tables/answer.html") == opening.index("tables/")
