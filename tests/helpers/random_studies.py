"""Studies drawn at random: twins, searches, datasets of some models only, seeds everywhere, names that join alike."""

import random
from collections.abc import Sequence
from typing import Any

from expected_runs import Words

from lib.core.extensions import shipped

PLAIN = {
    "stages": ["pretrain", "tapt", "finetune", "transfer", "search"],
    "corpora": ["wiki", "news"],
    "datasets": ["imdb", "arxiv", "yelp"],
    "models": ["sdpa", "sdpa-long", "favor", "twin", "late", "other", "seventh"],
}
ALIKE = {
    "stages": ["a", "a_b", "a_b_c", "model", "imdb"],
    "corpora": ["b_c", "wiki_2"],
    "datasets": ["imdb", "imdb_sd", "c", "epoch", "model", "b-c", "imdb_f1_macro_percent", "all"],
    "models": ["model", "all", "epoch", "epochs", "chance", "accuracy", "sdpa", "sdpa_sd", "dataset", "m.1", "m-1"],
}
RECIPE = {"epochs": 2, "learning_rate": 1e-3, "min_lr_ratio": 0.5, "batch_size": 8}
MECHANISMS = {
    "sdpa": {"kind": "sdpa"},
    "favor-m8": {"kind": "favor", "nb_features": 8},
    "favor-m16": {"kind": "favor", "nb_features": 16},
    "sdpa-plain": {"kind": "sdpa", "use_native_sdpa": False},
}
VARIANTS = {
    "recipe.learning_rate": [0.001, 0.01, 0.1],
    "recipe.epochs": [1, 2],
    "task.classifier_dropout": [0.0, 0.5],
    "recipe.warmup_ratio": [0.0, 0.2],
}
SPACE = {
    "recipe.learning_rate": {"low": 1.0e-5, "high": 1.0e-2, "log": True},
    "recipe.epochs": {"low": 1, "high": 4},
    "task.classifier_dropout": {"values": [0.0, 0.1, 0.5]},
}


class Draw(random.Random):
    """Random choices."""

    def chance(self, share: float) -> bool:
        """Return true in this share of all calls."""
        return self.random() < share

    def some(self, values: Sequence[str], least: int = 1) -> list[str]:
        """Return some of the values, `least` or more, in any order."""
        return self.sample(list(values), self.randint(min(least, len(values)), len(values)))


def random_study(number: int, results: str) -> dict[str, Any]:
    """Return the study of that number, as its YAML file would say it: the same number gives the same study."""
    draw = Draw(number)
    names = _names(draw)
    experiment = _experiment(draw, names)
    _take_sets(Draw(2_000_000 + number), experiment)
    study: dict[str, Any] = {"extensions": shipped(), "experiment": experiment}
    _add_models(draw, study, names["models"])
    study["report"] = {}
    study["execution"] = {"results": results, "resources": f"{results}_resources"}
    return study


def _take_sets(draw: Draw, experiment: dict[str, Any]) -> None:
    """Give documents of some datasets sets of classes, where no search draws trials."""
    stages = experiment["stages"].values()
    for name, dataset in experiment["datasets"].items():
        if any(stage.get("tuning") and name in stage["data"] for stage in stages) or not draw.chance(0.3):
            continue
        dataset["label_set"] = {"separator": ";"}
        task = {"kind": "multi_label_classification", "average": draw.choice(["micro", "macro"])}
        for stage in stages:
            if stage["task"]["kind"] == "sequence_classification" and name in stage["data"]:
                stage["data"][name]["task"] = task


def _names(draw: Draw) -> dict[str, list[str]]:
    """Return names to take, most of them plain, in the order in which they are taken."""
    alike = draw.chance(0.3)
    names: dict[str, list[str]] = {}
    taken: set[str] = set()
    for section, plain in PLAIN.items():
        pool = list(dict.fromkeys([*plain, *ALIKE[section]])) if alike else plain
        shuffled = draw.sample(pool, len(pool))
        if section in ("corpora", "datasets"):  # no name is both
            shuffled = [name for name in shuffled if name not in taken]
            taken |= {*shuffled[:3]}
        names[section] = shuffled
    return names


def _seeds(draw: Draw) -> list[int]:
    return draw.sample([1, 2, 3, 4], draw.choice([1, 1, 2, 2, 3]))


