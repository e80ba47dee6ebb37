"""The studies that `advise.py` writes run as they are."""

import pytest
import yaml

from lib.advice.encoders import published_encoder
from lib.advice.estimates import find_stages
from lib.advice.preparing import own_texts
from lib.advice.question import Question
from lib.advice.studies import OwnStudy
from lib.study.configuration import load_study, read_layers

pytestmark = pytest.mark.study


@pytest.fixture(scope="module")
def project(copy_of_repository):
    """A copy of the repository with some texts and a pretrained model of its own."""
    project = copy_of_repository("advised")
    (project.folder / "texts.csv").write_text(
        "body,class\n" + "".join(f"some text {n},no\nother text {n},yes\n" for n in range(50))
    )
    return project


def question(**changes):
    return Question("config/config.yaml", texts=["texts.csv"], **changes)


def texts(project, labelled):
    return own_texts([project.folder / "texts.csv"], column="body", label="class" if labelled else None)


def own_study(project, labelled, limit, **changes):
    execution = {"results": "results/texts", "job": {"gpu": 0}}
    return OwnStudy(question(**changes), texts(project, labelled), limit, execution, "fp32", {})


@pytest.mark.parametrize(("labelled", "multilingual"), [(True, False), (True, True), (False, False)])
def test_the_study_of_a_published_encoder_runs_as_it_is(project, labelled, multilingual):
    encoder = published_encoder(labelled=labelled, multilingual=multilingual)
    body = own_study(project, labelled, 512).of_encoder(encoder)
    jobs = project.stale(project.configure(yaml.safe_load(body), "published.yaml"))
    assert jobs["train"] == 3
    assert jobs.get("table_f1", 0) == labelled


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("weights", [None, "weights/model"])
def test_the_study_of_a_mechanism_runs_as_it_is(project, labelled, weights):
    """With a pretraining, and without one, which takes stages away that the study's tables name."""
    if weights:
        (project.folder / weights).mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "model.safetensors"):
            (project.folder / weights / name).write_text("{}")
    layers = read_layers([project.folder / "config" / "config.yaml"])
    own = own_study(project, labelled, 1024, weights=weights)
    body = own.of_model(layers, find_stages(load_study(layers).graph), "favor-m64")
    jobs = project.stale(project.configure(yaml.safe_load(body), "own.yaml"))
    assert jobs["train"] == 1 + labelled + (weights is None)
