"""Downloads, against a server on loopback that behaves like the hub and like a download site."""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from loopback import COMMIT, CONTENT, SHA256, Handler

from lib.core.errors import DownloadError
from lib.preparing.filtering import filter_corpus
from lib.reading.downloads import download_url
from lib.study.configuration import load_study, read_layers
from lib.tokens.stored import load_tokens
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_corpus
from lib.tokens.vocabularies import from_published, train_wordpiece

ROOT = Path(__file__).parents[3]


def fetch(site, target, **options):
    site.files.setdefault("/file.zip", CONTENT)
    download_url(f"{site.url}/file.zip", target, **({"attempts": 4, "pause_s": 0.001} | options))


def ranges(site):
    return [asked for _, _, asked in site.requests]


def nothing_left(folder):
    return list(folder.iterdir()) == []


def test_url_is_fetched_and_checked(site, tmp_path):
    fetch(site, tmp_path / "deep" / "file.zip", size=len(CONTENT), sha256=SHA256)
    assert (tmp_path / "deep" / "file.zip").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["file.zip"]


def test_broken_transfer_is_resumed_where_it_stopped(site, tmp_path):
    site.faults["/file.zip"] = [300_000, 200_000]
    fetch(site, tmp_path / "file.zip", size=len(CONTENT), sha256=SHA256)
    assert (tmp_path / "file.zip").read_bytes() == CONTENT
    first, second, third = ranges(site)
    assert first is None
    starts = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in (second, third)]
    assert 200_000 < starts[0] <= 300_000 < starts[1] <= 500_000


def test_server_that_ignores_ranges_sends_all_again(site, tmp_path):
    site.faults["/file.zip"] = [300_000]
    site.resumes = False
    fetch(site, tmp_path / "file.zip", sha256=SHA256)
    assert (tmp_path / "file.zip").read_bytes() == CONTENT
    assert ranges(site)[1].startswith("bytes=")


def test_file_that_changed_between_attempts_is_not_mixed(site, tmp_path):
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


def test_transfer_that_always_breaks_names_how_far_it_came(site, tmp_path):
    site.faults["/file.zip"] = [100_000, 0, 0, 0]
    with pytest.raises(DownloadError, match="cannot be fetched .*; [0-9,]+ bytes came"):
        fetch(site, tmp_path / "file.zip")
    assert nothing_left(tmp_path)


def test_missing_file_is_not_retried(site, tmp_path):
    with pytest.raises(DownloadError, match=r"none\.zip: cannot be fetched \(the server answered 404"):
        download_url(f"{site.url}/none.zip", tmp_path / "file.zip")
    assert len(site.requests) == 1
    assert nothing_left(tmp_path)


def test_wrong_checksum_names_both_and_leaves_nothing(site, tmp_path):
    with pytest.raises(DownloadError, match=f"{SHA256}, expected {'0' * 64}"):
        fetch(site, tmp_path / "file.zip", sha256="0" * 64)
    assert nothing_left(tmp_path)
    assert len(site.requests) == 1


def test_wrong_checksum_keeps_the_file_of_before(site, tmp_path):
    (tmp_path / "file.zip").write_bytes(b"before")
    with pytest.raises(DownloadError):
        fetch(site, tmp_path / "file.zip", sha256="0" * 64)
    assert (tmp_path / "file.zip").read_bytes() == b"before"


def test_wrong_size_is_refused(site, tmp_path):
    with pytest.raises(DownloadError, match="size of the file is 700001, expected 5"):
        fetch(site, tmp_path / "file.zip", size=5)
    assert nothing_left(tmp_path)


def test_url_without_checksum_is_warned_about_once(site, tmp_path, caplog):
    fetch(site, tmp_path / "file.zip", size=len(CONTENT), sha256=SHA256)
    fetch(site, tmp_path / "file.zip", sha256=SHA256)
    assert caplog.messages == []
    for options in ({}, {"size": len(CONTENT)}):
        caplog.clear()
        fetch(site, tmp_path / "file.zip", **options)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert f"{site.url}/file.zip: no sha256 is given" in caplog.text
        assert f"set 'size: 700001' and 'sha256: {SHA256}'" in caplog.text


