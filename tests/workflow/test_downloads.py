"""Files that are alike in a part of their names, fetched from a site on loopback that wants a password."""

import base64
import hashlib

import pyarrow.parquet as pq
import pytest
from small_studies import changed

pytestmark = pytest.mark.extended

CONFIG = "config.test.yaml"


def texts(part, number):
    """Return a CSV file of labelled texts that only this part has."""
    rows = [f"{part} text {'abcdefghij'[row % 10] * (row + 5)},{row % 2}" for row in range(number)]
    return "\n".join(["text,label", *rows]).encode()


FILES = {"train": texts("learnt", 60), "test": texts("scored", 20)}


def test_addresses_that_end_in_one_name(copy_of_repository, alone, site, tmp_path):
    """The files of the study never hold the password."""
    project = copy_of_repository("downloads")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password s3cret")
    project.environment |= {"NETRC": str(tmp_path / "netrc"), "NO_PROXY": "127.0.0.1"}
    site.login = f"Basic {base64.b64encode(b'me:s3cret').decode()}"
    name = "100%25%20{1}%20it's.csv?download=1&part="
    site.files = {f"/{part}/{name}{part}".replace("{1}", "%7B1%7D"): content for part, content in FILES.items()}
    files = {
        part: [{"url": f"{site.url}/{part}/{name}{part}", "sha256": hashlib.sha256(content).hexdigest()}]
        for part, content in FILES.items()
    }
    dataset = alone["experiment"]["datasets"]["imdb"] | {"source": "url", "url": {"files": files}, "generated": None}
    dataset |= {"split": {"held_out": "test"}}
    target = "results/alone/data/imdb/prepared/summary.json"
    project.configure(changed(alone, ("experiment/datasets/imdb", dataset)))
    project.snakemake("--cores", 1, "--configfile", CONFIG, "--", target)
    assert project.stale(CONFIG, target=target) == {}
    folder = (project.folder / target).parent
    splits = {part: pq.read_table(folder / f"{part}.parquet")["text"].to_pylist() for part in ("train", "test")}
    assert {part: {text.split()[0] for text in found} for part, found in splits.items()} == {
        "train": {"learnt"},
        "test": {"scored"},
    }
    assert len(splits["train"]) == 60

    files["test"][0]["sha256"] = "0" * 64
    project.configure(changed(alone, ("experiment/datasets/imdb", dataset)))
    assert project.snakemake("--cores", 1, "--configfile", CONFIG, "--", target, check=False).returncode
    logs = [path.read_text() for path in (project.folder / "results/alone/logs/download").rglob("*.log")]
    assert len([log for log in logs if f"expected {'0' * 64}" in log]) == 1
    contents = [path.read_bytes() for path in project.folder.rglob("*") if path.is_file()]
    assert not [each for each in contents if b"s3cret" in each or site.login.encode() in each]
