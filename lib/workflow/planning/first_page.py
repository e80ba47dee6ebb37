"""The first page of the HTML report: title, data, the results that answer the study, and how they were made."""

import contextlib
import datetime
import functools
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from lib.backbones.settings import BackboneSettings
from lib.core.errors import ProjectError
from lib.core.record import RunRecord, read_record
from lib.preparing.settings.corpus import Corpus
from lib.preparing.settings.dataset import Dataset
from lib.preparing.settings.sources import HubSource, UrlSource
from lib.results.escapes import page
from lib.study.rows import results_of
from lib.workflow.planning.report import Report

STYLE = Path(__file__).with_suffix(".css")
"""Style of the page: as wide as the window without the side bar, the graph of the rules below, wide tables scroll.

Snakemake centres the page, which puts the beginning of one that is higher than the window out of reach."""
SIZES = {
    "num_hidden_layers": "layers",
    "num_layers": "layers",
    "hidden_size": "width",
    "num_attention_heads": "heads",
    "intermediate_size": "feed-forward width",
}
"""Sizes in the settings of a backbone, and their names on the page."""


class FirstPage:
    """The first page of the report of a study, as reStructuredText for its template `workflow/report/<methods>.rst`."""

    def __init__(self, report: Report, name: str):
        self.report, self.name = report, name
        self.study, self.paths = report.study, report.paths

    def opening(self) -> str:
        """Return title and data, then the tables and figures that `report.opens_with` names, as far as they exist."""
        title = page(self.study.report.title or self.name)
        style = " ".join(STYLE.read_text(encoding="utf-8").split())
        head = f"<style>{style}</style> <h1>{title}</h1> <p class='data'>{page(self._data_line())}</p>"
        return "\n".join([_raw(head), *self._opened()])

    def _opened(self) -> Iterator[str]:
        settings = self.study.report
        answers = [name for name, table in settings.tables.items() if table.kind == "answer"]
        first = [*answers, *itertools.islice(settings.tables, 1), *itertools.islice(settings.figures, 1)]
        pages = functools.partial(self.paths.table, suffix="html")
        for name in settings.opens_with or dict.fromkeys(first):
            for entries, place in ((settings.tables, pages), (settings.figures, self.paths.figure)):
                made = results_of(self.study.graph, name, entries[name]) if name in entries else {}
                for file in (place(each) for each in made if Path(place(each)).exists()):
                    heading = _raw(f"<h2>{page(Path(file).stem.replace('_', ' '))}</h2>")
                    yield f"{heading}\n.. raw:: html\n   :file: {file}\n"

    def facts(self) -> str:
        """Return a table of data, sizes, models and conditions, from the configuration and the records that exist."""
        experiment, records = self.study.experiment, list(self._records())
        rows = [
            ("Study", self.name),
            *((f"Data: {name}", self._documents(name, data)) for name, data in self._data().items()),
            *((f"Backbone: {name}", _sizes(backbone)) for name, backbone in experiment.backbones.items()),
            *((f"Vocabulary: {name}", f"{each.vocab_size:,}") for name, each in experiment.tokenizers.items()
              if getattr(each, "vocab_size", None)),
            ("Weights", _weights(records)),
            ("Models", ", ".join(experiment.models)),
            ("Stages in order", ", ".join(experiment.stages)),
            ("Seeds", ", ".join(map(str, experiment.seeds))),
            ("Arithmetic", _distinct(record.precision for record in records) or experiment.precision),
            ("Runs finished", f"{len(records)} of {len(self.study.runs)}"),
            ("Machines", _distinct(record.hardware or record.device for record in records)),
            ("Commit", _distinct(record.git_commit for record in records)),
            ("Date of the report", datetime.datetime.now(datetime.UTC).date().isoformat()),
        ]  # fmt: skip
        cells = (f"<tr><th>{page(name)}</th><td>{page(value)}</td></tr>" for name, value in rows if value)
        return _raw(f"<table class='facts'>{''.join(cells)}</table>")

    def _data(self) -> dict[str, Corpus | Dataset]:
        """Return the corpora and datasets that runs read."""
        read = {run.id.dataset for run in self.study.runs}
        return {name: self.report.corpora.corpus(name) for name in self.report.corpora.names if name in read}

    def _data_line(self) -> str:
        generated = [name for name, data in self._data().items() if data.composed]
        real = [f"{name} ({_source(data)})" for name, data in self._data().items() if name not in generated]
        parts = [f"generated texts, not published corpora, under the names {', '.join(generated)}"] if generated else []
        return f"Data: {'; '.join([*parts, *real])}."

    def _documents(self, name: str, data: Corpus | Dataset) -> str:
        """Return the source of a dataset or corpus, with its documents by split where it was tokenised or described."""
        for corpus, tokens_name in self.report.tokenised:
            file = Path(self.paths.token_lengths(corpus, tokens_name))
            if corpus == name and file.exists():
                parts = json.loads(file.read_text(encoding="utf-8")).items()
                counts = [f"{split} {part['documents']:,}" for split, part in parts if "documents" in part]
                return f"{_source(data)}; documents: {', '.join(counts)}"
        return _source(data)

    def _records(self) -> Iterator[RunRecord]:
        for run in self.study.runs:
            with contextlib.suppress(ProjectError):  # not finished, or damaged: the rules say so
                yield read_record(self.paths.folder(run.id))


def _raw(html: str) -> str:
    return f".. raw:: html\n\n   {html}\n"


def _source(data: Corpus | Dataset) -> str:
    if isinstance(data, Dataset) and data.placement:
        return f"{_files(data)}, placed inside articles of {data.placement.corpus}"
    return _files(data)


def _files(data: Corpus | Dataset) -> str:
    chosen = data.chosen
    if data.source == "generated":
        return "generated, no published corpus"
    if isinstance(chosen, HubSource):
        return f"{chosen.repository} on the hub, revision {chosen.revision[:8]}"
    return "from addresses on the web" if isinstance(chosen, UrlSource) else "local files"


def _sizes(backbone: BackboneSettings) -> str:
    values = backbone.model_dump(mode="json")
    sizes = [f"{noun} {values[name]:,}" for name, noun in SIZES.items() if isinstance(values.get(name), int)]
    return ": ".join(filter(None, [backbone.kind, ", ".join(sizes)]))


def _weights(records: Iterable[RunRecord]) -> str:
    totals = [record.parameters["total"] for record in records if "total" in record.parameters]
    ends = sorted({min(totals), max(totals)}) if totals else []
    return " to ".join(f"{number:,}" for number in ends)


def _distinct(values: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(filter(None, values)))
