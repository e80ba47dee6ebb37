"""Try a layer in place of attention: its padding, lengths, random draws, types and costs.

attention-grid try x_transformers.Attention
attention-grid try layer.Layer --option window=64 --markdown verdict.md
attention-grid try --mechanism '{kind: favor, nb_features: 64}'

A minute on one core; --quick leaves out costs. Ends with 0 if the layer is usable as it is, with 1 if something has to
change, which the last column says, and with 2 if it cannot be tried.
"""

import argparse
import os
import sys
from functools import partial
from importlib.metadata import packages_distributions, version
from pydoc import locate
from typing import Any

import pandas as pd

from lib.attention.settings import MECHANISMS
from lib.core import program
from lib.core.files import read_value, write_text
from lib.results.escapes import markdown

QUOTED = {"padding", "direction", "lengths", "draws", "reference", "cost of 2,048", "fails"}
"""Findings of the summary in one line."""


def main(argv: program.Argv = None) -> int:
    """Run the program with the arguments `argv`, and return its exit status."""
    return program.run(_try, argv, trouble=2)


def _try(argv: program.Argv) -> int:
    parser = program.parser(__doc__)
    parser.add_argument("layer", nargs="?", metavar="CLASS", help="package.module.Class of torch modules")
    parser.add_argument("--mechanism", metavar="{KEY: VALUE}", help="in place of a class: settings with `kind`")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="for its constructor")
    parser.add_argument("--takes", choices=["states", "heads"], default="states", help="its input (states)")
    parser.add_argument("--mask", choices=["real", "padding", "added"], help="meaning of its mask")
    parser.add_argument("--two-directions", action="store_true", help="a second one reads from the end")
    parser.add_argument("--width", type=program.positive, default=64, help="of the states (64)")
    parser.add_argument("--heads", type=program.positive, default=4, help="attention heads (4)")
    parser.add_argument("--reference", type=_function, metavar="NAME", help="package.function of module and inputs")
    parser.add_argument("--markdown", type=program.file_to_write, metavar="FILE", help="to write the verdict to")
    parser.add_argument("--quick", action="store_true", help="leave out costs")
    sys.path.append(os.getcwd())
    given = parser.parse_args(argv)
    if (given.layer is None) == (given.mechanism is None):
        parser.error("name a class, or give --mechanism")
    settings: Any = program.read_settings(*_settings(given))
    from lib.attention.contract import build  # imports torch
    from lib.attention.verdict import verdict

    sizes = {"num_heads": given.heads, "head_size": given.width // given.heads, "width": given.width}
    make = partial(build, settings, **sizes, layer=0, seed=0)
    findings = verdict(lambda: make().eval(), given.reference, quick=given.quick)
    rows = [[each.subject, markdown(each.found), "" if each.is_fine else each.remedy] for each in findings]
    table = pd.DataFrame(rows, columns=["check", "found", "to change"]).to_markdown(index=False, disable_numparse=True)
    known = packages_distributions().get(str(given.layer).partition(".")[0], [])
    name = " ".join([given.layer or settings.name(), *map(version, known[:1])])
    quoted = [each.found.partition(" (")[0] for each in findings if each.subject in QUOTED]
    text = f"{table}\n\n{name}: {', '.join(quoted)}\n"
    sys.stdout.write(text)
    if given.markdown:
        write_text(given.markdown, text)
    return 2 if findings[-1].subject == "fails" else int(not all(each.is_fine for each in findings))


def _function(name: str) -> Any:
    """Return the function of a dotted name."""
    if (found := locate(name)) is None:
        raise argparse.ArgumentTypeError(f"{name} is not there; expected package.function")
    return found


def _settings(given: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Return the class of the settings of the mechanism, and their values."""
    if given.mechanism is not None:
        values = read_value(given.mechanism, "--mechanism")
        return MECHANISMS.settings(values.get("kind") if isinstance(values, dict) else values), values
    MECHANISMS.load("module", "settings").TRUSTED.add(given.layer.partition(".")[0])
    pairs = [each.partition("=") for each in given.option]
    options = {key: read_value(value, f"--option {key}") for key, _, value in pairs}
    named = {name: getattr(given, name) for name in ("takes", "mask", "two_directions")}
    return MECHANISMS.settings("module"), {"kind": "module", "class": given.layer, "options": options, **named}
