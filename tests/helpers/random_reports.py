"""Reports of random studies: tables and figures of every kind, with models, datasets and pairs in any order."""

from collections.abc import Callable, Sequence
from typing import Any

from expected_runs import Words
from expected_tables import VALUES, View, comparable, compared_with, pairs_of_runs, shown_entries, stages_passed
from random_studies import Draw

Settings = dict[str, Any]
OF_LEARNING = ["memory", "minutes", "total_minutes", "hours", "parameters", "trained", "epochs", "loss"]
OF_CLASSES = ["f1", "accuracy", "matthews", "validation_f1", "validation_accuracy"]


class Reporter:
    """Draws settings of tables and figures that fit a study."""

    def __init__(self, draw: Draw, study: dict[str, Any]):
        self.draw, self.words = draw, Words(study, 0)
        stages = self.words.stages
        self.searching = {name for name, stage in stages.items() if stage.get("variants")}
        self.tuned = {name for name, stage in stages.items() if stage.get("tuning")}
        self.plain = [name for name in stages if name not in self.searching | self.tuned]
        self.learnt = [name for name in self.plain if self.words.labelled(name)]

    def pick(self, stages: Sequence[str]) -> str | None:
        """Return one of the stages; None of none."""
        return self.draw.choice(list(stages)) if stages else None

    def with_parts(self, settings: Settings | None, *, trained: bool = False) -> Settings | None:
        """Add models and datasets at times, as far as they fit; None if the settings fit nothing."""
        if settings is None:
            return None
        words = self.words
        stages = settings["time"] if "stage" not in settings else stages_passed(settings)
        entries = list(dict.fromkeys(entry for stage in stages for entry in words.entries(stage)))
        if self.draw.chance(0.25):
            settings["datasets"] = self.draw.some(entries)
        if "reference" in compared_with(settings) and not self._refers(settings):
            return None
        shown = [
            model
            for model in words.models
            if all(
                any(words.has_run(model, stage, at) for at in shown_entries(words, settings, stage)) for stage in stages
            )
            and not (trained and words.kind(model) == "tfidf")
        ]
        if not shown or (trained and not any(words.kind(model) != "tfidf" for model in shown)):
            return None
        if self.draw.chance(0.4) and not settings.get("pairs") and not settings.get("curves"):
            settings["models"] = self.draw.some(shown)
        return settings

    def of_stage(self, stages: Sequence[str], *, trained: bool = False, **settings: Any) -> Settings | None:
        """Return settings of one of the stages with parts; None of no stage."""
        stage = self.pick(stages)
        return self.with_parts({"stage": stage} | settings, trained=trained) if stage else None

    def models_at(self, stage: str) -> list[str]:
        """Return the models with a run of a stage."""
        words = self.words
        return [m for m in words.models if any(words.has_run(m, stage, at) for at in words.entries(stage))]

    def _refers(self, settings: Settings) -> bool:
        """Whether the reference has a run wherever the table shows one."""
        words, reference = self.words, self.words.study["report"].get("reference")
        passed = stages_passed(settings)
        for stage in [*passed, *settings.get("time", [])]:
            runs = [words.has_run(reference, stage, entry) for entry in words.entries(stage)]
            if any(runs):
                shown = shown_entries(words, settings, stage)
                if not all(words.has_run(reference, stage, entry) for entry in shown):
                    return False
            elif stage in passed:
                return False
        return True

    def chain(self, stage: str) -> list[str]:
        """Return a stage after those that it starts from."""
        chain = [stage]
        while (before := self.words.stages[chain[0]].get("start")) is not None:
            chain.insert(0, before)
        return chain

    def priced(self, stage: str) -> list[str]:
        """Return some stages whose costs are counted with a stage, in order."""
        before = [each for each in self.plain if each != stage]
        chosen = {*self.draw.some(before, least=0)} if before else set()
        return [each for each in self.words.stages if each in chosen | {stage}]

    # Kinds

    def stage(self) -> Settings | None:
        stages = self.draw.some(self.plain) if self.plain and self.draw.chance(0.5) else [self.pick(self.plain)]
        if stages == [None]:
            return None
        of_stage = {
            stage: self.draw.sample(
                [*OF_LEARNING, *(OF_CLASSES if self.words.labelled(stage) else [])], self.draw.choice([1, 1, 2, 3])
            )
            for stage in stages
        }
        if len(stages) == 1:
            return self.with_parts({"stage": stages[0], "columns": of_stage[stages[0]]})
        if self.draw.chance(0.5):
            shared = [column for column in of_stage[stages[0]] if column in OF_LEARNING] or ["memory"]
            return self.with_parts({"stage": stages, "columns": shared})
        return self.with_parts({"stage": stages, "columns": of_stage})

    def difference(self) -> Settings | None:
        if not (stage := self.pick(self.plain)):
            return None
        scores = [name for name, (_, _, score) in VALUES.items() if score and name != "eval_loss"]
        if not self.words.labelled(stage):
            scores = ["loss"]
        chosen = self.draw.sample(scores, 1 if self.draw.chance(0.6) or len(scores) == 1 else 2)
        return self.with_parts({"stage": stage, "columns": chosen, "against": self._others()})

    def _others(self) -> list[str]:
        return self.draw.choice([["reference"], ["reference", "baseline"]])

    def together(self) -> Settings | None:
        if not self.plain:
            return None
        last = str(self.pick(self.plain))
        group = [*[stage for stage in self.priced(last) if stage != last], last]
        groups: list[Any] = [group if len(group) > 1 else last]
        if self.draw.chance(0.4):
            groups.insert(0, self.pick(self.plain))
        if groups[0] == groups[-1]:
            groups = groups[:1]
        columns = self.draw.sample(["memory", "total_minutes", "parameters"], self.draw.choice([1, 2]))
        return self.with_parts({"stage": groups, "columns": columns, "against": self._others()})

    def requirements(self) -> Settings | None:
        if not (stage := self.pick(self.learnt)):
            return None
        savings = {"favor": {"time": 20, "memory": 30}} if self.draw.chance(0.7) else {}
        limits = {"loss": 10, "spread": 20, "seeds": 2, "above_baseline": {"reference": 5, "others": 3}}
        settings = {"kind": "requirements", "stage": stage, "time": self.priced(stage), "savings": savings, **limits}
        return self.with_parts(settings)

    def pareto(self) -> Settings | None:
        if not (stage := self.pick(self.learnt)):
            return None
        settings: Settings = {"kind": "pareto", "stage": stage, "time": self.priced(stage)}
        if self.draw.chance(0.3):
            settings["intervals"] = False
        if self.draw.chance(0.5):
            settings |= {"time_tolerance": 20, "memory_tolerance": 30}
        # Memory of another kind than that of the others cannot be compared.
        baseline = self.words.study["report"].get("baseline")
        texts = any(self.words.kind(model) == "tfidf" and model != baseline for model in self.words.models)
        return self._of_encoders(settings) if texts else self.with_parts(settings, trained=True)

    def compute(self) -> Settings | None:
        stages = [name for name in self.words.stages if name not in self.searching]
        return self.with_parts({"kind": "compute", "time": self.draw.some(stages)}) if stages else None

    def _comparison(self, kind: str) -> Settings | None:
        if not (stage := self.pick(self.learnt)):
            return None
        settings: Settings = {"kind": kind, "stage": stage}
        models = self.models_at(stage)
        if self.draw.chance(0.5) and len(models) > 1:
            pairs = [self.draw.sample(models, 2) for _ in range(self.draw.randint(1, 5))]
            settings["pairs"] = [list(pair) for pair in dict.fromkeys(map(tuple, pairs))]
        parted = self.with_parts(settings)
        if parted is None:
            return None
        view = View(self.words, parted)
        if self.draw.chance(0.9):  # else a pair of the same row is refused
            rows = [[view.row_of.get(model) for model in pair] for pair in settings.get("pairs", [])]
            if any(one == other for one, other in rows):
                return None
        if not all(model in view.row_of for pair in parted.get("pairs", []) for model in pair):
            return None
        return parted if comparable(view) or self.draw.chance(0.1) else None

    def significance(self) -> Settings | None:
        return self._comparison("significance")

    def answer(self) -> Settings | None:
        return self._comparison("answer")

    def search(self) -> Settings | None:
        return self.of_stage(sorted(self.searching), kind="search")

    def spread(self) -> Settings | None:
        stages = [*self.learnt, *sorted(self.searching)]
        return self.of_stage(stages, kind="search", column=self.draw.choice(OF_CLASSES), spread=True)

    def search_best(self) -> Settings | None:
        return self.of_stage(sorted(self.searching), kind="search_best")

    def state_size(self) -> Settings | None:
        stage = self.pick([*self.learnt, *sorted(self.searching)])
        return self._of_encoders({"kind": "state_size", "stage": stage}) if stage else None

    def _of_encoders(self, settings: Settings) -> Settings | None:
        """Name models that train, so that others are left out."""
        parted = self.with_parts(settings, trained=True)
        if parted is not None and "models" not in parted:
            rows = View(self.words, parted).row_of
            parted["models"] = self.draw.some([model for model in rows if self.words.kind(model) != "tfidf"])
        return parted

    def trials(self) -> Settings | None:
        return self.of_stage(sorted(self.tuned), kind="trials")

    def history(self) -> Settings | None:
        column = self.draw.choice(["train_loss", "eval_loss"])
        return self.of_stage(self.plain, trained=True, kind="history", column=column)

    def scaling(self) -> Settings | None:
        settings = self._curves()
        return settings and {**settings, "against": self.draw.choice(list(settings["curves"]))}

    def _curves(self) -> Settings | None:
        """Return curves with a model on every dataset each."""
        if not (stage := self.pick(self.plain)):
            return None
        words = self.words
        everywhere = [
            model
            for model in words.models
            if words.kind(model) != "tfidf" and all(words.has_run(model, stage, at) for at in words.entries(stage))
        ]
        if len(everywhere) < 2:
            return None
        shuffled = self.draw.sample(everywhere, len(everywhere))
        cut = self.draw.randint(1, len(shuffled) - 1)
        rows = {tuple(words.identity(model, stage, at) for at in words.entries(stage)) for model in everywhere}
        if len(rows) < 2:
            return None
        curves = {"short": shuffled[:cut], "long": shuffled[cut:]}
        settings: Settings = {"kind": "scaling", "stage": stage, "curves": curves}
        if self.draw.chance(0.3):
            settings["after"] = self.draw.choice([20.0, 60.0])
        return settings

    def geometry(self) -> Settings | None:
        measured = [name for name in self.learnt if "geometry" in self.words.stages[name]]
        if not (stage := self.pick(measured)):
            return None
        settings: Settings = {"kind": "geometry", "stage": stage, "positions": self.draw.choice([[0], [1], [0, 1]])}
        if len(measured) > 1 and self.draw.chance(0.5):
            settings["stage"] = self.draw.sample(measured, len(measured))
        return self.with_parts(settings, trained=True)

    def correlation(self) -> Settings | None:
        stage = self.pick([name for name in self.learnt if "geometry" in self.words.stages[name]])
        if not stage:
            return None
        words = self.words
        models = [model for model in self.models_at(stage) if words.kind(model) != "tfidf"]
        if len(models) < 5:
            return None
        chosen = self.draw.sample(models, len(models))
        base = {model: self.draw.choice([other for other in models if other != model]) for model in chosen}
        settings = {"kind": "correlation", "stage": stage, "base": base}
        view = View(words, settings)
        return settings if all(len(pairs_of_runs(view, at)) >= 4 for at in words.entries(stage)) else None

    def classes(self) -> Settings | None:
        if not (stage := self.pick(self.learnt)) or self.draw.chance(0.4):
            return self.of_stage(self.learnt, kind="classes")
        return {"kind": "classes", "stage": stage, "models": [self.draw.choice(self.models_at(stage))]}

    def detection(self) -> Settings | None:
        return self.of_stage(self.learnt, kind="detection")

    def abstention(self) -> Settings | None:
        certainty = {"certainty": self.draw.choice([None, 0.6])} if self.draw.chance(0.7) else {}
        return self.of_stage(self.learnt, kind="abstention", wrong=self.draw.choice([0.1, 0.3]), **certainty)

    def groups(self) -> Settings | None:
        label = {"label": self.draw.choice(["model", "length"])} if self.draw.chance(0.3) else {}
        return self.of_stage(self.learnt, kind="groups", rows=self.draw.choice(["models", "groups"]), **label)

    def errors(self) -> Settings | None:
        by = self.draw.choice(["words", "near_copy", "language"])
        return self.of_stage(self.learnt, kind="errors", by=by, threshold=0.15)

    # Figures

    def bars(self) -> Settings | None:
        if not (stage := self.pick(self.plain)):
            return None
        columns = ["memory", "minutes", "parameters", *(["f1", "accuracy"] if self.words.labelled(stage) else [])]
        return self.with_parts({"kind": "bars", "stage": stage, "columns": self.draw.some(columns)})

    def loss(self) -> Settings | None:
        if not (stage := self.pick(self.plain)):
            return None
        columns = ["train_loss", "eval_loss", *(["eval_f1_macro"] if self.words.labelled(stage) else [])]
        settings = {"kind": "loss", "stage": stage, "column": self.draw.choice(columns)}
        return self.with_parts(settings | {"against": self.draw.choice(["epochs", "minutes"])}, trained=True)

    def score_time(self) -> Settings | None:
        if not (stage := self.pick(self.learnt)):
            return None
        return self.with_parts({"kind": "score_time", "stage": stage, "time": self.priced(stage)}, trained=True)

    def score_intervals(self) -> Settings | None:
        return self.of_stage(self.learnt, kind="score_intervals")

    def group_score(self) -> Settings | None:
        return self.of_stage(self.learnt, kind="group_score", **{"chance": 0.25} if self.draw.chance(0.5) else {})

    def confusion(self) -> Settings | None:
        return self.of_stage(self.learnt, kind="confusion")

    def calibration(self) -> Settings | None:
        return self.of_stage(self.learnt, kind="calibration")

    def scaling_figure(self) -> Settings | None:
        return self._curves()

    def state_size_figure(self) -> Settings | None:
        settings = self.state_size()
        return settings and settings | ({"chance": "group"} if self.draw.chance(0.5) else {})

    def geometry_figure(self) -> Settings | None:
        if not (settings := self.geometry()):
            return None
        measure = self.draw.choice(["symmetry", "directionality", "upper_triangle"])
        if measure == "upper_triangle":
            del settings["positions"]
        return settings | {"measure": measure}

    def learning_rate(self) -> Settings | None:
        return self.of_stage(self.plain, trained=True, kind="learning_rate")


