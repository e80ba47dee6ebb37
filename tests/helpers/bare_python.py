"""Run a program as if nothing were installed but some packages and what they need themselves.

python tests/helpers/bare_python.py PACKAGE,PACKAGE,... PROGRAM [ARGUMENT ...]
"""

import re
import runpy
import sys
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions, requires

from packaging.requirements import Requirement


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(names):
    """Return `names` with all that they need, without extras."""
    found = set()
    while names:
        name = normal(names.pop())
        if name not in found and name in INSTALLED:
            found.add(name)
            every = map(Requirement, requires(name) or [])
            names += [each.name for each in every if not each.marker or each.marker.evaluate({"extra": ""})]
    return found


class Bare:
    """Finds modules as usual, but for those of some packages."""

    find_distributions = staticmethod(PathFinder.find_distributions)

    def __init__(self, refused):
        self.refused = refused

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self.refused else PathFinder.find_spec(name, path, target)


PACKAGES = {module: set(map(normal, owners)) for module, owners in packages_distributions().items()}
INSTALLED = set().union(*PACKAGES.values())

if __name__ == "__main__":
    allowed = needed(sys.argv[1].split(","))
    refused = {module for module, owners in PACKAGES.items() if not owners & allowed} - {"benchmarks", "lib"}
    for module in refused & set(sys.modules):  # such as what a .pth file has imported
        del sys.modules[module]
    sys.meta_path[sys.meta_path.index(PathFinder)] = Bare(refused)
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