def test_unreachable_host(tmp_path, site):
    site.server_close()
    with pytest.raises(DownloadError, match="cannot be fetched"):
        download_url("http://127.0.0.1:9/file.zip", tmp_path / "file.zip", attempts=2, pause_s=0.001)


@pytest.mark.parametrize("url", ["file.zip", "gopher://host/file"])
def test_no_url_at_all(tmp_path, url):
    with pytest.raises(DownloadError, match="cannot be fetched"):
        download_url(url, tmp_path / "file.zip", attempts=1)


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


def test_model_file_from_the_hub(site, tmp_path):
    done = hub(site, tmp_path, "--repository", "owner/corpus", "--type", "model", "--file", "vocab.txt")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "raw" / "file").read_text() == "[PAD]\n[UNK]\n"
    assert {path for _, path, _ in site.requests} == {"/owner/corpus/resolve/main/vocab.txt"}


def shard(number):
    """Return a file of a corpus as the hub has it, with ten articles."""
    rows = {"id": [f"{number}-{row}" for row in range(10)], "text": [f"article {row}" for row in range(10)]}
    stream = io.BytesIO()
    pd.DataFrame(rows).to_parquet(stream, index=False)
    return stream.getvalue()


def test_only_the_files_of_a_corpus_that_it_names_are_asked_for(site, tmp_path):
    """The study of decoders reads the first articles of 41 files, which are in the first of them."""
    small = {part: {"articles": articles, "max_tokens": 8} for part, articles in (("short", 7), ("held_out", 2))}
    corpora = dict.fromkeys(("wikipedia-uk", "wikipedia-en"), small)
    layers = read_layers([ROOT / "studies/decoders/decoders.yaml"])
    experiment = load_study([*layers, ("small", {"experiment": {"corpora": corpora}})]).experiment
    corpus, source = experiment.corpora["wikipedia-en"], experiment.corpora["wikipedia-en"].hub
    every = [f"20231101.en/train-{number:05d}-of-00041.parquet" for number in range(41)]
    site.models[source.repository] = {name: shard(number) for number, name in enumerate(every)}
    prepared = []
    for number, file in enumerate(source.files["train"]):
        done = hub(site, tmp_path, "--repository", source.repository, "--file", file, "--revision", source.revision)
        assert done.returncode == 0, done.stderr
        prepared.append(tmp_path / f"{number}.parquet")
        raw = (tmp_path / "raw" / "file").rename(tmp_path / f"raw-{number}.parquet")
        filter_corpus(raw, prepared[-1], corpus.filter)
    asked = [path.rpartition("/")[2] for command, path, _ in site.requests if command == "GET"]
    assert asked == ["train-00000-of-00041.parquet"]

    train_wordpiece(tmp_path / "tokenizer", ["article 0 1 2 3 4 5 6 7 8 9"] * 5, vocab_size=60)
    slices = {name: getattr(corpus, name) for name in ("short", "long", "held_out")}
    settings = {"folder": tmp_path / "tokens", "lengths": tmp_path / "lengths.json"}
    tokenize_corpus(prepared, TextTokenizer.load(tmp_path / "tokenizer"), **slices, **settings)
    assert load_tokens(tmp_path / "tokens/train")["id"][:] == [f"0-{row}" for row in range(7)]
    assert load_tokens(tmp_path / "tokens/validation")["id"][:] == ["0-7", "0-8"]


@pytest.mark.parametrize("file", ["vocab.txt", "data/train-00000-of-00001.parquet"])
def test_hub_revision_that_is_no_commit_is_warned_about_once(site, tmp_path, file):
    site.files["/cdn/large"] = CONTENT
    for revision in ("main", "main", COMMIT):  # the second time from the cache
        done = hub(site, tmp_path, "--repository", "owner/corpus", "--file", file, "--revision", revision)
        assert done.returncode == 0, done.stderr
        warnings = [line for line in done.stderr.splitlines() if "lib.reading.downloads: " in line]
        assert len(warnings) == (revision != COMMIT)
        for warning in warnings:
            assert f"owner/corpus, revision main, file {file} ({site.url}): the revision is not a commit" in warning
            assert f"To pin it, set 'revision: {COMMIT}' next to 'repository: " in warning


