"""Libraries run as they are: no code replaces an attribute of their classes or modules."""

import ast
from pathlib import Path

import pytest

from lib.workflow.staleness.syntax import chain_of

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = {"snakemake", "torch", "transformers"}
SWITCHES = {"backends", "config"}
"""Modules of torch whose attributes are settings."""
PLACES = ("lib", "scripts", "workflow", "studies/*/scripts")


def replaced(text):
    """Return the attributes of imported classes and modules of the libraries that a program assigns to."""
    tree, imported = ast.parse(text), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                imported[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else ""
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            found.append(node.value)
        elif isinstance(node, ast.Call) and chain_of(node.func) in (("setattr",), ("delattr",)):
            found.append(node.args[0])
    names = []
    for first, *rest in filter(None, map(chain_of, found)):
        if first in imported:
            names.append((*(imported[first] or first).split("."), *rest))
    return [".".join(name) for name in names if name[0] in LIBRARIES and SWITCHES.isdisjoint(name)]


@pytest.mark.extended
def test_replacement_of_a_library_is_nowhere():
    text = "from torch import nn as layers\nsetattr(layers.Linear, 'forward', print)\nlayers.Linear.forward = print"
    assert len(replaced(text)) == 2
    assert not replaced(text.replace("torch", "mine"))
    found = {}
    for file in (file for place in PLACES for folder in ROOT.glob(place) for file in folder.rglob("*.py")):
        if names := replaced(file.read_text(encoding="utf-8")):
            found[str(file.relative_to(ROOT))] = names
    rules = [file for folder in ("workflow", "benchmarks", "studies") for file in (ROOT / folder).rglob("*.smk")]
    assert found == {}
    assert not [file for file in rules if "setattr(" in file.read_text(encoding="utf-8")]
