"""Which runs a study has and what they leave, worked out from the words of the study alone.

This is the independent half of `proof.py`: nothing here reads `lib.study`, `lib.workflow` or `lib.results`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from text_descriptions import write_texts

from lib.core.record import CONFIG, GEOMETRY, HISTORY, PREDICTIONS, TRIALS, Parent, RunRecord
from lib.core.record import write_run as write_record

EPOCHS = 3
"""Evaluations in the history of a run, at most."""
LAYERS = 2
POSITIONS = (0, 1)
"""Positions at which geometry is measured."""


def spelled(value: Any) -> str:
    """Return a value of a setting as names of variants have it."""
    return value if isinstance(value, str) else json.dumps(value)


def short(place: str) -> str:
    """Return the last part of the dotted name of a setting."""
    return place.split(".")[-1]


@dataclass(frozen=True)
class Made:
    """A finished run: what names it, and every number that it leaves."""

    stage: str
    model: str
    """The first model of those that share it."""
    entry: str
    seed: int
    variant: Mapping[str, Any]
    trains: bool
    seconds: float
    memory: float
    memory_kind: str
    hardware: str | None
    epochs: int
    processes: int
    parameters: Mapping[str, int]
    metrics: Mapping[str, float]
    history: pd.DataFrame | None
    predictions: pd.DataFrame | None
    geometry: pd.DataFrame | None
    trials: pd.DataFrame | None
    config: Mapping[str, Any]
    start: str | None
    """Digest of the weights that it starts from."""
    score: str = "f1_macro"
    """Metric that tables call F1."""

    @property
    def path(self) -> str:
        """Its folder below those of all runs."""
        names = [f"{short(place)}-{spelled(value)}" for place, value in sorted(self.variant.items())]
        return "/".join(
            [self.stage, self.model, self.entry, *(["+".join(names)] if names else []), f"seed-{self.seed}"]
        )


@dataclass
class Words:
    """What a study says, asked in plain questions."""

    study: Mapping[str, Any]
    number: int
    """Of the study: other studies have other numbers in their records."""
    _made: dict[tuple, Made] = field(default_factory=dict)
    _identities: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        experiment = self.study["experiment"]
        self.stages, self.models = experiment["stages"], experiment["models"]
        self.corpora, self.datasets = experiment.get("corpora", {}), experiment.get("datasets", {})
        self.experiment = experiment

    # Who passes what

    def on_its_way(self, model: str, stage: str) -> bool:
        """Whether a model's weights come by a stage."""
        named = self.stages[stage].get("models")
        return stage not in self.models[model].get("skip", []) and (named is None or model in named)

    def has_run(self, model: str, stage: str, entry: str) -> bool:
        """Whether a model has a run of a stage on an entry of its data."""
        only = self.models[model].get("datasets")
        made_for = only is None or entry in only or entry in self.corpora
        return self.on_its_way(model, stage) and entry in self.stages[stage]["data"] and made_for

    def entries(self, stage: str) -> list[str]:
        """Return the corpora and datasets that a stage works on."""
        return list(self.stages[stage]["data"])

    def passing(self, stage: str, entry: str) -> list[str]:
        """Return the models that have a run there, in order."""
        return [model for model in self.models if self.has_run(model, stage, entry)]

    def parent(self, model: str, stage: str, entry: str) -> tuple[str, str] | None:
        """Return the stage and the entry from whose run a model starts; None = from none. KeyError = not clear."""
        before = self.stages[stage].get("start")
        while before is not None and not self.on_its_way(model, before):
            before = self.stages[before].get("start")
        if before is None:
            return None
        there, named = self.entries(before), (self.stages[stage]["data"][entry] or {}).get("start")
        source = next((name for name in (named, entry) if name in there), there[0] if len(there) == 1 else None)
        if source is None or not self.has_run(model, before, source):
            raise KeyError(f"{model} at {stage} on {entry}: no run of {before} to start from")
        return before, source

    def way(self, model: str, stage: str, entry: str) -> list[tuple[str, str]]:
        """Return the stages and entries that a model's weights come by, the given one last."""
        place = self.parent(model, stage, entry) if self.kind(model) != "tfidf" else None
        return [*(self.way(model, *place) if place else []), (stage, entry)]

    # What makes a run

    def kind(self, model: str) -> str:
        """Return the kind of a model's backbone."""
        return self.experiment["backbones"][self.models[model]["backbone"]]["kind"]

    def chain(self, stage: str) -> list[str]:
        """Return the stages that a stage starts from, directly or not, and itself at the end."""
        chain = [stage]
        while (before := self.stages[chain[0]].get("start")) is not None:
            chain.insert(0, before)
        return chain

    def mechanisms(self, model: str, stage: str, entry: str) -> list[str]:
        """Return the names of the attention mechanisms of a model's two layers at a stage; [] = it has none."""
        row = self.models[model]
        found, on = row.get("mechanism"), dict(self.way(model, stage, entry))
        for name in self.chain(stage):  # a change at a stage that the model skips holds from there on, too
            change = row.get("changes", {}).get(name, {})
            found = change.get("mechanism", found)
            found = change.get("data", {}).get(on.get(name), {}).get("mechanism", found)
        return found if isinstance(found, list) else [found] * 2 if found is not None else []

    def family(self, model: str, stage: str, entry: str) -> str:
        """Return what colours a model in figures: the kinds of its mechanisms."""
        mechanisms = self.mechanisms(model, stage, entry)
        kinds = dict.fromkeys(self.experiment["mechanisms"][each]["kind"] for each in mechanisms)
        return "+".join(kinds) or self.kind(model)

    def work(self, model: str, stage: str, entry: str) -> dict[str, Any]:
        """Return task and recipe of a model at a stage."""
        section, own = self.stages[stage], self.stages[stage]["data"][entry] or {}
        other = self.models[model].get("changes", {}).get(stage, {})
        return {key: {**section.get(key, {}), **own.get(key, {}), **other.get(key, {})} for key in ("task", "recipe")}

    def reads(self, model: str, entry: str) -> tuple[str | None, int | None]:
        """Return the tokeniser of a model and how many tokens of a document it reads."""
        if self.kind(model) == "tfidf":
            return None, None
        row, texts = self.models[model], self.datasets.get(entry) or self.corpora[entry]
        tokenizer = row.get("tokenizer") or texts.get("tokenizer") or next(iter(self.experiment["tokenizers"]))
        if entry in self.corpora:
            return tokenizer, max(texts[part]["max_tokens"] for part in ("short", "long"))
        return tokenizer, row.get("max_tokens") or texts["max_tokens"]

    def searcher(self, model: str, stage: str) -> str | None:
        """Return the model whose search chooses settings of a model at a stage; None = no search does."""
        source = self.stages[stage].get("settings_from")
        if source is None or self.kind(model) == "tfidf":
            return None
        searching = [name for name in self.models if any(self.has_run(name, source, at) for at in self.entries(source))]
        return model if model in searching else searching[0] if len(searching) == 1 else None

    def identity(self, model: str, stage: str, entry: str) -> str:
        """Return all that makes the runs of a model at a stage on an entry: equal texts, equal runs."""
        place = model, stage, entry
        if place not in self._identities:
            self._identities[place] = self._identify(model, stage, entry)
        return self._identities[place]

    def _identify(self, model: str, stage: str, entry: str) -> str:
        before, trained = None, self.kind(model) != "tfidf"
        if trained:
            place = self.parent(model, stage, entry)
            before = self.identity(model, *place) if place else self.models[model].get("start")
        searcher = self.searcher(model, stage)
        search = self.identity(searcher, self.stages[stage]["settings_from"], entry) if searcher else None
        backbone, mechanisms = self.models[model]["backbone"], self.mechanisms(model, stage, entry)
        parts = [stage, entry, self.work(model, stage, entry), backbone, mechanisms, self.reads(model, entry)]
        return json.dumps([*parts, before, search], sort_keys=True)

    def owner(self, model: str, stage: str, entry: str) -> str:
        """Return the first model that has the same run."""
        mine = self.identity(model, stage, entry)
        return next(name for name in self.passing(stage, entry) if self.identity(name, stage, entry) == mine)

    def seeds(self, stage: str, entry: str) -> list[int]:
        """Return the seeds of a stage on an entry."""
        section = self.stages[stage]
        seeds = (section["data"][entry] or {}).get("seeds") or section.get("seeds") or self.experiment["seeds"]
        return seeds[:1] if section.get("tuning") else seeds

    def variants(self, stage: str) -> list[dict[str, Any]]:
        """Return the settings of every variant of a stage; one without settings where it has none."""
        values = self.stages[stage].get("variants", {})
        return [dict(zip(values, each, strict=True)) for each in product(*values.values())]

    # The runs

    @cached_property
    def places(self) -> list[tuple[str, str, str]]:
        """Every stage, model and entry with a run of its own."""
        return [
            (stage, model, entry)
            for stage in self.stages
            for entry in self.entries(stage)
            for model in self.passing(stage, entry)
            if self.owner(model, stage, entry) == model
        ]

    @cached_property
    def runs(self) -> list[Made]:
        """All runs of the study."""
        return [
            self.made(model, stage, entry, seed, variant)
            for stage, model, entry in self.places
            for variant in self.variants(stage)
            for seed in self.seeds(stage, entry)
        ]

    def made(self, model: str, stage: str, entry: str, seed: int, variant: Mapping[str, Any] | None = None) -> Made:
        """Return the run that a model has there."""
        owner, variant = self.owner(model, stage, entry), variant or {}
        key = (stage, owner, entry, seed, json.dumps(variant, sort_keys=True))
        if key not in self._made:
            self._made[key] = self._make(stage, owner, entry, seed, variant)
        return self._made[key]

    def labelled(self, stage: str) -> bool:
        """Whether a stage classifies documents."""
        return self.stages[stage]["task"]["kind"] == "sequence_classification"

    def sets(self, entry: str) -> bool:
        """Whether documents of a dataset have sets of classes."""
        return "label_set" in self.datasets.get(entry, {})

    def score(self, stage: str, entry: str) -> str:
        """Return the metric that tables call F1."""
        return f"f1_{self.stages[stage]['data'][entry].get('task', {}).get('average', 'macro')}"

    def _draw(self, *what: Any) -> np.random.Generator:
        """Return random numbers that belong to something."""
        digest = hashlib.sha256(json.dumps([self.number, *what], sort_keys=True).encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big"))

    def documents(self, entry: str, split: str) -> pd.DataFrame:
        """Return the labelled documents of a dataset."""
        draw, classes = self._draw("documents", entry, split), len(self.datasets[entry]["labels"])
        number = int(draw.integers(16, 34)) * classes
        labels = draw.permutation(np.arange(number) % classes)
        if self.sets(entry):  # some empty, and at times a class that no document has
            frequencies = self._draw("frequencies", entry).choice([0, 0.1, 0.5, 0.7], classes)
            frequencies[0] = 0.5
            has = draw.random((number, classes)) < frequencies
            labels = pd.Series([np.flatnonzero(row) for row in has])
        groups = draw.choice([2, 4, 8], number)
        return pd.DataFrame({"id": [f"{split}{each}" for each in range(number)], "label": labels, "group": groups})

    def texts(self, entry: str) -> pd.DataFrame:
        """Return what the texts of the test documents of a dataset are like."""
        documents, draw = self.documents(entry, "test"), self._draw("texts", entry)
        languages, copies = (
            draw.choice(["en", "de", "fr"], len(documents), p=[0.6, 0.3, 0.1]),
            draw.random(len(documents)) < 0.4,
        )
        return documents.assign(words=draw.integers(3, 60, len(documents)), language=languages, near_copy=copies)

    def _make(self, stage: str, model: str, entry: str, seed: int, variant: Mapping[str, Any]) -> Made:
        identity, section = self.identity(model, stage, entry), self.stages[stage]
        draw = self._draw("run", identity, seed, variant)
        of_all_seeds = self._draw("all seeds", identity, variant)
        trains, labelled = self.kind(model) != "tfidf", self.labelled(stage)
        tuned, work = section.get("tuning"), self.work(model, stage, entry)
        work = {key: dict(values) for key, values in work.items()}
        for place, value in variant.items():
            part, name = place.split(".")
            work[part][name] = value
        metrics = {"train_loss": draw.uniform(1, 4), "eval_loss": draw.uniform(1, 4)} if trains else {}
        if labelled:
            names = ("f1_macro", "accuracy", "matthews", *(["f1_micro"] if self.sets(entry) else []))
            splits = ("eval",) if tuned else ("eval", "test")
            metrics |= {f"{split}_{name}": draw.uniform(0.2, 0.98) for split in splits for name in names}
        trials = _trials(tuned["space"], draw) if tuned else None
        if trials is not None:
            complete = trials[trials["state"] == "complete"]
            metrics["best_trial"] = int(complete.loc[complete["eval_f1_macro"].idxmax(), "number"])
        parts = ("embeddings", "attention", "feed_forward", "head")
        parameters = {part: int(of_all_seeds.integers(1000, 90_000)) for part in parts if trains}
        parameters["total"] = int(of_all_seeds.integers(300_000, 900_000))
        config: dict[str, Any] = {"labels": self.datasets[entry]["labels"]} if labelled else {}
        config |= {"recipe": work["recipe"]} if trains else {}
        config |= {"tuning": dict(tuned)} if tuned else {}
        measures = section.get("geometry") is not None and trains
        place = self.parent(model, stage, entry) if trains else None
        return Made(
            stage=stage,
            model=model,
            entry=entry,
            seed=seed,
            variant=variant,
            trains=trains,
            seconds=draw.uniform(50, 900),
            memory=draw.uniform(500, 9000),
            memory_kind="gpu" if trains and self.number % 3 == 0 else "resident",
            hardware=("a laptop", "a laptop", "a laptop", "a cluster")[int(of_all_seeds.integers(4))]
            if trains
            else None,
            epochs=int(work["recipe"]["epochs"]) if trains else 0,
            processes=(1, 1, 1, 2)[int(of_all_seeds.integers(4))],
            parameters=parameters,
            metrics=metrics,
            history=_history(draw, of_all_seeds, labelled=labelled) if trains and not tuned else None,
            predictions=self._predictions(entry, draw) if labelled and not tuned else None,
            geometry=_geometry(draw) if measures else None,
            trials=trials,
            config=config,
            start=None if place is None else self._weights(model, place, seed),
            score=self.score(stage, entry),
        )

    def _weights(self, model: str, place: tuple[str, str], seed: int) -> str:
        """Return the digest of the weights of the run that a run of a seed starts from."""
        before = self.made(model, *place, self.seed_before(place, seed))
        return hashlib.sha256(before.path.encode()).hexdigest()

    def seed_before(self, place: tuple[str, str], seed: int) -> int:
        """Return the seed of the run of an earlier stage that a run of a seed starts from."""
        return seed if seed in self.seeds(*place) else self.seeds(*place)[0]

    def shares_start(self, model: str, stage: str, entry: str) -> bool:
        """Whether runs of a model with several seeds come from fewer runs of an earlier stage."""
        seeds = {*self.seeds(stage, entry)}
        number = len(seeds)
        for place in reversed(self.way(model, stage, entry)[:-1]):
            seeds = {self.seed_before(place, seed) for seed in seeds}
        return len(seeds) < number

    def _predictions(self, entry: str, draw: np.random.Generator) -> pd.DataFrame:
        """Return predictions of validation and test documents, with probabilities."""
        frames, classes = [], len(self.datasets[entry]["labels"])
        skill = draw.uniform(0.3, 3)
        for split in ("validation", "test"):
            documents = self.documents(entry, split)
            scores = draw.gumbel(size=(len(documents), classes))
            if self.sets(entry):
                frames.append(_given_sets(documents.assign(split=split), scores, skill))
                continue
            scores[np.arange(len(documents)), documents["label"]] += skill
            probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
            frames.append(
                documents.assign(
                    prediction=probabilities.argmax(axis=1), probabilities=list(probabilities), split=split
                )
            )
        return pd.concat(frames, ignore_index=True)


def _given_sets(documents: pd.DataFrame, scores: np.ndarray, skill: float) -> pd.DataFrame:
    """Return predictions of sets: probabilities, some of them equal or 0 or 1, and the classes of at least a half."""
    has = np.array([np.isin(range(scores.shape[1]), each) for each in documents["label"]])
    probabilities = (1 / (1 + np.exp(1 - scores - skill * (2 * has - 1)))).round(1)
    given = map(np.flatnonzero, probabilities >= 0.5)
    return documents.assign(prediction=[*given], probabilities=list(probabilities))


def _history(draw: np.random.Generator, of_all_seeds: np.random.Generator, *, labelled: bool) -> pd.DataFrame:
    """Return the evaluations of a training; all seeds have as many."""
    number = int(of_all_seeds.integers(2, EPOCHS + 1))
    history = {
        "epoch": range(1, number + 1),
        "train_loss": draw.uniform(1, 4, number),
        "eval_loss": draw.uniform(1, 4, number),
        "seconds": draw.uniform(5, 90, number),
    }
    if labelled:
        history["eval_f1_macro"] = draw.uniform(0.2, 0.98, number)
    return pd.DataFrame(history)


def _geometry(draw: np.random.Generator) -> pd.DataFrame:
    """Return what a training measured of its merged weights, and of random ones."""
    rows = []
    for source, steps in (("model", (0, 7)), ("random", (0,))):
        for step, position, layer in product(steps, POSITIONS, range(LAYERS)):
            row = {"step": step, "source": source, "weights": "merged", "position": position, "layer": layer}
            row |= {"head": "all", "symmetry": draw.uniform(-1, 1), "directionality": draw.uniform(-1, 1)}
            row |= {"norm": draw.uniform(1, 2), "bound": None}
            mapped = source == "model" and position == POSITIONS[0]
            row |= {name: draw.uniform(0, 1) if mapped else None for name in ("upper_triangle", "gradient_norm")}
            rows.append(row)
    return pd.DataFrame(rows)


def _trials(space: Mapping[str, Any], draw: np.random.Generator) -> pd.DataFrame:
    """Return the trials of a search: the first is complete, the last may have diverged."""
    rows = []
    for number in range(4):
        row: dict[str, Any] = {"number": number}
        for place, dimension in space.items():
            if "values" in dimension:
                row[place] = spelled(dimension["values"][int(draw.integers(len(dimension["values"])))])
            elif isinstance(dimension["low"], int):
                row[place] = int(draw.integers(dimension["low"], dimension["high"] + 1))
            else:
                row[place] = draw.uniform(dimension["low"], dimension["high"])
        state = "complete" if number == 0 else str(draw.choice(["complete", "pruned", "diverged"]))
        row |= {"eval_f1_macro": None if state == "diverged" else draw.uniform(0.2, 0.98), "state": state}
        rows.append(row | {"epochs": int(draw.integers(1, 4)), "seconds": draw.uniform(20, 400)})
    return pd.DataFrame(rows)


def write(root: Path, words: Words) -> None:
    """Write the records of all runs of a study below its folder of results, and descriptions of its datasets' texts."""
    for run in words.runs:
        write_made(root / "runs" / run.path, run)
    for entry in words.datasets:
        rows = words.texts(entry)[["id", "words", "language", "near_copy"]].to_dict("records")
        write_texts(root / "data" / entry / "texts.parquet", *rows, {"id": "train0", "words": 900, "split": "train"})


def write_made(folder: Path, run: Made) -> None:
    """Write the files of a finished run."""
    folder.mkdir(parents=True)
    (folder / CONFIG).write_text(yaml.safe_dump(dict(run.config), sort_keys=False))
    if run.history is not None:
        run.history.to_csv(folder / HISTORY, index=False)
    if run.predictions is not None:
        run.predictions.to_parquet(folder / PREDICTIONS, index=False)
    if run.geometry is not None:
        run.geometry.to_csv(folder / GEOMETRY, index=False)
    if run.trials is not None:
        run.trials.to_csv(folder / TRIALS, index=False)
    record = RunRecord(
        stage=run.stage,
        model=run.model,
        dataset=run.entry,
        variant=dict(run.variant),
        seed=run.seed,
        task="any",
        parents={} if run.start is None else {"start": Parent(path="model", digest=run.start)},
        parameters=dict(run.parameters),
        epochs=run.epochs,
        steps=20 * run.epochs,
        tokens=4000 * run.epochs,
        seconds=run.seconds,
        seconds_per_epoch=run.seconds / run.epochs if run.epochs else None,
        tokens_per_second=None,
        peak_memory_mb=run.memory,
        peak_memory_kind="gpu" if run.memory_kind == "gpu" else "resident",
        precision="fp32",
        device="cuda:0" if run.memory_kind == "gpu" else "cpu",
        hardware=run.hardware,
        processes=run.processes,
        versions={"torch": "2"},
        git_commit=None,
        metrics=dict(run.metrics),
        score=run.score if f"eval_{run.score}" in run.metrics else None,
    )
    write_record(folder, record)
