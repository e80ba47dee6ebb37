"""The studies that `advise.py` writes run as they are."""

import pytest
import yaml

from lib.advice.encoders import published_encoder
from lib.advice.preparing import own_texts
from lib.advice.question import Question
from lib.advice.studies import StudySize, advised_study
from lib.core.weights import EncoderSettings

pytestmark = pytest.mark.study


@pytest.fixture(scope="module")
def project(copy_of_repository):
    """A copy of the repository with some texts of its own."""
    project = copy_of_repository("advised")
    (project.folder / "texts.csv").write_text(
        "body,class,topics\n" + "".join(f"text {n},no,a\nother text {n},yes,{'a;b' * (n % 2)}\n" for n in range(50))
    )
    return project


def test_advised_studies_can_be_planned(project):
    question = Question("config/config.yaml", texts=["texts.csv"])
    for label, multilingual in (("class", False), ("class", True), ("topics", False), (None, False)):
        labelled = label is not None
        encoder = published_encoder(labelled=labelled, multilingual=multilingual)
        own = own_texts([project.folder / "texts.csv"], column="body", label=label)
        readers, size = {encoder.name: EncoderSettings(**encoder.reader)}, StudySize(512, own.splits["train"])
        execution = {"results": "results/texts", "job": {"gpu": 0}}
        body = advised_study(encoder, readers, question, own, size, execution, "fp32", {})
        jobs = project.stale(project.configure(yaml.safe_load(body), "published.yaml"))
        assert (jobs["train"], jobs.get("table_f1", 0)) == (3, labelled)
