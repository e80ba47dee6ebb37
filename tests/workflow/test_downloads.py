"""Files that are alike in a part of their names, fetched from a site and a hub on loopback."""

import base64
import copy
import hashlib
import io
import json
from urllib.parse import quote

import pandas as pd
import pyarrow.parquet as pq
import pytest
from loopback import COMMIT

pytestmark = pytest.mark.study


def texts(part, number):
    """Return a CSV file of labelled texts that only this part has."""
    rows = [{"text": f"{part} text {'abcdefghij'[row % 10] * (row + 5)}", "label": row % 2} for row in range(number)]
    file = io.StringIO()
    pd.DataFrame(rows).to_csv(file, index=False)
    return file.getvalue().encode()


FILES = {"train": texts("learnt", 60), "test": texts("scored", 20)}


@pytest.fixture(scope="module")
def project(copy_of_repository):
    project = copy_of_repository("downloads")
    project.environment["NO_PROXY"] = "127.0.0.1"
    return project


def configured(project, alone, name, source):
    """Return the configuration of a study with one dataset."""
    values = copy.deepcopy(alone)
    experiment = values["experiment"]
    dataset = experiment["datasets"].pop("imdb")
    del dataset["generated"]
    experiment["datasets"][name] = dataset | source | {"split": {"held_out": "test"}}
    experiment["stages"]["score"]["data"] = {name: {}}
    return project.configure(values)


def prepared(project, alone, name, source):
    """Return the texts of the splits of a dataset, fetched and prepared."""
    summary = f"results/alone/data/{name}/prepared/summary.json"
    config = configured(project, alone, name, source)
    project.snakemake("--cores", 1, "--configfile", config, "--", summary)
    folder = (project.folder / summary).parent
    assert json.loads((folder / "summary.json").read_text())
    assert project.stale(config, target=summary) == {}
    return [pq.read_table(folder / f"{part}.parquet")["text"].to_pylist() for part in ("train", "validation", "test")]


def assert_each_part_has_its_own(train, validation, test):
    assert (len(train), len(validation), len(test)) == (60, 10, 10)
    assert {text.split()[0] for text in train} == {"learnt"}
    assert {text.split()[0] for text in validation + test} == {"scored"}


def test_two_addresses_that_end_in_one_name(project, alone, site, tmp_path):
    """The site wants a password, which the files of the study never hold."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password s3cret")
    project.environment["NETRC"] = str(tmp_path / "netrc")
    site.login = f"Basic {base64.b64encode(b'me:s3cret').decode()}"
    name = "100%25%20{1}%20it's.csv?download=1&part="
    site.files = {f"/{part}/{name}{part}".replace("{1}", "%7B1%7D"): content for part, content in FILES.items()}
    files = {
        part: [{"url": f"{site.url}/{part}/{name}{part}", "sha256": hashlib.sha256(content).hexdigest()}]
        for part, content in FILES.items()
    }
    source = {"source": "url", "url": {"files": files}}
    assert_each_part_has_its_own(*prepared(project, alone, "tokenizers", source))
    files["test"][0]["sha256"] = "0" * 64
    config = configured(project, alone, "models", source)
    target = "results/alone/data/models/prepared/summary.json"
    assert project.snakemake("--cores", 1, "--configfile", config, "--", target, check=False).returncode
    logs = [path.read_text() for path in (project.folder / "results/alone/logs/download").rglob("*.log")]
    assert len([log for log in logs if f"expected {'0' * 64}" in log]) == 1
    files = [path for path in project.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if b"s3cret" in path.read_bytes() or site.login.encode() in path.read_bytes()]


def test_two_files_of_a_repository_that_end_in_one_name(project, alone, site, tmp_path):
    names = {"train": "one {1}/a b's.csv", "test": "two/a b's.csv"}
    site.models["owner/texts"] = {quote(name): FILES[part] for part, name in names.items()}
    project.environment |= {"HF_ENDPOINT": site.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
    hub = {"repository": "owner/texts", "revision": COMMIT, "files": {part: [name] for part, name in names.items()}}
    assert_each_part_has_its_own(*prepared(project, alone, "wordnet", {"source": "hub", "hub": hub}))
