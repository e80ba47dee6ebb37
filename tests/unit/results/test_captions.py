from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils.core import publish_string
from jinja2 import Environment, StrictUndefined

CAPTIONS = sorted((Path(__file__).resolve().parents[3] / "workflow/report").glob("*.rst"))


@pytest.mark.parametrize("path", CAPTIONS, ids=lambda path: path.stem)
def test_captions_render_without_a_warning(path):
    snakemake = SimpleNamespace(
        config={"experiment": {"seeds": [1, 2], "precision": "fp32"}}, wildcards=SimpleNamespace(dataset="imdb")
    )
    text = (
        Environment(undefined=StrictUndefined).from_string(path.read_text(encoding="utf-8")).render(snakemake=snakemake)
    )
    html = publish_string(text, writer="html5", settings_overrides={"halt_level": 2, "report_level": 2}).decode()
    assert "<p>" in html
    assert "{{" not in html


def test_the_methods_paragraph_names_seeds_and_papers():
    text = next(path for path in CAPTIONS if path.stem == "workflow").read_text()
    assert text.count("https://arxiv.org/abs/") == 5
    assert "seeds" in text


def test_every_caption_of_the_rules_exists():
    names = {path.stem for path in CAPTIONS}
    grid = {"workflow", "token_lengths", "pretrain", "tapt", "finetune", "f1", "baseline", "f1_time"}
    bench = {"attention_cost", "attention_time", "attention_memory", "training_cost", "favor_error", "lsh_recall"}
    assert names == grid | bench
