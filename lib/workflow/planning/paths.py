"""Where everything of a study lies: pure functions of names. Nothing is looked up, and no file is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lib.core.record import CONFIG, MODEL, RUN, RunId
from lib.core.weights import ForeignStart

PLANNED = "planned"


@dataclass(frozen=True)
class Paths:
    """Paths of the files and folders of one study, which its methods return; a name in braces gives a rule's pattern.

    Args:
        results: folder of all that is made.
        resources: folder of all that is downloaded.
        recorded: folder with a run, or the best settings of a search, in the place of `results`; by the path below it.
    """

    results: str
    resources: str
    recorded: Mapping[str, str] = field(default_factory=dict)

    def _kept(self, path: str) -> str:
        """Return where a path lies that may be recorded elsewhere."""
        return f"{self.recorded.get(path, self.results)}/{path}"

    # Runs

    def folder(self, run: RunId) -> str:
        """Return the folder of a run."""
        return self._kept(f"runs/{run.path}")

    def is_recorded(self, run: RunId) -> bool:
        """Return whether a run is recorded elsewhere, so that it is not made."""
        return f"runs/{run.path}" in self.recorded

    def config(self, run: RunId) -> str:
        """Return the settings of a run."""
        return f"{self.folder(run)}/{CONFIG}"

    def record(self, run: RunId) -> str:
        """Return the record of a run, which names its other files."""
        return f"{self.folder(run)}/{RUN}"

    def model(self, run: RunId) -> str:
        """Return the folder of a run's model."""
        return f"{self.folder(run)}/{MODEL}"

    def taught(self, run: RunId) -> str:
        """Return the folder of a run's training tokens with the scores of its teacher."""
        return f"{self.results}/taught/{run.path}"

    def best(self, stage: str, model: str, dataset: str) -> str:
        """Return the best settings that a search has found for a model."""
        return self._kept(f"search/{stage}/{model}/{dataset}.json")

    @property
    def work(self) -> str:
        """Working folder of runs."""
        return f"{self.results}/work"

    # Data

    def filtered_shard(self, corpus: str, shard: str) -> str:
        """Return a filtered file of a corpus."""
        return f"{self.results}/data/{corpus}/filtered/{shard}.parquet"

    def documents(self, dataset: str, step: str, split: str) -> str:
        """Return the documents of a split after a step: `prepared`, `augmented` or `placed` inside articles."""
        return f"{self.results}/data/{dataset}/{step}/{split}.parquet"

    def summary(self, dataset: str, step: str) -> str:
        """Return what a step counted."""
        return f"{self.results}/data/{dataset}/{step}/summary.json"

    def texts(self, dataset: str) -> str:
        """Return the description of a dataset's texts."""
        return f"{self.results}/data/{dataset}/texts.parquet"

    def tokens(self, corpus: str, tokens_name: str, split: str) -> str:
        """Return the folder of the tokenised documents of a split; see `lib.study.graph.Graph.tokens_name`."""
        return f"{self.results}/data/{corpus}/tokens/{tokens_name}/{split}"

    def token_lengths(self, corpus: str, tokens_name: str) -> str:
        """Return the statistics of the tokenised splits."""
        return f"{self.results}/data/{corpus}/tokens/{tokens_name}/token_lengths.json"

    def tokenizer(self, name: str) -> str:
        """Return the folder of a tokeniser."""
        return f"{self.results}/tokenizers/{name}"

    def word_vectors(self, name: str, draw: str) -> str:
        """Return the folder of word vectors; see `lib.workflow.planning.corpora.Corpora.word_vectors`."""
        return f"{self.results}/word_vectors/{name}/{draw}"

    def vectors(self, encoder: str, dataset: str) -> str:
        """Return the folder of an encoder with its vectors of the documents of a dataset."""
        return f"{self.results}/vectors/{encoder}/{dataset}"

    # Downloads. Studies may share them, so each path says everything about the file, and nothing about the study.

    def fetched(self, address: str) -> str:
        """Return a file behind a URL; see `lib.workflow.planning.corpora.Corpora.remote_files`."""
        return f"{self.resources}/urls/{address}"

    def weights(self, source: ForeignStart) -> str:
        """Return the folder of weights that no stage of the study makes."""
        if source.folder is not None:
            return source.folder
        return self.downloads("models", str(source.repository), str(source.revision))

    def is_made(self, place: str) -> bool:
        """Return whether a rule makes a tokeniser, word vectors or a download at `place`."""
        return place.startswith((f"{self.results}/tokenizers/", f"{self.results}/word_vectors/", f"{self.resources}/"))

    def downloads(self, kind: str, repository: str, revision: str, *path: str) -> str:
        """Return the folder of `models`, `tokenizers`, `texts` or `vocabularies` of a repository, or a file in it.

        A `/` in the name of the revision makes no subfolder.
        """
        return "/".join([self.resources, kind, repository, revision.replace("/", "%2F"), *path])

    # What comes out

    def table(self, name: str, suffix: str = "csv") -> str:
        """Return a table."""
        return f"{self.results}/tables/{name}.{suffix}"

    def figure(self, name: str, suffix: str = "svg") -> str:
        """Return a figure."""
        return f"{self.results}/figures/{name}.{suffix}"

    @property
    def code(self) -> str:
        """Folder of the definitions behind the digests of code."""
        return f"{self.results}/code"

    def kept_code(self, digest: str) -> str:
        """Return the file of the definitions behind a digest of code."""
        return f"{self.code}/{digest}.json"

    @property
    def planned(self) -> str:
        """Folder of the files that the plan hands to its jobs."""
        return f"{self.results}/{PLANNED}"

    def log(self, name: str) -> str:
        """Return the log of a rule."""
        return f"{self.results}/logs/{name}.log"
