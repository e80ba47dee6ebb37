import pandas as pd
import pytest

from lib.measure import options
from lib.measure.windowed_cost import IMPLEMENTATIONS, windowed_cost

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_hidden_layers": 3,
    "vocab_size": 300,
    **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id", "pad_token_id"), 1),
}


@pytest.mark.parametrize("trains", [False, True])
def test_both_compute_the_same_and_ours_with_less(trains, tmp_path):
    table = windowed_cost(SMALL, lengths=[4096], trains=trains, repetitions=2)
    assert table["implementation"].tolist() == list(IMPLEMENTATIONS)
    assert (table["difference"] < 1e-5).all()
    theirs, ours = (row for _, row in table.iterrows())
    assert theirs[["faster", "least", "most", "layers"]].tolist() == [1, 1, 1, 3]
    assert ours["least"] <= ours["faster"] <= ours["most"]
    assert ours["faster"] > 1
    assert 0 < ours["peak_mb"] < theirs["peak_mb"]
    options.write_table(tmp_path / "table.csv", table)
    assert len(pd.read_csv(tmp_path / "table.csv")) == len(table)
