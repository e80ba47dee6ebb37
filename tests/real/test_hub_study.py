"""A study of five lines beside its data fine-tunes a published encoder that a hub serves."""

import json

import pytest
import yaml
from loopback import COMMIT

pytestmark = [pytest.mark.real, pytest.mark.study]
REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
STUDY = f"""
experiment:
  seeds: [1]
  published: {{minilm: {{repository: {REPOSITORY}, revision: {COMMIT}}}}}
  models: {{minilm: {{backbone: minilm}}}}
  stages: {{finetune: {{task: {{kind: sequence_classification}}, recipe: {{epochs: 4, learning_rate: 5.0e-4,
    min_lr_ratio: 0.0, batch_size: 16}}, data: {{imdb: {{}}}}}}}}
  datasets:
    imdb:
      source: generated
      generated: {{documents: 240}}
      labels: [negative, positive]
      max_tokens: 32
"""


def test_published_encoder_from_the_hub(copy_of_repository, minilm, site, tmp_path):
    site.models[REPOSITORY] = {path.name: path.read_bytes() for path in minilm.iterdir() if path.is_file()}
    project = copy_of_repository("hub")
    project.environment |= {"HF_ENDPOINT": site.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
    name = project.configure(yaml.safe_load(STUDY))
    project.snakemake("--configfile", name, "--cores", 2)
    (record,) = project.folder.glob("results/**/runs/finetune/minilm/imdb/seed-1/run.json")
    run = json.loads(record.read_text())
    assert run["metrics"]["test_f1_macro"] > 0.7
    asked = {path.removeprefix(f"/{REPOSITORY}/resolve/{COMMIT}/") for _, path, _ in site.requests}
    assert asked - set(site.models[REPOSITORY]) == {"added_tokens.json"}  # which early tokenisers have
    site.requests.clear()
    assert "Nothing to be done" in project.snakemake("--configfile", name, "--cores", 2).stdout
    assert not site.requests
