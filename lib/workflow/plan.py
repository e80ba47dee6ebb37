"""From a study to paths, targets and the settings that each rule passes to its program. Knows no stage by name."""

import functools
import hashlib
import itertools
import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlparse

from lib.analysis.parameters import ANALYSES
from lib.attention.parameters import MECHANISMS
from lib.backbones.parameters import BACKBONES
from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.core.inputs import resolve_paths
from lib.core.kinds import Axis
from lib.core.record import BEST, CONFIG, GEOMETRY, HISTORY, MODEL, PREDICTIONS, RUN, TRIALS
from lib.core.search_space import Setting, variant_name
from lib.core.weights import ForeignStart
from lib.data.generators import PACKAGE, RAW_FILES, group_names, options_class
from lib.data.sections import Augmentation, Corpus, Dataset, GeneratedSource, HubSource, RemoteFile
from lib.results.parameters import FIGURES, TABLES, ResultParameters
from lib.study.experiment import Study, Work
from lib.tasks.parameters import TASKS
from lib.workflow.digests import code_digest
from lib.workflow.resources import SHORTEST_MINUTES, training_minutes

SPLITS = ("train", "validation", "test")
LISTED = 10
"""How many problems of imported runs a message lists."""


class Key(NamedTuple):
    """What names a run."""

    stage: str
    model: str
    dataset: str
    seed: int | str
    variant: str = ""
    """Which of the settings that the stage searches, if it does."""


