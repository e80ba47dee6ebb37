"""The package by its two names, in a clone and as a wheel, which takes no other name at the top; its commands."""

import re
import shutil
import subprocess
import sys
import zipfile

import pytest

SAME = """
import sys, attention_grid.attention.contract, lib.attention.contract
assert attention_grid is lib and attention_grid.attention.contract is lib.attention.contract
assert lib.attention.contract.__spec__.name == lib.attention.contract.__name__
"""
WITHOUT_CLONE = """
from attention_grid.core import errors, extensions
assert attention_grid.__file__.startswith(sys.path[1]) and not extensions.shipped()
assert errors.installing("gensim") == "pip install 'attention-grid[word-vectors]'"
"""
FOREIGN = "import sys; sys.modules['lib'] = sys; import attention_grid"


def says(place, *arguments):
    environment = {"PYTHONPATH": str(place)}
    done = subprocess.run([sys.executable, *arguments], cwd=place, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_names_of_the_package_in_a_clone(repository):
    assert not says(repository, "-c", SAME)
    assert "ImportError: attention_grid: its code is called lib" in says(repository, "-c", FOREIGN)


@pytest.mark.extended
def test_names_of_the_package_in_a_wheel(repository, tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    left = shutil.ignore_patterns("__pycache__", ".*", "tests", "results", "studies", "benchmarks", "build")
    shutil.copytree(repository, source, ignore=left)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, source]
    subprocess.run(command, check=True, capture_output=True)
    zipfile.ZipFile(next(tmp_path.glob("*.whl"))).extractall(site)
    assert [each.name for each in sorted(site.iterdir()) if each.suffix != ".dist-info"] == ["attention_grid"]
    for file in source.glob("lib/**/*.*"):
        assert (site / "attention_grid" / file.relative_to(source / "lib")).is_file()
    assert not says(site, "-c", SAME + WITHOUT_CLONE)
    assert "ImportError: attention_grid calls itself lib, too" in says(site, "-c", FOREIGN)


@pytest.mark.extended
def test_files_of_a_new_mechanism(repository, tmp_path):
    mine, tests = tmp_path / "mine", ["pytest", "-n0", "-m", "not gpu", "tests/contract", "-k", "linear", "--extension"]
    command = ["attention_grid", "new", "linear", "--folder", mine]
    for call, said in ((command, "so far linear"), ([*tests, mine], "12 passed"), (command, "linear: no name")):
        assert said in says(repository, "-m", *call)
    page = (repository / "docs" / "add_mechanism.md").read_text()
    shown = re.findall(r"```python\n# mine/(\S+)\n(.*?)```", page, re.DOTALL)
    assert dict(shown) == {str(file.relative_to(mine)): file.read_text() for file in mine.rglob("*.py")}
