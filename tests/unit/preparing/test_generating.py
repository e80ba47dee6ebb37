import gzip
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from extending import extended, having
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from lib.core.errors import ConfigError
from lib.preparing.generating import generate
from lib.preparing.generators import generators, raw_files
from lib.preparing.labelled import prepare_dataset
from lib.preparing.settings.preparation import Preparation, Split
from lib.reading.readers import read_records
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
    "imdb": "238d177ff47a9b02",
    "wikipedia": "af49380bbc6b30c1",
}


def options(generator):
    """The options that a generator requires."""
    sizes = {} if generator in IMITATIONS else {"validation": 60, "test": 60}
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


@pytest.mark.parametrize("corpus", CORPORA)
def test_the_seed_decides_every_byte(folder, corpus, tmp_path):
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


def tfidf_scores(texts, labels, folds=4):
    fold = np.arange(len(texts)) % folds
    scores = []
    for held_out in range(folds):
        vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_df=0.9, token_pattern=r"\w+")
        train = vectorizer.fit_transform(texts[fold != held_out])
        model = LogisticRegression(max_iter=1000).fit(train, labels[fold != held_out])
        predicted = model.predict(vectorizer.transform(texts[fold == held_out]))
        scores.append(f1_score(labels[fold == held_out], predicted, average="macro"))
    return np.mean(scores)


def test_hyperpartisan_articles_need_every_rule(folder, tmp_path):
    raw = gzip.decompress(paths(folder, "hyperpartisan")["train"][0].read_bytes()).decode()
    assert re.search(r"<a [^>]*>[^<]*<a ", raw)  # a link inside a link
    records = list(
        read_records(
            paths(folder, "hyperpartisan"),
            label="label",
            labels=["no", "yes"],
            ground_truth=paths(folder, "hyperpartisan", "ground_truth"),
        )
    )
    assert len(records) == DOCUMENTS
    short = np.mean([len(record.text) < 400 for record in records])
    assert 0.04 < short < 0.2
    assert 0.35 < np.mean([record.label for record in records]) < 0.48
    settings = Preparation(labels=["no", "yes"], min_chars=400, balance=True, split=Split(held_out="validation"))
    prepare_dataset(
        paths(folder, "hyperpartisan"),
        tmp_path / "prepared",
        settings,
        paths(folder, "hyperpartisan", "ground_truth"),
    )
    frames = {path.stem: pd.read_parquet(path) for path in (tmp_path / "prepared").glob("*.parquet")}
    assert set(frames) == {"train", "validation", "test"}
    for frame in frames.values():
        assert abs(frame.label.mean() - 0.5) < 0.02
        assert frame.text.str.len().min() >= 400
    everything = pd.concat(frames.values())
    assert 0.65 < tfidf_scores(everything.text.to_numpy(), everything.label.to_numpy()) < 0.95


def test_papers_are_long_and_of_eleven_classes(folder):
    frames = [pd.read_parquet(path) for (path,) in paths(folder, "arxiv").values()]
    everything = pd.concat(frames)
    assert len(everything) == DOCUMENTS
    for frame in frames:
        assert sorted(frame.label.unique()) == list(range(11))
    assert everything.text.str.split().str.len().min() > 250
    assert 0.5 < tfidf_scores(everything.text.to_numpy(), everything.label.to_numpy()) < 0.98


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
