import csv
import random
import re
import runpy
from pathlib import Path

import pytest
import yaml
from small_studies import SMALL, changed
from transformers import BertConfig, BertModel

from lib.advice.encoders import MASKED
from lib.advice.encoders import SMALL as MINILM
from lib.core.errors import ConfigError, DataError, DownloadError
from lib.study.configuration import load_study, read_layers
from lib.tokens.vocabularies import train_wordpiece

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/tools/advise.py"


SENTENCE = "the film was good and we all liked it but some of the others who saw this play did not like the end"
WORDS = tuple(SENTENCE.split(" "))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study, and texts of 20 to 119 tokens, one in three positive."""
    folder = tmp_path_factory.mktemp("advice")
    study = changed(SMALL, ("report/baseline", "tfidf"), ("execution/results", str(folder / "results")))
    (folder / "small.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    draws = random.Random(0)
    with (folder / "reviews.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["review", "sentiment"])
        rows.writerows(
            [" ".join(draws.choices(WORDS, k=18 + number)), "no" if number % 3 else "yes"] for number in range(100)
        )
    return folder


@pytest.fixture(scope="module")
def encoder(folder):
    """A small encoder with random weights."""
    encoder = folder / "my-encoder"
    vocabulary = len(train_wordpiece(encoder, [SENTENCE] * 3).backend)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=vocabulary, max_position_embeddings=96, **sizes)).save_pretrained(encoder)
    return encoder


def advise(folder, *arguments):
    given = ["--texts", folder / "reviews.csv", "--column", "review", "--study", folder / "small.yaml"]
    main = runpy.run_path(str(PROGRAM))["main"]
    main([*map(str, given), "--device", "cpu", "--seconds", "5", *map(str, arguments)])


@pytest.fixture(scope="module")
def answer(folder, encoder):
    """What the program prints about labelled texts, and the file that it writes."""
    with pytest.MonkeyPatch.context() as patch:
        printed = []
        patch.setattr("builtins.print", printed.append)
        out = folder / "own.yaml"
        given = ("--label", "sentiment", "--limits", 64, 128, 256, "--encoder", encoder)
        advise(folder, *given, "--minutes", 1000, "--out", out)
    return printed[0], out


def cells(text):
    """The rows of the first table, by the names of its columns."""
    lines = next(part for part in text.split("\n\n") if part[:1] == "|").splitlines()
    titles, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {row[0]: dict(zip(titles, row, strict=True)) for row in rows}


@pytest.mark.extended
def test_advice_answers_first_and_plans_then(answer, encoder):
    text, out = answer
    best, more, training, budget = text.split("\n\n")[:4]
    assert re.match(r"\*\*Best without training: `(tfidf|my-encoder-frozen)`, macro-F1 [\d.]+ \(", best)
    assert "no significant difference" in best
    assert more.startswith("**More labels are not shown to help:** `"), "labels are by chance"
    started = f"**Training `my-encoder` ({encoder}, exact attention), at most 96 tokens: about "
    assert training.startswith(started)
    assert training.endswith(f"The study: `snakemake --configfile {out} --cores all`")
    assert re.match(r"The study takes about [\d.]+ of 1000 minutes of CPU time. For that, it gives up nothing.", budget)
    rows = cells(text)
    assert list(rows) == ["tfidf", "my-encoder-frozen", "my-encoder", "my-encoder-segments"]
    assert re.fullmatch(r"[\d.]+ \([\d.]+ to [\d.]+\)", rows["tfidf"]["macro-F1 [%] (95 %)"])
    assert [row["minus the best (95 %)"] for row in rows.values()].count("best") == 1
    documents, length, found = [line for line in text.splitlines() if line.startswith("- ")][:3]
    assert documents.startswith("- 100 documents (80 train, 10 validation, 10 test) of 2 classes (no: 66, yes: 34). ")
    assert "10 test documents can show no difference" in documents
    assert documents.endswith("; `split: {folds: 5}` tests each document once.")
    assert "the longest has 119. Text that is lost by cutting: 64 loses " in length
    assert length.endswith("128 loses 0.0 % (0.0 % of documents); 256 loses 0.0 % (0.0 % of documents).")
    assert "Language: 'en' in " in found
    assert text.endswith(f"```yaml\n{out.read_text()}```")


@pytest.mark.extended
def test_file_of_the_advice_loads_as_a_study(answer, folder):
    _, out = answer
    study = load_study(read_layers([out]))
    assert study.experiment.datasets["texts"].local.files == {"train": [str(folder / "reviews.csv")]}
    assert study.experiment.datasets["texts"].max_tokens == 128
    assert list(study.experiment.models) == ["tfidf", "my-encoder-frozen", "my-encoder", "my-encoder-segments"]
    finetune = study.experiment.stages["finetune"].data["texts"]
    assert finetune.recipe.epochs == 20, "80 documents"
    assert finetune.task.keeps == "best"
    assert study.execution.results == "results/reviews"
    assert study.execution.training.device == "cpu"


@pytest.mark.extended
def test_texts_without_labels_cost_their_adaptation_alone(folder, encoder, capsys):
    out = folder / "unlabelled.yaml"
    advise(folder, "--unlabelled", "--limits", 128, "--encoder", encoder, "--out", out)
    study, printed = load_study(read_layers([out])), capsys.readouterr().out
    assert list(study.experiment.stages) == ["tapt"]
    assert study.experiment.published["my-encoder"].folder == str(encoder)
    assert printed.startswith(f"**Training `my-encoder` ({encoder}, exact attention), at most 96 tokens: about ")
    assert list(cells(printed)) == ["my-encoder"]


@pytest.mark.extended
def test_encoder_that_is_not_at_hand_leaves_tfidf(folder, monkeypatch, capsys):
    monkeypatch.setattr("lib.advice.advice.require_hub", refuse)
    advise(folder, "--label", "sentiment", "--limits", 1024, "--out", folder / "alone.yaml")
    printed = capsys.readouterr().out
    assert list(cells(printed))[:2] == ["tfidf", "minilm"]
    assert {"sdpa", "lsh-h2-c64"} <= cells(printed).keys(), "texts may be long"
    assert re.search("The table lacks .*minilm-frozen: the weights are not here", printed)
    assert "`--encoder FOLDER` names a folder that has them." in printed


def refuse(repository, *_, **__):
    raise DownloadError(f"{repository}: no network")


def test_bad_encoders_and_budgets_are_refused(folder, encoder):
    for given, message in (
        (["--encoder", folder / "nothing"], "nothing: no encoder to start from"),
        (["--encoder", encoder, encoder], "have the same name"),
        (["--encoder", encoder, "--minutes", "0.1"], "--minutes 0.1: the least study, TF-IDF alone, takes 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            advise(folder, "--label", "sentiment", "--out", folder / "bad.yaml", *given)


@pytest.mark.parametrize(
    ("encoder", "rate", "documents"), [(MINILM, 1e-4, 10), (MINILM, 1e-4, 1330), (MASKED, 5e-5, 100_000)]
)
def test_recipe_trains_for_enough_steps(encoder, rate, documents):
    recipe = encoder.recipe(documents, labelled=True)
    steps = recipe["epochs"] * -(-documents // recipe["batch_size"])
    assert steps >= 250 or recipe["epochs"] == 20
    assert recipe["epochs"] == 3 or steps - 250 < -(-documents // recipe["batch_size"]), "no more epochs than needed"
    assert recipe["learning_rate"] == rate
    assert recipe["head_lr_multiplier"] == 10
    assert "head_lr_multiplier" not in encoder.recipe(documents, labelled=False), "its head is published"


def test_file_that_is_read_is_not_replaced_by_the_study(folder):
    """It is refused before anything is measured, and by any path to the file; so is a column that is not there."""
    with pytest.raises(DataError, match="has no column 'mood'; it has 'review', 'sentiment'"):
        advise(folder, "--label", "mood")
    (folder / "link.yaml").symlink_to("reviews.csv")
    for name in ("reviews.csv", "small.yaml", "link.yaml"):
        before = (folder / name).read_bytes()
        with pytest.raises(ConfigError, match=f"{name}: is read as well"):
            advise(folder, "--label", "sentiment", "--out", folder / name)
        assert (folder / name).read_bytes() == before
