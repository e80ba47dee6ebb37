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
        "body,class\n" + "".join(f"some text {n},no\nother text {n},yes\n" for n in range(50))
    )
    return project


def test_advised_studies_can_be_planned(project):
    question = Question("config/config.yaml", texts=["texts.csv"])
    for labelled, multilingual in ((True, False), (True, True), (False, False)):
        encoder = published_encoder(labelled=labelled, multilingual=multilingual)
        own = own_texts([project.folder / "texts.csv"], column="body", label="class" if labelled else None)
        readers, size = {encoder.name: EncoderSettings(**encoder.reader)}, StudySize(512, own.splits["train"])
        execution = {"results": "results/texts", "job": {"gpu": 0}}
        body = advised_study(encoder, readers, question, own, size, execution, "fp32", {})
        jobs = project.stale(project.configure(yaml.safe_load(body), "published.yaml"))
        assert (jobs["train"], jobs.get("table_f1", 0)) == (3, labelled)
