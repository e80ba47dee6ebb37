"""The table that an analysis leaves: a column `model`, then those that the computation of its kind describes."""

from pathlib import Path

import pandas as pd

TEXT_COLUMNS = ["model", "query_token", "key_token", "document", "label", "word", "prediction"]
TIMES = {"before": "drawn weights", "after": "after training"}
"""Values of the column `when`, and what figures call them."""


def read_analysis(table: str | Path) -> pd.DataFrame:
    """Return the table of an analysis; names and words such as `null` and `007` stay as they are."""
    return pd.read_csv(table, keep_default_na=False, na_values=[""], dtype=dict.fromkeys(TEXT_COLUMNS, str))
