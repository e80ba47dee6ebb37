import numpy as np
import pandas as pd
import pytest
import yaml
from run_records import scope_of, write_run, write_sets

from lib.core.errors import DataError
from lib.core.record import CONFIG, PREDICTIONS, RUN
from lib.results.kinds.worst_errors import CHARACTERS, WorstErrorsTable

LABELS = np.array([0, 0, 0, 0, 1, 1])
RIGHT = [0.9, 0.4, 0.1, 0.3, 0.8, 0.2]
"""Probability of the true class by the best model: documents c, f, d and b are wrong, in this order."""
ARABIC, MARKUP = "مرحبا <b>بكم</b>\nفي هذا المكان", "<script>alert('&')</script> " + "word " * 90
TEXTS = ["fine", ARABIC, "", MARKUP, "fine", "| a *b* $c$"]


def written(root, model, right, validated):
    folder = write_run(root, "finetune", model, "imdb", eval_f1_macro=validated)
    of_first = np.where(LABELS == 0, right, 1 - np.array(right))
    rows = {"id": list("abcdef"), "label": LABELS, "prediction": (of_first < 0.5).astype(int), "split": "test"}
    rows["probabilities"] = np.stack([of_first, 1 - of_first], axis=1).tolist()
    pd.DataFrame(rows).to_parquet(folder / PREDICTIONS)
    (folder / CONFIG).write_text(yaml.safe_dump({"labels": ["no", "yes"]}))
    return folder


def table(root, *folders, ids="abcdef", **columns):
    documents = root / "test.parquet"
    pd.DataFrame({"id": list(ids), "text": TEXTS, **columns}).sample(frac=1, random_state=0).to_parquet(documents)
    shown = {"written": ["imdb"], "files": [*(folder / RUN for folder in folders), documents]}
    scope = scope_of(folders, {"finetune": ["imdb"]}, [folder.parts[-3] for folder in folders], **shown)
    return WorstErrorsTable(kind="worst_errors", stage="finetune").make(scope)


def test_errors_of_the_best_model(tmp_path):
    others = [written(tmp_path, "sdpa", [0.9] * 5 + [0.4], 0.5), written(tmp_path, "favor-m64", [0.1] * 6, 0.6)]
    made = table(tmp_path, others[0], written(tmp_path, "tfidf", RIGHT, 0.7), others[1])
    assert made.frame["id"].tolist() == ["c", "f", "d", "b"]
    assert made.frame["other_models_wrong"].tolist() == ["1 of 2", "2 of 2", "1 of 2", "1 of 2"]
    assert made.to_csv().startswith("label,prediction,probability,other_models_wrong,text,id\nno,yes,90.0,1 of 2,")
    assert made.note == "Errors: 4, of tfidf with seed 0, the best one by F1 on validation."


def test_errors_of_sets(tmp_path):
    """The wrong decision that is surest counts, whatever threshold gave it: of b it is that on `no`, given at 0.3."""
    labels, given = [[0], [], [0, 1], [1], [0], []], [[0], [0], [1], [1], [], [0, 1]]
    probabilities = [[0.9, 0.1], [0.3, 0.1], [0.2, 0.7], [0.1, 0.9], [0.1, 0.2], [0.4, 0.95]]
    folder = write_run(tmp_path, "finetune", "sdpa", "imdb")
    made = table(tmp_path, write_sets(folder, ["no", "yes"], labels, given, probabilities)).frame
    assert made["id"].tolist() == ["f", "e", "c", "b"]
    assert made["probability"].tolist() == pytest.approx([95, 90, 80, 30])
    assert made["label"].tolist() == ["(none)", "no", "no, yes", "(none)"]
    assert made["prediction"].tolist() == ["no, yes", "(none)", "yes", "no"]


def test_texts_of_errors_in_a_page(tmp_path):
    """Cut to their beginning in one line; no markup of a text is markup of the page, and each has its own direction."""
    made = table(tmp_path, written(tmp_path, "tfidf", RIGHT, 0.7))
    assert made.frame["text"].tolist() == ["(empty)", TEXTS[5], f"{MARKUP[:CHARACTERS]}…", ARABIC.replace("\n", " ")]
    assert "<script>" not in made.to_html()
    assert "<span class='long' dir='auto'>مرحبا &lt;b&gt;" in made.to_html()
    assert r"\| a \*b\* \$c\$" in made.to_markdown()
    pairs = table(tmp_path, tmp_path / "runs/finetune/tfidf/imdb/seed-0", text_pair=list("uvwxyz"))
    assert pairs.frame["text"].iloc[1] == "| a *b* $c$ / z"


def test_model_without_errors(tmp_path):
    made = table(tmp_path, written(tmp_path, "tfidf", [0.9] * 6, 0.7))
    assert made.to_csv() == "label,prediction,probability,text,id\n"
    assert all("Errors: 0" in text for text in (made.to_markdown(), made.to_html(), made.to_latex()))


def test_errors_without_predictions_or_their_documents(tmp_path):
    folder = written(tmp_path, "tfidf", RIGHT, 0.7)
    with pytest.raises(DataError, match=r"test.parquet: lacks documents"):
        table(tmp_path, folder, ids="abcxyz")
    (folder / PREDICTIONS).unlink()
    with pytest.raises(DataError, match="lacks predictions"):
        table(tmp_path, folder)
