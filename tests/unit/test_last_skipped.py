"""`--last-skipped` runs the tests that were skipped because a package was missing, once it is installed."""

import os
import subprocess
import sys

import pytest

TESTS = {
    "test_file.py": "import pytest\npytest.importorskip('extra')\ndef test_of_a_file(): pass",
    "test_some.py": "import pytest\n"
    "@pytest.mark.parametrize('name', ['extra', 'os'])\n"
    "def test_of(name): pytest.importorskip(name)\n"
    "@pytest.fixture\n"
    "def program(): pytest.importorskip('extra')\n"
    "def test_of_a_fixture(program): pass\n"
    "def test_always(): pass\n",
}


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["one process", "two processes"])
def test_last_skipped_after_an_installation(processes, repository, tmp_path):
    for name, text in TESTS.items():
        (tmp_path / name).write_text(text)
    helpers, packages = repository / "tests/helpers", tmp_path / "packages"

    def passed(*arguments):
        command = [sys.executable, "-m", "pytest", "-p", "last_skipped", "-rp", *processes, *arguments]
        environment = os.environ | {"PYTHONPATH": f"{helpers}{os.pathsep}{packages}"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return {line.partition("::")[2] for line in done.stdout.splitlines() if line.startswith("PASSED ")}

    assert passed("-p", "no:cacheprovider") == {"test_always", "test_of[os]"}
    assert passed() == {"test_always", "test_of[os]"}
    packages.mkdir()
    (packages / "extra.py").touch()
    assert passed("test_some.py", "-k", "fixture") == {"test_of_a_fixture"}
    assert passed("--last-skipped") == {"test_of_a_file", "test_of[extra]"}
