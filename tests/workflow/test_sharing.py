"""A model for others: its folder with a model card that the hub reads."""

import subprocess
import sys

import pandas as pd
import pytest
from huggingface_hub import ModelCard
from transformers import AutoModelForSequenceClassification

from lib.core.record import read_record

pytestmark = pytest.mark.extended

RUN = "score/{model}/imdb/seed-1"


@pytest.fixture(scope="module")
def project(clone):
    project = clone("sharing")
    cost = {"kind": "prediction_cost", "stage": "score", "dataset": "imdb", "price_per_hour": 0.05, "currency": "EUR"}
    own = {"experiment": {"datasets": {"imdb": {"license": "cc0-1.0"}}}, "report": {"analyses": {"cost": cost}}}
    project.configure({"extends": "config.test.yaml"} | own, "my.yaml")
    tables = [(project.results / "tables" / name).relative_to(project.folder) for name in ("cost.csv", "cost.md")]
    project.snakemake("--cores", 2, "--configfile", "my.yaml", "--", *tables)
    return project


def share(project, *arguments):
    said, status = project.ask("share", "--configfile", "my.yaml", *arguments)
    return status, said


def test_card_of_the_run_and_model_loads(project):
    place = RUN.format(model="sdpa")
    status, said = share(project, "--run", place, "--out", "shared", "--license", "apache-2.0", "--language", "en")
    assert status == 0, said
    card = ModelCard((project.folder / "shared/README.md").read_text())
    record = read_record(project.results / "runs" / place)
    assert card.data.license == "apache-2.0"
    assert card.data.pipeline_tag == "text-classification"
    scores = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert scores["Macro-F1"] == record.metrics["test_f1_macro"]
    assert "It starts from the run `adapt/sdpa/imdb/seed-1`" in card.text
    assert "Licence of the texts: cc0-1.0." in card.text
    assert f"code `{record.code}`" in card.text
    assert "Classes: negative, positive." in card.text
    assert "EUR, at 0.05 EUR per hour and core." in " ".join(card.text.split())
    row = next(line for line in card.text.splitlines() if line.startswith("| Macro-F1"))
    low, high = map(float, row.split("|")[3].split(" to "))
    assert low <= scores["Macro-F1"] <= high
    baseline = read_record(project.results / "runs" / RUN.format(model="tfidf"))
    assert float(row.split("|")[4]) == pytest.approx(baseline.metrics["test_f1_macro"], rel=1e-3)
    assert (card.data.language, card.data.tags) == (["en"], ["encoder", "sdpa", "generated-data"])
    code = card.text.split("```python\n")[1].split("```")[0]
    loaded = subprocess.run([sys.executable, "-c", code], cwd=project.folder / "shared", capture_output=True, text=True)
    assert "'label': 'negative'" in loaded.stdout or "'label': 'positive'" in loaded.stdout, loaded.stderr
    assert AutoModelForSequenceClassification.from_pretrained(project.folder / "shared").config.num_labels == 2


def test_shared_baseline_predicts(project):
    status, said = share(project, "--run", RUN.format(model="tfidf"), "--out", "texts")
    assert (status, said) == (0, "texts: README.md, fit.json, fit.safetensors, reader.json, validation.safetensors\n")
    card = ModelCard((project.folder / "texts/README.md").read_text())
    assert (card.data.library_name, card.data.pipeline_tag) == ("sklearn", "text-classification")
    assert "scripts/tools/predict.py --model" in card.text
    assert "import attention_grid" not in card.text
    test = project.results / "data/imdb/prepared/test.parquet"
    project.ask("predict", "--model", "texts", "--input", test, "--out", "labels.csv", "--id", "id")
    found = pd.read_csv(project.folder / "labels.csv", float_precision="round_trip")
    frame = pd.read_parquet(project.results / "runs" / RUN.format(model="tfidf") / "predictions.parquet")
    assert found["positive"].tolist() == [each[1] for each in frame.query("split == 'test'")["probabilities"]]


def test_refusal_to_share(project):
    assert "no run of this study" in share(project, "--run", RUN.format(model="other"), "--out", "a")[1]
    (project.folder / "c").mkdir()
    assert "c: is there already" in share(project, "--run", RUN.format(model="sdpa"), "--out", "c")[1]
    (project.results / "runs" / RUN.format(model="sdpa") / "predictions.parquet").unlink()
    assert "predictions.parquet is gone" in share(project, "--run", RUN.format(model="sdpa"), "--out", "d")[1]
    assert not any((project.folder / name).exists() for name in "ad")
