"""The results of a study: content, inputs and code of each table, figure and analysis."""

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from lib.analysis.settings import AnalysisSettings, computation
from lib.attention.settings import MECHANISMS
from lib.backbones.state_size import state_bytes
from lib.core.kinds import Axis
from lib.core.record import RunId
from lib.results.settings import FIGURES, TABLES, ResultSettings
from lib.study.rows import Rows, pooled_names, results_of, rows_of
from lib.study.runs import Run
from lib.study.shown import analysed_dataset, analysed_models, text_baselines
from lib.study.study import Study
from lib.workflow.planning.corpora import Corpora
from lib.workflow.planning.paths import Paths
from lib.workflow.staleness.digests import code_digest


class Report:
    """The tables, figures and analyses of a study."""

    def __init__(self, study: Study, paths: Paths, corpora: Corpora):
        self.study = study
        self.paths = paths
        self.corpora = corpora
        self.runs: dict[RunId, Run] = {run.id: run for run in study.runs}

    @functools.cached_property
    def tables(self) -> dict[str, dict[str, Any]]:
        """All tables by name, with what each shows."""
        return self._shown(self.study.report.tables)

    @functools.cached_property
    def figures(self) -> dict[str, dict[str, Any]]:
        """All figures by name, with what each shows."""
        return self._shown(self.study.report.figures)

    @functools.cached_property
    def tokenised(self) -> list[tuple[str, str]]:
        """Every corpus and dataset with every tokeniser that a run reads it by, and every length."""
        names, tokenizers = self.corpora.names, list(self.study.experiment.tokenizers)
        read = {
            (names.index(run.id.dataset), tokenizers.index(run.tokenizer), run.max_tokens, run.tokens_name)
            for run in self.study.runs
            if run.tokenizer is not None
        }
        return [(names[corpus], str(tokens_name)) for corpus, _, _, tokens_name in sorted(read)]

    def inputs(self, scope: Mapping[str, Any]) -> list[str]:
        """Return the files that a table or figure reads.

        They are run records, token lengths, descriptions of texts, documents, or word vectors.
        """
        if "tokenised" in scope:
            return [self.paths.token_lengths(corpus, tokenizer) for corpus, tokenizer in scope["tokenised"]]
        if "documents" in scope:
            return [self.corpora.documents(dataset, split) for dataset, _, split in scope["documents"]]
        if "word_vectors" in scope:
            return [self.corpora.word_vectors(name, seed or 0) for name, seed in scope["word_vectors"]]
        shown = {
            (stage, owner, each)
            for stage, datasets in scope["stages"]
            for owners in scope["owners"][stage].values()
            for dataset, owner in owners.items()
            if dataset in datasets
            for each in scope.get("folds", {}).get(dataset, [dataset])
        }
        shown |= {
            (earlier, owner, dataset)
            for of_rows in scope.get("origins", {}).values()
            for of_datasets in of_rows.values()
            for origins in of_datasets.values()
            for earlier, (owner, dataset, _) in origins.items()
        }
        records = [self.paths.record(run) for run in self.runs if (run.stage, run.model, run.dataset) in shown]
        written = [self.corpora.documents(dataset, "test") for dataset in scope.get("written", ())]
        return [*records, *map(self.paths.texts, scope.get("texts", ())), *written]

    def code(self, axis: Axis[Any], result: Mapping[str, Any]) -> str:
        """Return the digest of the code that makes a table or figure."""
        script = {TABLES: "scripts/table.py", FIGURES: "scripts/figure.py"}[axis]
        return code_digest(script, axis.module(result["settings"]["kind"], "settings"))

    def search_scope(self, stage: str, model: str, dataset: str) -> dict[str, Any]:
        """Return the fields of `lib.results.scope.Scope` that tell the search of a model on a dataset."""
        return {
            "models": [model],
            "stages": [[stage, [dataset]]],
            "owners": {stage: {model: {dataset: model}}},
            "variants": self._variants([stage]),
        }

    def _shown(self, entries: Mapping[str, ResultSettings]) -> dict[str, dict[str, Any]]:
        """Return the tables or figures that entries of the report make, by name: their settings and scope."""
        return {
            name: {"settings": settings.model_dump(mode="json"), "scope": self._with_notes(settings, dataset)}
            for entry, settings in entries.items()
            for name, dataset in results_of(self.study.graph, entry, settings).items()
        }

    def _with_notes(self, settings: ResultSettings, dataset: str | None) -> dict[str, Any]:
        """Return the scope with the contents of notes: generated data that are shown, and meanings of rows."""
        scope, models = self._scope(settings, dataset), self.study.experiment.models
        named = [name for _, names in scope["stages"] for name in names]
        named += [name for name, *_ in (*scope.get("tokenised", ()), *scope.get("documents", ()))]
        named += scope.get("texts", ())
        generated = [name for name in dict.fromkeys(named) if self.corpora.corpus(name).composed]
        texts = {row: text for row in scope["models"] if (text := models[row].description)}
        scope |= ({"generated": generated} if generated else {}) | ({"explained": texts} if texts else {})
        return _pooled(scope, pooled_names(self.study.graph, settings))

    def _scope(self, settings: ResultSettings, dataset: str | None = None) -> dict[str, Any]:
        """Return the fields of `lib.results.scope.Scope` but for its files, as JSON keeps them.

        Args:
            settings: of a table or figure.
            dataset: the only one that it is about, if it is divided by datasets.
        """
        if settings.reads != "runs":
            about = settings.datasets or self.corpora.names
            described = {name: self.study.experiment.datasets[name] for name in self._described(about)}
            places = [(name, each.labels, split) for name, each in described.items() for split in settings.splits]
            of_texts: dict[str, Any] = {
                "token_lengths": {"tokenised": [each for each in self.tokenised if each[0] in about]},
                "texts": {"texts": list(described)},
                "documents": {"documents": [list(place) for place in places]},
                "word_vectors": {"word_vectors": self._vectors(settings.vectors_named())},
            }
            return {"models": [], "stages": [], "owners": {}} | of_texts[settings.reads]
        graph, experiment, report = self.study.graph, self.study.experiment, self.study.report
        rows = rows_of(graph, settings, dataset)
        others = settings.compares_with
        compared: dict[str, Any] = {name: rows.row_of.get(getattr(report, name) or "") for name in others}
        named = list(dict.fromkeys([*rows.shown, *filter(None, compared.values())]))
        owners = {row: rows.owners[row] for row in named}
        asked = {*(settings.models or rows.row_of), *settings.models_compared()}
        asked |= {getattr(report, name) for name in others}
        row_of = {model: row for model, row in rows.row_of.items() if model in asked and model != row}
        shown = list(dict.fromkeys(name for names in rows.stages.values() for name in names))
        datasets = experiment.datasets.items() if settings.needs_groups else ()
        grouped = [name for name, each in datasets if each.group and name in shown]
        return {
            "models": rows.shown,
            "stages": [list(each) for each in rows.stages.items()],
            "owners": {stage: {row: of[stage] for row, of in owners.items() if stage in of} for stage in rows.stages},
            "families": {
                row: graph.backbone_at(row, stage, next(iter(owners[row][stage]))).family
                for row in rows.shown
                for stage in [[*settings.stages_passed(), *owners[row]][0]]
            },
            "groups": {name: experiment.datasets[name].group for name in grouped},
            "group_names": {name: found for name in grouped if (found := self.corpora.group_names(name))},
            "variants": self._variants(rows.stages),
            "published": report.published,
            **({"row_of": row_of} if row_of else {}),
            **({"origins": self._origins(rows, named)} if settings.adds_costs else {}),
            **({"one_start": shared} if settings.has_intervals and (shared := self._one_start(rows, named)) else {}),
            **({"texts": self._described(shown)} if settings.needs_texts else {}),
            **({"written": shown} if settings.needs_documents else {}),
            **({"state_bytes": self._state_bytes(rows)} if settings.needs_state else {}),
            **compared,
        }

    def _origins(self, rows: Rows, named: Iterable[str]) -> dict[str, dict[str, dict[str, dict[str, list[Any]]]]]:
        """Return `lib.results.scope.Scope.origins` of these rows; seeds are pairs, since keys of JSON are text."""

        def of_run(row: str, stage: str, dataset: str) -> dict[str, list[Any]]:
            found: dict[str, list[Any]] = {}
            for earlier, origin in self.study.graph.origins(row, stage, dataset).items():
                if earlier in rows.stages:
                    seeds = [[later, seed] for later, seed in origin.seeds.items() if later != seed]
                    found[earlier] = [origin.owner, origin.dataset, seeds]
            return found

        def of_row(row: str, stage: str) -> dict[str, dict[str, list[Any]]]:
            return {dataset: of_run(row, stage, dataset) for dataset in rows.owners[row][stage]}

        return {stage: {row: of_row(row, stage) for row in named if stage in rows.owners[row]} for stage in rows.stages}

    def _one_start(self, rows: Rows, named: Iterable[str]) -> dict[str, dict[str, list[str]]]:
        """Return `lib.results.scope.Scope.one_start` of these rows, without those whose seeds share nothing."""
        graph = self.study.graph
        found: dict[str, dict[str, list[str]]] = {}
        for stage in rows.stages:
            for row in named:
                owners = rows.owners[row].get(stage, {})
                if shared := [name for name, owner in owners.items() if graph.share_weights(owner, stage, name)]:
                    found.setdefault(stage, {})[row] = shared
        return found

    def _state_bytes(self, rows: Rows) -> dict[str, dict[str, dict[str, int]]]:
        """Return the bytes that each row keeps of a text as long as a dataset's longest, by stage and dataset."""
        graph = self.study.graph

        def of_rows(stage: str, name: str) -> dict[str, int]:
            made = [row for row in rows.shown if graph.has_runs(row, stage, name)]
            return {row: state_bytes(graph.backbone_at(row, stage, name), graph.max_tokens(row, name)) for row in made}

        return {stage: {name: of_rows(stage, name) for name in names} for stage, names in rows.stages.items()}

    def _described(self, names: Collection[str]) -> list[str]:
        """Return the datasets among `names` that runs read."""
        read = {run.dataset for run in self.runs}
        return [name for name in self.study.experiment.datasets if name in names and name in read]

    def _vectors(self, names: Sequence[str] | None) -> list[tuple[str, int | None]]:
        """Return word vectors by name, those of every seed of the study; of a file, without a seed."""
        experiment = self.study.experiment
        return [
            (name, seed)
            for name in names or experiment.word_vectors
            for seed in (experiment.seeds if experiment.word_vectors[name].source == "trained" else [None])
        ]

    def _variants(self, stages: Iterable[str]) -> dict[str, Any]:
        """Return the settings of every variant of those stages that have some, as pairs, since JSON keeps no order."""
        sections = self.study.experiment.stages
        return {
            stage: [[list(pair) for pair in settings.items()] for settings in sections[stage].combinations()]
            for stage in stages
            if sections[stage].variants
        }

    # Analyses

    def analysed(self, name: str) -> list[Run]:
        """Return the runs whose models an analysis looks at, each once: those of the first seed."""
        settings = self.study.report.analyses[name]
        runs = [self._analysed(settings, model) for model in analysed_models(self.study.graph, settings)]
        return list({run.id: run for run in runs}.values())

    def text_baseline_runs(self, name: str) -> list[Run]:
        """Return the run of the model that learns from texts and is shown with those analysed, if there is one."""
        settings = self.study.report.analyses[name]
        return [self._analysed(settings, model) for model in text_baselines(self.study.graph, settings)[:1]]

    def _analysed(self, settings: AnalysisSettings, model: str) -> Run:
        graph = self.study.graph
        stage, dataset = settings.stage, analysed_dataset(graph, settings)
        return self.runs[RunId(stage, graph.owner(model, stage, dataset), dataset, graph.seeds_of(stage, dataset)[0])]

    def text_arguments(self, name: str) -> list[str]:
        """Return the arguments that name texts: those that are analysed, and the model that learns from its own."""
        inputs, arguments = self.analysis_inputs(name), []
        for run in self.text_baseline_runs(name):
            arguments += ["--baseline", self.paths.folder(run.id)]
        return [*arguments, "--texts", *inputs["documents"]] if "documents" in inputs else arguments

    def analysis_settings(self, name: str) -> dict[str, Any]:
        """Return what an analysis computes: its kind, and the settings that its kind reads."""
        settings = self.study.report.analyses[name]
        options = settings.options
        if settings.needs_labels:
            options |= {"labels": self.study.experiment.datasets[analysed_dataset(self.study.graph, settings)].labels}
        return {"kind": settings.kind, "options": options}

    def analysis_inputs(self, name: str) -> dict[str, list[str]]:
        """Return what an analysis reads of each run: its settings and record, its tokeniser, documents."""
        runs = self.analysed(name)
        split = "validation" if runs[0].id.dataset in self.study.experiment.corpora else "test"
        read = [*runs, *self.text_baseline_runs(name)]
        inputs = {
            "configs": [self.paths.config(run.id) for run in read],
            "records": [self.paths.record(run.id) for run in read],
            "tokenizers": [self.paths.tokenizer(str(run.tokenizer)) for run in runs],
            "tokens": [self.paths.tokens(run.id.dataset, str(run.tokens_name), split) for run in runs],
        }
        if self.study.report.analyses[name].needs_texts:
            inputs["documents"] = [self.corpora.documents(runs[0].id.dataset, split)]
        return inputs

    def analysis_code(self, name: str) -> str:
        """Return the digest of the code that an analysis executes; that of its models counts in their runs."""
        settings = self.study.report.analyses[name]
        modules = [MECHANISMS.module(name, part) for name in settings.tries for part in ("mechanism", "settings")]
        return code_digest("scripts/analyse.py", computation(settings.kind), *modules)

    def analysis_look(self, name: str) -> dict[str, Any]:
        """Return how an analysis is shown: its kind, models with the families that colour them, generated data."""
        shown = [*self.analysed(name), *self.text_baseline_runs(name)]
        families = {run.id.model: run.backbone.family for run in shown}
        look = {"kind": self.study.report.analyses[name].kind, "families": list(families.items())}
        generated = dict.fromkeys(run.id.dataset for run in shown if run.corpus.composed)
        return look | ({"generated": list(generated)} if generated else {})


def _pooled(scope: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a scope that has datasets which are folds under the name of their dataset, as `names` says.

    Their models and starts are the same in all folds (`lib.study.shown`).
    """
    if not names:
        return scope

    def renamed(datasets: Any) -> Any:
        if isinstance(datasets, dict):
            return {names.get(each, each): owner for each, owner in datasets.items()}
        return list(dict.fromkeys(names.get(each, each) for each in datasets))

    of_rows = {
        key: {stage: {row: renamed(each) for row, each in rows.items()} for stage, rows in scope.get(key, {}).items()}
        for key in ("owners", "one_start")
    }
    stages = [[stage, renamed(datasets)] for stage, datasets in scope["stages"]]
    joined = [name for _, datasets in stages for name in datasets if name in names.values()]
    folds = {name: [fold for fold in names if names[fold] == name] for name in joined}
    return scope | of_rows | {"stages": stages, "generated": renamed(scope.get("generated", ())), "folds": folds}
