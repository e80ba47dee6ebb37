import gzip
import hashlib
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from extending import extended, having

from lib.core.errors import ConfigError
from lib.preparing.generating import generate
from lib.preparing.generators import generators, raw_files
from lib.study.configuration import load_study, read_layers
from lib.workflow.staleness.digests import reached

ROOT = Path(__file__).parents[3]
EXTENSIONS = having("generators")
pytestmark = pytest.mark.extensions(*EXTENSIONS)
with extended(*EXTENSIONS):
    CORPORA = generators()
DOCUMENTS = 600
# What imitates a real corpus, and the digest of what it holds.
IMITATIONS = {
    "arxiv": "6acd98ea9eb1a697",
    "hyperpartisan": "90003df2b74bc93e",
    "imdb": "b9d941bebecd24ae",
    "wikipedia": "0b6194912a3e5025",
}


def options(generator):
    """The options that a generator requires."""
    sizes = {} if generator in (*IMITATIONS, "laws") else {"validation": 60, "test": 60}
    return sizes | {"neighbours": {"lengths": [5, 10]}, "pathfinder": {"dashes": 6}}.get(generator, {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    for corpus in generators():
        generate(corpus, DOCUMENTS, 0, folder / corpus, options=options(corpus))
    return folder


def paths(folder, corpus, kind="files"):
    return {part: [folder / corpus / name for name in names] for part, names in raw_files(corpus, kind).items()}


def test_generators_make_the_files_that_they_list(folder):
    for corpus in generators():
        made = [raw_files(corpus, kind) for kind in ("files", "ground_truth")]
        listed = {name for parts in made for names in parts.values() for name in names}
        assert {path.name for path in (folder / corpus).iterdir()} == listed


def test_generator_is_found_by_its_name(tmp_path, own_extension):
    (own_extension / "generators").mkdir()
    (own_extension / "generators/notes.py").write_text(
        "FILES = {'train': ['notes.txt', 'notes.parquet']}\nGROUND_TRUTH = {}\n"
        "def make(documents, rng, options):\n"
        "    return {'notes.txt': b'%d' % documents, 'notes.parquet': {'text': ['x'], 'label': [rng.randrange(1)]}}\n"
    )
    assert {"arxiv", "hyperpartisan", "imdb", "notes", "wikipedia"} == set(generators())
    generate("notes", 200, 0, tmp_path / "out")
    generate("letters", 200, 0, tmp_path / "letters", "notes")
    assert (tmp_path / "out/notes.txt").read_bytes() == (tmp_path / "letters/notes.txt").read_bytes() == b"200"
    assert pq.read_table(tmp_path / "out/notes.parquet").to_pylist() == [{"text": "x", "label": 0}]


@pytest.mark.extended
@pytest.mark.parametrize("corpus", CORPORA)
def test_seed_decides_all_bytes_of_generated_texts(folder, corpus, tmp_path):
    generate(corpus, DOCUMENTS, 0, tmp_path / "again", options=options(corpus))
    generate(corpus, DOCUMENTS, 1, tmp_path / "other", options=options(corpus))
    for path in (folder / corpus).iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
        assert (tmp_path / "other" / path.name).read_bytes() != path.read_bytes()


def test_code_of_the_program_holds_no_generator():
    definitions = reached("scripts/generate_corpus.py")
    assert "lib.preparing.generating:generate" in definitions
    assert not [name for name in definitions if name.startswith("lib.generators.")]


@pytest.mark.parametrize("corpus", IMITATIONS)
def test_content_of_the_imitations_stays(folder, corpus):
    digest = hashlib.sha256()
    for path in sorted((folder / corpus).iterdir()):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content = json.dumps(pq.read_table(path).to_pydict()).encode()
        digest.update(content if path.suffix == ".parquet" else gzip.decompress(content))
    assert digest.hexdigest()[:16] == IMITATIONS[corpus]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("reviews", 500), "reviews.generated.generator: .*'reviews'"),
        (("imdb", 20), "imdb.generated.documents: 20 .*110"),
        (("imdb", 500, None, {"pairs": 3}), "imdb.generated.options.pairs: unknown key"),
        (("reverse", 500, None, {"validation": 200, "test": 300}), "reverse.generated.documents: 500 .*200 .*300"),
    ],
)
def test_generator_that_cannot_be_is_refused(tmp_path, request_, message):
    corpus, documents, *rest = request_
    with pytest.raises(ConfigError, match=message):
        generate(corpus, documents, 0, tmp_path / "out", *rest)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["listops", "pathfinder"])
def test_classes_of_lra_are_in_every_split(tmp_path, name):
    dataset = load_study(read_layers([ROOT / "studies/lra/demo_lra.yaml"])).experiment.datasets[name]
    made = dataset.generated
    generate(name, made.documents, made.seed, tmp_path / name, options=made.options)
    for (part,) in paths(tmp_path, name).values():
        assert set(pq.read_table(part)["label"].to_pylist()) == set(range(len(dataset.labels)))
