import pytest

from lib.core.errors import DataError
from lib.measure.tables import ATTENTION_COLUMNS, TRAINING_COLUMNS, read_table


def test_a_table_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "table.csv"
    with pytest.raises(DataError, match=r"table\.csv: cannot be read"):
        read_table(path, TRAINING_COLUMNS)
    path.touch()
    with pytest.raises(DataError, match=r"table\.csv: cannot be read"):
        read_table(path, TRAINING_COLUMNS)
    path.write_text(",".join(TRAINING_COLUMNS) + "\n" + ",".join("1" * len(TRAINING_COLUMNS)) + "\n")
    with pytest.raises(DataError, match=r"table\.csv: lacks the columns \['mechanism', 'length'"):
        read_table(path, ATTENTION_COLUMNS)
    assert len(read_table(path, TRAINING_COLUMNS)) == 1
    path.write_text(",".join(TRAINING_COLUMNS) + "\n")
    with pytest.raises(DataError, match=r"table\.csv: has no rows"):
        read_table(path, TRAINING_COLUMNS)
