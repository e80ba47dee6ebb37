import ast
import subprocess
import sys

import pytest
from code_digests import at, forget
from litter import leave_litter

from lib.workflow.staleness import digests

FILES = {
    "scripts/train.py": '''
"""Train."""
import sys
from lib.core import program
from lib.room.model import build
from lib.room.settings import Run

def main():
    build(program.read(Run))

if __name__ == "__main__":
    main()
''',
    "scripts/other.py": "import lib.room.head\n",
    "lib/__init__.py": "ATTRIBUTE = 1\n",
    "lib/core/__init__.py": "",
    "lib/core/errors.py": '''
class ConfigError(ValueError):
    """The settings are wrong."""
''',
    "lib/core/program.py": "def read(kind):\n    return kind()\n",
    "lib/training/reporting.py": "PORT = 80\n",
    "lib/room/__init__.py": "from lib.room.layers import gelu\n",
    "lib/room/model.py": '''
"""The model."""
import logging
import warnings
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
from torch.nn import functional as act

import lib.room.counts
import lib.training.reporting
from lib.core.errors import ConfigError
from lib.room import gelu, layers, register, tables
from lib.room.kinds import Kind
from lib.room.words import describe

logger = logging.getLogger(__name__)

@dataclass
class Options:
    """How wide."""
    width: int = 4
    kinds: ClassVar[tuple] = ("exact",)

class Model(layers.Layer):
    """All layers."""
    depth = 2

    @property
    def size(self) -> int:
        return self.depth * layers.WIDTH

def build(run: Kind, width: int = 8, *, drop=0.1) -> "Model":
    """Build."""
    if width < 1:
        raise ConfigError(f"width {describe(width)}: expected 1 or more")
    assert drop < 1, "drop: too much"
    rows: list[Kind] = []
    logger.info("built %d", width)
    logging.getLogger("lib").warning("built")
    warnings.warn("built")
    lib.training.reporting.PORT
    return scaled(Model(), act.gelu), gelu(width), run.half, run.head.part.share, lib.room.counts.COUNT, tables

@cache
def scaled(model, factor=3):
    def twice(rows: Kind):
        return rows * 2 + 1
    from lib.room.late import LATE
    return twice(model) * LATE * Options().width

class Unused:
    pass
''',
    "lib/room/layers.py": '''
import torch
from lib.room.far import FAR as NEAR

WIDTH = 4
LOW, HIGH = 1, 2
TABLE: dict = {}

class Layer:
    bias = LOW

def gelu(rows):
    return rows * NEAR

def unused():
    return HIGH

torch.set_num_threads(1)
TABLE["relu"] = len
''',
    "lib/room/settings.py": '''
from typing import ClassVar, Generic, Optional
from pydantic import ConfigDict, Field, model_validator
from lib.room.base import BaseSettings, check
from lib.room.limits import LIMIT

class Part(BaseSettings):
    size: int = 1

    @property
    def share(self):
        return self.size / 2

class Head(BaseSettings):
    part: "Part | None" = None
    """Part."""

Heads = Optional[Head]

class Box(Generic[BaseSettings]):
    width: int = 16

class Run(BaseSettings):
    """Settings of a run."""
    model_config = ConfigDict(extra="forbid")
    scale: ClassVar[float] = 2.0
    unit = 1
    seed: int = Field(0, ge=0, le=LIMIT)
    """Seed of the draws."""
    head: Heads = None
    _cached: int = 32

    @model_validator(mode="after")
    def _fits(self):
        return self

    @check
    def _known(self):
        yield "seed: unknown"

    @property
    def half(self) -> float:
        return self.seed / self.scale

    def double(self):
        return 2 * self.seed + Box.width
''',
    "lib/room/base.py": '''
from pydantic import BaseModel

def check(method):
    return method

class BaseSettings(BaseModel):
    def shared(self):
        return 5
''',
    "lib/room/lsh.py": '''
from lib.room import sorting
ROUNDS = 2
logger = 3
def sort():
    return getattr(sorting, "stable")
''',
    "lib/room/sorting.py": "from lib.room.orders import order\nSTABLE = True\n",
    "lib/room/orders.py": "def order():\n    return 7\ndef another():\n    return 8\n",
    "lib/room/far.py": "FAR = 6\n",
    "lib/room/late.py": "LATE = 9\n",
    "lib/room/limits.py": "LIMIT = 1\n",
    "lib/room/counts.py": "COUNT = 10\nOTHER = 11\n",
    "lib/room/tables.py": "ROWS = 12\n",
    "lib/room/register.py": '''
def hook(function):
    return function

@hook
def registered():
    return 13

def quiet():
    return 14
''',
    "lib/room/words.py": "def describe(value):\n    return str(value)\n",
    "lib/room/kinds.py": "class Kind:\n    pass\n",
    "lib/room/head.py": "HEAD = 1\n",
}  # fmt: skip

