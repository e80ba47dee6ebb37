import csv
import runpy
from pathlib import Path

import pytest
import yaml
from studies import SMALL, changed

from lib.advice.wording import other_costs
from lib.core.errors import RunError
from lib.study.configuration import load_study, read_layers

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/tools/advise.py"


SENTENCE = "the film was good and we all liked it but some of the others who saw this play did not like the end"
WORDS = tuple(SENTENCE.split(" "))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study, and texts of 20 to 119 tokens, one in three positive."""
    folder = tmp_path_factory.mktemp("advice")
    study = changed(SMALL, ("report/baseline", "tfidf"), ("execution/results", str(folder / "results")))
    (folder / "small.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    with (folder / "reviews.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["review", "sentiment"])
        rows.writerows(
            [" ".join(WORDS[place % len(WORDS)] for place in range(18 + number)), "no" if number % 3 else "yes"]
            for number in range(100)
        )
    return folder


def advise(folder, *arguments):
    given = ["--texts", folder / "reviews.csv", "--column", "review", "--study", folder / "small.yaml"]
    main = runpy.run_path(str(PROGRAM))["main"]
    main([*map(str, given), "--device", "cpu", "--seconds", "60", *map(str, arguments)])


@pytest.fixture(scope="module")
def answer(folder):
    """What the program prints about labelled texts, and the file that it writes."""
    with pytest.MonkeyPatch.context() as patch:
        printed = []
        patch.setattr("builtins.print", printed.append)
        out = folder / "own.yaml"
        advise(folder, "--label", "sentiment", "--labels", "no", "yes", "--limits", 64, 128, 256, "--out", out)
    return printed[0], out


def test_every_limit_and_model_is_shown(answer):
    text, _ = answer
    assert "100 documents. Tokens of all of them: median 70, 95 % have at most 114, the longest has 119." in text
    assert "Language: 'en' in " in text
    assert "80 training documents" in text
    first, second, third = text.split("## At most ")[1:]
    assert first.startswith("64 tokens: 22.2 % of the text is lost, 55.0 % of documents cut")
    assert second.startswith("128 tokens: 0.0 % of the text is lost, 0.0 % of documents cut")
    for section in (first, second, third):
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"]
        assert [row[0] for row in rows[2:]] == ["sdpa", "lsh-h2-c64", "favor-m64"]
        assert all(float(row[1].replace(",", "")) > 0 and float(row[4]) > 0 for row in rows[2:])
        assert rows[2][3] == "1"
        assert all("[" in row[3] or "turn" in row[3] for row in rows[3:])
        assert {row[5] for row in rows[2:]} == {"yes"}
    assert "No results at hand for documents like these." in second
    assert "F1: on imdb, cut to 512 tokens (published, 1 seed); tfidf, which reads whole texts, has 89.50." in third
    assert "What another seed would give is not known. Differences below 1.1 points are within the noise" in third


def test_few_short_texts_take_a_published_encoder_with_exact_attention(answer):
    advice = answer[0].split("## Advice\n\n")[1].split("```yaml")[0]
    assert "Too few documents to compare models" in advice
    assert "10 test documents, can show no difference at all" in advice
    assert "Take tfidf, which needs no training steps, and a published encoder with exact attention" in advice
    assert "sentence-transformers/all-MiniLM-L6-v2" in advice
    assert "pretraining, at most about " in advice
    assert "attention in a window" not in advice


def test_the_file_is_what_was_printed_and_loads_as_a_study(answer, folder):
    text, out = answer
    assert text.endswith(f"```yaml\n{out.read_text()}```")
    study = load_study(read_layers([out]))
    assert study.experiment.datasets["texts"].local.files == {"train": [str(folder / "reviews.csv")]}
    assert study.experiment.datasets["texts"].max_tokens == 128
    assert list(study.experiment.models) == ["tfidf", "minilm"]
    assert study.execution.results == "results/reviews"
    assert study.execution.training.device == "cpu"


def test_weights_that_exist_give_the_study_of_the_mechanism(folder, capsys):
    out = folder / "weights.yaml"
    advise(
        folder,
        "--label",
        "sentiment",
        "--labels",
        "no",
        "yes",
        "--limits",
        128,
        "--weights",
        "there/model",
        "--out",
        out,
    )
    study = load_study(read_layers([out]))
    assert list(study.experiment.stages) == ["tapt", "finetune"]
    model = list(study.experiment.models)[1]
    assert study.experiment.models[model].start.folder == "there/model"
    assert "published encoder" not in capsys.readouterr().out.split("## Advice")[1]


def test_labels_and_their_column_belong_together(folder, capsys):
    with pytest.raises(SystemExit):
        advise(folder, "--label", "sentiment")
    assert "--label needs --labels" in capsys.readouterr().err


def test_a_machine_that_is_too_small_is_told(folder, monkeypatch):
    monkeypatch.setattr("lib.measure.estimates.RESERVE", 1e-6)
    with pytest.raises(RunError, match="64 tokens: none of sdpa, lsh-h2-c64, favor-m64 fits into"):
        advise(folder, "--limits", 64, 128)


def test_a_window_is_named_for_long_texts_where_no_model_has_one():
    (sentence,) = other_costs(4096, {"sdpa", "favor"})
    assert "attention in a window" in sentence
    assert "published encoder, on papers of up to 2,048 tokens" in sentence
    assert not other_costs(1024, {"sdpa", "favor"})
    assert not other_costs(4096, {"sdpa", "window"})
