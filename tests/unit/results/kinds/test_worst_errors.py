import numpy as np
import pandas as pd
import pytest
import yaml
from run_records import scope_of, write_run

from lib.core.errors import DataError
from lib.core.record import CONFIG, PREDICTIONS, RUN
from lib.results.kinds.worst_errors import CHARACTERS, WorstErrorsTable

LABELS = [0, 0, 0, 0, 1, 1]
RIGHT = [0.9, 0.4, 0.1, 0.3, 0.8, 0.2]
"""Probability of the true class by the best model: documents 2, 5, 3 and 1 are wrong, in this order."""
TEXTS = [
    "fine",
    "مرحبا <b>بكم</b>\nفي هذا المكان",
    "",
    "<script>alert('&')</script> " + "word " * 90,
    "fine",
    "| a *b* $c$",
]


def written(root, model, right, validated):
    folder = write_run(root, "finetune", model, "imdb", eval_f1_macro=validated)
    probabilities = [
        [each, 1 - each] if label == 0 else [1 - each, each] for label, each in zip(LABELS, right, strict=True)
    ]
    rows = {"id": list("abcdef"), "label": LABELS, "prediction": np.argmax(probabilities, axis=1), "split": "test"}
    pd.DataFrame({**rows, "probabilities": probabilities}).to_parquet(folder / PREDICTIONS)
    (folder / CONFIG).write_text(yaml.safe_dump({"labels": ["no", "yes"]}))
    return folder


def table(root, *folders, ids="abcdef", count=10, **columns):
    documents = root / "test.parquet"
    pd.DataFrame({"id": list(ids), "text": TEXTS, **columns}).sample(frac=1, random_state=0).to_parquet(documents)
    files = [*(folder / RUN for folder in folders), documents]
    models = [folder.parts[-3] for folder in folders]
    scope = scope_of(folders, {"finetune": ["imdb"]}, models, written=["imdb"], files=files)
    return WorstErrorsTable(kind="worst_errors", stage="finetune", count=count).make(scope)


def test_errors_of_the_best_model(tmp_path):
    others = [written(tmp_path, "sdpa", [0.9] * 5 + [0.4], 0.5), written(tmp_path, "favor-m64", [0.1] * 6, 0.6)]
    made = table(tmp_path, others[0], written(tmp_path, "tfidf", RIGHT, 0.7), others[1])
    assert made.frame["id"].tolist() == ["c", "f", "d", "b"]
    assert made.frame["probability"].tolist() == pytest.approx([90, 80, 70, 60])
    assert made.frame[["label", "prediction"]].to_numpy().tolist() == [
        ["no", "yes"],
        ["yes", "no"],
        *[["no", "yes"]] * 2,
    ]
    assert made.frame["others_wrong"].tolist() == ["1 of 2", "2 of 2", "1 of 2", "1 of 2"]
    assert made.note.startswith("Errors: 4, of tfidf, which has the highest F1 on validation.")
    assert len(table(tmp_path, others[0], count=1).frame) == 1


def test_texts_of_errors_in_a_page(tmp_path):
    """Cut to their beginning in one line; no markup of a text is markup of the page, and each has its own direction."""
    made = table(tmp_path, written(tmp_path, "tfidf", RIGHT, 0.7))
    assert "others_wrong" not in made.frame  # there are none
    texts = dict(zip(made.frame["id"], made.frame["text"], strict=True))
    assert (texts["c"], texts["b"]) == ("(empty)", "مرحبا <b>بكم</b> في هذا المكان")
    assert texts["d"] == f"{TEXTS[3][:CHARACTERS]}…"
    html = made.to_html()
    assert "<script>" not in html
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)" in html
    assert "<span class='long' dir='auto'>مرحبا &lt;b&gt;" in html
    assert r"\| a \*b\* \$c\$" in made.to_markdown()


def test_model_without_errors(tmp_path):
    made = table(tmp_path, written(tmp_path, "tfidf", [0.9] * 6, 0.7))
    assert made.frame.empty
    assert made.note.startswith("Errors: 0, of tfidf")
    assert made.to_csv() == "label,prediction,probability,text,id\n"
    assert all("Errors: 0" in text for text in (made.to_markdown(), made.to_html(), made.to_latex()))


def test_errors_without_predictions_or_their_documents(tmp_path):
    folder = written(tmp_path, "tfidf", RIGHT, 0.7)
    with pytest.raises(DataError, match=r"test.parquet: lacks documents that were predicted on imdb"):
        table(tmp_path, folder, ids="abcxyz")
    (folder / PREDICTIONS).unlink()
    with pytest.raises(DataError, match="lacks predictions"):
        table(tmp_path, folder)


def test_errors_of_pairs_of_texts(tmp_path):
    made = table(tmp_path, written(tmp_path, "tfidf", RIGHT, 0.7), text_pair=[f"the {each}" for each in "abcdef"])
    assert made.frame["text"].tolist()[:2] == [" / the c".strip(), "| a *b* $c$ / the f"]
