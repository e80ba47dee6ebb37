"""The package by its two names: in a clone, and as a wheel, which takes no other name at the top."""

import shutil
import subprocess
import sys
import zipfile

import pytest

SAME = """
import pickle, sys
import attention_grid.attention.contract
import lib.attention.contract
import lib.backbones.settings
from attention_grid.backbones.settings import BACKBONES
assert attention_grid is lib and attention_grid.attention.contract is lib.attention.contract
assert BACKBONES is lib.backbones.settings.BACKBONES
assert lib.attention.contract.__spec__.name == lib.attention.contract.__name__
assert pickle.loads(pickle.dumps(lib.attention.contract.Attention)) is attention_grid.attention.contract.Attention
"""
WITHOUT_CLONE = """
from attention_grid.core.errors import installing
from attention_grid.core.extensions import remedy, shipped
from attention_grid.study.report import ReportSettings
assert installing("gensim") == "pip install 'attention-grid[word-vectors]'"
assert not shipped() and not remedy("lib.tasks", "reverse") and ReportSettings()
assert attention_grid.__file__.startswith(sys.argv[1])
"""


def python(folder, *arguments, at):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=at, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True)


def test_names_of_the_package_in_a_clone(repository, tmp_path):
    done = python(repository, "-c", SAME, at=tmp_path)
    assert not done.returncode, done.stderr
    assert "{new,try}" in python(repository, "-m", "attention_grid", "--help", at=tmp_path).stdout
    (tmp_path / "lib.py").touch()
    refused = python(f"{tmp_path}:{repository}", "-c", "import attention_grid", at=tmp_path)
    assert "ImportError: attention_grid: its code is called lib, but that is <module 'lib' from" in refused.stderr


@pytest.mark.extended
def test_names_of_the_package_in_a_wheel(repository, tmp_path):
    pytest.importorskip("setuptools")
    source, site = tmp_path / "source", tmp_path / "site"
    for folder in ("lib", "studies", "benchmarks"):
        shutil.copytree(repository / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "attention_grid.py"):
        shutil.copy(repository / file, source)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, source]
    subprocess.run(build, check=True, capture_output=True)
    zipfile.ZipFile(next(tmp_path.glob("*.whl"))).extractall(site)
    assert [each.name for each in sorted(site.iterdir()) if each.suffix != ".dist-info"] == ["attention_grid"]
    data = {file.relative_to(source / "lib") for file in source.glob("lib/*/**/*.*") if file.suffix != ".py"}
    assert not [each for each in data if not (site / "attention_grid" / each).is_file()]
    done = python(site, "-c", SAME + WITHOUT_CLONE, site, at=tmp_path)
    assert not done.returncode, done.stderr
    assert "{new,try}" in python(site, "-m", "attention_grid", "--help", at=tmp_path).stdout
    (tmp_path / "lib.py").touch()
    refused = python(site, "-c", "import lib, attention_grid", at=tmp_path)
    assert "ImportError: attention_grid calls itself lib, too, and this process has <module 'lib'" in refused.stderr
