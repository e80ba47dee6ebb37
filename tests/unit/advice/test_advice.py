import csv
import random
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import yaml
from small_studies import SMALL, changed

from lib.advice.advice import START_UP, _encoder_rows
from lib.advice.encoders import MASKED, MULTILINGUAL, published_encoder
from lib.advice.encoders import SMALL as MINILM
from lib.advice.estimates import Hardware, ModelSteps, Steps
from lib.advice.preparing import OwnTexts
from lib.advice.wording import prediction
from lib.core.errors import ConfigError, DataError, RunError
from lib.study.configuration import load_study, read_layers
from lib.tokens.cutting import WHOLE
from lib.tokens.tokenizer_files import NEXT_TO_IT
from lib.tokens.vocabularies import train_byte_pairs

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


def advise(folder, *arguments):
    given = ["--texts", folder / "reviews.csv", "--column", "review", "--study", folder / "small.yaml"]
    main = runpy.run_path(str(PROGRAM))["main"]
    main([*map(str, given), "--device", "cpu", "--seconds", "15", *map(str, arguments)])


@pytest.fixture(scope="module")
def answer(folder):
    """What the program prints about labelled texts, and the file that it writes."""
    with pytest.MonkeyPatch.context() as patch:
        printed = []
        patch.setattr("builtins.print", printed.append)
        out = folder / "own.yaml"
        advise(folder, "--label", "sentiment", "--limits", 64, 128, 256, "--out", out)
    return printed[0], out


def test_the_first_line_is_the_advice_and_three_reasons_follow(answer):
    text, out = answer
    first, _, *reasons = text.splitlines()[:5]
    assert first.startswith("**Take `minilm` (sentence-transformers/all-MiniLM-L6-v2, exact attention), at most 128 ")
    assert re.search(
        rf": about \d+ minutes? here\.\*\* `snakemake --configfile {re.escape(str(out))} --cores all`$", first
    )
    documents, length, mechanism = reasons
    assert documents.startswith("- 100 documents (80 train, 10 validation, 10 test) of 2 classes (no: 66, yes: 34). ")
    assert "10 test documents can show no difference" in documents
    assert "the longest has 119. A limit of 128 loses 0.0 % of the text" in length
    assert "of our own" not in mechanism


def test_every_limit_and_model_is_shown(answer):
    text, _ = answer
    assert "80 training documents" in text
    first, second, third = text.split("## At most ")[1:]
    assert first.startswith("64 tokens: ")
    assert second.startswith("128 tokens: 0.0 % of the text is lost, 0.0 % of documents cut")
    minutes: list[list[float]] = []
    for section in (first, second, third):
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"]
        assert rows[0][-1] == "fits", "scores of other datasets have no place in a table of the user's texts"
        assert [row[0] for row in rows[2:]] == ["sdpa", "lsh-h2-c64", "favor-m64"]
        assert all(float(row[1].replace(",", "")) > 0 and float(row[4]) > 0 for row in rows[2:])
        assert rows[2][3] == "1"
        assert all("[" in row[3] or "turn" in row[3] for row in rows[3:])
        assert {row[5] for row in rows[2:]} == {"yes"}
        minutes.append([float(row[1].replace(",", "")) for row in rows[2:]])
    assert all(list(model) == sorted(model) for model in zip(*minutes, strict=True)), "a longer limit never costs less"


def test_what_is_recommended_is_what_was_measured(answer):
    section = answer[0].split("## The published encoder here")[1].split("##")[0]
    row = next(line for line in section.splitlines() if line.startswith("| minilm"))
    assert all(float(cell.replace(",", "")) > 0 for cell in row.split("|")[2:-1])
    assert answer[0].index("## The published encoder here") < answer[0].index("## At most")


