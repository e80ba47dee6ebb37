"""Every setting is shown: in a configuration that we ship, or in a block of a page. Blocks have known keys."""

import functools
import re
import textwrap
from collections import defaultdict

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from lib.advice.encoders import SMALL
from lib.core.extensions import shipped, use
from lib.study.configuration import SHIPPED
from lib.study.experiment import Experiment
from lib.study.report import ReportSettings
from lib.study.study import Study
from lib.workflow.commands.config_reference import EXTENDS, Reference, nested

use(shipped())

BLOCK = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
OTHERS = {"default-resources", "config", "partitions", "software-deployment-method", "restart-times", "envvars"}
"""Keys of profiles of Snakemake and of a cluster."""

FILLED_IN = {"mechanism", "vectors_folder", "vectors_folders", "teacher_backbone", "teacher_weights"}
"""Keys that a study fills in for its runs."""

reference = functools.cache(Reference)


def sections():
    """Return every section of a study by name, the study itself first."""
    return [Study.__name__, *reference().in_studies]


def fields(section):
    """Return the schemas of a section's settings."""
    return reference().definitions[section]["properties"]


def blocks(page):
    """Return the YAML blocks of a page; dots stand for what is left out."""
    texts = [textwrap.dedent(text) for _, text in BLOCK.findall(page.read_text(encoding="utf-8"))]
    found = [yaml.safe_load(re.sub(r"^ *\.\.\.$", "", text, flags=re.MULTILINE)) for text in texts]
    return [block for block in found if isinstance(block, dict) and not OTHERS & block.keys()]


def of_kind(values, able):
    """Return the sections of the kind that values name; all of them if a file below names it."""
    named = [each for each in able if values.get("kind") in (fields(each).get("kind", {}).get("const"), None)]
    return named or able


def described(section, key):
    """Return a setting by its name and description, which sections of one base share."""
    return key, fields(section)[key].get("description", "")


def walk(values, able, shown, problems):
    """Collect the settings in values of a section that may be one of several, and what no section can have."""
    if not isinstance(values, dict):
        return
    able = of_kind(values, able)
    for key, value in values.items():
        having = [each for each in able if key in fields(each)]
        if not having:
            problems.append(f"{key}: unknown to {', '.join(able)}")
        for section in having:
            shown.add(described(section, key))
            by_path = defaultdict(list)
            for part, path in nested(fields(section)[key]):
                by_path[path] += reference().able(part)
            for path, parts in by_path.items():
                for each in below(value, path):
                    walk(each, parts, shown, problems)


def below(value, path):
    """Return the sections in a value: behind every name (`.<>`) and in every list (`[]`) of the path."""
    values = [value]
    for step in re.findall(r"\.<>|\[\]", path):
        kind = dict if step == ".<>" else list
        values = [
            part for each in values if isinstance(each, kind) for part in (each.values() if kind is dict else each)
        ]
    return values


def read(block, shown):
    """Collect the settings in a block: a section, or sections by name. Return the problems of what it fits best."""
    block = {key: value for key, value in block.items() if key != EXTENDS}
    readings = []
    for section in sections():
        for parts in ([block], list(block.values())):
            found, problems = set(), []
            for part in parts:
                walk(part, [section], found, problems)
            readings.append((len(problems), -len(found), found, problems))
    _, _, found, problems = min(readings, key=lambda each: each[:2])
    shown |= found
    return problems if found else [f"{', '.join(block)}: no section has these keys"]


pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("all_studies")]


@pytest.fixture(scope="module")
def pages(repository):
    return [repository / "README.md", *repository.glob("docs/*.md"), *sorted(repository.glob("studies/*/*.md"))]


def test_blocks_of_pages_have_settings_that_exist(pages):
    wrong = [f"{page.name}: {each}" for page in pages for block in blocks(page) for each in read(block, set())]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["tables", "figures", "analyses", "tokenizers", "mechanisms"])
def test_blocks_of_pages_have_whole_entries(name, pages):
    """They can be copied. An entry without its source or kind, or of a kind that the page adds, is a part of one."""
    part = "experiment" if name in Experiment.model_fields else "report"
    entries = TypeAdapter((Experiment if part == "experiment" else ReportSettings).model_fields[name].annotation)
    wrong = []
    for page in pages:
        for block in blocks(page):
            for entry in {**(block.get(name) or {}), **((block.get(part) or {}).get(name) or {})}.items():
                try:
                    entries.validate_python(dict([entry]))
                except ValidationError as error:
                    said = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
                    if not re.search("source = None|kind: None|not a known attention mechanism|: no extension", said):
                        wrong.append(f"{page.name}: {said}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("page", "stage"), [("add_dataset", "finetune"), ("published_models", "classify")])
def test_recipe_on_pages_is_that_of_the_advice(repository, page, stage):
    block = next(each for each in blocks(repository / "docs" / f"{page}.md") if "report" in each)
    recipe = block["experiment"]["stages"][stage]["recipe"]
    assert recipe == SMALL.recipe(1330, labelled=True)
    assert SMALL.recipe(1328, labelled=True)["epochs"] > recipe["epochs"], "the number that the page names"


def test_settings_are_all_shown(pages):
    shown = set()
    for study in SHIPPED.values():
        walk(yaml.safe_load(study.read_text(encoding="utf-8")), [Study.__name__], shown, [])
    for page in pages:
        for block in blocks(page):
            read(block, shown)
    settings = {described(section, key) for section in sections() for key in fields(section)} - shown
    hidden = sorted(f"{key}: {description}" for key, description in settings if key not in FILLED_IN)
    assert not hidden, "\n".join(hidden)
