"""A study of word vectors from its texts to its tables: each vectors are made once per seed, and shared."""

import pandas as pd
import pytest
from small_studies import executed_in, reviews

from lib.core.record import digest_of, read_record

pytestmark = pytest.mark.study

GLOVE = "brilliant 1 0\nterrible 0 1\nfilm 1 1\n"


def study(folder):
    recipe = {"epochs": 1, "learning_rate": 5e-3, "min_lr_ratio": 0.1, "batch_size": 16}
    return {
        "extensions": ["studies/word_vectors"],
        "experiment": {
            "seeds": [5],
            "precision": "fp32",
            "word_vectors": {
                "film": {"source": "trained", "corpus": "imdb", "dimension": 8, "min_count": 2, "epochs": 2},
                "given": {"source": "local", "path": str(folder / "glove.txt"), "format": "glove", "dimension": 2},
            },
            "backbones": {
                "mean": {"kind": "word_vectors", "vectors": "film", "weighting": "tfidf"},
                "few": {"kind": "word_vectors", "vectors": "given"},
                "gru": {"kind": "recurrent", "cell": "gru", "hidden_size": 8, "num_hidden_layers": 1},
            },
            "tokenizers": {"wordpiece": {"source": "trained", "vocab_size": 300, "corpus": "imdb"}},
            "datasets": {"imdb": reviews(120, 32)},
            "stages": {
                "classify": {"task": {"kind": "sequence_classification"}, "recipe": recipe, "data": {"imdb": {}}}
            },
            "models": {
                "mean": {"backbone": "mean"},
                "few": {"backbone": "few"},
                "gru": {"backbone": "gru", "start": {"word_vectors": "film"}},
            },
        },
        "report": {
            "tables": {
                "f1": {"stage": "classify", "columns": ["f1"]},
                "analogies": {"kind": "analogies"},
                "nearest": {"kind": "nearest_words", "words": ["film"], "word_vectors": ["given", "film"]},
            }
        },
        "execution": executed_in("results/vectors"),
    }


@pytest.fixture(scope="module")
def finished(run_study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("glove")
    (folder / "glove.txt").write_text(GLOVE)
    values = study(folder)
    project = run_study(values)
    project.values = values
    return project


def test_baseline_and_encoder_with_the_same_vectors(finished):
    vectors = finished.results / "word_vectors/film/seed-5"
    records = {model: read_record(finished.results / f"runs/classify/{model}/imdb/seed-5") for model in ("mean", "gru")}
    assert records["mean"].parents["word_vectors"].digest == digest_of(vectors)
    assert records["gru"].parents["start"].digest == digest_of(vectors)
    assert records["mean"].parameters == {"total": 8 + 1}
    log = (finished.results / "logs/classify/gru/imdb/seed-5.log").read_text()
    assert "tokens begin as word vectors, the others as random ones" in log


def test_vectors_without_code(finished):
    found = {path.name for path in (finished.results / "word_vectors").rglob("*") if path.is_file()}
    assert found - {".snakemake_timestamp"} == {"vectors.safetensors", "words.json"}


def test_tables_of_vectors(finished):
    nearest = pd.read_csv(finished.results / "tables/nearest.csv")
    assert nearest["vectors"].tolist() == ["given", "film"]
    assert nearest.loc[0, "nearest"].startswith("brilliant 0.71, terrible 0.71")
    analogies = pd.read_csv(finished.results / "tables/analogies.csv").set_index(["vectors", "relation"])
    assert analogies.loc[("given", "all"), "known"] == 0
    f1 = pd.read_csv(finished.results / "tables/f1.csv")
    assert f1["model"].tolist() == ["mean", "few", "gru"]


def test_changed_settings_of_vectors(finished):
    values = study(finished.folder)
    values["experiment"]["word_vectors"] |= {
        "given": finished.values["experiment"]["word_vectors"]["given"],
        "film": values["experiment"]["word_vectors"]["film"] | {"epochs": 3},
    }
    finished.configure(values, "changed.yaml")
    jobs = finished.jobs_of(finished.snakemake("-n", "-p", "--cores", 1, "--configfile", "changed.yaml").stdout)
    assert jobs["train_word_vectors"] == 1
    assert (jobs["train"], jobs["evaluate"]) == (1, 1)
