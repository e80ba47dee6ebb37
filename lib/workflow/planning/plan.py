"""The plan of a study: its runs, their paths, inputs and code, and the results made from them."""

import functools
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError, DataError, extras, first, require
from lib.core.extensions import SHIPPED, part, sources
from lib.core.files import files_in, read_mapping
from lib.core.kinds import Axis
from lib.core.model_folder import require_whole
from lib.core.record import MODEL, RunId
from lib.core.settings import NOT_SET, differences
from lib.core.weights import ForeignStart, WordVectorsStart
from lib.study.runs import Run
from lib.study.study import Study
from lib.tasks.settings import TASKS
from lib.tokens.tokenizer_files import layout_of
from lib.workflow.planning.corpora import Corpora
from lib.workflow.planning.paths import Paths
from lib.workflow.planning.recorded import recorded_places
from lib.workflow.planning.report import Report
from lib.workflow.planning.resources import SHORTEST_MINUTES, training_minutes
from lib.workflow.staleness.digests import OPTIONAL, code_digest

SPLITS = ("train", "validation", "test")


class Plan:
    """What the rules make of one study. Knows no stage by name."""

    def __init__(self, study: Study):
        self.study = study
        self.experiment = study.experiment
        self.graph = study.graph
        self.runs = study.runs
        execution, recorded = study.execution, recorded_places(study.execution.recorded)
        self.paths = Paths(execution.results.rstrip("/"), execution.resources.rstrip("/"), recorded)
        self.corpora = Corpora(study.graph, self.paths)
        self.report = Report(study, self.paths, self.corpora)
        self._by_path = {run.id.path: run for run in self.runs}

    def run(self, name: RunId) -> Run:
        """Return the run of that name."""
        return self.report.runs[name]

    def run_at(self, path: str) -> Run:
        """Return the run whose folder lies at `path` below those of all runs.

        Raises:
            ConfigError: the study has no such run.
        """
        if path not in self._by_path:
            raise ConfigError(f"{self.paths.results}/runs/{path}: no run of this study (--configfile names another).")
        return self._by_path[path]

    def targets(self) -> list[str]:
        """Return what a call without a target makes: tables, figures and analyses, or the runs of a study without.

        Of a part of the study, its runs, and those results that need no others.
        """
        asked = {self.paths.record(run.id) for run in self.study.asked}

        def shows_asked(inputs: list[str]) -> bool:
            return self.study.only is None or (bool(inputs) and asked.issuperset(inputs))

        inputs = self.report.analysis_inputs
        analyses = [name for name in self.study.report.analyses if shows_asked(inputs(name)["records"])]
        tables, figures = (
            [*(name for name, result in results.items() if shows_asked(self.report.inputs(result["scope"]))), *analyses]
            for results in (self.report.tables, self.report.figures)
        )
        alone = self.study.only is not None or not self.study.report.asks()
        return [
            *(self.paths.table(name, suffix) for name in tables for suffix in ("csv", "md", "tex", "html")),
            *(self.paths.figure(name, suffix) for name in figures for suffix in ("svg", "png", "pdf")),
            *(self.paths.record(run.id) for run in self.study.asked if alone),
        ]

    def needed(self) -> list[Run]:
        """Return the runs that are asked for and those that they need, in the order of the study."""
        searches: dict[tuple[str, str, str], list[RunId]] = {}
        for run in self.runs:
            searches.setdefault((run.id.stage, run.id.model, run.id.dataset), []).append(run.id)
        found: set[RunId] = set()
        left = [run.id for run in self.study.asked]
        while left:
            if (name := left.pop()) in found:
                continue
            found.add(name)
            if self.paths.is_recorded(name):
                continue
            run = self.run(name)
            trained = (run.parent, run.teacher, run.imitated and run.imitated.weights)
            left += [each for each in trained if isinstance(each, RunId)]
            read = {self.experiment.encoders[name].folder for name in run.backbone.encoder_names}
            left += [each.id for each in self.runs if self.paths.model(each.id) in read]
            left += [each for place in self._searches_of(run) for each in searches[place]]
        return [run for run in self.runs if run.id in found]

    def check(self) -> None:
        """Check that extensions have the parts of the study, and that its files, models and packages are there.

        Raises:
            ConfigError: no extension in use has a part.
            RunError: a model is not, or a package of an extra is missing.
            DataError: some are missing, or imported or archived runs are not as the study describes them.
        """
        if self.study.execution.runs != "made":
            self._check_kept()
        if self.study.execution.runs == "archived":
            return
        datasets = self.experiment.datasets.values()
        asked = {
            "augmentation.augmenting": any(dataset.augmentation for dataset in datasets),
            "placing": any(dataset.placement for dataset in datasets),
            "teaching": any(run.teacher for run in self.runs),
            "training.geometry": any(run.measures for run in self.runs),
            "training.tuning": any(run.tuning for run in self.runs),
            "word_vectors": self.experiment.word_vectors,
        }
        for module in (module for module, wanted in asked.items() if wanted):
            part(f"lib.{module}")
        made = [run for run in self.needed() if not self.paths.is_recorded(run.id)]
        read = {name for run in made for name in (run.id.dataset, run.fitted_to)}
        for name in read if self.paths.recorded else self.corpora.names:
            self.corpora.raw_files(name)
        for tokenizer in self.experiment.tokenizers.values():
            if tokenizer.path and tokenizer.source == "local" and tokenizer.algorithm == "published":
                layout_of(Path(tokenizer.path))
        sources = [each for run in self.runs for each in (run.start, run.imitated and run.imitated.weights)]
        sources += self.experiment.encoders.values()
        for folder in dict.fromkeys(each.folder for each in sources if isinstance(each, ForeignStart)):
            if folder and os.path.isdir(folder):
                require_whole(Path(folder))
        if self.study.execution.runs == "made" and self.study.execution.job.container is None:
            for package, setting in self._packages():
                require(package, setting)

    def _packages(self) -> Iterator[tuple[str, str]]:
        """Yield the packages beyond those of `make setup` that jobs import, each with a setting that needs it."""
        named = extras()
        for name in self.study.extensions:  # the extra of a shipped study has its name
            if str((place := Path(name)).parent) == SHIPPED:
                yield from ((package, f"extensions: {name}") for package in named.get(place.name.replace("_", "-"), []))
        for run in self.runs:
            if run.backbone.quantized:
                yield "bitsandbytes", f"quantization of the backbone of {run.id.model}"
            if run.work.recipe and run.work.recipe.optimizer == "adamw_8bit":
                yield "bitsandbytes", f"recipe.optimizer: adamw_8bit of {run.id.stage}"
        for tracker in self.study.execution.training.report_to:
            yield tracker, f"execution.training.report_to: {tracker}"

    def _check_kept(self) -> None:
        """Check the imported or archived records that tables and figures read."""
        shown = [*self.report.tables.values(), *self.report.figures.values()]
        read = {file for result in shown for file in self.report.inputs(result["scope"])}
        problems = []
        for run in self.runs:
            folder, config = self.paths.folder(run.id), Path(self.paths.config(run.id))
            if self.paths.record(run.id) not in read:
                continue
            if not Path(self.paths.record(run.id)).is_file():
                problems.append(f"{folder}: no record")
            elif config.is_file() and self.study.execution.runs == "imported":
                unlike = differences(read_mapping(config), json.loads(run.settings)).items()
                told = {name: values for name, values in unlike if values[0] != NOT_SET}
                problems += [f"{config}: {name} is {own}, in the study {other}" for name, (own, other) in told.items()]
        if problems:
            found = f"execution.runs: {self.study.execution.runs}, but the runs are not as the study describes them"
            remedy = "Import or unpack them all, leave others out of the study, or correct the settings that differ"
            raise DataError(f"{found}: {'; '.join(first(problems, 10))}. {remedy}.")

    # What a run reads

    def data(self, run: Run) -> dict[str, str]:
        """Return what a run reads, by split: folders of tokens, or documents."""
        if run.tokenizer is None:
            names = {split: run.fitted_to if split == "train" else run.id.dataset for split in run.splits}
            data = {split: self.corpora.documents(name, split) for split, name in names.items()}
            elsewhere = run.fitted_to != run.id.dataset
            return data | ({"choice": self.corpora.documents(run.fitted_to, "validation")} if elsewhere else {})
        return self.tokens(run) | ({"train": self.paths.taught(run.id)} if run.teacher else {})

    def tokens(self, run: Run) -> dict[str, str]:
        """Return the folders of the tokens that the model of a run reads, by split."""
        return {split: self.paths.tokens(run.id.dataset, str(run.tokens_name), split) for split in run.splits}

    def tokenizer(self, run: Run) -> list[str]:
        """Return the folder of a run's tokeniser, if it reads tokens."""
        return [self.paths.tokenizer(run.tokenizer)] if run.tokenizer else []

    def start(self, run: Run) -> list[str]:
        """Return the folder of the weights that a run starts from, if it starts from any."""
        if run.parent:
            return [self.paths.model(run.parent)]
        if isinstance(run.start, WordVectorsStart):
            return [self.corpora.word_vectors(run.start.word_vectors, run.id.seed)]
        return [self.paths.weights(run.start)] if run.start else []

    def word_vectors(self, run: Run) -> list[str]:
        """Return the folder of the word vectors that the baseline of a run reads, if it reads any."""
        name = run.backbone.word_vectors
        return [self.corpora.word_vectors(name, run.id.seed)] if name else []

    def vectors(self, run: Run) -> list[str]:
        """Return the folders of the vectors that a run reads, of each encoder those of its datasets."""
        datasets = dict.fromkeys([run.id.dataset, run.fitted_to])
        return [self.paths.vectors(name, dataset) for name in run.backbone.encoder_names for dataset in datasets]

    def imitated_weights(self, run: Run) -> list[str]:
        """Return the folder of the weights of the model that a run imitates, if it imitates one."""
        if run.imitated is None:
            return []
        source = run.imitated.weights
        return [self.paths.weights(source) if isinstance(source, ForeignStart) else self.paths.model(source)]

    def inputs_of(self, places: Iterable[str]) -> list[str]:
        """Return the files that a rule waits for before it reads files and folders.

        For the model of a run, this is the record of the run. For a folder that no rule makes, it is the files in it:
        the time of a folder stays when the content of a file changes, and changes when an unrelated file is added.
        """
        return [file for place in places for file in self._files_of(place)]

    def _files_of(self, place: str) -> list[str]:
        made = self._by_path.get(place.removeprefix(f"{self.paths.results}/runs/").removesuffix(f"/{MODEL}"))
        if made and place == self.paths.model(made.id):
            return [self.paths.record(made.id)]
        if self.paths.is_made(place) or not Path(place).is_dir():
            return [place]
        # A model or tokeniser lies directly in its folder, a WordNet database perhaps in one of its folders.
        files = files_in(place, "*" if files_in(place, "*.json") else "**/*")
        return [str(file) for file in files if file.suffix != ".md"] or [place]

    def settings_from(self, run: Run) -> list[str]:
        """Return the file with the best settings of a search that a run takes over, if it takes any."""
        return [self.paths.best(*place) for place in self._searches_of(run)]

    def _searches_of(self, run: Run) -> list[tuple[str, str, str]]:
        """Return stage, model and dataset of the search that a run takes settings from, if it takes any."""
        if run.settings_from is None:
            return []
        searcher = self.graph.searcher(run.id.model, run.id.stage)
        assert searcher is not None  # the study was checked
        return [(run.settings_from, self.graph.owner(searcher, run.settings_from, run.id.dataset), run.id.dataset)]

    # What executes it

    def program(self, run: Run) -> str:
        """Return the name of the program in `scripts/` that executes a run."""
        return "tune" if run.tuning else "train" if run.trains else "evaluate"

    def code(self, run: Run) -> str:
        """Return the digest of the code that a run executes."""
        task, backbone = run.work.task, run.backbone
        imitated = run.imitated and run.imitated.backbone
        named: list[tuple[Axis[Any], str, str]] = [(TASKS, task.kind, "task"), (TASKS, task.kind, "settings")]
        for each in (backbone, backbone.held_backbone, imitated):
            if each is not None:
                named += [(BACKBONES, each.kind, "backbone"), (BACKBONES, each.kind, "settings")]
        for held in [*backbone.held_mechanisms, *(imitated.held_mechanisms if imitated else [])]:
            named += [(MECHANISMS, held.kind, "mechanism"), (MECHANISMS, held.kind, "settings")]
        # The backbone's model for a task is made through transformers' Auto classes, which no import names.
        if BACKBONES.has(backbone.kind, head := task.head or task.kind):
            named.append((BACKBONES, backbone.kind, head))
        modules = [_module(*each) for each in dict.fromkeys(named)]
        own = sources()
        modules += [name for held in backbone.held_mechanisms for name in held.code() if name.split(".")[0] in own]
        optional = {
            "lib.study.run": run.reads_tokens or run.trains,
            "lib.study.recipe": run.trains,
            "lib.study.tuning": run.tuning,
            "lib.backbones.adapters": run.trains and run.work.recipe and run.work.recipe.lora,
            "lib.training.evaluate_tokens": not run.trains and run.reads_tokens,
            "lib.training.evaluate_texts": not run.trains and not run.reads_tokens,
            **dict.fromkeys(sorted(OPTIONAL.get(modules[0], ())), run.reads_tokens),
        }
        modules += [module for module, executed in optional.items() if executed]
        if isinstance(run.start, WordVectorsStart):
            modules.append(part("lib.backbones.first_embeddings"))
        if run.measures:
            modules.append(part("lib.training.geometry"))
        if run.tuning:
            modules.append(part("lib.training.tuning"))
        return code_digest(f"scripts/{self.program(run)}.py", *modules)

    def minutes(self, run: Run) -> int:
        """Estimate the wall time of a run on tokens, in minutes; of one that tunes, of its longest trial times all."""
        works = [run.work.with_settings(settings) for settings in (run.tuning.examples() if run.tuning else [{}])]
        longest = max(
            training_minutes(
                backbone=run.backbone,
                recipe=work.recipe,
                predicted_share=work.task.predicted_share(),
                imitated=run.imitated and run.imitated.backbone,
                max_tokens=run.max_tokens or run.corpus.max_tokens,
                token_lengths=self.paths.token_lengths(run.id.dataset, str(run.tokens_name)),
            )
            for work in works
        )
        minutes = longest * (run.tuning.trials if run.tuning else 1) * self.study.execution.job.runtime_scale
        return max(SHORTEST_MINUTES, round(minutes))

    # Searches

    def searches(self, section: str) -> list[tuple[str, str, str]]:
        """Return each stage that searches by `section` for others, with the models and datasets of its searches."""
        stages = self.experiment.stages
        return [
            (name, model, dataset)
            for name in dict.fromkeys(stage.settings_from for stage in stages.values() if stage.settings_from)
            if stages[name].search == section
            for dataset in stages[name].data
            for model in self.graph.owners(name, dataset)
        ]

    def tuned(self, stage: str, model: str, dataset: str) -> RunId:
        """Return the run that tunes a model on a dataset for another stage."""
        return RunId(stage, model, dataset, self.graph.seeds_of(stage, dataset)[0])


_module = functools.cache(Axis.module)
"""Name of the module of an axis with a part of a kind, looked up once, since every run asks for some."""