MODEL, LAYERS, SETTINGS = "lib/room/model.py", "lib/room/layers.py", "lib/room/settings.py"

NOTHING = {
    "comment": (LAYERS, "WIDTH = 4", "# why four\nWIDTH  =  (4)"),
    "docstring of a function": (MODEL, '    """Build."""\n', ""),
    "annotation of an argument": (MODEL, "run: Kind", "run: int"),
    "annotation of a variable": (MODEL, "rows: list[Kind] = []", "rows = []"),
    "annotation of a dataclass's field": (MODEL, "width: int = 4", "width: float = 4"),
    "what an annotation names": ("lib/room/kinds.py", "pass", "size = 1"),
    "text of an error": (MODEL, "expected 1 or more", "expected a positive number"),
    "what the text of an error names": ("lib/room/words.py", "str", "repr"),
    "error class": ("lib/core/errors.py", "class", "class RunError(ValueError):\n    pass\n\nclass"),
    "definition of a raised error": ("lib/core/errors.py", "ValueError", "RuntimeError"),
    "log message": (MODEL, "built %d", "%d made"),
    "new logger": ("lib/room/lsh.py", "ROUNDS", "import logging\nlog = logging.getLogger('lib')\nROUNDS"),
    "new function": (MODEL, "class Unused", "def another():\n    return 1\n\nclass Unused"),
    "unused function": (LAYERS, "return HIGH", "return LOW"),
    "other definition of a module reached by attribute": ("lib/room/counts.py", "11", "12"),
    "other definition of a module exported": ("lib/room/orders.py", "8", "9"),
    "name in a package passed through": ("lib/__init__.py", "1", "2"),
    "key with a default": (SETTINGS, "    seed: int", '    key: int = 1\n    """New."""\n    seed: int'),
    "key with a section": (SETTINGS, "class Run(BaseSettings):", "class New(BaseSettings):\n    size: int = 1\n\n"
                           "class Run(BaseSettings):\n    new: New = Field(default_factory=New)"),
    "default of a key": (SETTINGS, "Field(0", "Field(1"),
    "limit of a key": ("lib/room/limits.py", "1", "2"),
    "configuration of settings": (SETTINGS, 'extra="forbid"', 'extra="ignore"'),
    "model validator": (SETTINGS, "return self\n", "return self or None\n"),
    "check of settings": (SETTINGS, '        yield "seed', '        if self.seed:\n            yield "seed'),
    "command line": ("lib/core/program.py", "return kind()", "return kind(1)"),
    "tracker": ("lib/training/reporting.py", "80", "443"),
    "module that is not imported": ("lib/room/head.py", "1", "2"),
}  # fmt: skip

