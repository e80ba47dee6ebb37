"""The page of costs shows what the benchmark measures, as its programs write it."""

from functools import partial

import pandas as pd
import pytest
import yaml

from benchmarks.attention_cost import LENGTHS, attention_cases
from benchmarks.compared import EXTRA
from benchmarks.summaries import PADDINGS, attention_summary, training_summary
from benchmarks.tables import COLUMNS
from benchmarks.training_cost import training_cases
from lib.backbones.encoder.settings import Settings as Encoder

pytestmark = pytest.mark.extended

PLACE = {"device": "cpu", "dtype": "float32"}
MADE = {
    "batch": 4, "heads": 8, "head_size": 64, "device": "cpu", "dtype": "float32", "threads": 2, "median_ms": 100.0,
    "min_ms": 90.0, "max_ms": 110.0, "bytes_kept": 1000, "gemm_share": 0.5, "peak_mb": 10.0, "repetitions": 2,
    "tokens": 2048, "vocabulary": 32_000, "tokens_per_s": 1000.0, "processor": "Some Processor", "torch": "2.0",
    "kernels": "torch", "compiled": False, "length": 512, "host_ms": float("nan"), "clock_mhz": float("nan"),
    "family": "attention", "hidden_size": 512, "us_per_token": 50.0, "skipped": None, "seconds": 1.0, "kept_mb": 5.0,
    "memory_kept": False,
}  # fmt: skip


def made_table(name, rows):
    """Return the table of that name with a row for each mapping in `rows`, filled up."""
    return pd.DataFrame([MADE | row for row in rows], columns=COLUMNS[name])


attention_table, training_table, encoder_table = (
    partial(made_table, f"{name}_cost") for name in ("attention", "training", "encoder")
)


def markdown_tables(text):
    """Return every table in Markdown `text`, as a list of rows by column."""
    tables, header = [], None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not cells:
            header = None
        elif header is None:
            header = cells
            tables.append([])
        elif set(line) - set("|:-"):
            tables[-1].append(dict(zip(header, cells, strict=True)))
    return tables


@pytest.fixture
def page(repository):
    return (repository / "benchmarks/attention_cost.md").read_text()


@pytest.fixture
def mechanisms(repository):
    return yaml.safe_load((repository / "config/config.yaml").read_text())["experiment"]["mechanisms"]


def cells(table, keys):
    """Return by row which columns have a number, in order."""
    return {
        tuple(row[key] for key in keys): [name for name, cell in row.items() if any(map(str.isdigit, cell))]
        for row in table
    }


def shape(table):
    keys = ("implementation", "mechanism")
    measured = {key: [name for name in names if "[ms]" in name] for key, names in cells(table, keys).items()}
    return list(table[0]), measured


def test_rows_of_attention_on_the_page(page, mechanisms):
    cases = attention_cases(mechanisms | EXTRA, LENGTHS, heads=8, head_size=64, **PLACE)
    summary = attention_summary(
        attention_table(
            {
                "implementation": case.implementation,
                "mechanism": case.mechanism,
                "length": case.length,
                "batch": case.batch,
                "padding": case.padding,
            }
            for case in cases
        )
    )
    measured = dict(zip(PADDINGS.values(), markdown_tables(summary), strict=True))
    _, *parts = page.partition("<!-- end of attention_cost -->")[0].split("\n### ")
    shown = {part.splitlines()[0]: markdown_tables(part)[0] for part in parts}
    assert "Without padding" in shown
    for title, table in shown.items():
        assert shape(table) == shape(measured[title])


def test_rows_of_training_on_the_page(page, mechanisms):
    first_of_kind = {}
    for name, parameters in mechanisms.items():
        first_of_kind.setdefault(parameters["kind"], name)
    cases = training_cases(
        {name: mechanisms[name] for name in first_of_kind.values()},
        encoder=Encoder(),
        lengths=(512,),
        batch=4,
        documents=64,
        document_batch=4,
        **PLACE,
    )
    summary = training_summary(
        training_table(
            {name: getattr(case, name) for name in ("implementation", "model", "step", "length", "batch")}
            for case in cases
        )
    )
    keys = ("implementation", "model", "step (random ids)", "longest [tokens]", "sequences per batch")
    section = page.partition("## Training")[2].partition("<!-- end of training_cost -->")[0]
    (measured,), (shown,) = markdown_tables(summary), markdown_tables(section)
    assert list(shown[0]) == list(measured[0])
    assert cells(shown, keys) == cells(measured, keys)
    assert "All inputs are random ids." in page


def test_rows_of_kernels_on_the_page_of_a_gpu(repository, mechanisms):
    page = (repository / "benchmarks/gpu.md").read_text()
    section = page.partition("<!-- end of attention_cost_gpu -->")[0]
    for table in markdown_tables(section):
        ours = {row["mechanism"] for row in table if row["implementation"] == "ours"}
        exact = {name for name, parameters in mechanisms.items() if parameters["kind"] == "sdpa"}
        assert ours >= set(mechanisms) | {f"{name} (triton)" for name in set(mechanisms) - exact}
        assert {"host [ms]", "kept", *(f"{length:,} [ms]" for length in LENGTHS)} <= set(table[0])