class Plan:
    """Every path and every parameter of the workflow, for one study."""

    def __init__(self, study: Study):
        self.study = study
        self.experiment = study.experiment
        self.results = study.execution.results.rstrip("/")
        self.resources = study.execution.resources.rstrip("/")

    # Runs

    @functools.cached_property
    def runs(self) -> list[Key]:
        """All runs of the study, each once, however many models share it."""
        return [
            Key(stage, model, dataset, seed, variant_name(settings))
            for stage, section in self.experiment.stages.items()
            for model in self.owners(stage)
            for dataset in section.data
            for settings in section.combinations()
            for seed in self.experiment.seeds_of(stage, dataset)
        ]

    @property
    def made(self) -> list[Key]:
        """The runs that rules make: all, or none if they are imported."""
        return self.runs if self.study.execution.runs == "made" else []

    def check_imported(self) -> None:
        """Check the imported records that tables and figures read.

        Raises:
            DataError: some are missing, or of a run with other settings than the study's; all of them are named.
        """
        if self.study.execution.runs == "made":
            return
        read = {
            file for result in [*self.tables.values(), *self.figures.values()] for file in self.result_inputs(result)
        }
        problems = []
        for key in self.runs:
            folder = self.folder(key)
            if f"{folder}/{RUN}" not in read:
                continue
            if not Path(folder, RUN).is_file():
                problems.append(f"{folder}: no record")
            elif Path(folder, CONFIG).is_file():
                found = read_mapping(Path(folder, CONFIG))
                problems += [
                    f"{folder}/{CONFIG}: {text}" for text in _unlike(found, json.loads(self.run_settings(key)))
                ]
        if problems:
            shown = [*problems[:LISTED], *([f"and {len(problems) - LISTED} more"] if len(problems) > LISTED else [])]
            raise DataError(
                f"the study's runs are imported (execution.runs), but not as it describes them: {'; '.join(shown)}. "
                f"Import them with scripts/import_runs.py --out {self.results}, take models, datasets or seeds without "
                "a record out of the study, or correct the settings that differ."
            )

    def owners(self, stage: str) -> list[str]:
        """Return the models that have runs of their own at a stage."""
        experiment = self.experiment
        passing = [model for model in experiment.models if stage in experiment.stages_of(model)]
        return list(dict.fromkeys(experiment.owner(model, stage) for model in passing))

    def trains(self, key: Key) -> bool:
        """Whether a run has a training loop."""
        return self.experiment.trains(key.model, key.stage, key.dataset)

    def tunes(self, key: Key) -> bool:
        """Whether a run is a search by trials, and each of these a training."""
        return self.experiment.stages[key.stage].tuning is not None

    def reads_tokens(self, key: Key) -> bool:
        """Whether a run reads tokens, and not texts."""
        return self.experiment.reads_tokens(key.model, key.stage)

    def predicts(self, key: Key) -> bool:
        """Whether a run leaves predictions."""
        return self.experiment.work(key.model, key.stage, key.dataset).task.predicts

    def measures(self, key: Key) -> bool:
        """Whether a run measures the geometry of attention."""
        return self.experiment.measures(key.model, key.stage, key.dataset)

    def work(self, key: Key) -> Work:
        """Return what a run does: that of its stage on its dataset, with the settings of its variant."""
        return self.experiment.work(key.model, key.stage, key.dataset).with_settings(self.variant(key))

    def variant(self, key: Key) -> dict[str, Setting]:
        """Return the settings that tell a run from others of a search; none for a run that is no part of one."""
        combinations = self.experiment.stages[key.stage].combinations() if key.variant else [{}]
        return next(settings for settings in combinations if variant_name(settings) == key.variant)

    def place(self, key: Key) -> str:
        """Return the part of a run's paths that all its seeds share."""
        return "/".join([key.stage, key.model, key.dataset, *([key.variant] if key.variant else [])])

    def folder(self, key: Key) -> str:
        """Return the folder of a run."""
        return f"{self.results}/runs/{self.place(key)}/seed-{key.seed}"

    def record(self, key: Key, *names: str) -> dict[str, str]:
        """Return the files of a run's record, by name: `config`, `run`, and those of the others asked."""
        files = {"config": CONFIG, "history": HISTORY, "geometry": GEOMETRY, "run": RUN, "predictions": PREDICTIONS}
        files |= {"trials": TRIALS, "best": BEST}
        return {name: f"{self.folder(key)}/{file}" for name, file in files.items() if name in ("config", "run", *names)}

    def model_folder(self, key: Key) -> str:
        """Return the folder of a run's model."""
        return f"{self.folder(key)}/{MODEL}"

    def records(self, *stages: str) -> list[str]:
        """Return the `run.json` of all runs of `stages`."""
        return [f"{self.folder(key)}/{RUN}" for key in self.runs if key.stage in stages]

    def parent(self, key: Key) -> Key | None:
        """Return the run whose weights a run starts from; None = another place, or drawn weights."""
        experiment = self.experiment
        stage = experiment.parent_stage(key.model, key.stage)
        if stage is None:
            return None
        dataset = experiment.parent_dataset(key.stage, stage, key.dataset)
        assert dataset is not None  # the study was checked
        seeds = experiment.seeds_of(stage, dataset)
        seed = key.seed if int(key.seed) in seeds else seeds[0]
        return Key(stage, experiment.owner(key.model, stage), dataset, seed)

    def start(self, key: Key) -> list[str]:
        """Return the folder of the weights that a run starts from, if it starts from any."""
        if not self.reads_tokens(key):
            return []
        if parent := self.parent(key):
            return [self.model_folder(parent)]
        start = self.experiment.models[key.model].start
        if start is None or isinstance(start, str):
            return []
        return [self.weights(start)]

    def weights(self, source: ForeignStart) -> str:
        """Return the folder of weights that no stage of this study makes."""
        return source.folder or f"{self.resources}/models/{source.repository}/{source.revision}"

    def settings_from(self, key: Key) -> list[str]:
        """Return the file with the best settings of a search that a run takes over, if it takes any."""
        source = self.experiment.stages[key.stage].settings_from
        return [self.best(source, key.dataset)] if source and self.trains(key) else []

    def best(self, stage: str, dataset: str) -> str:
        """Return the path of the best settings of a search."""
        return f"{self.results}/search/{stage}/{dataset}.json"

    @property
    def searches(self) -> list[tuple[str, str]]:
        """Every stage from which another one takes the best settings, with its datasets."""
        stages = self.experiment.stages
        sources = dict.fromkeys(stage.settings_from for stage in stages.values() if stage.settings_from)
        return [(source, dataset) for source in sources for dataset in stages[source].data]

    def searches_by(self, search: str) -> list[tuple[str, str]]:
        """Return those of `searches` whose stage has the section called `search`."""
        return [each for each in self.searches if self.experiment.stages[each[0]].search == search]

    def tuned(self, stage: str, dataset: str) -> Key:
        """Return the run that tunes on a dataset for another stage."""
        (model,) = self.owners(stage)  # the study was checked
        return Key(stage, model, dataset, self.experiment.seeds_of(stage, dataset)[0])

    def search_scope(self, stage: str, dataset: str) -> dict[str, Any]:
        """Return the fields of `lib.results.scope.Scope` that tell a search on a dataset."""
        models = self.owners(stage)
        return {
            "models": models,
            "stages": [[stage, [dataset]]],
            "owners": {stage: dict(zip(models, models, strict=True))},
            "variants": self._variants([stage]),
        }

    def _variants(self, stages: Iterable[str]) -> dict[str, Any]:
        """Return the settings of every variant of those stages that have some, as pairs, since JSON keeps no order."""
        sections = self.experiment.stages
        return {
            stage: [[list(pair) for pair in settings.items()] for settings in sections[stage].combinations()]
            for stage in stages
            if sections[stage].variants
        }

    def data(self, key: Key) -> dict[str, str]:
        """Return what a run reads, by split: folders of tokens, or documents."""
        splits = self.experiment.splits(key.model, key.stage, key.dataset)
        if not self.reads_tokens(key):
            fitted_to = self.experiment.fitted_to(key.model, key.stage, key.dataset)
            return {split: self.documents(fitted_to if split == "train" else key.dataset, split) for split in splits}
        folders = {split: self.tokens_of(key, split) for split in splits}
        return folders | {"train": self.taught(key)} if self.teacher(key) else folders

    def tokens_of(self, key: Key, split: str) -> str:
        """Return the folder of a split as the model of a run reads it."""
        return self.tokens(key.dataset, self.experiment.tokenizer_of(key.model, key.dataset), split)

    def teacher(self, key: Key) -> Key | None:
        """Return the run whose model teaches a run, if one does."""
        name = self.work(key).task.taught_by()
        return None if name is None else key._replace(model=self.experiment.owner(name, key.stage), variant="")

    def taught(self, key: Key) -> str:
        """Return the folder of a run's training tokens with the scores of its teacher beside."""
        return f"{self.results}/taught/{self.place(key)}/seed-{key.seed}"

    def tokenizer(self, key: Key) -> list[str]:
        """Return the folder of a run's tokeniser, if it reads tokens."""
        reads = self.reads_tokens(key)
        return [self.tokenizer_folder(self.experiment.tokenizer_of(key.model, key.dataset))] if reads else []

    def run_settings(self, key: Key) -> str:
        """Return what a run's result depends on, as JSON: its slice of the configuration, without paths."""
        experiment = self.experiment
        work = self.work(key)
        settings: dict[str, Any] = {
            "stage": key.stage,
            "model": key.model,
            "dataset": key.dataset,
            "seed": int(key.seed),
            "task": work.task.model_dump(mode="json"),
            "backbone": experiment.backbone_at(key.model, key.stage).model_dump(mode="json"),
        }
        if variant := self.variant(key):
            settings["variant"] = variant
        if work.task.labelled:
            settings["labels"] = experiment.datasets[key.dataset].labels
        if self.reads_tokens(key):
            settings["max_tokens"] = experiment.corpus(key.dataset).max_tokens
            settings["precision"] = experiment.precision
        if self.trains(key):
            assert work.recipe is not None
            settings["recipe"] = work.recipe.model_dump(mode="json") | {"keep": work.keep}
        if self.measures(key):
            geometry = experiment.stages[key.stage].geometry
            assert geometry is not None
            settings["geometry"] = geometry.model_dump(mode="json")
        if tuning := experiment.stages[key.stage].tuning:
            settings["tuning"] = tuning.model_dump(mode="json")
        return as_json(settings)

    @property
    def execution(self) -> str:
        """The execution settings of a run on tokens, as JSON."""
        return as_json(self.study.execution.training.model_dump(mode="json"))

    def run_code(self, key: Key) -> str:
        """Return the digest of the code that a run executes."""
        task = self.work(key).task
        backbone = self.experiment.backbone_at(key.model, key.stage)
        modules = [
            _module(TASKS, task.kind, "task"),
            _module(TASKS, task.kind, "parameters"),
            _module(BACKBONES, backbone.kind, "backbone"),
            _module(BACKBONES, backbone.kind, "parameters"),
        ]
        # The backbone's model for a task is made through transformers' Auto classes, which no import names.
        if BACKBONES.has(backbone.kind, head := task.head or task.kind):
            modules.append(_module(BACKBONES, backbone.kind, head))
        if self.trains(key):
            modules += ["lib.study.run", "lib.study.recipe"]
            recipe = self.work(key).recipe
            if recipe and recipe.lora:
                modules.append("lib.backbones.adapters")
        elif self.reads_tokens(key):
            modules += ["lib.study.run", "lib.training.evaluate_tokens"]
        else:
            modules.append("lib.training.evaluate_texts")
        if self.measures(key):
            modules += ["lib.training.geometry", _module(BACKBONES, backbone.kind, "projections")]
        if mechanism := backbone.held_mechanism:
            modules += [_module(MECHANISMS, mechanism.kind, part) for part in ("mechanism", "parameters")]
        if self.tunes(key):
            return code_digest("scripts/tune.py", "lib.study.tuning", *modules)
        return code_digest("scripts/train.py" if self.trains(key) else "scripts/evaluate.py", *modules)

    def minutes(self, key: Key) -> int:
        """Estimate the wall time of a run on tokens, in minutes; of one that tunes, of its longest trial times all."""
        corpus, tuning = self.experiment.corpus(key.dataset), self.experiment.stages[key.stage].tuning
        backbone = self.experiment.backbone_at(key.model, key.stage)
        token_lengths = self.token_lengths(key.dataset, self.experiment.tokenizer_of(key.model, key.dataset))
        works = [self.work(key).with_settings(settings) for settings in (tuning.examples() if tuning else [{}])]
        longest = max(
            training_minutes(
                backbone=backbone,
                recipe=work.recipe,
                predicted_share=work.task.predicted_share(),
                max_tokens=corpus.max_tokens,
                token_lengths=token_lengths,
            )
            for work in works
        )
        minutes = longest * (tuning.trials if tuning else 1) * self.study.execution.job.runtime_scale
        return max(SHORTEST_MINUTES, round(minutes))

    # Raw files

    @property
    def corpora(self) -> list[str]:
        """All corpora and datasets."""
        return [*self.experiment.corpora, *self.experiment.datasets]

    def corpus(self, name: str) -> Corpus | Dataset:
        """Return the settings of a corpus or dataset."""
        return self.experiment.corpus(name)

    def raw_files(self, corpus: str, kind: str = "files") -> dict[str, list[str]]:
        """Return the paths of the raw files of `corpus` by part, in dataset order.

        Args:
            corpus: name of the corpus or dataset.
            kind: `files`, or `ground_truth` for the separate labels of the Hyperpartisan format.

        Raises:
            DataError: a local file is missing.
        """
        settings = self.corpus(corpus)
        folder = self.raw_folder(corpus)
        if settings.source == "generated":
            made = RAW_FILES[self.generator(corpus)][kind]
            return {part: [f"{folder}/{name}" for name in names] for part, names in made.items()}
        entries: dict[str, Any] = getattr(settings.chosen, kind, {})
        if settings.source == "local":
            return {part: [str(path) for path in resolve_paths(patterns)] for part, patterns in entries.items()}
        if settings.source == "hub":
            return {part: [f"{folder}/{path}" for path in paths] for part, paths in entries.items()}
        return {part: [f"{folder}/{_file_name(file)}" for file in files] for part, files in entries.items()}

    def fold_file(self, dataset: str) -> list[str]:
        """Return the file that says which fold each document is in, if there is one.

        Raises:
            DataError: it is missing.
        """
        folds = self.experiment.datasets[dataset].split.folds
        return [str(path) for path in resolve_paths([folds.file])] if folds and folds.file else []

    def generator(self, corpus: str) -> str:
        """Return the name of the generator of a generated corpus."""
        return self.generated(corpus).generator or corpus

    def generated(self, corpus: str) -> GeneratedSource:
        """Return the section of a corpus that is generated."""
        source = self.corpus(corpus).generated
        assert source is not None
        return source

    def generator_options(self, corpus: str) -> str:
        """Return the options of the generator of a corpus, those that are left out too, as JSON."""
        options = options_class(self.generator(corpus)).model_validate(self.generated(corpus).options)
        return as_json(options.model_dump(mode="json"))

    def group_names(self, dataset: str) -> list[str]:
        """Return what the groups of a dataset's documents are called, if its generator names them."""
        if self.corpus(dataset).source != "generated":
            return []
        return group_names(self.generator(dataset), self.generated(dataset).options)

    def generator_code(self, corpus: str) -> str:
        """Return the digest of the code that generates a corpus."""
        return code_digest("scripts/generate_corpus.py", f"{PACKAGE}.{self.generator(corpus)}")

    def raw_folder(self, corpus: str) -> str:
        """Return the folder of the raw files of `corpus`, unless they are the user's own."""
        generated = self.corpus(corpus).source == "generated"
        return f"{self.results}/data/{corpus}/raw" if generated else f"{self.resources}/{corpus}"

    def all_raw_files(self, corpus: str) -> list[str]:
        """Return the paths of all raw files of `corpus`, ground truth included."""
        kinds = ("files", "ground_truth")
        return [path for kind in kinds for paths in self.raw_files(corpus, kind).values() for path in paths]

    def remote_file_options(self, corpus: str, name: str) -> list[str]:
        """Return the options that fetch and check the file called `name` of a `url` source."""
        source: Any = self.corpus(corpus).chosen
        files = [file for kind in (source.files, source.ground_truth) for part in kind.values() for file in part]
        file = next(file for file in files if _file_name(file) == name)
        return _download_options(file)

    def hub(self, corpus: str) -> HubSource:
        """Return the hub section of `corpus`."""
        source = self.corpus(corpus).hub
        assert source is not None
        return source

    def corpora_from(self, source: str) -> list[str]:
        """Return the names of the corpora and datasets whose raw files come from `source`."""
        return [name for name in self.corpora if self.corpus(name).source == source]

    # Prepared data

    @functools.cache  # noqa: B019 - there is one plan per process
    def shards(self, corpus: str) -> list[str]:
        """Return the raw files of a corpus, in dataset order."""
        return [path for files in self.raw_files(corpus).values() for path in files]

    def filtered_shards(self, corpus: str) -> list[str]:
        """Return the paths of the filtered files of a corpus, in dataset order."""
        return [self.filtered_shard(corpus, f"{index:05d}") for index in range(len(self.shards(corpus)))]

    def filtered_shard(self, corpus: str, shard: str) -> str:
        """Return the path of a filtered file, or its pattern."""
        return f"{self.results}/data/{corpus}/filtered/{shard}.parquet"

    def prepared(self, dataset: str, split: str) -> str:
        """Return the path of the prepared documents of a split."""
        return f"{self.results}/data/{dataset}/prepared/{split}.parquet"

    def prepared_summary(self, dataset: str) -> str:
        """Return the path of what the preparation counted."""
        return f"{self.results}/data/{dataset}/prepared/summary.json"

    def texts(self, dataset: str) -> str:
        """Return the path of the description of a dataset's texts."""
        return f"{self.results}/data/{dataset}/texts.parquet"

    def augmented(self, dataset: str, split: str) -> str:
        """Return the path of the documents of a split after an augmentation."""
        return f"{self.results}/data/{dataset}/augmented/{split}.parquet"

    def augmented_summary(self, dataset: str) -> str:
        """Return the path of what an augmentation counted."""
        return f"{self.results}/data/{dataset}/augmented/summary.json"

    def documents(self, dataset: str, split: str) -> str:
        """Return the path of the documents of a split, as everything that comes after reads them."""
        augments = self.experiment.datasets[dataset].augmentation is not None
        return self.augmented(dataset, split) if augments else self.prepared(dataset, split)

    @property
    def augmentations(self) -> dict[str, Augmentation]:
        """The augmentations by the names of their datasets."""
        datasets = self.experiment.datasets.items()
        return {name: dataset.augmentation for name, dataset in datasets if dataset.augmentation is not None}

    def augmentation_sources(self, dataset: str) -> dict[str, list[str]]:
        """Return what the ways of an augmentation read: a WordNet database; folders of a model and its tokeniser.

        Raises:
            DataError: a local WordNet database is missing.
        """
        settings = self.augmentations[dataset]
        sources: dict[str, list[str]] = {}
        for way in settings.ways:
            if way == "synonyms":
                assert settings.synonyms is not None  # the study was checked
                local, url = settings.synonyms.local, settings.synonyms.url
                if local is not None and not Path(local).exists():
                    raise DataError(
                        f"experiment.datasets.{dataset}.augmentation.synonyms.local: {local}: no such folder or file. "
                        "Expected a WordNet database, or an archive of one."
                    )
                sources[way] = [f"{self.resources}/wordnet/{_address(url)}" if url else str(local)]
            else:
                model = settings.masked_lm
                assert model is not None  # the study was checked
                tokenizer = f"{self.resources}/model_tokenizers/{model.repository}/{model.revision}"
                sources[way] = [self.weights(model), *([tokenizer] if model.repository else [])]
        return sources

    def augmentation_code(self, dataset: str) -> str:
        """Return the digest of the code that augments a dataset."""
        modules = [f"lib.data.augmentation.{way}" for way in self.augmentations[dataset].ways]
        return code_digest("scripts/augment_dataset.py", *modules)

    @property
    def wordnets(self) -> dict[str, list[str]]:
        """Every WordNet archive that is downloaded, below its folder, with the options that fetch and check it."""
        sources = [each.synonyms for each in self.augmentations.values() if "synonyms" in each.ways]
        return {_address(each.url): _download_options(each.url) for each in sources if each and each.url}

    def tokens(self, corpus: str, tokenizer: str, split: str) -> str:
        """Return the folder of the tokenised documents of a split."""
        return f"{self.results}/data/{corpus}/tokens/{tokenizer}/{split}"

    def token_lengths(self, corpus: str, tokenizer: str) -> str:
        """Return the path of the statistics of the tokenised splits."""
        return f"{self.results}/data/{corpus}/tokens/{tokenizer}/token_lengths.json"

    @property
    def tokenised(self) -> list[tuple[str, str]]:
        """Every corpus and dataset with every tokeniser that a run reads it by."""
        experiment = self.experiment
        pairs = {
            (key.dataset, experiment.tokenizer_of(key.model, key.dataset))
            for key in self.runs
            if experiment.reads_tokens(key.model, key.stage)
        }
        return [(corpus, name) for corpus in self.corpora for name in experiment.tokenizers if (corpus, name) in pairs]

    def tokenizer_folder(self, tokenizer: str) -> str:
        """Return the folder of a tokeniser."""
        return f"{self.results}/tokenizers/{tokenizer}"

    def tokenizer_sources(self, tokenizer: str) -> list[str]:
        """Return what a tokeniser is made from: a vocabulary, a published tokeniser, or texts to train one on."""
        settings = self.experiment.tokenizers[tokenizer]
        if settings.source == "hub":
            if settings.algorithm == "published":
                return [f"{self.resources}/tokenizers/{tokenizer}"]
            return [f"{self.resources}/vocabularies/{tokenizer}/vocab.txt"]
        if settings.source == "local":
            assert settings.path is not None
            return [settings.path]
        of_corpora = self.experiment.corpora
        return [
            path
            for corpus in settings.corpora or list(of_corpora)
            for path in (self.filtered_shards(corpus) if corpus in of_corpora else [self.documents(corpus, "train")])
        ]

    def tokenizer_options(self, tokenizer: str) -> list[str]:
        """Return the options that make a tokeniser; the files that it is made from come after them."""
        settings = self.experiment.tokenizers[tokenizer]
        if settings.algorithm == "published":
            new = [] if settings.mask_token is None else ["--mask-token", shlex.quote(settings.mask_token)]
            return [*new, "--published"]
        switches = [
            f"--{'' if getattr(settings, name) else 'no-'}{name.replace('_', '-')}"
            for name in ("lowercase", "strip_accents", "enclose")
        ]
        if settings.source != "trained":
            return [*switches, "--vocabulary"]
        training = f"--vocab-size {settings.vocab_size} --min-frequency {settings.occurrences}"
        return [*switches, f"--algorithm {settings.algorithm}", training, "--texts"]

    def slice_options(self, corpus: str) -> list[str]:
        """Return the options that give articles and tokens of the slices of a corpus."""
        slices = {name: getattr(self.experiment.corpora[corpus], name) for name in ("short", "long", "held_out")}
        return [f"--{name.replace('_', '-')} {part.articles} {part.max_tokens}" for name, part in slices.items()]

    # Results

    @functools.cached_property
    def tables(self) -> dict[str, dict[str, Any]]:
        """All tables by name, with what each shows."""
        return self._results(self.study.report.tables)

    @functools.cached_property
    def figures(self) -> dict[str, dict[str, Any]]:
        """All figures by name, with what each shows."""
        return self._results(self.study.report.figures)

    def _results(self, entries: Mapping[str, ResultParameters]) -> dict[str, dict[str, Any]]:
        """Return the tables or figures that entries of the report stand for, by name: their settings and scope."""
        results = {}
        for entry, settings in entries.items():
            shown = {"settings": settings.model_dump(mode="json"), "scope": self._scope(settings)}
            if settings.divided == "never":
                results[entry] = shown
                continue
            (stage,) = settings.stages_passed()
            datasets = self._datasets(stage, settings)
            for dataset in datasets:
                name = entry if settings.divided == "if_several" and len(datasets) == 1 else f"{entry}_{dataset}"
                part = {"stages": [[stage, [dataset]]], **({"texts": [dataset]} if settings.needs_texts else {})}
                results[name] = shown | {"scope": shown["scope"] | part}
        return results

    def _scope(self, settings: ResultParameters) -> dict[str, Any]:
        """Return the fields of `lib.results.scope.Scope` but for its files, as JSON keeps them."""
        if settings.reads != "runs":
            about = settings.datasets or self.corpora
            of_texts: dict[str, Any] = {
                "token_lengths": {"tokenised": [each for each in self.tokenised if each[0] in about]},
                "texts": {"texts": self._described(about)},
            }
            return {"models": [], "stages": [], "owners": {}} | of_texts[settings.reads]
        experiment, report = self.experiment, self.study.report
        passed, added = settings.stages_passed(), settings.stages_added()
        stages = list(dict.fromkeys([*added, *passed]))
        owners = {
            model: {stage: experiment.owner(model, stage) for stage in stages if stage in experiment.stages_of(model)}
            for model in experiment.models
        }
        passing = {model: own for model, own in owners.items() if own and set(passed) <= set(own)}
        # Models that share all runs are one row, named as the first of them.
        first: dict[tuple[tuple[str, str], ...], str] = {}
        names = {row: first.setdefault(tuple(own.items()), row) for row, own in passing.items()}
        rows = list(dict.fromkeys(names[row] for row in settings.models or passing))
        beside: dict[str, Any] = {name: names.get(getattr(report, name)) for name in settings.beside}
        datasets = [[stage, self._datasets(stage, settings)] for stage in stages]
        shown = list(dict.fromkeys(name for _, names in datasets for name in names))
        grouped = [
            name
            for name, dataset in experiment.datasets.items()
            if dataset.group and settings.needs_groups and name in shown
        ]
        return {
            "models": rows,
            "stages": datasets,
            "owners": {
                stage: {
                    row: owners[row][stage]
                    for row in dict.fromkeys([*rows, *filter(None, beside.values())])
                    if stage in owners[row]
                }
                for stage in stages
            },
            "families": {row: experiment.backbone_at(row, [*passed, *owners[row]][0]).family for row in rows},
            "groups": {name: experiment.datasets[name].group for name in grouped},
            "group_names": {name: found for name in grouped if (found := self.group_names(name))},
            "variants": self._variants(stages),
            "published": report.published,
            **({"texts": self._described(shown)} if settings.needs_texts else {}),
            **beside,
        }

    def _described(self, names: Collection[str]) -> list[str]:
        """Return the datasets among `names` that runs read."""
        read = {key.dataset for key in self.runs}
        return [name for name in self.experiment.datasets if name in names and name in read]

    def _datasets(self, stage: str, settings: ResultParameters) -> list[str]:
        """Return the entries of a stage's `data` that are shown; all, where the settings name none of them."""
        entries = list(self.experiment.stages[stage].data)
        return [entry for entry in settings.datasets or () if entry in entries] or entries

    def result_inputs(self, result: Mapping[str, Any]) -> list[str]:
        """Return the files that a table or figure is made from: run records, token lengths, descriptions of texts."""
        scope = result["scope"]
        if "tokenised" in scope:
            return [self.token_lengths(corpus, tokenizer) for corpus, tokenizer in scope["tokenised"]]
        stages = dict(scope["stages"])
        owners = {stage: set(models.values()) for stage, models in scope["owners"].items()}
        records = [
            f"{self.folder(key)}/{RUN}"
            for key in self.runs
            if key.dataset in stages.get(key.stage, ()) and key.model in owners[key.stage]
        ]
        return [*records, *map(self.texts, scope.get("texts", ()))]

    def result_code(self, axis: Axis[Any], result: Mapping[str, Any]) -> str:
        """Return the digest of the code that makes a table or figure."""
        script = {TABLES: "scripts/table.py", FIGURES: "scripts/figure.py"}[axis]
        return code_digest(script, axis.module(result["settings"]["kind"], "parameters"))

    def analysis_runs(self, name: str) -> list[Key]:
        """Return the runs whose models an analysis looks at, each once."""
        settings = self.study.report.analyses[name]
        dataset = self.study.analysed_dataset(settings)
        assert dataset is not None  # the study was checked
        models = [self.experiment.owner(model, settings.stage) for model in self.study.analysed_models(settings)]
        seed = self.experiment.seeds_of(settings.stage, dataset)[0]
        return [Key(settings.stage, model, dataset, seed) for model in dict.fromkeys(models)]

    def analysis_settings(self, name: str) -> dict[str, Any]:
        """Return what an analysis computes: its kind, and the settings that its kind reads."""
        settings = self.study.report.analyses[name]
        options = settings.options
        if settings.needs_labels:
            dataset = self.analysis_runs(name)[0].dataset
            options |= {"labels": self.experiment.datasets[dataset].labels}
        return {"kind": settings.kind, "options": options}

    def analysis_inputs(self, name: str) -> dict[str, list[str]]:
        """Return what an analysis reads of each run: settings and record, model, tokeniser, documents."""
        runs = self.analysis_runs(name)
        split = "validation" if runs[0].dataset in self.experiment.corpora else "test"
        tokenizers = [self.experiment.tokenizer_of(key.model, key.dataset) for key in runs]
        return {
            "configs": [f"{self.folder(key)}/{CONFIG}" for key in runs],
            "records": [f"{self.folder(key)}/{RUN}" for key in runs],
            "models": [self.model_folder(key) for key in runs],
            "tokenizers": [self.tokenizer_folder(tokenizer) for tokenizer in tokenizers],
            "tokens": [
                self.tokens(key.dataset, tokenizer, split) for key, tokenizer in zip(runs, tokenizers, strict=True)
            ],
        }

    def analysis_code(self, name: str) -> str:
        """Return the digest of the code that an analysis executes; that of its models counts in their runs."""
        settings = self.study.report.analyses[name]
        parts = itertools.product(settings.tries, ("mechanism", "parameters"))
        modules = [MECHANISMS.module(mechanism, part) for mechanism, part in parts]
        return code_digest("scripts/analyse.py", ANALYSES.module(settings.kind, "computation"), *modules)

    def analysis_look(self, name: str) -> dict[str, Any]:
        """Return how an analysis is shown: its kind, and models with their families, which colour them."""
        runs = self.analysis_runs(name)
        families = {key.model: self.experiment.backbone_at(key.model, key.stage).family for key in runs}
        return {"kind": self.study.report.analyses[name].kind, "families": list(families.items())}

    def table(self, name: str, suffix: str = "csv") -> str:
        """Return the path of a table."""
        return f"{self.results}/tables/{name}.{suffix}"

    def figure(self, name: str, suffix: str = "svg") -> str:
        """Return the path of a figure."""
        return f"{self.results}/figures/{name}.{suffix}"

    @property
    def code(self) -> str:
        """The folder that says what the digests of code stand for."""
        return f"{self.results}/code"

    def log(self, name: str) -> str:
        """Return the path of a rule's log."""
        return f"{self.results}/logs/{name}.log"

    def benchmark(self, name: str) -> str:
        """Return the path of a rule's benchmark."""
        return f"{self.results}/benchmarks/{name}.tsv"


@functools.cache
def _module(axis: Axis[Any], kind: str, part: str) -> str:
    """Return the name of a module, looked up once, since every run asks for some."""
    return axis.module(kind, part)


def as_json(value: Any) -> str:
    """Return `value` as JSON with sorted keys, so that equal settings are equal text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _unlike(found: Mapping[str, Any], wanted: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Yield the settings that are `found` to differ from those wanted; what is not found is not known."""
    for name, value in found.items():
        other = wanted.get(name)
        if isinstance(value, Mapping):
            yield from _unlike(value, other if isinstance(other, Mapping) else {}, f"{place}{name}.")
        elif value != other:
            yield f"{place}{name} is {value}, in the study {other}"


def _download_options(file: RemoteFile) -> list[str]:
    values = file.model_dump(exclude={"unpinned"})
    return [word for key, value in values.items() if value for word in (f"--{key}", str(value))]


def _file_name(file: RemoteFile) -> str:
    return PurePosixPath(urlparse(file.url).path).name


def _address(file: RemoteFile) -> str:
    """Return a path of a file's own, so that two that share a name do not share a place."""
    return f"{hashlib.sha256(file.url.encode()).hexdigest()[:12]}/{_file_name(file)}"
