"""A small study with an augmented dataset, really run: WordNet from a server on loopback, classified by TF-IDF."""

import copy
import functools
import hashlib
import http.server
import json
import shutil
import threading

import pyarrow.parquet as pq
import pytest
from wordnets import WORDS, write_wordnet

pytestmark = pytest.mark.study

FILM = {"adj": [["wonderful", "marvelous"], ["brilliant", "bright"], ["charming", "sweet"], ["moving", "touching"]]}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Return the address and the checksum of an archive of WordNet."""
    folder = tmp_path_factory.mktemp("site")
    write_wordnet(folder / "content/dict", WORDS | FILM)
    file = shutil.make_archive(str(folder / "words"), "gztar", folder / "content")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    with open(file, "rb") as content:
        yield f"http://127.0.0.1:{server.server_port}/words.tar.gz", hashlib.file_digest(content, "sha256").hexdigest()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def project(copy_of_repository):
    project = copy_of_repository("augmented")
    project.environment["NO_PROXY"] = "127.0.0.1"
    return project


def configured(project, alone, url, sha256):
    values = {"extensions": ["studies/hate_speech"]} | copy.deepcopy(alone)
    values["report"]["tables"].pop("classes")
    values["experiment"]["seeds"] = [1]
    values["experiment"]["datasets"]["imdb"]["augmentation"] = {
        "labels": ["positive"],
        "copies": 2,
        "by": "synonyms",
        "synonyms": {"url": {"url": url, "sha256": sha256}},
    }
    return project.configure(values)


def test_another_archive_refused(project, alone, archive):
    config = configured(project, alone, archive[0], "0" * 64)
    process = project.snakemake("--cores", 1, "--configfile", config, check=False)
    assert process.returncode
    (log,) = (project.folder / "results/alone/logs/download/urls").rglob("*.log")
    assert f"the sha256 of the file is {archive[1]}, expected {'0' * 64}" in log.read_text()
    assert not [path for path in (project.folder / "resources").rglob("*") if path.is_file()]
    assert not (project.folder / "results/alone/data/imdb/augmented").exists()


def test_study_of_augmented_documents(project, alone, archive):
    config = configured(project, alone, *archive)
    project.snakemake("--cores", 1, "--configfile", config)
    data = project.folder / "results/alone/data/imdb"
    train = pq.read_table(data / "augmented/train.parquet").to_pylist()
    copies = [row for row in train if "-copy-" in row["id"]]
    summary = json.loads((data / "augmented/summary.json").read_text())
    assert len(copies) == summary["augmentation"]["copies"]["synonyms"] > 20
    assert {row["label"] for row in copies} == {1}
    assert len(train) == len(copies) + pq.read_metadata(data / "prepared/train.parquet").num_rows
    assert any("marvelous" in row["text"].lower() for row in copies)
    assert project.stale(config) == {}