def test_a_prediction_with_the_recommended_model_has_a_cost_and_says_how_it_is_known(answer):
    (line,) = re.findall(r"^\*\*A prediction\*\* .*", answer[0], re.MULTILINE)
    found = re.fullmatch(
        r"\*\*A prediction\*\* with `minilm` here: ([\d.,]+) documents per second and core, ([\d.]+) seconds for one "
        r"document by itself \(median; 99th percentile ([\d.]+)\), ([\d.,]+) minutes for a million documents on one "
        r"core\. Computed for the lengths of your documents from forward passes measured on one core, on random "
        r"tokens, up to 115 per document, and extrapolated to 119\. Reading and tokenising the texts comes on top\.",
        line,
    )
    speed, p50, p99, minutes = (float(each.replace(",", "")) for each in found.groups())
    assert minutes * 60 * speed == pytest.approx(1e6, rel=0.1)
    assert 0 < p50 <= p99
    assert answer[0].index(line) < answer[0].index("## ")


def test_a_model_that_was_not_measured_has_no_invented_cost():
    said = prediction("xlm-r", None, np.array([100]), Hardware("cpu", "fp32", 16.0, 500.0, 32_768))
    assert said == "**A prediction** with `xlm-r`: its cost is unknown, since it was not measured here."


def test_the_file_loads_as_a_study(answer, folder):
    _, out = answer
    study = load_study(read_layers([out]))
    assert study.experiment.datasets["texts"].local.files == {"train": [str(folder / "reviews.csv")]}
    assert study.experiment.datasets["texts"].max_tokens == 128
    assert list(study.experiment.models) == ["tfidf", "minilm"]
    finetune = study.experiment.stages["finetune"].data["texts"]
    assert finetune.recipe.epochs == 20, "80 documents"
    assert finetune.task.keeps == "best"
    assert study.execution.results == "results/reviews"
    assert study.execution.training.device == "cpu"


