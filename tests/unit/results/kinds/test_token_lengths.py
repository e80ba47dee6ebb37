import json

import pytest

from lib.core.errors import DataError
from lib.results.kinds.token_lengths import TokenLengthsTable
from lib.results.scope import Scope

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