# Numbers, operators, arguments and names: test_digests_of_the_grid changes them in all that the grid executes.
CHANGES = {
    "number in a script": ("scripts/train.py", "main()\n", "main(1)\n"),
    "constant imported under another name": ("lib/room/far.py", "6", "7"),
    "constant imported in a function": ("lib/room/late.py", "9", "8"),
    "constant named with its module": ("lib/room/counts.py", "10", "9"),
    "constant of a module used as a value": ("lib/room/tables.py", "12", "13"),
    "re-exported function": (LAYERS, "rows * NEAR", "rows / NEAR"),
    "what a name is imported from": (MODEL, "from torch.nn import functional", "from torch import functional"),
    "default of a dataclass's field": (MODEL, "width: int = 4", "width: int = 5"),
    "dataclass's field made an attribute": (MODEL, "width: int = 4", "width: ClassVar[int] = 4"),
    "warnings that are turned into errors": (MODEL, 'warnings.warn("built")', 'warnings.simplefilter("error")'),
    "new side effect": (MODEL, "class Unused", "torch.manual_seed(1)\n\nclass Unused"),
    "new side effect of a module that is only imported": ("lib/room/kinds.py", "class", "import os\nos.nice(1)\nclass"),
    "assignment into an object": (LAYERS, 'TABLE["relu"] = len', 'TABLE["relu"] = max'),
    "registered function": ("lib/room/register.py", "13", "14"),
    "property of settings": (SETTINGS, "self.seed / self.scale", "self.seed * self.scale"),
    "method of settings": (SETTINGS, "2 * self.seed", "3 * self.seed"),
    "private attribute of settings": (SETTINGS, "= 32", "= 33"),
    "class that is generic in settings": (SETTINGS, "= 16", "= 17"),
    "method of a base of settings": ("lib/room/base.py", "return 5", "return 6"),
    "property of settings in a field": (SETTINGS, "self.size / 2", "self.size / 3"),
    "named module's unused definition": ("lib/room/lsh.py", "ROUNDS = 2", "ROUNDS = 3"),
    "constant of a module that getattr reads": ("lib/room/sorting.py", "True", "False"),
    "function re-exported by a module that getattr reads": ("lib/room/orders.py", "7", "6"),
}  # fmt: skip


def digest(*modules):
    return forget(digests.code_digest, "scripts/train.py", *modules)


@pytest.fixture(autouse=True)
def _clean():
    yield
    forget(lambda: None)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A small project: scripts/train.py imports lib.room.model, and lib.room.lsh by a name built at run time."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    at(tmp_path, monkeypatch)
    return tmp_path


def edit(project, file, old, new):
    text = (project / file).read_text()
    assert old in text, f"{file} holds no {old!r}"
    ast.parse(text.replace(old, new, 1))
    (project / file).write_text(text.replace(old, new, 1))


def changing(project, edits):
    """Return the names of the edits that change the digest, each made by itself."""
    before, found = digest("lib.room.lsh"), set()
    for name, (file, old, new) in edits.items():
        original = (project / file).read_text()
        edit(project, file, old, new)
        if digest("lib.room.lsh") != before:
            found.add(name)
        (project / file).write_text(original)
    return found


def test_edits_that_cannot_change_numbers(project):
    assert changing(project, NOTHING) == set()


def test_edits_that_can_change_numbers(project):
    assert set(CHANGES) - changing(project, CHANGES) == set()


def test_litter_in_packages(project):
    before = digest("lib.room.lsh")
    leave_litter(project / "lib")
    leave_litter(project / "scripts")
    assert digest("lib.room.lsh") == before
    edit(project, LAYERS, "WIDTH = 4", "WIDTH = 5")
    assert digest("lib.room.lsh") != before


def test_module_that_a_setting_asks_for(project, monkeypatch):
    (project / "lib/user.py").write_text("from lib.room.far import FAR\nVALUE = FAR\n")
    monkeypatch.setattr(digests, "OPTIONAL", {"lib.user": frozenset({"lib.room.far"})})
    assert list(forget(digests.reached, "scripts/other.py", "lib.user")) == ["lib.user:VALUE"]
    assert list(forget(digests.reached, "scripts/other.py", "lib.user", "lib.room.far")) == [
        "lib.room.far:FAR",
        "lib.user:VALUE",
    ]
    assert next(iter(forget(digests.reached, "scripts/other.py", "lib.room.layers"))) == "lib.room.far:FAR"


