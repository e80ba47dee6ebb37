import json

import pytest

from lib.core.errors import DataError
from lib.results.kinds.token_lengths import TokenLengthsTable
from lib.results.scope import Scope

ENTRY = {"documents": 3, "mean": 12.25, "std": 1.5, "median": 12.0, "min": 10, "max": 16}
ENTRY |= {"unknown": 0.015, "empty": 0.0}
NOTHING = {"documents": 0} | dict.fromkeys(("mean", "std", "median", "min", "max"))


def test_token_lengths_by_split(tmp_path):
    path = tmp_path / "token_lengths.json"
    path.write_text(json.dumps({"train_short": ENTRY, "test": NOTHING}))
    scope = Scope(models=[], stages={}, owners={}, tokenised=[("wikipedia", "wordpiece")], files=[path])
    settings = TokenLengthsTable(kind="token_lengths")
    assert settings.make(scope).to_csv() == (
        "corpus,split,documents,mean,std,median,min,max,unknown,empty,dropped\n"
        "wikipedia,train_short,3,12.2,1.5,12.0,10,16,1.50,0.00,\n"
        "wikipedia,test,0,,,,,,,,\n"
    )
    path.write_text(json.dumps({"train": {}}))
    with pytest.raises(DataError, match=r"token_lengths.json.*wikipedia"):
        settings.make(scope)
