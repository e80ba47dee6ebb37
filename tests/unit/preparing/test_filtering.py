"""The keyword filter, against its definition in one line."""

import re
import runpy
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.core import program
from lib.core.errors import DataError
from lib.preparing.filtering import filter_corpus, keyword_filter
from lib.preparing.parts import SCHEMA
from lib.preparing.settings.corpus import ArticleFilter

SCRIPTS = Path(__file__).parents[3] / "scripts"
KEYWORDS = ["film", "i", "kind", "law", "k", "gun", "theorem"]


def by_definition(text, minimum):
    return len(set(KEYWORDS) & set(re.findall("[a-z]+", text.lower()))) >= minimum


# Kelvin sign and dotted capital I lower to ASCII letters; long s and sharp s do not; the joints must divide words.
words = st.sampled_from(
    [
        *KEYWORDS,
        "KIND",
        "LaW",
        "\u212aind",
        "\u0130",
        "film\u0130",
        "\u017f",
        "ß",
        "films",
        "gun\u212a",
        "1law2",
        "é",
        "\ud800",
    ]
)
joints = st.sampled_from([" ", "", "\n", "-", "_", "é", "\u00a0", "0", " " * 700, "x" * 900, "\u2028"])


@given(st.lists(st.tuples(words, joints), max_size=40), st.integers(0, 5))
def test_keyword_filter_is_its_definition(pieces, minimum):
    text = "".join(word + joint for word, joint in pieces)
    assert keyword_filter(KEYWORDS, minimum)(text) == by_definition(text, minimum)


@pytest.fixture
def raw(tmp_path):
    path = tmp_path / "raw.jsonl"
    path.write_text(
        '{"id": 3, "text": "A film about law."}\n{"id": 1, "text": "law law law"}\n'
        '{"id": 2, "text": "  "}\n{"id": 7, "text": "Law; FILM"}\n'
    )
    return path


def test_articles_keep_their_order(raw, tmp_path):
    filter_corpus(raw, tmp_path / "part.parquet", ArticleFilter(id="id", keywords=["film", "law"], min_keywords=2))
    table = pq.read_table(tmp_path / "part.parquet")
    assert table.schema == SCHEMA
    assert table.to_pydict() == {"id": ["3", "7"], "text": ["A film about law.", "Law; FILM"], "label": [None, None]}


def test_articles_without_keywords_are_kept_unless_empty(raw, tmp_path):
    filter_corpus(raw, tmp_path / "part.parquet", ArticleFilter(keywords=[], min_keywords=0), part="train-00004")
    assert pq.read_table(tmp_path / "part.parquet")["id"].to_pylist() == [
        "train-00004-0",
        "train-00004-1",
        "train-00004-3",
    ]
    filter_corpus(raw, tmp_path / "none.parquet", ArticleFilter(keywords=["gun"], min_keywords=1))
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_articles_of_a_damaged_file_leave_nothing(raw, tmp_path):
    raw.write_text('{"text": "fine"}\n{"text": ')
    with pytest.raises(DataError):
        filter_corpus(raw, tmp_path / "out" / "part.parquet", ArticleFilter(keywords=[], min_keywords=0))
    assert list((tmp_path / "out").iterdir()) == []


def test_program_of_the_filter_takes_settings_and_files(raw, tmp_path, caplog):
    target = tmp_path / "part.parquet"
    main = runpy.run_path(str(SCRIPTS / "filter_corpus.py"))["main"]
    common = ["--source", str(raw), "--out", str(target)]
    assert program.run(main, ["--settings", '{"keywords": ["law"], "min_keywords": 1}', *common]) == 0
    first = target.read_bytes()
    (tmp_path / "settings.yaml").write_text("keywords: [law]\nmin_keywords: 1\n")
    assert program.run(main, ["--settings", str(tmp_path / "settings.yaml"), *common]) == 0
    assert target.read_bytes() == first
    for broken in ('{"keywords": ["Law"], "colour": 1}', "{", str(tmp_path / "none.yaml")):
        assert program.run(main, ["--settings", broken, *common]) == 1
    assert "keywords" in caplog.text
    assert "colour" in caplog.text
    assert "Traceback" not in caplog.text
