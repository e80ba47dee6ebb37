"""Downloads, against a server on loopback that behaves like the hub and like a download site."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import COMMIT, CONTENT, SHA256, Handler

from lib.core.errors import DownloadError
from lib.reading.downloads import download_url
from lib.tokens.vocabularies import from_published

ROOT = Path(__file__).parents[3]


def fetch(site, target, **options):
    site.files.setdefault("/file.zip", CONTENT)
    download_url(f"{site.url}/file.zip", target, **({"attempts": 4, "pause_s": 0.001} | options))


def ranges(site):
    return [asked for _, _, asked in site.requests]


def nothing_left(folder):
    return list(folder.iterdir()) == []


def test_transfer_that_broke_is_resumed_where_it_stopped(site, tmp_path):
    site.faults["/file.zip"] = [300_000, 200_000]
    fetch(site, tmp_path / "file.zip", size=len(CONTENT), sha256=SHA256)
    assert (tmp_path / "file.zip").read_bytes() == CONTENT
    first, second, third = ranges(site)
    assert first is None
    starts = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in (second, third)]
    assert 200_000 < starts[0] <= 300_000 < starts[1] <= 500_000


def test_transfer_without_ranges_starts_again(site, tmp_path):
    site.faults["/file.zip"] = [300_000]
    site.resumes = False
    fetch(site, tmp_path / "file.zip", sha256=SHA256)
    assert (tmp_path / "file.zip").read_bytes() == CONTENT
    assert ranges(site)[1].startswith("bytes=")


def test_transfer_of_a_file_that_changed_is_not_mixed(site, tmp_path):
    site.faults["/file.zip"] = [300_000]
    send = Handler.send

    def change_after_first(handler, *arguments):
        send(handler, *arguments)
        site.files["/file.zip"], site.etag = CONTENT[::-1], '"v2"'

    Handler.send = change_after_first
    try:
        fetch(site, tmp_path / "file.zip")
    finally:
        Handler.send = send
    assert (tmp_path / "file.zip").read_bytes() == CONTENT[::-1]


def test_server_fault_is_retried(site, tmp_path):
    site.faults["/file.zip"] = ["503", "429"]
    fetch(site, tmp_path / "file.zip", sha256=SHA256)
    assert len(site.requests) == 3


def test_transfer_that_always_breaks_leaves_nothing(site, tmp_path):
    site.faults["/file.zip"] = [100_000, 0, 0, 0]
    with pytest.raises(DownloadError, match="[0-9,]+ bytes came"):
        fetch(site, tmp_path / "file.zip")
    assert nothing_left(tmp_path)


def test_missing_file_is_not_retried(site, tmp_path):
    with pytest.raises(DownloadError, match=r"none\.zip: .* 404"):
        download_url(f"{site.url}/none.zip", tmp_path / "file.zip")
    assert len(site.requests) == 1
    assert nothing_left(tmp_path)


def test_wrong_checksum_or_size_keeps_what_was_there(site, tmp_path):
    target = tmp_path / "file.zip"
    target.write_bytes(b"before")
    for expected in ({"sha256": "0" * 64}, {"size": 5}):
        with pytest.raises(DownloadError, match=f"expected {next(iter(expected.values()))}"):
            fetch(site, target, **expected)
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]
    assert len(site.requests) == 2


def test_url_without_checksum_is_a_warning(site, tmp_path, caplog):
    fetch(site, tmp_path / "file.zip", size=len(CONTENT), sha256=SHA256)
    fetch(site, tmp_path / "file.zip", sha256=SHA256)
    assert caplog.messages == []
    for options in ({}, {"size": len(CONTENT)}):
        caplog.clear()
        fetch(site, tmp_path / "file.zip", **options)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert f"{site.url}/file.zip: no sha256 is given" in caplog.text
        assert f"set 'size: 700001' and 'sha256: {SHA256}'" in caplog.text


def run_script(name, *arguments, **environment):
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / f"{name}.py", *map(str, arguments)],
        env=os.environ | {key: str(value) for key, value in environment.items()},
        capture_output=True,
        text=True,
        timeout=120,
    )


def hub(site, folder, *arguments, **environment):
    """Run the script, as the endpoint is read when the library is imported."""
    options = {"HF_ENDPOINT": site.url, "HF_HOME": folder / "home", "HF_HUB_OFFLINE": "0"} | environment
    return run_script("download", *arguments, "--out", folder / "raw" / "file", **options)


LARGE = ("--repository", "owner/corpus", "--file", "data/train-00000-of-00001.parquet")


@pytest.mark.extended
def test_hub_file_is_fetched_resumed_and_cached(site, tmp_path):
    site.files["/cdn/large"] = CONTENT
    site.faults["/cdn/large"] = [300_000]
    done = hub(site, tmp_path, *LARGE, "--revision", COMMIT)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "raw" / "file").read_bytes() == CONTENT
    (tmp_path / "raw" / "file").unlink()
    site.requests.clear()
    again = hub(site, tmp_path, *LARGE, "--revision", COMMIT)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "raw" / "file").read_bytes() == CONTENT
    assert not [request for request in site.requests if request[0] == "GET"], "the cache was not used"


@pytest.mark.extended
def test_hub_revision_that_is_no_commit_is_a_warning(site, tmp_path):
    file = "vocab.txt"
    for revision in ("main", COMMIT):
        done = hub(site, tmp_path, "--repository", "owner/corpus", "--file", file, "--revision", revision)
        assert done.returncode == 0, done.stderr
        warnings = [line for line in done.stderr.splitlines() if "lib.reading.downloads: " in line]
        assert len(warnings) == (revision != COMMIT)
        for warning in warnings:
            assert f"owner/corpus, revision main, file {file}" in warning
            assert f"'revision: {COMMIT}'" in warning


def test_hub_file_that_is_damaged_is_deleted(site, tmp_path):
    site.files["/cdn/large"] = CONTENT[::-1]
    done = hub(site, tmp_path, *LARGE)
    assert done.returncode == 1
    assert SHA256 in done.stderr
    assert hashlib.sha256(CONTENT[::-1]).hexdigest() in done.stderr
    assert not (tmp_path / "raw" / "file").exists()
    site.files["/cdn/large"] = CONTENT
    assert hub(site, tmp_path, *LARGE).returncode == 0, "the damaged file was still in the cache"


def fetched(site, folder, *calls, **environment):
    """Fetch models and tokenisers, all in one process; return what went wrong with each, or ''.

    A call is the function, the repository, the folder, the revision and the token.
    """
    code = (
        "import json, os, sys\nfrom lib.reading import hub_files\nfrom lib.core.errors import DownloadError\n"
        "for name, repository, target, revision, os.environ['HF_TOKEN'] in json.loads(sys.argv[1]):\n"
        "    try:\n"
        "        getattr(hub_files, name)(repository, target, revision=revision)\n"
        "        print()\n"
        "    except DownloadError as error:\n"
        "        print(error)\n"
    )
    named = [(name, repository, str(folder / target), *rest) for name, repository, target, *rest in calls]
    settings = {"HF_ENDPOINT": site.url, "HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(named)],
        env=os.environ | settings | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def in_shards():
    """A model in two shards, and its index."""
    names = [f"model-{number:05d}-of-00002.safetensors" for number in (1, 2)]
    index = {"weight_map": {"a": names[0], "b": names[1], "c": names[0]}}
    parts = dict(zip(names, (CONTENT[:300_000], CONTENT[300_000:]), strict=True))
    return {"config.json": b"{}", "model.safetensors.index.json": json.dumps(index).encode(), **parts}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_model_comes_in_one_piece_or_in_shards(site, tmp_path):
    whole = {"config.json": b"{}", "model.safetensors": CONTENT, "vocab.txt": b"a", "pytorch_model.bin": b"old"}
    older = {"config.json": b"{}", "pytorch_model.bin": CONTENT}
    site.models = {"owner/whole": whole, "owner/shards": in_shards(), "owner/older": older}
    site.faults[f"/owner/shards/resolve/{COMMIT}/model-00002-of-00002.safetensors"] = [200_000]
    calls = [("download_model", f"owner/{name}", name, COMMIT, "") for name in ("whole", "older")]
    calls.append(("download_model", "owner/shards", "shards", "main", ""))
    assert fetched(site, tmp_path, *calls) == ["", "", ""]
    assert contents(tmp_path / "whole") == {name: whole[name] for name in ("config.json", "model.safetensors")}
    assert contents(tmp_path / "shards") == in_shards()
    assert contents(tmp_path / "older") == older
    got = [path.partition("/resolve/") for method, path, _ in site.requests if method == "GET"]
    asked = [file for repository, _, file in got if repository == "/owner/shards"]
    broken = f"{COMMIT}/model-00002-of-00002.safetensors"
    assert asked == ["main/config.json", *(f"{COMMIT}/{name}" for name in list(in_shards())[1:]), broken]
    site.requests.clear()
    assert fetched(site, tmp_path, *calls, HF_HUB_OFFLINE="1") == ["", "", ""], "the cache was not used"
    assert site.requests == []


def test_tokeniser_comes_in_each_layout(site, tmp_path):
    """That of google/bert_uncased_L-4_H-512_A-8 is a vocab.txt next to a config.json without a type."""
    config = {"config.json": b'{"hidden_size": 512}'}
    vocabulary = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"
    fast = {"tokenizer.json": b"{}", "tokenizer_config.json": b"{}"}
    site.models = {
        "owner/fast": fast | config,
        "owner/wordpiece": {"vocab.txt": vocabulary} | config,
        "owner/cased": {"vocab.txt": vocabulary, "tokenizer_config.json": b'{"do_lower_case": false}'} | config,
        "owner/pairs": {"vocab.json": b"{}", "merges.txt": b"", "added_tokens.json": b"{}"} | config,
        "owner/both": {"tokenizer.json": b"{}", "vocab.txt": vocabulary} | config,
        "owner/half": {"vocab.json": b"{}"} | config,
    }
    calls = [("download_tokenizer", name, name, COMMIT, "") for name in site.models]
    *found, half = fetched(site, tmp_path, *calls)
    assert found == [""] * 5
    assert "owner/half" in half
    assert "no vocab.json with merges.txt" in half
    for name in ("owner/fast", "owner/wordpiece", "owner/cased", "owner/pairs"):
        assert contents(tmp_path / name) == site.models[name]
    assert "vocab.txt" not in contents(tmp_path / "owner/both")
    made = from_published(tmp_path / "owner/wordpiece", tmp_path / "made")
    assert made.encode_ragged(["A a"], 9) == [[2, 5, 5, 3]]
    assert from_published(tmp_path / "owner/cased", tmp_path / "other").encode_ragged(["A a"], 9) == [[2, 1, 5, 3]]


def test_repository_that_lacks_files_leaves_nothing(site, tmp_path):
    index = json.dumps({"weight_map": {"a": "../../home/x"}}).encode()
    site.models = {
        "owner/empty": {"config.json": b"{}", "tf_model.h5": b"x"},
        "owner/strange": {"config.json": b"{}", "model.safetensors.index.json": index},
        "owner/partial": {name: content for name, content in in_shards().items() if "00002-of" not in name},
        "owner/nothing": {},
    }
    names = [*site.models, "owner/absent"]
    calls = [("download_model", name, name, COMMIT, "") for name in names]
    calls.append(("download_tokenizer", "owner/empty", "owner/slow", COMMIT, ""))
    empty, strange, partial, nothing, absent, slow = fetched(site, tmp_path, *calls)
    assert f"owner/empty, revision {COMMIT}" in empty
    assert "'../../home/x'" in strange
    assert "file model-00002-of-00002.safetensors" in partial
    assert "file config.json" in nothing
    assert "owner/absent" in absent
    assert "AutoTokenizer.from_pretrained('owner/empty').save_pretrained('FOLDER')" in slow
    assert nothing_left(tmp_path / "owner")


@pytest.mark.extended
def test_program_fetches_models_that_transformers_follows(site, tmp_path):
    """An architecture may be in the configuration, so that the plan never read the file."""
    fields = {"model_type": "bert", "quantization_config": {"quant_method": "gptq"}}
    quantised = {"config.json": json.dumps(fields).encode(), "pytorch_model.bin": CONTENT}
    site.models = {"owner/quantised": quantised, "owner/shards": in_shards()}
    for repository, status in (("owner/quantised", 1), ("owner/shards", 0)):
        done = run_script(
            "download_model",
            *("--repository", repository, "--revision", COMMIT, "--out", tmp_path / "out"),
            **{"HF_ENDPOINT": site.url, "HF_HOME": tmp_path / "home", "HF_HUB_OFFLINE": "0"},
        )
        assert done.returncode == status, done.stderr
        assert ("quantization_config = {'quant_method': 'gptq'}" in done.stderr) == status
    assert contents(tmp_path / "out") == in_shards()


def test_program_downloads_a_url(site, tmp_path):
    site.files["/file.zip"] = CONTENT
    arguments = ("--url", f"{site.url}/file.zip", "--size", len(CONTENT), "--sha256", SHA256)
    done = run_script("download", *arguments, "--out", tmp_path / "deep" / "file.zip")
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "deep") == {"file.zip": CONTENT}
