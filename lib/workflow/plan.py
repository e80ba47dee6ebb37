"""From the configuration to paths, targets and the exact settings that each rule passes to its script."""

import functools
import json
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlparse

from lib.core.errors import ConfigError
from lib.core.inputs import resolve_paths
from lib.core.record import CONFIG, HISTORY, MODEL, PREDICTIONS, RUN
from lib.core.settings.data import Corpus, HubSource, RemoteFile
from lib.core.settings.finetune_run import FinetuneRun
from lib.core.settings.run import MlmRun, Start
from lib.core.settings.study import SWAP, Study
from lib.workflow.digests import code_digest
from lib.workflow.resources import training_minutes

WIKIPEDIA = "wikipedia"
SPLITS = ("train", "validation", "test")


class Plan:
    """Every path and every parameter of the workflow, for one configuration."""

    def __init__(self, study: Study):
        self.study = study
        self.experiment = study.experiment
        self.results = study.execution.results.rstrip("/")
        self.resources = study.execution.resources.rstrip("/")

    # Names

    @property
    def models(self) -> list[str]:
        """Rows of the tables."""
        return self.experiment.model_names

    @property
    def pretrained(self) -> list[str]:
        """Mechanisms that are pretrained, each once."""
        return list(dict.fromkeys(model.split(SWAP)[0] for model in self.models))

    @property
    def datasets(self) -> list[str]:
        """Labelled datasets."""
        return list(self.experiment.datasets)

    @property
    def corpora(self) -> list[str]:
        """The pretraining corpus and the datasets."""
        return [WIKIPEDIA, *self.datasets]

    def corpus(self, name: str) -> Corpus:
        """Return the settings of the pretraining corpus or of a dataset."""
        return self.experiment.wikipedia if name == WIKIPEDIA else self.experiment.datasets[name]

    # Raw files

    def raw_files(self, corpus: str, kind: str = "files") -> dict[str, list[str]]:
        """Return the paths of the raw files of `corpus` by part, in dataset order.

        Args:
            corpus: name of the corpus.
            kind: `files`, or `ground_truth` for the separate labels of the Hyperpartisan format.
        """
        settings = self.corpus(corpus)
        source = settings.chosen
        folder = self.raw_folder(corpus)
        if settings.source == "generated":
            return {part: [f"{folder}/{name}" for name in names] for part, names in _generated(corpus, kind).items()}
        entries: dict[str, Any] = getattr(source, kind, {})
        if settings.source == "local":
            return {part: [str(path) for path in resolve_paths(patterns)] for part, patterns in entries.items()}
        if settings.source == "hub":
            return {part: [f"{folder}/{path}" for path in paths] for part, paths in entries.items()}
        return {part: [f"{folder}/{_file_name(file)}" for file in files] for part, files in entries.items()}

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
        source = self.corpus(corpus).chosen
        files = [file for kind in (source.files, source.ground_truth) for part in kind.values() for file in part]
        file = next(file for file in files if _file_name(file) == name)
        return [word for key, value in file.model_dump().items() if value for word in (f"--{key}", str(value))]

    def hub(self, corpus: str) -> HubSource:
        """Return the hub section of `corpus`."""
        return self.corpus(corpus).hub

    def corpora_from(self, source: str) -> list[str]:
        """Return the names of the corpora whose raw files come from `source`."""
        return [name for name in self.corpora if self.corpus(name).source == source]

    # Prepared data

    @functools.cached_property
    def shards(self) -> list[str]:
        """Raw shards of the pretraining corpus, in dataset order."""
        return [path for files in self.raw_files(WIKIPEDIA).values() for path in files]

    def filtered_shard(self, index: int | str) -> str:
        """Return the path of a filtered shard, or its pattern."""
        name = f"{index:05d}" if isinstance(index, int) else index
        return f"{self.results}/data/{WIKIPEDIA}/filtered/{name}.parquet"

    def prepared(self, dataset: str, split: str) -> str:
        """Return the path of the prepared documents of a split."""
        return f"{self.results}/data/{dataset}/prepared/{split}.parquet"

    def tokens(self, corpus: str, split: str) -> str:
        """Return the folder of the tokenised documents of a split."""
        return f"{self.results}/data/{corpus}/tokens/{split}"

    def token_lengths(self, corpus: str) -> str:
        """Return the path of the statistics of the tokenised splits."""
        return f"{self.results}/data/{corpus}/token_lengths.json"

    def prepared_summary(self, dataset: str) -> str:
        """Return the path of what the preparation counted."""
        return f"{self.results}/data/{dataset}/prepared/summary.json"

    @property
    def slice_options(self) -> list[str]:
        """The options that give articles and tokens of the slices of the pretraining corpus."""
        slices = {name: getattr(self.experiment.wikipedia, name) for name in ("short", "long", "held_out")}
        return [f"--{name.replace('_', '-')} {part.articles} {part.max_tokens}" for name, part in slices.items()]

    @property
    def tokenizer(self) -> str:
        """Folder of the tokeniser."""
        return f"{self.results}/tokenizer"

    @property
    def vocabulary(self) -> str | None:
        """Path of an existing vocabulary; None if one is trained."""
        settings = self.experiment.tokenizer
        return {"hub": f"{self.resources}/vocabulary/vocab.txt", "local": settings.path, "trained": None}[
            settings.source
        ]

    @property
    def tokenizer_options(self) -> list[str]:
        """The options that make the tokeniser; the files that it is made from come after them."""
        settings = self.experiment.tokenizer
        switches = [
            f"--{'' if getattr(settings, name) else 'no-'}{name.replace('_', '-')}"
            for name in ("lowercase", "strip_accents")
        ]
        if self.vocabulary:
            return [*switches, "--vocabulary"]
        return [*switches, f"--vocab-size {settings.vocab_size} --min-frequency {settings.min_frequency}", "--texts"]

    # Runs

    def run(self, stage: str, model: str, dataset: str, seed: int | str) -> str:
        """Return the folder of a run."""
        return f"{self.results}/runs/{stage}/{model}/{dataset}/seed-{seed}"

    def record(self, stage: str, model: str, dataset: str, seed: int | str) -> dict[str, str]:
        """Return the files of a run's record, by name."""
        folder = self.run(stage, model, dataset, seed)
        names = {"config": CONFIG, "history": HISTORY, "run": RUN}
        if stage == "finetune":
            names["predictions"] = PREDICTIONS
        return {key: f"{folder}/{name}" for key, name in names.items()}

    def model_folder(self, stage: str, model: str, dataset: str, seed: int | str) -> str:
        """Return the folder of a run's model."""
        return f"{self.run(stage, model, dataset, seed)}/{MODEL}"

    def parent(self, stage: str, model: str, dataset: str, seed: int | str) -> tuple[str, str, str, int | str]:
        """Return stage, model, dataset and seed of the run whose weights a run starts from."""
        if stage == "tapt":
            return "pretrain", model.split(SWAP)[0], WIKIPEDIA, seed
        return "tapt", model, dataset, seed

    def runs(self, stage: str) -> list[str]:
        """Return the folders of all runs of `stage`."""
        models, datasets = (self.pretrained, [WIKIPEDIA]) if stage == "pretrain" else (self.models, self.datasets)
        return [
            self.run(stage, model, dataset, seed)
            for model in models
            for dataset in datasets
            for seed in self.experiment.seeds
        ]

    def records(self, *stages: str) -> list[str]:
        """Return the `run.json` of all runs of `stages`."""
        return [f"{folder}/{RUN}" for stage in stages for folder in self.runs(stage)]

    def run_settings(self, stage: str, model: str, dataset: str, seed: int | str) -> str:
        """Return what a run's result depends on, as JSON: its slice of the configuration, execution left out."""
        experiment = self.experiment
        mechanism = model.split(SWAP)[-1]
        common = {
            "stage": stage,
            "model": model,
            "dataset": dataset,
            "seed": int(seed),
            "precision": experiment.precision,
            "mechanism": experiment.parameters_of(mechanism).model_dump(),
            "encoder": experiment.encoder,
            "tokenizer": self.tokenizer,
            "data": {split: self.tokens(dataset, split) for split in SPLITS[: 3 if stage == "finetune" else 2]},
        }
        if stage != "pretrain":
            parent = self.parent(stage, model, dataset, seed)
            common["start"] = Start(run=self.run(*parent), checkpoint=self.model_folder(*parent))
        if stage == "finetune":
            labels = experiment.datasets[dataset].labels
            run = FinetuneRun(**common, labels=labels, optimisation=experiment.finetune[dataset])
        else:
            optimisation = experiment.pretrain if stage == "pretrain" else experiment.tapt[dataset]
            run = MlmRun(**common, optimisation=optimisation, masking=experiment.masking)
        return as_json(run.model_dump(exclude={"execution"}, mode="json"))

    @property
    def execution(self) -> str:
        """The execution settings of a training, as JSON."""
        return as_json(self.study.execution.training.model_dump(mode="json"))

    def run_code(self, stage: str, model: str) -> str:
        """Return the digest of the code that a run executes."""
        kind = self.experiment.parameters_of(model.split(SWAP)[-1]).kind
        return code_digest(f"scripts/{stage}.py", f"lib.attention.{kind}.mechanism", f"lib.attention.{kind}.parameters")

    def minutes(self, stage: str, model: str, dataset: str) -> int:
        """Estimate the wall time of a run, in minutes."""
        experiment = self.experiment
        corpus = self.corpus(dataset)
        if stage == "pretrain":
            optimisation, max_tokens = experiment.pretrain, max(corpus.short.max_tokens, corpus.long.max_tokens)
        else:
            optimisation, max_tokens = getattr(experiment, stage)[dataset], corpus.max_tokens
        estimate = training_minutes(
            encoder=experiment.encoder,
            mechanism=experiment.parameters_of(model.split(SWAP)[-1]),
            optimisation=optimisation,
            max_tokens=max_tokens,
            token_lengths=self.token_lengths(dataset),
            masked=stage != "finetune",
        )
        return round(estimate * self.study.execution.job.runtime_scale)

    # Results

    def table(self, name: str, suffix: str = "csv") -> str:
        """Return the path of a table."""
        return f"{self.results}/tables/{name}.{suffix}"

    def figure(self, name: str, suffix: str = "svg") -> str:
        """Return the path of a figure."""
        return f"{self.results}/figures/{name}.{suffix}"

    def baseline(self, dataset: str) -> str:
        """Return the folder of a dataset's baseline."""
        return f"{self.results}/baseline/{dataset}"

    @property
    def published_option(self) -> str:
        """The option that puts the study's printed values beside ours; nothing for a study of other size."""
        return "--published" if self.study.execution.show_published else ""

    def log(self, name: str) -> str:
        """Return the path of a rule's log."""
        return f"{self.results}/logs/{name}.log"

    def benchmark(self, name: str) -> str:
        """Return the path of a rule's benchmark."""
        return f"{self.results}/benchmarks/{name}.tsv"


def as_json(value: Any) -> str:
    """Return `value` as JSON with sorted keys, so that equal settings are equal text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _file_name(file: RemoteFile) -> str:
    return PurePosixPath(urlparse(file.url).path).name


def _generated(corpus: str, kind: str) -> dict[str, list[str]]:
    from lib.core.generated import RAW_FILES

    try:
        return RAW_FILES[corpus][kind]
    except KeyError as error:
        raise ConfigError(
            f"{corpus}.source is 'generated', but there is no generator of that name; known: {', '.join(RAW_FILES)}. "
            "Give the corpus another source."
        ) from error
