import json
import runpy
from pathlib import Path

import pytest

from lib.core.errors import DataError
from lib.results.kinds.token_lengths import TokenLengthsTable
from lib.results.scope import Scope

PROGRAM = Path(__file__).resolve().parents[4] / "scripts/table.py"
ENTRY = {
    "documents": 3,
    "mean": 12.25,
    "std": 1.5,
    "median": 12.0,
    "min": 10,
    "max": 16,
    "unknown": 0.015,
    "empty": 0.0,
}
NOTHING = {"documents": 0} | dict.fromkeys(("mean", "std", "median", "min", "max"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "token_lengths.json"


def table(path, *tokenised):
    files = [path] * len(tokenised)
    scope = Scope(models=[], stages={}, owners={}, tokenised=tokenised, files=files)
    return TokenLengthsTable(kind="token_lengths").make(scope)


def test_token_lengths_by_split(path):
    path.write_text(json.dumps({"train_short": ENTRY, "test": NOTHING}))
    assert table(path, ("wikipedia", "wordpiece")).to_csv() == (
        "corpus,split,documents,mean,std,median,min,max,unknown,empty,dropped\n"
        "wikipedia,train_short,3,12.2,1.5,12.0,10,16,1.50,0.00,\n"
        "wikipedia,test,0,,,,,,,,\n"
    )
    path.write_text(json.dumps({"train": {}}))
    with pytest.raises(DataError, match=r"token_lengths.json.*wikipedia"):
        table(path, ("wikipedia", "wordpiece"))


def test_program_of_token_lengths(path, tmp_path):
    path.write_text(json.dumps({"train": ENTRY}))
    scope = {"models": [], "stages": [], "owners": {}, "tokenised": [["imdb", "wordpiece"]]}
    shown = json.dumps({"settings": {"kind": "token_lengths"}, "scope": scope})
    main = runpy.run_path(str(PROGRAM))["main"]
    main(["--table", shown, "--records", str(path), "--out", str(tmp_path / "t.csv")])
    assert (tmp_path / "t.csv").read_text().splitlines()[1] == "imdb,train,3,12.2,1.5,12.0,10,16,1.50,0.00,"
