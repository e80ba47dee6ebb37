import csv
import json
import random
import re
import runpy
from pathlib import Path

import pytest
import yaml
from small_studies import SMALL, changed

from lib.advice.encoders import MASKED, MULTILINGUAL
from lib.advice.encoders import SMALL as MINILM
from lib.core.errors import ConfigError, DataError, RunError
from lib.study.configuration import load_study, read_layers
from lib.tokens.cutting import WHOLE
from lib.tokens.tokenizer_files import NEXT_TO_IT
from lib.tokens.vocabularies import train_byte_pairs, train_wordpiece

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


def cells(text):
    """The rows of the table, by the names of its columns."""
    titles, _, *rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"
    ]
    return {row[0]: dict(zip(titles, row, strict=True)) for row in rows}


def test_the_first_line_is_the_advice_and_three_facts_follow(answer):
    text, out = answer
    first, _, documents, length, tfidf = text.splitlines()[:5]
    assert first.startswith("**Take `minilm` (sentence-transformers/all-MiniLM-L6-v2, exact attention), at most 128 ")
    command = f"`snakemake --configfile {re.escape(str(out))} --cores all`"
    assert re.search(rf": about \d+ (minutes?|hours|days) here\.\*\* {command}$", first)
    assert documents.startswith("- 100 documents (80 train, 10 validation, 10 test) of 2 classes (no: 66, yes: 34). ")
    assert "10 test documents can show no difference" in documents
    assert "the longest has 119. Text that is lost by cutting: 64 loses " in length
    assert length.endswith("128 loses 0.0 % (0.0 % of documents); 256 loses 0.0 % (0.0 % of documents).")
    assert re.match(r"- TF-IDF has a macro-F1 of [\d.]+ % on 80 documents", tfidf)


def test_every_candidate_has_its_cost_and_that_of_a_prediction(answer):
    rows = cells(answer[0])
    assert [*rows] == ["minilm", "sdpa", "lsh-h2-c64", "favor-m64"]
    for row in rows.values():
        assert float(row["a seed [min]"].replace(",", "")) > 0
        assert float(row["memory [GiB]"]) > 0
        assert row["fits"] == "yes"
        assert float(row["documents/s, one core"].replace(",", "")) > 0
        p50, p99 = re.fullmatch(r"([\d.]+) \(([\d.]+)\)", row["one document [s] (99th percentile)"]).groups()
        assert float(p50) <= float(p99)
    assert rows["sdpa"]["time / exact"] == "1"
    assert re.fullmatch(r"[\d.]+ (\[[\d.]+, [\d.]+\]|\(\d turns?\))", rows["favor-m64"]["time / exact"])
    assert "extrapolated beyond" in answer[0]


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


def test_texts_without_labels_cost_their_adaptation_alone_also_with_an_encoder_at_hand(folder, capsys):
    out, encoder = folder / "unlabelled.yaml", folder / "my-encoder"
    vocabulary = len(train_wordpiece(encoder, [SENTENCE] * 3).backend)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    fields = {"model_type": "bert", "vocab_size": vocabulary, "max_position_embeddings": 64, **sizes}
    (encoder / "config.json").write_text(json.dumps(fields))
    advise(folder, "--unlabelled", "--limits", 128, "--encoder", encoder, "--out", out)
    study, printed = load_study(read_layers([out])), capsys.readouterr().out
    assert list(study.experiment.stages) == ["tapt"]
    assert study.experiment.published["my-encoder"].folder == str(encoder)
    assert printed.startswith(f"**Take `my-encoder` ({encoder}, exact attention), at most 64 tokens: about ")
    assert cells(printed)["sdpa"]["documents/s, one core"] == "-", "they are not classified"


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
    (longest,) = re.findall(r"the longest has (\d+)\. .*: 512 loses 0\.0 %", printed)
    assert int(longest) in map(len, theirs.encode_ragged([text for text, _ in rows], WHOLE))
    assert "unknown to the vocabulary" not in printed
    assert "The study has `unit: characters, ngram_max: 3`" in printed
    study = yaml.safe_load((tmp_path / "own.yaml").read_text())
    assert study["experiment"]["backbones"]["tfidf"] == {"kind": "tfidf", "unit": "characters", "ngram_max": 3}
    load_study([("advised.yaml", study)])


def test_a_machine_that_is_too_small_is_told(folder, monkeypatch):
    monkeypatch.setattr("lib.advice.estimates.RESERVE", 1e-6)
    with pytest.raises(RunError, match="64 tokens: none of minilm, sdpa, lsh-h2-c64, favor-m64 fits into"):
        advise(folder, "--limits", 64)
