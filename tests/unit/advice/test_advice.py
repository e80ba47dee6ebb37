import csv
import runpy
from pathlib import Path

import pytest
import yaml
from studies import SMALL, changed

from lib.core.errors import RunError
from lib.study.configuration import load_study, read_layers

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/tools/advise.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study, and texts of 20 to 119 tokens, one in three positive."""
    folder = tmp_path_factory.mktemp("advice")
    study = changed(SMALL, ("report/baseline", "tfidf"), ("execution/results", str(folder / "results")))
    (folder / "small.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    with (folder / "reviews.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["review", "sentiment"])
        rows.writerows([("word " * (18 + number), "no" if number % 3 else "yes") for number in range(100)])
    return folder


def advise(folder, *arguments):
    given = ["--texts", folder / "reviews.csv", "--column", "review", "--study", folder / "small.yaml"]
    main = runpy.run_path(str(PROGRAM))["main"]
    main([*map(str, given), "--device", "cpu", "--seconds", "2", *map(str, arguments)])


@pytest.fixture(scope="module")
def answer(folder):
    """What the program prints about labelled texts, and the file that it writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        printed = []
        patch.setattr("builtins.print", printed.append)
        out = folder / "own.yaml"
        advise(folder, "--label", "sentiment", "--labels", "no", "yes", "--limits", 64, 128, 256, "--out", out)
    return printed[0], out


def test_every_limit_and_model_is_shown(answer):
    text, _ = answer
    assert "100 documents. Tokens of all of them: median 70, 95 % have at most 114, the longest has 119." in text
    assert "80 training documents" in text
    first, second, third = text.split("## At most ")[1:]
    assert first.startswith("64 tokens: 22.2 % of the text is lost, 55.0 % of documents cut")
    assert second.startswith("128 tokens: 0.0 % of the text is lost, 0.0 % of documents cut")
    for section in (first, second, third):
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"]
        assert [row[0] for row in rows[2:]] == ["sdpa", "lsh-h2-c64", "favor-m64"]
        assert all(float(cell.replace(",", "")) > 0 for row in rows[2:] for cell in row[1:5])
        assert {row[5] for row in rows[2:]} == {"yes"}
    assert "No results at hand for documents of about this length." in second
    assert "F1: on imdb, cut to 512 tokens (published, 1 seed); tfidf, which reads whole texts, has 89.50." in third


def test_the_advice_is_a_sentence_with_its_reason(answer):
    sentence = answer[0].split("## Advice\n\n")[1].split("\n")[0]
    assert sentence.startswith("Take ")
    assert " with at most 128 tokens, which loses nothing: it is the fastest of 3 models that fit" in sentence
    assert "nothing is known about scores at such lengths" in sentence
    assert "pretrain on wikipedia (2 epochs) takes at most about " in answer[0]


def test_the_file_is_what_was_printed_and_loads_as_a_study(answer, folder):
    text, out = answer
    assert text.endswith(f"```yaml\n{out.read_text()}```")
    study = load_study(read_layers([out]))
    assert study.experiment.datasets["texts"].local.files == {"train": [str(folder / "reviews.csv")]}
    assert study.experiment.datasets["texts"].max_tokens == 128
    assert len(study.experiment.models) == 2
    assert study.execution.results == "results/reviews"
    assert study.execution.training.device == "cpu"


def test_labels_and_their_column_belong_together(folder, capsys):
    with pytest.raises(SystemExit):
        advise(folder, "--label", "sentiment")
    assert "--label and --labels belong together" in capsys.readouterr().err


def test_a_machine_that_is_too_small_is_told(folder, answer, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr("lib.measure.estimates.RESERVE", 1e-6)
    with pytest.raises(RunError, match="64 tokens: none of sdpa, lsh-h2-c64, favor-m64 fits into"):
        advise(folder, "--limits", 64, 128)
