"""A small extension outside of the repository: a mechanism, a task and a table, and a study that needs all of them."""

from small_studies import searching

MECHANISM = "attention/gentle/mechanism.py"
PARTS = {
    "attention/gentle/settings.py": '''
from typing import Literal
from lib.attention.settings import MechanismSettings

class Settings(MechanismSettings):
    """Linear attention."""
    takes_attention_dropout = False
    kind: Literal["gentle"]
''',
    MECHANISM: """
from torch.nn.functional import elu
from lib.attention.contract import Attention

class Mechanism(Attention):
    def attend(self, query, key, value, real):
        query, key = elu(query) + 1, elu(key) + 1
        if real is not None:
            key = key * real[:, None, :, None]
        sums = key.sum(-2, keepdim=True).transpose(-1, -2)
        return query @ (key.transpose(-1, -2) @ value) / (query @ sums).clamp(min=1e-6)
""",
    "tasks/moods.py": '''
from typing import Literal
from lib.tasks import sequence_classification

class Settings(sequence_classification.Settings):
    """Classes of documents, under another name."""
    head = "sequence_classification"
    kind: Literal["moods"]

class Task(sequence_classification.Task):
    """Predict the class of a document."""
''',
    "results/kinds/counted.py": '''
from typing import Literal
import pandas as pd
from lib.results.settings import TableSettings
from lib.results.table import Column, Table

class CountedTable(TableSettings):
    """Runs of each model."""
    kind: Literal["counted"]
    stage: str

    def make(self, scope):
        runs = scope.grid(self.stage, ["test_f1_macro"]).groupby("row").size().reindex(scope.models)
        return Table(pd.DataFrame({"model": scope.models, "runs": runs.to_numpy()}), {"runs": Column("runs", 0)})
''',
}


def small_extension(folder, parts=PARTS):
    """Write the parts of an extension to a folder and return its path as a configuration names it."""
    for name, text in parts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


def study_of(*extensions):
    """Return a study of one dataset, exact attention and the extension's; it trains for an epoch."""
    values = searching(
        {"judge": {}},
        seeds=[1],
        mechanisms={"sdpa": {"kind": "sdpa"}, "gentle": {"kind": "gentle"}},
        documents=120,
        epochs=1,
        report={"tables": {"counted": {"kind": "counted", "stage": "judge"}}},
    )
    stages = values["experiment"]["stages"]
    del stages["finetune"], values["experiment"]["models"]["tfidf"], values["experiment"]["backbones"]["tfidf"]
    stages["judge"]["task"] = {"kind": "moods"}
    return {"extensions": list(extensions), **values}
