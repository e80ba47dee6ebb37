"""No name, folder or address in a configuration means anything to a shell, or leads elsewhere than it seems."""

import re

import pytest
from small_studies import SMALL, changed

from lib.core.errors import ConfigError
from lib.core.inputs import FORMATS, is_safe_address
from lib.reading.formats import _READERS
from lib.study.configuration import load_study

pytestmark = pytest.mark.extensions("studies/hate_speech")

STRANGE = ["it's", "a b", "$(touch pwned)", "a\n", "../a", "-x", "{a}", "", "ä"]
RESULT = {"kind": "stage", "stage": "finetune"}
COMMIT = "0" * 40


def refusal(*changes):
    with pytest.raises(ConfigError) as found:
        load_study([("small.yaml", changed(SMALL, *changes))])
    return str(found.value)


def renamed(section, name, new):
    values = changed(SMALL)
    entries = values["experiment"][section]
    entries[new] = entries.pop(name)
    return values


ENTRY_OF = {"models": "tfidf", "stages": "finetune", "datasets": "imdb", "corpora": "wikipedia"}
ENTRY_OF |= {"tokenizers": "wordpiece"}
PLACES = [(section, "$(id)") for section in ENTRY_OF] + [("models", name) for name in STRANGE]


@pytest.mark.parametrize(("section", "name"), PLACES)
def test_name_that_a_shell_may_read_is_refused(section, name):
    with pytest.raises(ConfigError) as found:
        load_study([("small.yaml", renamed(section, ENTRY_OF[section], name))])
    assert f"Found {name!r}" in str(found.value)
    for kind, settings in (("tables", RESULT), ("figures", {"kind": "bars", "stage": "finetune"})):
        assert f"report.{kind}" in refusal((f"report/{kind}", {name: settings}))


@pytest.mark.parametrize("folder", ["my results", "$(touch pwned)", "a\nb", "{stage}", "-x", "~/a", "a*", ""])
@pytest.mark.parametrize("key", ["results", "resources"])
def test_folder_that_a_shell_may_read_is_refused(key, folder):
    assert f"execution.{key}: expected a path" in refusal((f"execution/{key}", folder))
    load_study([("small.yaml", changed(SMALL, (f"execution/{key}", "/scratch/über/run-1.2_a+b")))])


@pytest.mark.parametrize("path", ["/etc/passwd", "../a.csv", "a/../../b.csv", "a//b.csv", "a\nb.csv"])
def test_file_of_a_repository_stays_in_its_folder(path):
    hub = {"repository": "a/b", "revision": COMMIT, "files": {"train": [path]}}
    assert "is no place inside a repository" in refusal(("experiment/datasets/imdb/hub", hub))
    assert "names no known format" in refusal(("experiment/datasets/imdb/hub", hub | {"files": {"train": ["a.docx"]}}))


def test_formats_have_a_reader():
    assert tuple(_READERS) == FORMATS


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://a.org/a.csv", "is no address"),
        ("file:///etc/passwd", "is no address"),
        ("http://localhost.a.org/a.csv", "is no address"),
        ("https://[a.org/a.csv", "is no address"),
        ("https://a.org/a\nb.csv", "is no address"),
        ("https://a.org/a/..", "names no file"),
        ("https://a.org/download?file=a.csv", "the suffix ''"),
        ("https://s3cret@a.org/a.csv", "~/.netrc"),
        ("http://a.org/a.csv?token=s3cret", "a local source"),
        ("https://a.org/a.csv?v=1&X-Amz-Signature=s3cret", "holds a secret"),
    ],
)
def test_download_has_a_safe_address(url, message):
    said, said_unpinned = (
        refusal(("experiment/datasets/imdb/url", {"files": {"train": [{"url": url} | pinned]}}))
        for pinned in ({"sha256": "0" * 64}, {})
    )
    assert message in said
    assert "s3cret" not in said + said_unpinned
    kept = {"files": {"train": [{"url": "https://a.org/tokens/a@b.csv?download=1&significant=1", "unpinned": True}]}}
    load_study([("small.yaml", changed(SMALL, ("experiment/datasets/imdb/url", kept)))])
    assert is_safe_address("http://127.0.0.1:8000/a.csv")


def named(section, *names):
    """Return the settings of a study whose `section` has entries called `names`."""
    values = changed(SMALL)
    place, _, kind = section.partition(".")
    entries = values.setdefault(place, {}).setdefault(kind, {})
    example = ENTRIES.get(section) or next(iter(entries.values()))
    entries |= dict.fromkeys(names, example)
    return values


ENTRIES = {
    "experiment.word_vectors": {"source": "local", "path": "vectors.txt", "format": "glove", "dimension": 2},
    "report.tables": RESULT | {"columns": ["f1"]},
    "report.figures": {"kind": "bars", "stage": "finetune"},
    "report.analyses": {"kind": "heads", "stage": "finetune", "dataset": "imdb"},
}


@pytest.mark.parametrize(
    "section",
    [
        *(f"experiment.{each}" for each in ("datasets", "tokenizers", "word_vectors", "stages", "models")),
        *(f"report.{each}" for each in ("tables", "figures")),
    ],
)
def test_names_that_differ_in_case_alone_are_refused(section):
    with pytest.raises(ConfigError) as found:
        load_study([("small.yaml", named(section, "One", "oNE"))])
    assert re.search(
        rf"{section}.oNE.*: would share files called .* with {section}.One.*Rename one of them", str(found.value)
    )
    with pytest.raises(ConfigError, match="at most 200 characters"):  # no file has a longer name
        load_study([("small.yaml", named(section, "a" * 201))])


@pytest.mark.parametrize("prefixes", [["Read", "read"], ["read", "read"]])
def test_variants_that_differ_in_case_alone_are_refused(prefixes):
    task = {"kind": "text_to_text", "targets": ["no", "yes"]}
    changes = [
        ("experiment/stages/finetune/task", task),
        ("experiment/stages/finetune/variants", {"task.prefix": prefixes}),
    ]
    message = refusal(*changes)
    assert (
        f"stages.finetune.variants.task.prefix: {prefixes} names a value twice, or two that differ in case" in message
    )


@pytest.mark.parametrize("part", ["train", "test"])
def test_file_named_twice_in_a_dataset_is_refused(part):
    file = {"url": "https://a.org/a.csv", "sha256": "0" * 64}
    for source in (
        {"url": {"files": {"train": [file], part: [file] * (2 if part == "train" else 1)}}},
        {
            "hub": {
                "repository": "a/b",
                "revision": COMMIT,
                "files": {"train": ["a-{1..3}.csv"], part: ["a-{2..4}.csv"] * 2},
            }
        },
    ):
        (kind,) = source
        message = refusal(("experiment/datasets/imdb", SMALL["experiment"]["datasets"]["imdb"] | source))
        assert f"experiment.datasets.imdb.{kind}.files: " in message
        assert "named twice. Expected every file once, or its documents would leak" in message
