import pytest

from lib.core.errors import DataError
from lib.measure.tables import COLUMNS, read_table


def test_a_table_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "table.csv"
    with pytest.raises(DataError, match=r"table\.csv: cannot be read"):
        read_table(path, "training_cost")
    path.touch()
    with pytest.raises(DataError, match=r"table\.csv: cannot be read"):
        read_table(path, "training_cost")
    path.write_text(",".join(COLUMNS["training_cost"]) + "\n" + ",".join("1" * len(COLUMNS["training_cost"])) + "\n")
    with pytest.raises(DataError, match=r"table\.csv: lacks the columns \['mechanism', 'padding'"):
        read_table(path, "attention_cost")
    assert len(read_table(path, "training_cost")) == 1
    path.write_text(",".join(COLUMNS["training_cost"]) + "\n")
    with pytest.raises(DataError, match=r"table\.csv: has no rows"):
        read_table(path, "training_cost")