def test_damaged_hub_file_is_deleted_and_both_sums_named(site, tmp_path):
    site.files["/cdn/large"] = CONTENT[::-1]
    done = hub(site, tmp_path, *LARGE)
    assert done.returncode == 1
    assert SHA256 in done.stderr
    assert hashlib.sha256(CONTENT[::-1]).hexdigest() in done.stderr
    assert not (tmp_path / "raw" / "file").exists()
    site.files["/cdn/large"] = CONTENT
    assert hub(site, tmp_path, *LARGE).returncode == 0, "the damaged file was still in the cache"


@pytest.mark.parametrize(
    ("repository", "revision", "file"),
    [
        ("owner/corpus", "main", "data/none.parquet"),
        ("owner/corpus", "v9", "vocab.txt"),
        ("owner/none", "main", "vocab.txt"),
        ("owner/private", "main", "vocab.txt"),
    ],
)
def test_missing_on_the_hub(site, tmp_path, repository, revision, file):
    done = hub(site, tmp_path, "--repository", repository, "--revision", revision, "--file", file)
    assert done.returncode == 1
    assert f"{repository}, revision {revision}, file {file}" in done.stderr
    assert "cannot be fetched" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(site.requests) == 1, "a missing file was asked for again"


def test_busy_hub_is_asked_again(site, tmp_path):
    site.files["/cdn/large"] = CONTENT
    site.faults["HEAD /datasets/owner/corpus/resolve/main/data/train-00000-of-00001.parquet"] = ["503", "503"]
    done = hub(site, tmp_path, *LARGE)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "raw" / "file").read_bytes() == CONTENT


def test_hub_offline_and_not_cached(site, tmp_path):
    done = hub(site, tmp_path, *LARGE, HF_HUB_OFFLINE="1")
    assert done.returncode == 1
    assert "cannot be fetched" in done.stderr
    assert "Traceback" not in done.stderr
    assert site.requests == []


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


def test_models_come_whole_in_one_piece_or_in_shards(site, tmp_path):
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


def test_a_tokeniser_comes_with_what_names_its_special_tokens(site, tmp_path):
    files = {"tokenizer.json": b"{}", "tokenizer_config.json": b"{}", "config.json": b"{}"}
    site.models = {"owner/fast": files | {"model.safetensors": b"x"}}
    assert fetched(site, tmp_path, ("download_tokenizer", "owner/fast", "fast", COMMIT, "")) == [""]
    assert contents(tmp_path / "fast") == files


def test_a_tokeniser_comes_in_every_layout_without_sentencepiece(site, tmp_path):
    """That of google/bert_uncased_L-4_H-512_A-8 is a vocab.txt next to a config.json without a type."""
    config = {"config.json": b'{"hidden_size": 512}'}
    vocabulary = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"
    site.models = {
        "owner/wordpiece": {"vocab.txt": vocabulary} | config,
        "owner/cased": {"vocab.txt": vocabulary, "tokenizer_config.json": b'{"do_lower_case": false}'} | config,
        "owner/pairs": {"vocab.json": b"{}", "merges.txt": b"", "added_tokens.json": b"{}"} | config,
        "owner/both": {"tokenizer.json": b"{}", "vocab.txt": vocabulary} | config,
        "owner/half": {"vocab.json": b"{}"} | config,
    }
    calls = [("download_tokenizer", name, name, COMMIT, "") for name in site.models]
    *found, half = fetched(site, tmp_path, *calls)
    assert found == ["", "", "", ""]
    assert "owner/half" in half
    assert "no vocab.json with merges.txt. If it needs sentencepiece" in half
    for name in ("owner/wordpiece", "owner/cased", "owner/pairs"):
        assert contents(tmp_path / name) == site.models[name]
    assert "vocab.txt" not in contents(tmp_path / "owner/both")
    made = from_published(tmp_path / "owner/wordpiece", tmp_path / "made")
    assert made.encode_ragged(["A a"], 9) == [[2, 5, 5, 3]]
    assert from_published(tmp_path / "owner/cased", tmp_path / "other").encode_ragged(["A a"], 9) == [[2, 1, 5, 3]]