def _experiment(draw: Draw, names: dict[str, list[str]]) -> dict[str, Any]:
    corpora, datasets = names["corpora"][: draw.randint(0, 2)], names["datasets"][: draw.randint(1, 3)]
    two_tokenizers = draw.chance(0.3)
    shared = {"tokenizer": "wordpiece"} if two_tokenizers else {}
    local = {"source": "local", "local": {"files": {"train": ["texts.jsonl"]}}, **shared}
    slices = {"short": 16, "long": 32, "held_out": 32}
    classes = ["no", "yes", "accuracy", "macro average"] if draw.chance(0.1) else ["no", "yes", "maybe", "never"]
    experiment: dict[str, Any] = {
        "seeds": _seeds(draw),
        "precision": "fp32",
        "mechanisms": MECHANISMS,
        "backbones": {
            "encoder": {"kind": "encoder", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2},
            "tfidf": {"kind": "tfidf"},
        },
        "tokenizers": {
            name: {"source": "trained", "corpus": datasets[0], "vocab_size": 300}
            for name in ["wordpiece", *(["second"] if two_tokenizers else [])]
        },
        "corpora": {
            name: {**local, **{part: {"articles": 4, "max_tokens": tokens} for part, tokens in slices.items()}}
            for name in corpora
        },
        "datasets": {
            name: {
                **local,
                "labels": classes[: draw.randint(2, 3)] if draw.chance(0.7) else classes,
                "max_tokens": draw.choice([24, 32]),
                "group": "distance",
            }
            for name in datasets
        },
    }
    experiment["stages"] = _stages(draw, names["stages"], corpora, datasets)
    return experiment


def _stages(draw: Draw, names: list[str], corpora: list[str], datasets: list[str]) -> dict[str, Any]:
    """Return a chain of language modelling and classification, at times with a search."""
    left, stages = list(names), {}
    before: str | None = None
    for place in range(draw.randint(0, 2)):
        entries = corpora if corpora and place == 0 else datasets
        shown = draw.some([*entries, *(datasets if place == 0 and draw.chance(0.2) else [])])
        name = left.pop(0)
        stages[name] = _stage(draw, stages, "masked_lm", shown, before)
        before = name
    learning = draw.some(datasets, least=len(datasets) - 1 or 1)
    search = None
    if draw.chance(0.45) and len(left) > 1:
        search = left.pop(0)
        stages[search] = _stage(draw, stages, "sequence_classification", learning, before)
        if draw.chance(0.65):
            chosen = draw.sample(list(VARIANTS), draw.randint(1, 2))
            stages[search]["variants"] = {place: VARIANTS[place] for place in chosen}
        else:
            chosen = draw.sample(list(SPACE), draw.randint(1, 2))
            stages[search]["tuning"] = {"trials": 4, "space": {place: SPACE[place] for place in chosen}}
            stages[search].pop("seeds", None)
            for entry in stages[search]["data"].values():
                entry.pop("seeds", None)
    name = left.pop(0)
    stages[name] = _stage(draw, stages, "sequence_classification", learning, before)
    if search and draw.chance(0.85):
        stages[name]["settings_from"] = search
    if draw.chance(0.5):
        stages[name]["geometry"] = {"every": 5, "positions": [0, 1]}
    if draw.chance(0.35):
        follows = name if draw.chance(0.6) else before
        last = stages[left.pop(0)] = _stage(draw, stages, "sequence_classification", draw.some(datasets), follows)
        if draw.chance(0.4):
            last["geometry"] = {"every": 5, "positions": [0, 1]}
    return stages


def _stage(draw: Draw, stages: dict[str, Any], kind: str, entries: list[str], before: str | None) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for entry in entries:
        data[entry] = {}
        if draw.chance(0.25):
            data[entry]["seeds"] = _seeds(draw)
        if draw.chance(0.2):
            data[entry]["recipe"] = {"epochs": draw.choice([3, 4])}
        there = list(stages[before]["data"]) if before else []
        if there and (draw.chance(0.2) or (entry not in there and len(there) > 1)):
            data[entry]["start"] = draw.choice(there)
    stage: dict[str, Any] = {"task": {"kind": kind}, "recipe": dict(RECIPE), "data": data}
    if before:
        stage["start"] = before
    if draw.chance(0.35):
        stage["seeds"] = _seeds(draw)
    return stage


def _add_models(draw: Draw, study: dict[str, Any], names: list[str]) -> None:
    """Add models, each of which may be like an earlier one but for one thing."""
    experiment = study["experiment"]
    stages, models = experiment["stages"], {}
    experiment["models"] = models
    left = list(names)
    number = draw.randint(2, 7)
    while len(models) < number:
        like = draw.choice(list(models)) if models and draw.chance(0.75) else None
        row: dict[str, Any] = {"backbone": "encoder", "mechanism": _mechanism(draw)}
        if like is not None:
            row = {key: _copy(value) for key, value in models[like].items()}
            _change(draw, row, experiment)
        name = left.pop(0)
        models[name] = row
        if not _fits(study, name):
            del models[name]
            left.append(name)
    if draw.chance(0.7) and left:
        skipped = [
            name
            for name, stage in stages.items()
            if stage["task"]["kind"] == "masked_lm" or stage.get("variants") or stage.get("tuning")
        ]
        for _ in range(2 if draw.chance(0.2) and len(left) > 1 else 1):
            place = draw.randint(0, len(models))
            rows = list(models.items())
            only = {"datasets": draw.some(list(experiment["datasets"]))} if draw.chance(0.2) else {}
            rows.insert(place, (left.pop(0), {"backbone": "tfidf", "skip": skipped, **only}))
            models.clear()
            models.update(rows)
            if not _fits(study, rows[place][0]):
                del models[rows[place][0]]
    _choose_searchers(draw, study)