def test_weights_that_exist_give_the_study_of_the_mechanism(folder, capsys):
    out = folder / "weights.yaml"
    advise(
        folder,
        "--label",
        "sentiment",
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
    printed = capsys.readouterr().out
    assert "published encoder" not in printed
    assert re.search(rf"^\*\*A prediction\*\* with `{model}` here: [\d.,]+ documents per second", printed, re.MULTILINE)


def test_texts_without_labels_cost_their_adaptation_alone(folder, capsys):
    out = folder / "unlabelled.yaml"
    advise(folder, "--unlabelled", "--limits", 128, "--weights", "there/model", "--out", out)
    study, printed = load_study(read_layers([out])), capsys.readouterr().out
    assert list(study.experiment.stages) == ["tapt"]
    assert "fine-tuning" not in printed
    model = next(iter(study.experiment.models))
    (minutes,) = re.findall(rf"^\| {model} +\| +([\d.,]+) \|", printed, re.MULTILINE)
    (seconds,) = re.findall(r"(?:takes about|exact attention:) ([\d.]+) seconds", printed)
    assert float(seconds) == pytest.approx(60 * float(minutes) * 2, rel=0.3), "two epochs"


def test_no_text_is_cut_where_the_advised_model_reads_all(folder, tmp_path, capsys):
    """Although a published encoder, which is not advised, would read 512 tokens, and the evidence is in a tenth."""
    rows = [["review", "sentiment"]]
    for number in range(100):
        words = random.Random(number).choices(WORDS, k=600)
        words[number % 60] = ["awful", "great"][number % 2]
        rows.append([" ".join(words), ["no", "yes"][number % 2]])
    with (tmp_path / "long.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    options = ("--label", "sentiment", "--limits", 1024, "--weights", "there/model", "--out", tmp_path / "own.yaml")
    advise(folder, "--texts", tmp_path / "long.csv", *options)
    printed = capsys.readouterr().out
    assert "A limit of 1,024 loses 0.0 % of the text" in printed
    assert "## Where the evidence stands" not in printed


@pytest.mark.parametrize(
    ("splits", "evaluated"),
    [({"train": 80, "validation": 10, "test": 10}, 20 * 10 + 20), ({"train": 80, "held_out": 20}, 20 * 20)],
)
def test_a_run_of_the_published_encoder_has_its_evaluations(splits, evaluated):
    """After each of 20 epochs; those of labelled texts predict validation and test in the end."""
    steps = Steps([(1, 10, 1.0), (2, 10, 2.0)], 0.5, 0.0, weights=1, grows=False, peaks=(1.0, 2.0))
    own = OwnTexts({}, splits, [], {"no": 50, "yes": 50} if "test" in splits else {})
    place = Hardware("cpu", "fp32", 16.0, 500.0, 32_768)
    (row,) = _encoder_rows(published_encoder(labelled=own.labelled, multilingual=False), [ModelSteps(steps, steps, 6)],
                           place, np.full(80, 10), 64, own)  # fmt: skip
    assert row.epoch_seconds == pytest.approx(80)
    assert row.seconds == pytest.approx(START_UP + 20 * 80 + evaluated * 0.5)


@pytest.mark.parametrize(("encoder", "rate"), [(MINILM, 1e-4), (MASKED, 5e-5), (MULTILINGUAL, 5e-5)])
@pytest.mark.parametrize("documents", [10, 320, 1022, 1330, 100_000])
def test_a_recipe_trains_for_enough_steps_at_the_rate_of_the_size(encoder, rate, documents):
    recipe = encoder.recipe(documents, labelled=True)
    steps = recipe["epochs"] * -(-documents // recipe["batch_size"])
    assert steps >= 250 or recipe["epochs"] == 20
    assert recipe["epochs"] == 3 or steps - 250 < -(-documents // recipe["batch_size"]), "no more epochs than needed"
    assert recipe["learning_rate"] == rate
    assert recipe["head_lr_multiplier"] == 10
    assert "head_lr_multiplier" not in encoder.recipe(documents, labelled=False), "its head is published"


def test_a_column_that_there_is_not_is_one_message_with_the_options(folder):
    with pytest.raises(DataError, match=r"has no column 'mood'; it has 'review', 'sentiment'.*--label"):
        advise(folder, "--label", "mood")


def test_what_is_read_is_not_replaced_by_the_study(folder):
    """It is refused before anything is measured, and by any path to the file."""
    (folder / "link.yaml").symlink_to("reviews.csv")
    for name in ("reviews.csv", "small.yaml", "link.yaml"):
        before = (folder / name).read_bytes()
        with pytest.raises(ConfigError, match=f"{name}: is read as well"):
            advise(folder, "--label", "sentiment", "--out", folder / name)
        assert (folder / name).read_bytes() == before


def test_texts_in_another_language_are_counted_by_the_tokeniser_of_the_encoder_that_reads_them(
    folder, tmp_path, monkeypatch, capsys
):
    words = ["ดี", "ร้าน", "อาหาร", "อร่อย", "มาก", "บริการ", "แย่", "สวย", "ไม่", "ชอบ"]
    draws = random.Random(0)
    rows = [["".join(draws.choices(words, k=60)), ["no", "yes"][number % 2]] for number in range(60)]
    with (tmp_path / "thai.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["review", "sentiment"], *rows])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    thai = ("--texts", tmp_path / "thai.csv", "--label", "sentiment", "--limits", 512, "--out", tmp_path / "own.yaml")
    with pytest.raises(ConfigError, match="its tokeniser knows no token of 100% of the texts.*with --encoder"):
        advise(folder, *thai)
    repository, revision = MULTILINGUAL.place.values()
    cached = tmp_path / "cache" / f"models--{repository.replace('/', '--')}" / "snapshots" / revision
    theirs = train_byte_pairs(cached, [text for text, _ in rows])
    for name in NEXT_TO_IT:
        if not (cached / name).exists():
            (cached / name).write_text("{}")
    advise(folder, *thai)
    printed = capsys.readouterr().out
    (longest,) = re.findall(r"the longest has (\d+)\. A limit of 512 loses 0\.0 % of the text", printed)
    assert int(longest) in map(len, theirs.encode_ragged([text for text, _ in rows], WHOLE))
    assert "unknown to the vocabulary" not in printed
    assert "The study has `unit: characters, ngram_max: 3`" in printed
    study = yaml.safe_load((tmp_path / "own.yaml").read_text())
    assert study["experiment"]["backbones"]["tfidf"] == {"kind": "tfidf", "unit": "characters", "ngram_max": 3}
    load_study([("advised.yaml", study)])


def test_a_machine_that_is_too_small_is_told(folder, monkeypatch):
    monkeypatch.setattr("lib.advice.estimates.RESERVE", 1e-6)
    with pytest.raises(RunError, match="64 tokens: none of sdpa, lsh-h2-c64, favor-m64 fits into"):
        advise(folder, "--limits", 64, 128)
