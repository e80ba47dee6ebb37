"""Programs that begin with their libraries imported, as forks of a server in place of fresh interpreters.

The server is that of `lib.workflow.preloaded`, here one that has imported no module of the project: a program takes
those of its own working folder, which may have been edited. What a program reads of its environment when a library is
imported, it has from the server; where the two differ, it runs in a process of its own.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from lib.core.extensions import VARIABLE
from lib.workflow.preloaded import SOCKET, THREADS, start

PLANNING = ["docutils.core", "matplotlib.figure", "pandas", "pydantic", "snakemake.cli"]
"""What Snakemake imports, and what the project's modules import besides for a plan."""
TRAINING = [
    *PLANNING, "accelerate", "datasets", "matplotlib.pyplot", "nltk", "optuna", "peft", "pyarrow.parquet",
    "scipy.stats", "sklearn.feature_extraction.text", "sklearn.linear_model", "sklearn.metrics", "sklearn.manifold",
    "tabulate", "torch", "transformers.modeling_utils",
]  # fmt: skip
"""What its programs import besides, when they prepare, train, and draw."""
ONE_THREAD = dict.fromkeys(THREADS, "1")
SNAKEMAKE = [sys.executable, __file__]
"""Command of Snakemake, with arguments to follow."""
FREE = ("PATH", "PWD", "OLDPWD", "_", "PYTHONPATH", "NO_PROXY", SOCKET, VARIABLE)
"""Variables that no library reads while it is imported; nor has the server imported a module of the project."""
ROOT = str(Path(__file__).resolve().parents[2])
HAND_OVER = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("lib.workflow.start", run_name="__main__", alter_sys=True)
"""
"""Hands a command to the server by the code of this checkout, which serves no other; the command has its own."""


def ready(command, environment, modules=PLANNING):
    """Return command and environment that let a server with `modules` run a program of this interpreter.

    Args:
        command: the interpreter, the program and its arguments.
        environment: the program's own.
        modules: `PLANNING` or `TRAINING`.
    """
    address, given = _server(tuple(modules))
    environment = environment | ONE_THREAD
    if _fixed(environment) != given:
        return command, environment
    return [sys.executable, "-P", "-c", HAND_OVER, ROOT, *command], environment | {SOCKET: address}


def _fixed(environment):
    return {name: value for name, value in environment.items() if name not in FREE and not name.startswith("PYTEST_")}


@cache
def _server(modules):
    """Start a server that ends with this process; return its address, and the environment in which it imports."""
    environment = os.environ | ONE_THREAD | {"PYTHONPATH": ROOT}
    command = [sys.executable, "-B", __file__, "--serve", *modules]  # edits may come faster than the clock of files
    server = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    _kept.append(server)  # its standard input is closed at the end of this process
    return server.stdout.readline().strip(), _fixed(environment)


_kept = []


def _serve(modules):
    call = start(modules)
    if call is None:
        print(os.environ[SOCKET], flush=True)
        sys.stdin.read()
        return
    for name in [name for name in sys.modules if name.partition(".")[0] == "lib"]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if not f"{finder.__module__}.".startswith("lib.")]
    given = call.environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in given if path and path not in sys.path]
    call.run()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        _serve(sys.argv[2:])
    else:
        from snakemake.cli import main

        sys.argv[0] = "snakemake"
        main()