def test_what_a_repository_lacks_is_said_and_nothing_is_left(site, tmp_path):
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
    assert "holds neither model.safetensors nor pytorch_model.bin" in empty
    assert "names the shard '../../home/x', no .safetensors file. Name another revision" in strange
    assert "file model-00002-of-00002.safetensors" in partial
    assert "model.safetensors.index.json names this file" in partial
    assert "file config.json" in nothing
    assert "owner/absent" in absent
    assert "holds no tokenizer.json, no vocab.txt, no vocab.json with merges.txt. If it needs" in slow
    assert "AutoTokenizer.from_pretrained('owner/empty').save_pretrained('FOLDER')" in slow
    assert nothing_left(tmp_path / "owner")


@pytest.mark.parametrize("form", ["model.safetensors", "pytorch_model.bin"])
def test_an_index_that_names_no_shards_is_refused(form, site, tmp_path):
    maps = [1, None, [], {}, {"a": None}, {"a": 1}, {"a": "..", "b": f"x.{form}"}, {"a": "config.json"}]
    contents = [b"", b"[1]", b"{}", *(json.dumps({"weight_map": each}).encode() for each in maps)]
    index = f"{form}.index.json"
    site.models = {
        f"owner/{number}": {"config.json": b"{}", index: content, f"x.{form}": b"x"}
        for number, content in enumerate(contents)
    }
    found = fetched(site, tmp_path, *(("download_model", name, name, COMMIT, "") for name in site.models))
    assert len(found) == len(contents)
    for message in found:
        assert re.search(rf"{re.escape(index)}: (not an index|names the shard).*Name another revision", message), (
            message
        )
    assert nothing_left(tmp_path / "owner")


def test_a_gated_model_says_how_to_give_a_token(site, tmp_path):
    tokens = ("", "hf_bad", "hf_good")
    calls = [("download_tokenizer", "owner/gated", "out", COMMIT, token) for token in tokens]
    calls.append(("download_model", "owner/narrow", "narrow", COMMIT, "hf_narrow"))
    none, bad, good, narrow = fetched(site, tmp_path, *calls)
    for message, status in ((none, 401), (bad, 403)):
        assert f"owner/gated, revision {COMMIT}, file tokenizer.json" in message
        assert "needs a token in HF_TOKEN" in message
        assert str(status) in message
    assert good == ""
    assert "Please enable access to public gated repositories" in narrow
    assert len([path for _, path, _ in site.requests if "narrow" in path]) == 1, "it was asked again"


def test_a_model_that_transformers_does_not_follow_is_refused_when_it_is_fetched(site, tmp_path):
    """Its architecture may be in the configuration, so that the plan never read the file."""
    fields = {"model_type": "bert", "quantization_config": {"quant_method": "gptq"}}
    site.models = {"owner/quantised": {"config.json": json.dumps(fields).encode(), "pytorch_model.bin": CONTENT}}
    done = run_script(
        "download_model",
        *("--repository", "owner/quantised", "--revision", COMMIT, "--out", tmp_path / "out"),
        **{"HF_ENDPOINT": site.url, "HF_HOME": tmp_path / "home", "HF_HUB_OFFLINE": "0"},
    )
    assert done.returncode == 1
    assert "owner/quantised" in done.stderr
    assert "quantization_config = {'quant_method': 'gptq'}: transformers does not follow it for" in done.stderr


def test_a_model_is_fetched_by_its_program(site, tmp_path):
    site.models = {"owner/shards": in_shards()}
    done = run_script(
        "download_model",
        *("--repository", "owner/shards", "--revision", COMMIT, "--out", tmp_path / "out"),
        **{"HF_ENDPOINT": site.url, "HF_HOME": tmp_path / "home", "HF_HUB_OFFLINE": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "out") == in_shards()


def test_download_script(site, tmp_path):
    site.files["/file.zip"] = CONTENT
    arguments = ("--url", f"{site.url}/file.zip", "--size", len(CONTENT), "--sha256", SHA256)
    done = run_script("download", *arguments, "--out", tmp_path / "file.zip")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "file.zip").read_bytes() == CONTENT
