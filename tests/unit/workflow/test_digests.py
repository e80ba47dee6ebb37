import ast
import shutil
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

    def check(self):
        problems: list[str] = ["depth"] if self.depth < 0 else []
        if self.depth < 1:
            problems.append("depth: too low")
        problems += ["depth: no"] if self.depth > 99 else []
        if problems:
            raise ConfigError("; ".join(problems))

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

class Plain:
    pass

@cache
def scaled(model, factor=3):
    def twice(rows: Kind):
        return rows * 2 + 1
    from lib.room.late import LATE
    return twice(model) * LATE * Options().width, Plain

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
from pydantic import ConfigDict, Field, field_validator, model_validator
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

    @field_validator("seed")
    @classmethod
    def _even(cls, seed):
        return seed

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
    "lib/room/checks.py": '''
from lib.room.base import check

class Data:
    @check
    def files(self):
        for name in ("a", "b"):
            yield f"{name}: no such file"
''',
    "lib/room/lsh.py": '''
from lib.room import sorting
from lib.room.checks import Data
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

ENTRY = "lib/core/__init__.py"
"""Stands for a script of the project; holds nothing but its docstring."""

MODEL, LAYERS, SETTINGS = "lib/room/model.py", "lib/room/layers.py", "lib/room/settings.py"

NOTHING = {
    "comment": (LAYERS, "WIDTH = 4", "# why four\nWIDTH  =  (4)"),
    "docstring of a module": (MODEL, '"""The model."""', '"""The network."""'),
    "docstring of a function": (MODEL, '    """Build."""\n', ""),
    "docstring in place of pass": (MODEL, "class Plain:\n    pass", 'class Plain:\n    """Nothing."""'),
    "bare string": (LAYERS, "WIDTH = 4\n", 'WIDTH = 4\n"""Heads."""\n'),
    "annotation of an argument": (MODEL, "run: Kind", "run: int"),
    "annotation of a result": (MODEL, ' -> "Model"', ""),
    "annotation of a variable": (MODEL, "rows: list[Kind] = []", "rows = []"),
    "annotation of a constant": (LAYERS, "TABLE: dict = {}", "TABLE = {}"),
    "annotation without a value": (MODEL, "    rows: list", "    other: int\n    rows: list"),
    "annotation of a dataclass's field": (MODEL, "width: int = 4", "width: float = 4"),
    "what an annotation names": ("lib/room/kinds.py", "pass", "size = 1"),
    "text of an error": (MODEL, "expected 1 or more", "expected a positive number"),
    "cause of an error": (MODEL, 'or more")', 'or more") from None'),
    "what the text of an error names": ("lib/room/words.py", "str", "repr"),
    "error class": ("lib/core/errors.py", "class", "class RunError(ValueError):\n    pass\n\nclass"),
    "definition of a raised error": ("lib/core/errors.py", "ValueError", "RuntimeError"),
    "text of an assertion": (MODEL, "drop: too much", "drop: expected below 1"),
    "log message": (MODEL, "built %d", "%d made"),
    "new log message": (MODEL, "    assert", "    logger.debug('here')\n    assert"),
    "log message without a logger": (MODEL, '.warning("built")', '.error("made")'),
    "new logger": ("lib/room/lsh.py", "ROUNDS", "import logging\nlog = logging.getLogger('lib')\nROUNDS"),
    "removed warning": (MODEL, '    warnings.warn("built")\n', ""),
    "new function": (MODEL, "class Unused", "def another():\n    return 1\n\nclass Unused"),
    "new class": (LAYERS, "class Layer", "class Another:\n    pass\n\nclass Layer"),
    "unused function": (LAYERS, "return HIGH", "return LOW"),
    "base of an unused class": (MODEL, "class Unused:", "class Unused(dict):"),
    "other definition of a module reached by attribute": ("lib/room/counts.py", "11", "12"),
    "other definition of a module exported": ("lib/room/orders.py", "8", "9"),
    "definition beside a registered one": ("lib/room/register.py", "14", "15"),
    "exported name": ("lib/room/__init__.py", "gelu", "gelu, unused"),
    "name in a package passed through": ("lib/__init__.py", "1", "2"),
    "statement in a package passed through": ("lib/__init__.py", "ATTRIBUTE", "print(1)\nATTRIBUTE"),
    "key with a default": (SETTINGS, "    seed: int", '    key: int = 1\n    """New."""\n    seed: int'),
    "key with a section": (SETTINGS, "class Run(BaseSettings):", "class New(BaseSettings):\n    size: int = 1\n\n"
                           "class Run(BaseSettings):\n    new: New = Field(default_factory=New)"),
    "description of a key": (SETTINGS, "Seed of the draws.", "What the draws depend on."),
    "default of a key": (SETTINGS, "Field(0", "Field(1"),
    "limit of a key": ("lib/room/limits.py", "1", "2"),
    "configuration of settings": (SETTINGS, 'extra="forbid"', 'extra="ignore"'),
    "field validator": (SETTINGS, "return seed\n", "return int(seed)\n"),
    "model validator": (SETTINGS, "return self\n", "return self or None\n"),
    "check of settings": (SETTINGS, '        yield "seed', '        if self.seed:\n            yield "seed'),
    "command line": ("lib/core/program.py", "return kind()", "return kind(1)"),
    "tracker": ("lib/training/reporting.py", "80", "443"),
    "module that is not imported": ("lib/room/head.py", "1", "2"),
    "another script": ("scripts/other.py", "head", "late"),
    "alias of an import": (MODEL, "import gelu, layers, register", "import gelu as gelu, layers, register"),
}  # fmt: skip

CHANGES = {
    "number in a script": ("scripts/train.py", "main()\n", "main(1)\n"),
    "number in a function": (MODEL, "return scaled(Model(), act.gelu)", "return 2 * scaled(Model(), act.gelu)"),
    "number in an inner function": (MODEL, "* 2 + 1", "* 2 + 2"),
    "default argument": (MODEL, "factor=3", "factor=4"),
    "default of an annotated argument": (MODEL, "width: int = 8", "width: int = 9"),
    "default of a keyword": (MODEL, "drop=0.1", "drop=0.2"),
    "constant": (LAYERS, "WIDTH = 4", "WIDTH = 5"),
    "constant in a tuple": (LAYERS, "LOW, HIGH = 1", "LOW, HIGH = 3"),
    "constant imported under another name": ("lib/room/far.py", "6", "7"),
    "constant imported in a function": ("lib/room/late.py", "9", "8"),
    "constant named with its module": ("lib/room/counts.py", "10", "9"),
    "constant of a module used as a value": ("lib/room/tables.py", "12", "13"),
    "re-exported function": (LAYERS, "rows * NEAR", "rows / NEAR"),
    "what a name is imported from": (MODEL, "from torch.nn import functional", "from torch import functional"),
    "which of two definitions is imported": (LAYERS, "lib.room.far import FAR as", "lib.room.late import LATE as"),
    "method": (MODEL, "if self.depth < 1", "if self.depth < 2"),
    "class attribute": (MODEL, "depth = 2", "depth = 3"),
    "property": (MODEL, "self.depth * layers", "self.depth + layers"),
    "decorator": (MODEL, "@cache\n", ""),
    "removed base class": (MODEL, "(layers.Layer)", ""),
    "definition of a base class": (LAYERS, "bias = LOW", "bias = HIGH"),
    "default of a dataclass's field": (MODEL, "width: int = 4", "width: int = 5"),
    "dataclass's field made an attribute": (MODEL, "width: int = 4", "width: ClassVar[int] = 4"),
    "field without a default": (MODEL, "    width: int = 4", "    height: int\n    width: int = 4"),
    "guard of an error": (MODEL, "if width < 1", "if width < 2"),
    "guard of a problem": (MODEL, "if self.depth > 99", "if self.depth > 98"),
    "raised class": (MODEL, "raise ConfigError(f", "raise KeyError(f"),
    "assertion": (MODEL, "assert drop < 1", "assert drop < 2"),
    "warnings that are turned into errors": (MODEL, 'warnings.warn("built")', 'warnings.simplefilter("error")'),
    "what is returned beside a log message": (MODEL, "    logger.info", "    width += 1\n    logger.info"),
    "condition of a yielded problem": ("lib/room/checks.py", "for name in (", "for name in 2 * ("),
    "side effect": (LAYERS, "set_num_threads(1)", "set_num_threads(2)"),
    "new side effect": (MODEL, "class Unused", "torch.manual_seed(1)\n\nclass Unused"),
    "new side effect of a module that is only imported": ("lib/room/kinds.py", "class", "import os\nos.nice(1)\nclass"),
    "new block of statements": (LAYERS, "class Layer", "if WIDTH:\n    torch.manual_seed(1)\nclass Layer"),
    "assignment into an object": (LAYERS, 'TABLE["relu"] = len', 'TABLE["relu"] = max'),
    "registered function": ("lib/room/register.py", "13", "14"),
    "property of settings": (SETTINGS, "self.seed / self.scale", "self.seed * self.scale"),
    "method of settings": (SETTINGS, "2 * self.seed", "3 * self.seed"),
    "class variable of settings": (SETTINGS, "= 2.0", "= 3.0"),
    "attribute of settings": (SETTINGS, "unit = 1", "unit = 2"),
    "private attribute of settings": (SETTINGS, "= 32", "= 33"),
    "class that is generic in settings": (SETTINGS, "= 16", "= 17"),
    "method of a base of settings": ("lib/room/base.py", "return 5", "return 6"),
    "property of settings in a field": (SETTINGS, "self.size / 2", "self.size / 3"),
    "named module's unused definition": ("lib/room/lsh.py", "ROUNDS = 2", "ROUNDS = 3"),
    "name of a named module that only looks like a log": ("lib/room/lsh.py", "logger = 3", "logger = 4"),
    "constant of a module that getattr reads": ("lib/room/sorting.py", "True", "False"),
    "function re-exported by a module that getattr reads": ("lib/room/orders.py", "7", "6"),
}  # fmt: skip


OTHERS = {
    "which of two variables": (
        "def f(a, b):\n    x, y = a, b\n    return x",
        "def f(a, b):\n    x, y = a, b\n    return y",
    ),
    "parameter": ("def f(a):\n    return a", "def f(b):\n    return b"),
    "keyword": ("def f(a):\n    return dict(a=a)", "def f(a):\n    return dict(b=a)"),
    "attribute of a class": ("class A:\n    b = 1", "class A:\n    c = 1"),
    "class": ("class _A:\n    b = 1", "class _B:\n    b = 1"),
    "class in a function": (
        "def f():\n    class A:\n        pass\n    return A",
        "def f():\n    class B:\n        pass\n    return B",
    ),
    "public function": ("def f():\n    return 1", "def g():\n    return 1"),
    "variable that a text shows": (
        "def f(a):\n    x = a\n    return f'{x=}'",
        "def f(a):\n    y = a\n    return f'{y=}'",
    ),
    "variable among all": ("def f(a):\n    x = a\n    return locals()", "def f(a):\n    y = a\n    return locals()"),
    "variable that a query names": (
        "def f(a):\n    x = 1\n    return a.query('b == @x')",
        "def f(a):\n    y = 1\n    return a.query('b == @x')",
    ),
    "variable of the module": ("def f():\n    global x\n    x = 1", "def f():\n    x = 1"),
    "variable of the function around": (
        "def f():\n    x = 0\n    def g():\n        nonlocal x\n        x = 1\n    g()\n    return x",
        "def f():\n    x = 0\n    def g():\n        x = 1\n    g()\n    return x",
    ),
    "private function that is looked up": ("def _f():\n    return 1\nA = '_f'", "def _g():\n    return 1\nA = '_f'"),
    "private function that is registered": (
        "import a\n@a.b\ndef _f():\n    return 1",
        "import a\n@a.b\ndef _g():\n    return 1",
    ),
    "which of two private constants": ("_A, _B = 1, 2\nC = _A", "_A, _B = 1, 2\nC = _B"),
    "which of two private functions": (
        "def _f():\n    return 1\ndef _g():\n    return 2\nA = _f",
        "def _f():\n    return 1\ndef _g():\n    return 2\nA = _g",
    ),
    "which of two registers that look alike": (
        "from lib.room import one, two\nP, Q = one.ROWS, one.ROWS\nR = two.ROWS",
        "from lib.room import one, two\nP, Q = one.ROWS, two.ROWS\nR = two.ROWS",
    ),
    "attribute of a definition": (
        "from lib.room.far import FAR\nA = FAR.real",
        "from lib.room.far import FAR\nA = FAR.imag",
    ),
    "which of two imports": (
        "def f(a):\n    if a:\n        from lib.room.far import FAR as x\n"
        "    else:\n        from lib.room.late import LATE as x\n    return x",
        "def f(a):\n    if a:\n        from lib.room.late import LATE as x\n"
        "    else:\n        from lib.room.far import FAR as x\n    return x",
    ),
    "what an import is of": (
        "def f():\n    from torch import a\n    return a",
        "def f():\n    from numpy import a\n    return a",
    ),
    "optional import": (
        "try:\n    import a\nexcept ImportError:\n    a = 1",
        "try:\n    import b\nexcept ImportError:\n    a = 1",
    ),
    "settings of another kind": (
        "from lib.room.kinds_of import one\nA = isinstance(1, one.Settings)",
        "from lib.room.kinds_of import two\nA = isinstance(1, two.Settings)",
    ),
    "condition of a comprehension": (
        "A = [x for x in B if x for y in x]\nB = 1",
        "A = [x for x in B for y in x if x]\nB = 1",
    ),
}
OTHER_MODULES = {
    "lib/room/one.py": "ROWS = {}\n",
    "lib/room/two.py": "ROWS = {}\n",
    "lib/room/kinds_of/one.py": "from lib.room.base import BaseSettings\n"
    "class Settings(BaseSettings):\n    kind: 'one'\n",
    "lib/room/kinds_of/two.py": "from lib.room.base import BaseSettings\n"
    "class Settings(BaseSettings):\n    kind: 'two'\n",
}


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


@pytest.mark.parametrize(("file", "old", "new"), NOTHING.values(), ids=NOTHING)
def test_what_cannot_change_numbers_does_not_count(project, file, old, new):
    before = digest("lib.room.lsh")
    edit(project, file, old, new)
    assert digest("lib.room.lsh") == before


@pytest.mark.parametrize(("file", "old", "new"), CHANGES.values(), ids=CHANGES)
def test_what_can_change_numbers_counts(project, file, old, new):
    before = digest("lib.room.lsh")
    edit(project, file, old, new)
    assert digest("lib.room.lsh") != before


def test_litter_in_the_packages_does_not_count(project):
    before = digest("lib.room.lsh")
    leave_litter(project / "lib")
    leave_litter(project / "scripts")
    assert digest("lib.room.lsh") == before
    edit(project, *CHANGES["constant"])
    assert digest("lib.room.lsh") != before


@pytest.fixture
def digest_of(project):
    """Return the digest of a module that holds a text."""
    (project / "lib/room/kinds_of").mkdir()
    for name, text in OTHER_MODULES.items():
        (project / name).write_text(text)

    def written(text):
        (project / "lib/one.py").write_text(text)
        return forget(digests.code_digest, "scripts/other.py", "lib.one")

    return written


@pytest.mark.parametrize(("before", "after"), OTHERS.values(), ids=OTHERS)
def test_what_means_something_else_counts(digest_of, before, after):
    assert digest_of(before) != digest_of(after)


def test_what_a_setting_asks_for_counts_where_it_is_named(project, monkeypatch):
    (project / "lib/user.py").write_text("from lib.room.far import FAR\nVALUE = FAR\n")
    monkeypatch.setattr(digests, "OPTIONAL", {"lib.user": frozenset({"lib.room.far"})})
    assert list(forget(digests.reached, "scripts/other.py", "lib.user")) == ["lib.user:VALUE"]
    assert list(forget(digests.reached, "scripts/other.py", "lib.user", "lib.room.far")) == [
        "lib.room.far:FAR",
        "lib.user:VALUE",
    ]
    assert next(iter(forget(digests.reached, "scripts/other.py", "lib.room.layers"))) == "lib.room.far:FAR"


def test_what_is_listed_as_optional_is_imported():
    for module, targets in digests.OPTIONAL.items():
        assert targets <= set(forget(digests._module, module).loaded)


def test_a_file_of_data_counts_with_the_definition_that_names_it(project):
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


def test_the_definitions_reached(project):
    assert list(forget(digests.reached, "scripts/train.py")) == [
        "lib.room.base:BaseSettings",
        "lib.room.counts:COUNT",
        "lib.room.far:FAR",
        "lib.room.late:LATE",
        "lib.room.layers:<statements>",
        "lib.room.layers:HIGH",
        "lib.room.layers:LOW",
        "lib.room.layers:Layer",
        "lib.room.layers:TABLE",
        "lib.room.layers:WIDTH",
        "lib.room.layers:gelu",
        "lib.room.model:Model",
        "lib.room.model:Options",
        "lib.room.model:Plain",
        "lib.room.model:build",
        "lib.room.model:scaled",
        "lib.room.register:hook",
        "lib.room.register:registered",
        "lib.room.settings:Box",
        "lib.room.settings:Heads",
        "lib.room.settings:Part",
        "lib.room.settings:Run",
        "lib.room.tables:ROWS",
        "scripts.train:<statements>",
        "scripts.train:main",
    ]


def test_a_module_counts_only_where_it_is_named(project):
    assert "lib.room.lsh:ROUNDS" in forget(digests.reached, "scripts/train.py", "lib.room.lsh")
    assert digest("lib.room.lsh") != digest()
    before = digest()
    edit(project, "lib/room/lsh.py", "ROUNDS = 2", "ROUNDS = 3")
    assert digest() == before


@pytest.mark.parametrize(
    ("statement", "use"),
    [
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
    ],
)
def test_every_form_of_import_is_followed(project, statement, use):
    (project / "lib/user.py").write_text(f"{statement}\nVALUE = {use}\n")
    (project / "lib/lazy").mkdir()
    (project / "lib/lazy/__init__.py").write_text("def __getattr__(name):\n    return name\n")
    (project / "lib/lazy/late.py").write_text("from lib.room.far import FAR as NEAR\nFAR = 1\nprint(NEAR)\n")
    (project / "scripts/train.py").write_text("import lib.user\nprint(lib.user.VALUE)\n")
    before = digest("lib.user")
    edit(project, "lib/room/far.py", "6", "7")
    assert digest("lib.user") != before


def test_modules_may_import_each_other(project):
    (project / "lib/one.py").write_text("from lib.two import name\ndef first():\n    return name\n")
    (project / "lib/two.py").write_text("def second():\n    from lib.one import name\n    return name\n")
    assert next(iter(forget(digests.reached, "scripts/other.py", "lib.one"))) == "lib.one:first"


def test_a_missing_module_is_an_error(project):
    with pytest.raises(FileNotFoundError, match=r"lib\.room\.missing"):
        digest("lib.room.missing")


def test_formatting_an_unchanged_project_gives_the_same_digest(project):
    before = digest("lib.room.lsh")
    for file in project.rglob("*.py"):
        file.write_text(ast.unparse(ast.parse(file.read_text())))
    assert digest("lib.room.lsh") == before


@pytest.mark.parametrize(
    ("module", "definitions", "others"),
    [
        (
            "lib.attention.favor.mechanism",
            {"lib.attention.favor.mechanism:Mechanism", "lib.attention.contract:Attention",
             "lib.core.randomness:derive_seed"},
            {"lib.core.errors:ConfigError", "lib.attention.lsh.mechanism:Mechanism"},
        ),
        (
            "lib.backbones.encoder.model",
            {"lib.backbones.encoder.model:EncoderBlock", "lib.backbones.encoder.configuration:<statements>",
             "lib.attention.contract:build"},
            {"lib.backbones.stored:load_weights", "lib.backbones.heads.model:pooling",
             "lib.attention.favor.mechanism:Mechanism", "lib.tokens.masking:TokenMasker"},
        ),
        (
            "lib.tokens.masking",
            {"lib.tokens.masking:MlmCollator", "lib.tokens.masking:TokenMasker", "lib.tokens.batches:pad_ids"},
            {"lib.study.recipe:Recipe", "lib.tasks.masked_lm:Settings"},
        ),
    ],
)  # fmt: skip
def test_what_modules_of_the_project_reach(module, definitions, others):
    found = set(forget(digests.reached, ENTRY, module))
    assert definitions <= found
    assert not others & found


FAVOR, BLOCK, MASKING = "lib.attention.favor.mechanism", "lib.backbones.encoder.model", "lib.tokens.masking"
SSM, CONFIGURATION = "lib.backbones.ssm.backbone", "lib.backbones.encoder.configuration"


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("lib/core/randomness.py", "digest_size=8", "digest_size=7", {FAVOR, MASKING}),
        ("lib/core/labels.py", "IGNORED = -100", "IGNORED = -101", {MASKING}),
        ("lib/tokens/masking.py", '"""Masked', '"""The masked', set()),
        ("lib/attention/favor/mechanism.py", "exponents.shape[-1] ** 0.5", "exponents.shape[-1]", {FAVOR}),
        ("lib/attention/contract.py", "never forms attention weights", "has no attention weights", set()),
        ("lib/attention/favor/mechanism.py", "def set_step(self, step: int)", "def set_step(self, step: Any)", set()),
        ("lib/backbones/encoder/model.py", "functional.gelu(expanded)", "functional.relu(expanded)", {BLOCK}),
        ("lib/backbones/encoder/model.py", "layer % len(held)", "-layer % len(held)", {BLOCK}),
        ("lib/core/errors.py", "\nclass ", "\nclass AnotherError(Exception):\n    pass\n\n\nclass ", set()),
        ("lib/backbones/encoder/settings.py", "Probability = 0.1", "Probability = 0.2", set()),
        ("lib/backbones/encoder/settings.py", "Width of the", "Size of the", set()),
        (
            "lib/backbones/encoder/settings.py",
            "// self.num_attention_heads",
            "* self.num_attention_heads",
            {BLOCK, CONFIGURATION},
        ),
    ],
)
def test_an_edit_of_the_project_changes_what_it_must(tmp_path, monkeypatch, file, old, new, changed):
    shutil.copytree(digests.ROOT / "lib", tmp_path / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    at(tmp_path, monkeypatch)
    before = {
        module: forget(digests.code_digest, ENTRY, module) for module in (FAVOR, BLOCK, MASKING, SSM, CONFIGURATION)
    }
    edit(tmp_path, file, old, new)
    assert {module for module in before if forget(digests.code_digest, ENTRY, module) != before[module]} == changed


def test_nothing_that_is_analysed_is_imported():
    program = (
        "import sys; from lib.workflow.staleness.digests import code_digest; "
        "code_digest('lib/core/__init__.py', 'lib.attention.favor.mechanism', 'lib.backbones.encoder.model'); "
        "print(sorted({'torch', 'lib.attention', 'lib.backbones'} & sys.modules.keys()))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], cwd=digests.ROOT, capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "[]"
