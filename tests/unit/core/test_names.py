"""No name, folder or address in a configuration means anything to a shell, or leads elsewhere than it seems."""

import re

import pytest
from small_studies import SMALL, changed

from lib.core.errors import ConfigError
from lib.core.inputs import FORMATS, is_safe_address
from lib.reading.formats import _READERS
from lib.study.configuration import load_study

pytestmark = pytest.mark.extensions("studies/hate_speech")

STRANGE = [
    "it's",
    'a "b"',
    "a b",
    "$(touch pwned)",
    "`id`",
    "a;b",
    "a\nb",
    "a\n",
    "a/b",
    "../a",
    "-x",
    "{a}",
    "a|b",
    "",
    "ä",
]
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


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("models", "tfidf"),
        ("stages", "finetune"),
        ("datasets", "imdb"),
        ("corpora", "wikipedia"),
        ("tokenizers", "wordpiece"),
    ],
)
def test_a_strange_name_is_refused(section, entry, name):
    with pytest.raises(ConfigError) as found:
        load_study([("small.yaml", renamed(section, entry, name))])
    assert f"expected letters, digits, '.', '_' and '-', the first one a letter or digit. Found {name!r}" in str(
        found.value
    )


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize(
    ("section", "settings"), [("tables", RESULT), ("figures", {"kind": "bars", "stage": "finetune"})]
)
def test_so_is_that_of_a_table_or_figure(section, settings, name):
    values = changed(SMALL)
    values["report"] = {section: {name: settings}}
    with pytest.raises(ConfigError, match=rf"report\.{section}"):
        load_study([("small.yaml", values)])


@pytest.mark.parametrize(
    "folder", ["my results", "it's", "a;b", "$(touch pwned)", "a\nb", "{stage}", "-x", "~/a", "a*", ""]
)
@pytest.mark.parametrize("key", ["results", "resources"])
def test_a_strange_folder_is_refused(key, folder):
    message = refusal((f"execution/{key}", folder))
    assert f"execution.{key}: expected a path of letters, digits and the signs" in message


def test_a_usual_folder_is_not():
    for folder in ("results", "/scratch/über/run-1.2_a+b", "../results", "./a"):
        load_study([("small.yaml", changed(SMALL, ("execution/results", folder)))])


@pytest.mark.parametrize("repository", ["name", "a/b/c", "../b", "a/..", "a b/c", "a/$(id)"])
def test_a_repository_has_an_owner_and_a_name(repository):
    start = {"repository": repository, "revision": COMMIT}
    assert "expected owner/name" in refusal(("experiment/models/sdpa/start", start))
    hub = {"repository": repository, "revision": COMMIT, "files": {"train": ["a.parquet"]}}
    assert "expected owner/name" in refusal(("experiment/datasets/imdb/hub", hub))


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../a.csv", "a/../../b.csv", "a//b.csv", "./a.csv", "a\nb.csv", "a\0.csv"]
)
def test_a_file_of_a_repository_stays_in_its_folder(path):
    hub = {"repository": "a/b", "revision": COMMIT, "files": {"train": [path]}}
    assert "is no place inside a repository" in refusal(("experiment/datasets/imdb/hub", hub))


@pytest.mark.parametrize("path", ["a", "a.csv/b", "a.docx", "a.gz", ".csv"])
def test_a_file_of_a_repository_has_a_format(path):
    hub = {"repository": "a/b", "revision": COMMIT, "files": {"train": [path]}}
    assert "names no known format" in refusal(("experiment/datasets/imdb/hub", hub))


