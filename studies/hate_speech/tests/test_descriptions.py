import pyarrow.parquet as pq
import pytest
from text_descriptions import write_texts

from lib.core.errors import DataError
from studies.hate_speech.results.kinds.texts import load_texts, near_copies_explained

pytestmark = pytest.mark.extended


def test_descriptions_damaged(tmp_path):
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
