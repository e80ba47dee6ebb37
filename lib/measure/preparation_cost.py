"""Cost of preparing raw text: megabytes of text per second and core, and peak memory.

The programs of the workflow run on a generated Hyperpartisan XML with its ground truth, and on a Parquet shard that is
a single row group, the hardest case for streaming; each in a process of its own, on one core.
"""

import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lib.core.errors import RunError
from lib.core.memory import resident_peak_mb
from lib.core.randomness import derive_seed

KEYWORDS = ["algorithm", "climate", "debate", "entropy", "film", "policy", "proof", "season", "theorem", "voting"]
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def preparation_cost(megabytes: int) -> pd.DataFrame:
    """Return the cost of each program of the preparation, one row per program and kind of input.

    Full size, 2,000 megabytes, needs about 6 GB on the disk, 1.5 GB of memory to make the shard, and a few minutes.

    Args:
        megabytes: size of the XML; the shard has half of it.

    Returns:
        Columns `program`, `input`, `megabytes`, `seconds`, `cpu_seconds`, `megabytes_per_core_second`,
        `peak_memory_mib` (resident).

    Raises:
        RunError: a program failed.
    """
    with tempfile.TemporaryDirectory(prefix="preparation-cost-") as name:
        folder = Path(name)
        xml, truth, shard = folder / "articles.xml", folder / "truth.xml", folder / "shard.parquet"
        # A process inherits the peak memory of the one that starts it, so the generators get their own.
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            process.submit(generate_articles, xml, truth, megabytes).result()
            process.submit(generate_shard, shard, megabytes // 2).result()
        keywords = json.dumps({"id": "id", "keywords": KEYWORDS, "min_keywords": 3})
        labelled = json.dumps({"id": "id", "labels": ["false", "true"], "min_chars": 7000, "balance": True})
        articles = json.dumps({"labels": ["false", "true"], "min_chars": 7000, "balance": True})
        out = folder / "out"
        rows = [
            measure("filter_corpus", shard, "--settings", keywords, "--source", shard, "--out", out / "part.parquet"),
            measure("prepare_dataset", shard, "--settings", labelled, "--part", "train", shard, "--out", out / "shard"),
            measure(
                *("prepare_dataset", xml, "--settings", articles, "--part", "train", xml),
                *("--ground-truth", "train", truth, "--out", out / "xml"),
            ),
        ]
    return pd.DataFrame(rows)


def measure(script: str, source: Path, *arguments: str | Path) -> dict[str, str | float]:
    """Run one program, and return its row of `preparation_cost`.

    Args:
        script: name of the program.
        source: its input, whose size counts.
        arguments: of its command line.

    Raises:
        RunError: it failed.
    """
    start = time.perf_counter()
    command: list[str | Path] = [sys.executable, SCRIPTS / f"{script}.py", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise RunError(f"{script} ended with status {os.waitstatus_to_exitcode(status)}; see above for its error.")
    megabytes = source.stat().st_size / 1e6
    return {
        "program": script,
        "input": source.name,
        "megabytes": round(megabytes),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "megabytes_per_core_second": round(megabytes / (usage.ru_utime + usage.ru_stime), 1),
        "peak_memory_mib": round(resident_peak_mb(usage)),
    }


def generate_articles(xml: Path, truth: Path, megabytes: int) -> None:
    """Write articles of about `megabytes` in the format of SemEval-2019 task 4, and their ground truth."""
    with xml.open("w", encoding="utf-8") as articles, truth.open("w", encoding="utf-8") as entries:
        articles.write('<?xml version="1.0" encoding="UTF-8"?><articles>\n')
        entries.write('<?xml version="1.0" encoding="UTF-8"?><articles>\n')
        for number, sentences in enumerate(_documents("articles", megabytes * 1_000_000)):
            link = f'<a href="https://example.org/{number}" type="external">{sentences[0]}</a>'
            paragraphs = "".join(f"<p>{' '.join(sentences[i : i + 4])}</p> " for i in range(0, len(sentences), 4))
            articles.write(
                f'<article id="{number:07d}" published-at="2017-09-10" title="{sentences[0]}"><p>By {link} today.</p> '
                f"{paragraphs}</article>\n"
            )
            hyperpartisan = "true" if number % 2 else "false"
            entries.write(f'<article id="{number:07d}" hyperpartisan="{hyperpartisan}" labeled-by="publisher"/>\n')
        articles.write("</articles>\n")
        entries.write("</articles>\n")


def generate_shard(path: Path, megabytes: int) -> None:
    """Write a Parquet file of one uncompressed row group with about `megabytes` of text."""
    texts = pa.chunked_array([[" ".join(sentences)] for sentences in _documents("shard", megabytes * 1_000_000)])
    count = len(texts)
    columns = {"id": pa.array(map(str, range(count))), "text": texts, "label": pa.array(n % 2 for n in range(count))}
    options = {"compression": "none", "use_dictionary": False}
    pq.write_table(pa.table(columns), path, row_group_size=count, **options)


def _documents(purpose: str, characters: int) -> Iterator[list[str]]:
    """Yield documents as lists of sentences, from 200 to 20,000 characters long, until there are enough characters."""
    generator = random.Random(derive_seed("benchmark", purpose))
    words = ["".join(generator.choices("etaoinshrdlu", k=generator.randint(2, 9))) for _ in range(5000)]
    # About one sentence in forty has a keyword, so that most articles are read to the end.
    sentences = [
        " ".join(generator.choices(words, k=14)) + (f" {generator.choice(KEYWORDS)}." if number % 40 == 0 else ".")
        for number in range(20_000)
    ]
    while characters > 0:
        document = generator.choices(sentences, k=round(2 * 100 ** generator.random()))
        characters -= sum(map(len, document))
        yield document
