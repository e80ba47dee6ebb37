"""A study of files as others publish them: from the files to a table of scores and one of groups that are names."""

import random

import pandas as pd
import pytest

pytestmark = pytest.mark.study

GOOD, BAD = ["bright", "sweet", "warm"], ["cold", "grim", "sour"]
OTHERS = ["the", "film", "was", "story", "music", "é"]
DOMAINS = ["books", "films", "music | $x_1$"]
PARTS = {"train": 90, "validation": 30, "test": 60}
DATASETS = {
    "glue": {"split": {"published": True}, "text": "sentence", "dialect": {"quotes": False}, "group": "domain"},
    "pairs": {"dialect": {"columns": ["label", "text"], "encoding": "windows-1252", "delimiter": "|"}},
    "folders": {"dialect": {"document": "file"}},
    "lines": {},
}


def documents(generator, size):
    """Return texts, of which the third word gives the class, the class and a domain."""
    rows = []
    for number in range(size):
        words = generator.choices(OTHERS, k=5)
        words[2] = generator.choice(GOOD if number % 2 else BAD)
        rows.append((" ".join(words), number % 2, DOMAINS[number // 2 % 3]))
    return rows


def files(folder):
    """Write the four datasets, and return the sections of their files."""
    generator = random.Random(1)
    glue = {}
    for part, size in PARTS.items():
        rows = "".join(f'"{text}\t{label}.0\t{domain}\n' for text, label, domain in documents(generator, size))
        (folder / f"{part}.tsv").write_text(f"sentence\tlabel\tdomain\n{rows}")
        glue[part] = [str(folder / f"{part}.tsv")]
    rows = documents(generator, 120)
    (folder / "pairs.txt").write_text("".join(f"{label}|{text}\n" for text, label, _ in rows), "windows-1252")
    for number, (text, label, _) in enumerate(rows):
        place = folder / "classes" / ["bad", "good"][label] / f"{number}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text, _, _ in rows))
    (folder / "labels.txt").write_text("".join(f"{label}\n" for _, label, _ in rows))
    return {
        "glue": {"files": glue},
        "pairs": {"files": {"train": [str(folder / "pairs.txt")]}},
        "folders": {"files": {"train": [str(folder / "classes/*/*.txt")]}},
        "lines": {
            "files": {"train": [str(folder / "texts.txt")]},
            "ground_truth": {"train": [str(folder / "labels.txt")]},
        },
    }


def study(folder):
    encoder = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    given = {"source": "local", "labels": ["bad", "good"], "max_tokens": 12}
    return {
        "extensions": ["studies/toy"],
        "experiment": {
            "seeds": [3],
            "precision": "fp32",
            "mechanisms": {"sdpa": {"kind": "sdpa"}},
            "backbones": {
                "encoder": {"kind": "encoder", **encoder, "initializer_range": 0.1},
                "tfidf": {"kind": "tfidf", "min_df": 1},
            },
            "tokenizers": {"pieces": {"source": "trained", "corpus": list(DATASETS), "vocab_size": 100}},
            "datasets": {name: given | {"local": section} | DATASETS[name] for name, section in files(folder).items()},
            "stages": {
                "judge": {
                    "task": {"kind": "sequence_classification"},
                    "recipe": {"epochs": 6, "learning_rate": 1e-2, "min_lr_ratio": 0.1, "batch_size": 16},
                    "data": {name: {} for name in DATASETS},
                },
            },
            "models": {
                "encoder": {"backbone": "encoder", "mechanism": "sdpa", "datasets": ["glue"]},
                "words": {"backbone": "tfidf"},
            },
        },
        "report": {
            "tables": {
                "scores": {"stage": "judge", "columns": ["f1"]},
                "domains": {"kind": "groups", "stage": "judge", "datasets": ["glue"], "rows": "groups"},
            },
            "figures": {"domains": {"kind": "group_score", "stage": "judge", "datasets": ["glue"]}},
        },
        "execution": {"results": "results/strange", "training": {"device": "cpu"}},
    }


def test_files_of_others_become_a_table(tmp_path, copy_of_repository):
    project = copy_of_repository("strange")
    project.snakemake("--configfile", project.configure(study(tmp_path)), "--cores", "2", "-q")
    tables = project.folder / "results/strange/tables"
    scores = pd.read_csv(tables / "scores.csv", index_col=0)
    assert sorted(scores.index) == ["encoder", "words"]
    assert scores.loc["words"].notna().sum() == len(DATASETS)
    assert (scores.stack().dropna() > 90).all(), scores
    assert pd.read_csv(tables / "domains.csv")["domain"].tolist() == DOMAINS
