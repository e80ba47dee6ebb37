"""The README's commands, run as printed, give what it prints: for texts, for a mechanism, and for a cluster."""

import re
import shlex
import subprocess
import sys

import pandas as pd
import pytest
from huggingface_hub import ModelCard

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def readme(repository):
    return (repository / "README.md").read_text(encoding="utf-8")


def section(text, title):
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(text, language=""):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in found if name == language]


def commands(text):
    """Return the words of every command of a section, without comments."""
    lines = "".join(blocks(text)).splitlines()
    words = [
        shlex.split(line, comments=True) for line in lines if re.match(r"(python|snakemake|attention-grid|make) ", line)
    ]
    assert words
    return words


def in_file(block):
    """Return the path that the first line of a block names, and the rest."""
    first, _, rest = block.partition("\n")
    return first.removeprefix("# "), rest


@pytest.mark.real
@pytest.mark.study
def test_commands_for_texts(readme, copy_of_repository, shared, minilm, site, tmp_path):
    site.models[MINILM] = {path.name: path.read_bytes() for path in minilm.iterdir() if path.is_file()}
    vocabulary = (shared / "data/vocab/bert-base-uncased/vocab.txt").read_bytes()
    site.models["google-bert/bert-base-uncased"] = {"vocab.txt": vocabulary}
    project = copy_of_repository("texts")
    project.environment |= {"HF_ENDPOINT": site.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
    reviews = pd.read_parquet(shared / "data/imdb/train.parquet").groupby("label").head(30)
    articles = pd.DataFrame(
        {
            "text": reviews["text"].str.split().str[:15].str.join(" "),
            "category": reviews["label"].map({0: "bad", 1: "good"}),
        }
    )
    articles.to_csv(project.folder / "articles.csv", index=False)
    articles[["text"]].head(7).to_csv(project.folder / "new.csv", index=False)
    advise, study, predict, share = commands(section(readme, "I have texts"))

    answer = project.program("advise", *advise[2:])
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("**Best without training: ")
    assert f"`{shlex.join(study)}`" in answer.stdout
    project.snakemake(*study[1:])
    assert "| tfidf" in (project.folder / "results/articles/tables/f1.md").read_text()
    for name, words in (("predict", predict), ("share", share)):
        assert words[1] == f"scripts/tools/{name}.py"
        process = project.program(name, *words[2:])
        assert process.returncode == 0, process.stderr
    assert list(pd.read_csv(project.folder / "labels.csv")) == ["id", "label", "bad", "good"]
    card = ModelCard((project.folder / share[-1] / "README.md").read_text())
    assert card.data.pipeline_tag == "text-classification"


@pytest.mark.study
def test_commands_for_a_mechanism(readme, repository, copy_of_repository):
    text = section(readme, "I have a mechanism")
    project = copy_of_repository("mechanism")
    for path, content in (in_file(block) for language in ("python", "yaml") for block in blocks(text, language)):
        (project.folder / path).parent.mkdir(exist_ok=True)
        (project.folder / path).write_text(content, encoding="utf-8")
    trial, study = commands(text)
    trial = [sys.executable, "-m", "lib", *trial[1:], "--quick"]
    process = subprocess.run(trial, cwd=project.folder, env=project.environment, capture_output=True, text=True)
    assert process.returncode == 1, process.stderr  # padding has to be kept apart
    quoted = text.partition("> ")[2].partition("\n")[0]
    assert quoted.startswith(process.stdout.splitlines()[-1])
    planned = project.snakemake("-n", "-p", *study[1:]).stdout
    assert project.jobs_of(planned)["train"] == 5
    project.snakemake(*study[1:])
    (table,) = [block for block in blocks(text) if "state size" in block]
    made = (project.folder / "results/mine/tables/recall.md").read_text().splitlines()
    recorded = [line for line in table.splitlines() if not line.startswith("| linear ")]
    assert set(recorded) <= set(made)
    assert any(line.startswith("| linear ") for line in made)


def test_hours_of_the_grid_and_rows_of_the_demo(readme, repository, copy_of_repository):
    text = section(readme, "I have a cluster")
    (table,) = [block for block in blocks(text) if "GPU hours" in block]
    printed, _ = copy_of_repository("cluster").ask("status")
    assert set(table.splitlines()) <= set(printed.splitlines())
    assert ["snakemake", "--profile", "slurm", "results/tables/f1.csv"] in commands(text)
    (table,) = [block for block in blocks(section(readme, "Try it without texts")) if "F1" in block]
    assert set(table.splitlines()) <= set((repository / "docs/demo.md").read_text(encoding="utf-8").splitlines())
