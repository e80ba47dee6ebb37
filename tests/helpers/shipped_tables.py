"""Make all tables of studies from made-up records of their runs, so that tables of two versions can be compared.

python tests/helpers/shipped_tables.py --out FOLDER config/*.yaml

Every run has numbers that its name alone decides. Run it in both versions, then `diff -r` both folders.
"""

import argparse
import hashlib
import json
import runpy
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from text_descriptions import write_texts

from lib.core.record import CONFIG, GEOMETRY, HISTORY, PREDICTIONS, TRIALS, Parent, RunRecord
from lib.core.record import write_run as write_record
from lib.study.configuration import load_study, read_layers
from lib.study.execution import ROOT
from lib.study.runs import Run
from lib.workflow.planning.plan import Plan

DOCUMENTS = 60
MOST_CLASSES = 20
"""Of a dataset with thousands of classes so many are named, which is faster to read."""
GROUPS = (2, 4, 8, 16)
SPLITS = ("validation", "test")
SCORES = (
    *(
        "f1_macro",
        "precision_macro",
        "recall_macro",
        "accuracy",
        "balanced_accuracy",
        "matthews",
        "pearson",
        "spearman",
    ),
    *("sequence_accuracy", "likelihood_f1_macro", "likelihood_seconds", "generation_f1_macro", "generation_seconds"),
    *("unparsed", "unexplained_variance", "perplexity"),
)
"""Metrics that a run has on every split: more than its task leaves."""


