import pandas as pd
import pytest

from lib.core.errors import ConfigError
from lib.measure import options


def test_an_option_has_the_type_of_its_default(tmp_path):
    parser = options.parser("what it does", mechanisms={}, lengths=(32, 64), seconds=1.0, heads=8, alibi=False)
    given = [
        "--mechanisms",
        '{"a":{}}',
        "--lengths",
        "16",
        "--seconds",
        "0.5",
        "--alibi",
        "--out",
    ]
    values = vars(parser.parse_args([*given, "table.csv"]))
    assert values == {
        "mechanisms": {"a": {}}, "lengths": [16], "seconds": 0.5, "heads": 8, "alibi": True,
        "out": "table.csv", "names": None,
    }  # fmt: skip
    table = tmp_path / "table.csv"
    options.measure(
        options.parser(None, heads=8), lambda heads: pd.DataFrame({"us": [heads / 3]}), ["--out", str(table)]
    )
    assert table.read_text() == "us\n2.6667\n"


def test_mechanisms_are_chosen_by_their_names():
    parser = options.parser(None, mechanisms={"a": {"kind": "x"}, "b": {}, "c": {}})
    found = options.arguments_of(parser, ["--names", "b", "a", "--out", "table.csv"])
    assert found == {"mechanisms": {"b": {}, "a": {"kind": "x"}}, "out": "table.csv"}
    assert options.arguments_of(parser, ["--out", "table.csv"])["mechanisms"].keys() == {"a", "b", "c"}
    with pytest.raises(ConfigError, match=r"--names d: no mechanism has that name\. Expected some of: a, b, c"):
        options.arguments_of(parser, ["--names", "a", "d", "--out", "table.csv"])