def _mechanism(draw: Draw) -> str | list[str]:
    """Return the mechanism of both layers, or a list with one for each."""
    names = [draw.choice(list(MECHANISMS)) for _ in range(2)]
    return names if draw.chance(0.2) else names[0]


def _copy(value: Any) -> Any:
    return {key: _copy(each) for key, each in value.items()} if isinstance(value, dict) else value


def _change(draw: Draw, row: dict[str, Any], experiment: dict[str, Any]) -> None:
    """Change one thing of a model, or nothing: then it is a twin."""
    stages = experiment["stages"]
    stage = draw.choice(list(stages))
    searches = [name for name in stages if stages[name].get("variants") or stages[name].get("tuning")]
    what = draw.choice(
        ["nothing", "deviation", "search", "search", "from", "on", "on", "tokens", "reader", "skip", "only"]
    )
    if what == "search" and searches:
        stage = searches[0]
    if what in ("search", "deviation"):
        row.setdefault("changes", {}).setdefault(stage, {})["recipe"] = {
            "learning_rate": draw.choice([0.003, 0.005, 0.007])
        }
    elif what == "from":
        row.setdefault("changes", {}).setdefault(stage, {})["mechanism"] = _mechanism(draw)
    elif what == "on":
        parts = {"mechanism": _mechanism(draw)}
        entry = draw.choice(list(stages[stage]["data"]))
        row.setdefault("changes", {}).setdefault(stage, {}).setdefault("data", {})[entry] = parts
    elif what == "tokens":
        row["max_tokens"] = draw.choice([40, 48])
    elif what == "reader" and "second" in experiment["tokenizers"]:
        row["tokenizer"] = "second"
    elif what == "skip":
        row["skip"] = [stage]
    elif what == "only":
        row["datasets"] = draw.some(list(experiment["datasets"]))


def _fits(study: dict[str, Any], name: str) -> bool:
    """Whether a model has a run, weights to start from wherever it has one, and changes only what it passes, or what a
    stage that it passes starts from.

    A model that skips the only stage before another one starts there from random weights.
    """
    words, row = Words(study, 0), study["experiment"]["models"][name]
    places = [
        (stage, entry) for stage in words.stages for entry in words.entries(stage) if words.has_run(name, stage, entry)
    ]
    for stage, change in row.get("changes", {}).items():
        if not all(words.has_run(name, stage, entry) for entry in change.get("data", {})):
            return False
        if not any(words.on_its_way(name, later) for later in words.stages if stage in words.chain(later)):
            return False
    try:
        ways = [words.way(name, *place) for place in places if words.parent(name, *place) or True]
    except KeyError:
        return False
    if row["backbone"] != "tfidf":
        drawn = [place for place, way in zip(places, ways, strict=True) if len(way) == 1]
        if any(words.stages[stage].get("start") for stage, _ in drawn):
            row["start"] = "scratch"
    return any(words.labelled(stage) and not words.stages[stage].get("tuning") for stage, _ in places)


def _choose_searchers(draw: Draw, study: dict[str, Any]) -> None:
    """Say who searches: all that take settings, or one model for all; else no stage takes settings."""
    words = Words(study, 0)
    for name, stage in words.stages.items():
        source = stage.get("settings_from")
        if source is None:
            continue
        trained = [model for model in words.models if words.kind(model) != "tfidf"]
        everywhere = [
            model for model in trained if all(words.has_run(model, source, entry) for entry in words.entries(source))
        ]
        taking = [model for model in trained if any(words.has_run(model, name, entry) for entry in words.entries(name))]
        if everywhere and draw.chance(0.3):
            only = draw.choice(everywhere)
            if not any(source in row.get("changes", {}) for row in words.models.values()):
                words.stages[source]["models"] = [only]
        searching = [m for m in trained if any(words.has_run(m, source, entry) for entry in words.entries(source))]
        complete = all(
            words.has_run(model, source, entry)
            for model in (taking if len(searching) > 1 else searching)
            for entry in words.entries(name)
            if len(searching) == 1 or words.has_run(model, name, entry)
        )
        if not complete or not searching:
            del stage["settings_from"]