def test_optional_modules_are_imported():
    for module, targets in digests.OPTIONAL.items():
        assert targets <= set(forget(digests._module, module).loaded)


def test_data_file_of_a_definition(project):
    """Beside `__file__`; what lies there and is not named does not count."""
    (project / "lib/one.py").write_text("STYLE = open(__file__).with_suffix('.style')\nOTHER = 'printed'\n")
    (project / "lib/two.py").write_text("def read():\n    return here(__file__).with_name('printed') / 'a.csv'\n")
    (project / "lib/printed").mkdir()
    for name in ("one.style", "two.style", "printed/a.csv"):
        (project / "lib" / name).write_text("1")

    def digests_of_both():
        return [forget(digests.code_digest, "scripts/other.py", f"lib.{name}") for name in ("one", "two")]

    before = digests_of_both()
    (project / "lib/two.style").write_text("2")
    assert digests_of_both() == before
    (project / "lib/one.style").write_text("2")
    one, two = digests_of_both()
    assert (one == before[0], two == before[1]) == (False, True)
    (project / "lib/printed/a.csv").write_text("2")
    assert digests_of_both() == [one, digests_of_both()[1]]
    assert digests_of_both()[1] != two


def test_module_named_for_some_programs(project):
    assert "lib.room.lsh:ROUNDS" in forget(digests.reached, "scripts/train.py", "lib.room.lsh")
    assert digest("lib.room.lsh") != digest()
    before = digest()
    edit(project, "lib/room/lsh.py", "ROUNDS = 2", "ROUNDS = 3")
    assert digest() == before


IMPORTS = [
    ("from lib.room.far import FAR", "FAR"),
    ("from lib.room import far", "far.FAR"),
    ("import lib.room.far", "lib.room.far.FAR"),
    ("import lib.room.far as away", "away.FAR"),
    ("from lib import room", "room.far.FAR"),
    ("from .room.far import FAR", "FAR"),
    ("from lib.room.far import FAR", "1"),
    ("from lib.lazy import FAR", "FAR"),
    ("from lib.lazy import late", "late.FAR"),
    ("try:\n    from lib.room.far import FAR\nexcept ImportError:\n    FAR = 1", "FAR"),
]


def test_form_of_import(project):
    (project / "lib/lazy").mkdir()
    (project / "lib/lazy/__init__.py").write_text("def __getattr__(name):\n    return name\n")
    (project / "lib/lazy/late.py").write_text("from lib.room.far import FAR as NEAR\nFAR = 1\nprint(NEAR)\n")
    (project / "scripts/train.py").write_text("import lib.user\nprint(lib.user.VALUE)\n")
    for statement, use in IMPORTS:
        (project / "lib/user.py").write_text(f"{statement}\nVALUE = {use}\n")
        found = set()
        for number in (6, 7):
            (project / "lib/room/far.py").write_text(f"FAR = {number}\n")
            found.add(digest("lib.user"))
        assert len(found) == 2, statement


def test_modules_that_import_each_other(project):
    (project / "lib/one.py").write_text("from lib.two import name\ndef first():\n    return name\n")
    (project / "lib/two.py").write_text("def second():\n    from lib.one import name\n    return name\n")
    assert next(iter(forget(digests.reached, "scripts/other.py", "lib.one"))) == "lib.one:first"


def test_missing_module_is_an_error(project):
    with pytest.raises(FileNotFoundError, match=r"lib\.room\.missing"):
        digest("lib.room.missing")


def test_formatted_project(project):
    before = digest("lib.room.lsh")
    for file in project.rglob("*.py"):
        file.write_text(ast.unparse(ast.parse(file.read_text())))
    assert digest("lib.room.lsh") == before


def test_analysis_imports_nothing():
    program = (
        "import sys; from lib.workflow.staleness.digests import code_digest; "
        "code_digest('lib/core/__init__.py', 'lib.attention.favor.mechanism', 'lib.backbones.encoder.model'); "
        "print(sorted({'torch', 'lib.attention', 'lib.backbones'} & sys.modules.keys()))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], cwd=digests.ROOT, capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "[]"
