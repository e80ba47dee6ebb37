import pandas as pd
import pyarrow.parquet as pq
import pytest
from text_descriptions import write_texts

from lib.core.errors import DataError
from studies.hate_speech.results.kinds.texts import load_texts, main_languages, near_copies_explained


def test_rare_languages_are_others():
    languages = pd.Series(["en"] * 7 + ["de"] * 2 + ["fr"], dtype="category")
    assert main_languages(languages, 0.2).tolist() == ["en"] * 7 + ["de"] * 2 + ["other"]
    assert main_languages(languages, 0.1).tolist() == languages.tolist()


def test_each_way_of_telling_near_copies_is_explained_once(tmp_path):
    first, second = (write_texts(tmp_path / name, {}) for name in ("a.parquet", "b.parquet"))
    third = write_texts(tmp_path / "c.parquet", {}, near_copies={"unit": "characters", "size": 4})
    text = near_copies_explained([first, second, third])
    assert text.count("A near copy shares") == 2
    assert "at least 60% of the runs of 1 word that" in text
    assert "runs of 4 characters" in text
    assert "98.8% are expected" in text


def test_what_is_damaged_is_named(tmp_path):
    file = write_texts(tmp_path / "texts.parquet", {})
    pq.write_table(pq.read_table(file).replace_schema_metadata({}), file)
    with pytest.raises(DataError, match=r"texts\.parquet.*near_copies"):
        near_copies_explained([file])
    pq.write_table(pq.read_table(file).slice(0, 0), file)
    with pytest.raises(DataError, match="parquet"):
        load_texts(file)
    pq.write_table(pq.read_table(file).drop_columns("words"), file)
    with pytest.raises(DataError, match=r"words.*make it again"):
        load_texts(file)
    file.unlink()
    with pytest.raises(DataError, match=r"texts\.parquet"):
        load_texts(file)
    with pytest.raises(DataError, match=r"texts\.parquet"):
        near_copies_explained([file])