TABLES = [
    "stage", "stage", "difference", "together", "requirements", "pareto", "compute", "significance", "answer", "spread",
    "search", "search_best", "state_size", "trials", "history", "scaling", "geometry", "correlation",
    "classes", "detection", "abstention", "groups", "errors",
]  # fmt: skip
FIGURES = [
    "bars", "loss", "score_time", "score_intervals", "group_score", "confusion", "calibration", "scaling_figure",
    "search", "trials", "state_size_figure", "geometry_figure", "learning_rate",
]  # fmt: skip
NAMES = ["f1", "f1_imdb", "cost", "cost_all", "main", "a", "a_b", "tables", "loss_c", "loss", "more", "last"]


def add_report(draw: Draw, study: dict[str, Any]) -> None:
    """Add a report with tables and figures of several kinds to a study."""
    models = study["experiment"]["models"]
    report = study["report"]
    trained = [name for name, row in models.items() if row["backbone"] != "tfidf"]
    report["reference"] = draw.choice(trained if draw.chance(0.9) else list(models))
    baseline = [name for name in models if name not in trained]
    if baseline and draw.chance(0.85):
        report["baseline"] = draw.choice(baseline if draw.chance(0.9) else list(models))
    reporter = Reporter(draw, study)
    names = draw.sample(NAMES, len(NAMES))
    report["tables"] = _some(draw, reporter, TABLES, names, draw.randint(5, 9))
    report["figures"] = _some(draw, reporter, FIGURES, draw.sample(NAMES, len(NAMES)), draw.randint(1, 2))


def _some(
    draw: Draw, reporter: Reporter, kinds: Sequence[str], names: Sequence[str], number: int
) -> dict[str, Settings]:
    """Return settings of some kinds that fit the study, by name."""
    makers: list[Callable[[], Settings | None]] = [getattr(reporter, kind) for kind in draw.sample(kinds, len(kinds))]
    fitting = [settings for make in makers if (settings := make()) is not None]
    return dict(zip(names, fitting[:number], strict=False))
