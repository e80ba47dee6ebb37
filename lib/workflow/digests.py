"""Digests of the code that a rule executes, so that an edit makes exactly the runs stale that execute it.

The code of a script is its static import closure inside the project. What is imported by a name built at run
time (the mechanisms) is named explicitly. Comments, docstrings and formatting do not count.
"""

import ast
import functools
import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def code_digest(script: str, *modules: str) -> str:
    """Return a digest of the project code that `script` executes.

    Args:
        script: path of the program, relative to the repository.
        modules: dotted names of modules that it imports at run time, for instance `lib.attention.lsh`.
    """
    files = _closure(ROOT / script)
    for module in modules:
        files |= set(_module_files(module))
        for file in _module_files(module):
            files |= _closure(file)
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(ROOT)}\0{_meaning(file)}\0".encode())
    return digest.hexdigest()[:16]


def imported_files(script: str) -> list[str]:
    """Return the project files in the import closure of `script`, relative to the repository, sorted."""
    return sorted(str(file.relative_to(ROOT)) for file in _closure(ROOT / script))


def _closure(start: Path) -> set[Path]:
    seen: set[Path] = set()
    waiting = [start]
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            waiting += _imports(file)
    return seen


@functools.cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


@functools.cache
def _imports(file: Path) -> tuple[Path, ...]:
    found: list[Path] = []
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found += _module_files(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += _module_files(node.module)
            for alias in node.names:
                found += _module_files(f"{node.module}.{alias.name}")
    return tuple(found)


@functools.cache
def _module_files(module: str) -> tuple[Path, ...]:
    """Return the file of `module` and the `__init__.py` of every package above it; nothing outside the project."""
    names = module.split(".")
    if names[0] != "lib":
        return ()
    path = ROOT.joinpath(*names)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    packages = [ROOT.joinpath(*names[:depth], "__init__.py") for depth in range(1, len(names))]
    return tuple(candidate for candidate in (*packages, file) if candidate.is_file())


@functools.cache
def _meaning(file: Path) -> str:
    """Return the syntax tree of `file` as text, docstrings left out."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            node.body = [statement for statement in body if not _is_bare_string(statement)]
    return ast.dump(tree)


def _is_bare_string(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring, of a module, class, function or attribute."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