def draw_of(*names: Any) -> np.random.Generator:
    """Return random numbers that these names decide."""
    digest = hashlib.sha256("|".join(map(str, names)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def write_run(folder: Path, run: Run, groups: Sequence[int]) -> None:
    """Write the files of a finished run, whose documents are in these groups."""
    folder.mkdir(parents=True)
    draw, task = draw_of(run.id.path), run.work.task
    of_model = draw_of(run.id.stage, run.id.model, run.id.dataset)
    labels = getattr(run.corpus, "labels", [])[:MOST_CLASSES]
    settings = json.loads(run.settings)
    (folder / CONFIG).write_text(json.dumps(settings | {"labels": list(labels)}))  # JSON is YAML, and quickly written
    metrics = {name: draw.uniform(1, 4) for name in ("train_loss", "eval_loss", "test_loss")} if run.trains else {}
    names = SCORES if task.label_per != "span" else ("f1", "precision", "recall")
    for split in ("eval", "test"):
        metrics |= {f"{split}_{name}": draw.uniform(0.2, 0.98) for name in names}
        per_class = [f"{name}_class_{label}" for name in ("precision", "recall", "f1") for label in labels[:10]]
        metrics |= {f"{split}_{name}": draw.uniform(0.2, 0.98) for name in per_class}
    if run.trains:
        steps = np.arange(1, 7)
        history = {
            "epoch": steps,
            "seconds": draw.uniform(5, 90, len(steps)),
            "train_loss": draw.uniform(1, 4, len(steps)),
        }
        history |= {f"eval_{name}": draw.uniform(0.2, 0.98, len(steps)) for name in (*names, "loss")}
        pd.DataFrame(history).to_csv(folder / HISTORY, index=False)
    if run.measures:
        _geometry(settings["geometry"]["positions"], draw).to_csv(folder / GEOMETRY, index=False)
    if run.tuning:
        metrics["best_trial"] = 0
        _trials(run, draw).to_csv(folder / TRIALS, index=False)
    if run.work.task.predicts:
        _predictions(run, labels, groups, draw).to_parquet(folder / PREDICTIONS, index=False)
    seconds, total = draw.uniform(50, 900), int(of_model.integers(300_000, 900_000))
    parts = {part: int(of_model.integers(1000, 90_000)) for part in ("embeddings", "attention", "feed_forward", "head")}
    parents = (
        {} if run.parent is None else {"start": Parent(path="model", digest=draw_of(run.parent.path).bytes(8).hex())}
    )
    record = RunRecord(
        stage=run.id.stage,
        model=run.id.model,
        dataset=run.id.dataset,
        variant=settings.get("variant", {}),
        seed=run.id.seed,
        task=task.kind,
        parents=parents,
        parameters={**parts, "backbone": total - parts["head"], "total": total},
        epochs=6 if run.trains else 0,
        steps=120 if run.trains else 0,
        tokens=4000 if run.trains else 0,
        seconds=seconds,
        seconds_per_epoch=seconds / 6 if run.trains else None,
        tokens_per_second=None,
        peak_memory_mb=draw.uniform(500, 9000),
        peak_memory_kind="resident",
        precision="fp32",
        device="cpu",
        hardware="a laptop",
        approximated=draw.uniform(0, 1) if run.trains else None,
        versions={"torch": "2"},
        git_commit=None,
        metrics=metrics,
    )
    write_record(folder, record)


def _geometry(positions: Sequence[int], draw: np.random.Generator) -> pd.DataFrame:
    """Return what a training measured of merged weights and their change, and of random ones."""
    rows = []
    for source, weights, step in (
        *(("model", weights, step) for weights in ("merged", "delta") for step in (0, 7)),
        *(("random", weights, 0) for weights in ("merged", "delta")),
    ):
        for position in positions:
            for layer, head in ((layer, head) for layer in (0, 1) for head in ("all", "0", "1")):
                names = ("symmetry", "directionality", "norm", "bound", "upper_triangle", "gradient_norm")
                row = {"step": step, "source": source, "weights": weights, "position": position}
                rows.append(row | {"layer": layer, "head": head} | {name: draw.uniform(0, 1) for name in names})
    return pd.DataFrame(rows)


def _trials(run: Run, draw: np.random.Generator) -> pd.DataFrame:
    """Return trials of a search."""
    assert run.tuning is not None
    tried = [
        {
            "number": number,
            **{place: each.examples()[number % len(each.examples())] for place, each in run.tuning.space.items()},
        }
        for number in range(4)
    ]
    ends = {"state": "complete", "epochs": 2}
    return pd.DataFrame(
        [{**trial, "eval_f1_macro": 0.99 - 0.1 * draw.random() * (number > 0), **ends, "seconds": draw.uniform(20, 400)}
         for number, trial in enumerate(tried)]
    )  # fmt: skip


def _predictions(run: Run, labels: Sequence[str], groups: Sequence[int], draw: np.random.Generator) -> pd.DataFrame:
    """Return predictions of validation and test documents; the labels are those of the dataset."""
    frames, classes, task = [], max(2, len(labels)), run.work.task
    for split in SPLITS:
        truth = draw_of(run.id.dataset, split)
        ids = [f"{split}{number}" for number in range(DOCUMENTS)]
        frame = pd.DataFrame({"id": ids, "split": split, "group": truth.choice(groups, DOCUMENTS)})
        if task.label_per == "span":
            counts = draw.integers(0, 9, (DOCUMENTS, 3))
            frame[["true_positives", "false_positives", "false_negatives"]] = counts
            frame["label"] = [[[0, 5 + number]] for number in range(DOCUMENTS)]
            frame["prediction"] = [[[0, 5]] for _ in range(DOCUMENTS)]
        elif task.numbers:
            frame["label"], frame["prediction"] = truth.uniform(0, 5, DOCUMENTS), draw.uniform(0, 5, DOCUMENTS)
        elif task.label_per == "word":
            lengths = truth.integers(1, 4, DOCUMENTS)
            frame["label"] = [truth.integers(0, classes, length).tolist() for length in lengths]
            frame["prediction"] = [
                [label if draw.random() < 0.6 else int(draw.integers(classes)) for label in of_words]
                for of_words in frame["label"]
            ]
        else:
            frame["label"] = truth.permutation(np.arange(DOCUMENTS) % classes)
            scores = draw.gumbel(size=(DOCUMENTS, classes))
            scores[np.arange(DOCUMENTS), frame["label"]] += 1.5
            probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
            frame["prediction"], frame["probabilities"] = probabilities.argmax(axis=1), list(probabilities)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def write_texts_of(plan: Plan) -> None:
    """Write descriptions of the texts of datasets, and statistics of tokenised texts."""
    for name in plan.experiment.datasets:
        draw = draw_of("texts", name)
        rows: list[dict[str, Any]] = [
            {
                "id": f"test{number}",
                "words": int(draw.integers(3, 60)),
                "language": str(draw.choice(["en", "de", "fr"], p=[0.6, 0.3, 0.1])),
                "near_copy": bool(draw.random() < 0.4),
            }
            for number in range(DOCUMENTS)
        ]
        write_texts(Path(plan.paths.texts(name)), *rows, {"id": "train0", "words": 900, "split": "train"})
    for corpus, tokens_name in plan.report.tokenised:
        file = Path(plan.paths.token_lengths(corpus, tokens_name))
        file.parent.mkdir(parents=True, exist_ok=True)
        draw = draw_of("lengths", corpus, tokens_name)
        names = ("documents", "mean", "std", "median", "min", "max")
        file.write_text(json.dumps({split: {name: int(draw.integers(1, 900)) for name in names} for split in SPLITS}))


def make_tables(config: str, out: Path) -> None:
    """Make all tables of a study in a folder, and say which cannot be made."""
    results = out / "records"
    layers = [*read_layers([config]), ("here", {"execution": {"results": str(results)}})]
    plan = Plan(load_study(layers))
    for run in plan.runs:
        named = len(plan.corpora.group_names(run.id.dataset))
        write_run(results / "runs" / run.id.path, run, range(named) if named else GROUPS)
    write_texts_of(plan)
    make = runpy.run_path(str(ROOT / "scripts" / "table.py"))["main"]
    for name, result in plan.report.tables.items():
        if "word_vectors" in result["scope"]:
            continue  # they would have to be trained
        try:
            make(_arguments(result, plan.report.inputs(result["scope"]), out / name))
        except Exception as error:  # so that the other tables are made
            message = str(error).replace(str(results), "results")
            (out / f"{name}.error").write_text(f"{type(error).__name__}: {message}\n")
    shutil.rmtree(results)


def _arguments(result: Mapping[str, Any], inputs: Sequence[str], file: Path) -> list[str]:
    return ["--table", json.dumps(result), "--records", *inputs, "--out", f"{file}.csv", f"{file}.md"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+", metavar="CONFIG", help="files of studies")
    parser.add_argument("--out", required=True, type=Path, help="folder to appear, with a folder for each study")
    arguments = parser.parse_args(argv)
    for config in arguments.configs:
        folder = arguments.out / Path(config).stem
        folder.mkdir(parents=True)
        make_tables(config, folder)
        print(
            f"{config}: {len(list(folder.glob('*.csv')))} tables, {len(list(folder.glob('*.error')))} errors",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
