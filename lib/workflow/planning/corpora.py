"""Where the texts of a study come from, and what is made of them before a model reads them."""

import functools
import hashlib
import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from lib.core.errors import DataError
from lib.core.inputs import repeated_files, resolve_paths
from lib.preparing.generators import group_names, options_class, place_of, raw_files
from lib.preparing.settings.preparation import Folds
from lib.preparing.settings.sources import GeneratedSource, HubSource, LocalSource, RemoteFile
from lib.study.graph import Graph
from lib.study.runs import as_json
from lib.workflow.planning.paths import Paths
from lib.workflow.staleness.digests import code_digest

UNSEEDED = "given"
"""What the word vectors of a file are called where trained ones are called by their seeds."""
_ESCAPES = str.maketrans({sign: quote(sign) for sign in "%{}"})
"""Braces in a path mean something to Snakemake; the percent sign is escaped so that no two names become one."""
_NAME_LENGTH = 60
"""Characters that are kept of a file's name, the last ones; no file system takes a name without end."""


class Corpora:
    """The corpora, datasets and tokenisers of an experiment: raw files, preparation, options of programs."""

    def __init__(self, graph: Graph, paths: Paths):
        experiment = self.experiment = graph.experiment
        self.corpus = graph.corpus
        self.paths = paths
        self.names = [*experiment.corpora, *experiment.datasets]
        """All corpora and datasets."""

    # Raw files

    def raw_files(self, corpus: str, kind: str = "files") -> dict[str, list[str]]:
        """Return the paths of the raw files of `corpus` by part, in dataset order.

        Args:
            corpus: name of the corpus or dataset.
            kind: `files`, or `ground_truth` for the separate labels of the Hyperpartisan format.

        Raises:
            DataError: a local file is missing, or named twice.
        """
        chosen = self.corpus(corpus).chosen
        if isinstance(chosen, GeneratedSource):
            folder = self.raw_folder(corpus)
            made = raw_files(self.generator(corpus), kind)
            return {part: [f"{folder}/{name}" for name in names] for part, names in made.items()}
        entries: dict[str, Any] = getattr(chosen, kind, {})
        if isinstance(chosen, LocalSource):
            section = "corpora" if corpus in self.experiment.corpora else "datasets"
            place = f"experiment.{section}.{corpus}.local.{kind}"
            found = {part: [*map(str, resolve_paths(each, f"{place}.{part}"))] for part, each in entries.items()}
            if twice := repeated_files(path for paths in found.values() for path in paths):
                raise DataError(f"{place}: {twice}")
            return found
        if isinstance(chosen, HubSource):
            folder = self.paths.downloads("texts", chosen.repository, chosen.revision)
            return {part: [f"{folder}/{path.translate(_ESCAPES)}" for path in paths] for part, paths in entries.items()}
        return {part: [self.paths.fetched(address_of(file)) for file in files] for part, files in entries.items()}

    @functools.cache  # noqa: B019 - there is one plan per process
    def raw_list(self, corpus: str, kind: str = "files") -> list[str]:
        """Return the paths of the raw files of `corpus`, in dataset order; see `raw_files`."""
        return [path for paths in self.raw_files(corpus, kind).values() for path in paths]

    def fold_file(self, dataset: str) -> list[str]:
        """Return the file that says which fold each document is in, if there is one."""
        folds = self.experiment.datasets[dataset].split.folds
        return [folds.file] if isinstance(folds, Folds) and folds.file else []

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
        return code_digest("scripts/generate_corpus.py", place_of(self.generator(corpus)))

    def raw_folder(self, corpus: str) -> str:
        """Return the folder of the raw files of a corpus that is generated."""
        return f"{self.paths.results}/data/{corpus}/raw"

    @functools.cached_property
    def remote_files(self) -> dict[str, RemoteFile]:
        """The files behind URLs, texts or archives of WordNet, by address."""
        return {address_of(file): file for name in self.names for file in self.corpus(name).remote_files}

    def corpora_from(self, source: str) -> list[str]:
        """Return the names of the corpora and datasets whose raw files come from `source`."""
        return [name for name in self.names if self.corpus(name).source == source]

    # Prepared data

    def filtered_shards(self, corpus: str) -> list[str]:
        """Return the paths of the filtered files of a corpus, in dataset order."""
        return [self.paths.filtered_shard(corpus, f"{index:05d}") for index in range(len(self.raw_list(corpus)))]

    def documents(self, dataset: str, split: str) -> str:
        """Return the path of the documents of a split, as everything that comes after reads them."""
        settings = self.experiment.datasets[dataset]
        step = "placed" if settings.placement else "augmented" if settings.augmentation else "prepared"
        return self.paths.documents(dataset, step, split)

    def tokenizer_sources(self, tokenizer: str) -> list[str]:
        """Return what a tokeniser is made from: a vocabulary, a published tokeniser, texts to train on, or nothing."""
        settings = self.experiment.tokenizers[tokenizer]
        if settings.source == "hub":
            if settings.algorithm == "published":
                return [self.paths.downloads("tokenizers", settings.repository, settings.revision)]
            return [self.paths.downloads("vocabularies", settings.repository, settings.revision, "vocab.txt")]
        if settings.source == "local":
            assert settings.path is not None
            return [settings.path]
        return [] if settings.source is None else self._training_texts(settings.corpora)

    def encoder_sources(self, encoder: str) -> list[str]:
        """Return the folders of the weights and the tokeniser of an encoder."""
        place = self.experiment.encoders[encoder]
        weights = self.paths.weights(place)
        if place.folder is not None:
            return [weights, weights]
        return [weights, self.paths.downloads("tokenizers", str(place.repository), str(place.revision))]

    def word_vectors(self, name: str, seed: int) -> str:
        """Return the folder of the word vectors that runs of a seed take: theirs, or the only ones of a file."""
        trained = self.experiment.word_vectors[name].source == "trained"
        return self.paths.word_vectors(name, f"seed-{seed}" if trained else UNSEEDED)

    def word_vectors_sources(self, name: str) -> list[str]:
        """Return what word vectors are made from: a file of vectors, or texts to train on."""
        settings = self.experiment.word_vectors[name]
        if settings.source == "trained":
            return self._training_texts(settings.corpora)
        assert settings.path is not None  # the study was checked
        return [settings.path]

    def _training_texts(self, corpora: Sequence[str]) -> list[str]:
        """Return the filtered files of corpora and the training documents of datasets; those of all corpora if none."""
        of_corpora = self.experiment.corpora
        return [
            path
            for corpus in corpora or list(of_corpora)
            for path in (self.filtered_shards(corpus) if corpus in of_corpora else [self.documents(corpus, "train")])
        ]


def download_options(file: RemoteFile) -> list[str]:
    """Return the options that fetch and check a file."""
    values = file.model_dump(exclude={"unpinned"})
    return [word for key, value in values.items() if value for word in (f"--{key}", str(value))]


def address_of(file: RemoteFile) -> str:
    """Return a path that no other file has: a digest of all that says which file it is, and the name in its URL."""
    digest = hashlib.sha256(shlex.join(download_options(file)).encode()).hexdigest()
    return f"{digest[:12]}/{file.name.translate(_ESCAPES)[-_NAME_LENGTH:]}"