def test_every_format_has_a_reader():
    assert tuple(_READERS) == FORMATS


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://a.org/a.csv", "is no address that nobody can change"),
        ("ftp://a.org/a.csv", "is no address that nobody can change"),
        ("file:///etc/passwd", "is no address that nobody can change"),
        ("http://localhost.a.org/a.csv", "is no address that nobody can change"),
        ("https://[a.org/a.csv", "is no address that nobody can change"),
        ("https://a.org/", "names no file"),
        ("https://a.org/a/..", "names no file"),
        ("https://a.org/download?file=a.csv", "the suffix '' names no known format"),
        ("https://a.org/a.csv;v=2", "the suffix '.csv;v=2' names no known format"),
        ("https://a.org/%2e%2e", "names no known format"),
        ("https://me:s3cret@a.org/a.csv", "holds a secret"),
        ("https://s3cret@a.org/a.csv", "Write name and password in ~/.netrc"),
        ("http://a.org/a.csv?token=s3cret", "name it as a local source"),
        ("https://a.org/a.csv?v=1&X-Amz-Signature=s3cret", "holds a secret"),
        ("https://a.org/a.csv?sv=1&sig=s3cret%0a", "holds a secret"),
        ("https://a.org/a.csv?rlkey=s3cret#", "holds a secret"),
        ("https://a.org/a\nb.csv", "is no address that nobody can change"),
    ],
)
def test_a_download_has_a_safe_address(url, message):
    said, said_unpinned = (
        refusal(("experiment/datasets/imdb/url", {"files": {"train": [{"url": url} | pinned]}}))
        for pinned in ({"sha256": "0" * 64}, {})
    )
    assert message in said
    assert "s3cret" not in said + said_unpinned


def test_this_machine_needs_no_https():
    assert is_safe_address("https://a.org/a.csv")
    assert is_safe_address("http://127.0.0.1:8000/a.csv")
    assert is_safe_address("http://localhost/a.csv")


@pytest.mark.parametrize("end", ["a.csv?download=1&dataset=b&significant=1", "a@b.csv?author=c", "keys/tokens/a.csv"])
def test_an_address_without_a_secret_is_kept(end):
    remote = {"files": {"train": [{"url": f"https://a.org/{end}", "unpinned": True}]}}
    load_study(
        [
            (
                "small.yaml",
                changed(SMALL, ("experiment/datasets/imdb/source", "url"), ("experiment/datasets/imdb/url", remote)),
            )
        ]
    )


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
        *(f"experiment.{each}" for each in ("corpora", "datasets", "tokenizers", "word_vectors", "stages", "models")),
        *(f"report.{each}" for each in ("tables", "figures", "analyses")),
    ],
)
def test_names_that_files_cannot_have_are_refused(section):
    with pytest.raises(ConfigError) as found:
        load_study([("small.yaml", named(section, "One", "oNE"))])
    assert re.search(
        rf"{section}.oNE.*: would share files called .* with {section}.One.*Rename one of them", str(found.value)
    )
    with pytest.raises(ConfigError, match="at most 200 characters"):  # no file has a longer name
        load_study([("small.yaml", named(section, "a" * 201))])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("experiment.corpora", "experiment.datasets"),
        ("report.tables", "report.analyses"),
        ("report.figures", "report.analyses"),
    ],
)
def test_so_are_those_of_two_sections_that_share_a_folder(one, other):
    values = named(one, "One")
    place, _, kind = other.partition(".")
    values[place][kind] = named(other, "oNE")[place][kind]
    with pytest.raises(ConfigError) as found:
        load_study([("small.yaml", values)])
    assert re.search(rf"{other}.oNE.*: would share files called .* with {one}.One", str(found.value))


@pytest.mark.parametrize("prefixes", [["Read", "read"], ["read", "read"]])
def test_so_are_variants(prefixes):
    task = {"kind": "text_to_text", "targets": ["no", "yes"]}
    changes = [
        ("experiment/stages/finetune/task", task),
        ("experiment/stages/finetune/variants", {"task.prefix": prefixes}),
    ]
    message = refusal(*changes)
    assert (
        f"stages.finetune.variants.task.prefix: {prefixes} names a value twice, or two that differ in case" in message
    )


def test_a_table_and_a_figure_may_have_one_name():
    values = named("report.tables", "one")
    values["report"]["figures"] = {"One": ENTRIES["report.figures"]}
    load_study([("small.yaml", values)])


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_file_is_named_once_in_a_dataset(part):
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
