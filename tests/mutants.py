"""Say whether the tests are still a net: break the code in one place, and see which test notices.

    python tests/mutants.py                          # all mutants of tests/mutants/*.yaml
    python tests/mutants.py tests/mutants/study.yaml # those of one file
    python tests/mutants.py --only 'macro|padding'   # those whose description matches

A mutant is one edit: `is` says what is wrong then, `file` where, `old` (which stands there exactly once) becomes `new`.
`by` names the tests that should notice, as arguments of pytest. If they do not, all of `make test` run. Tests that do
not end count as noticing. Exits with 1 if more than 5 % of the mutants survive.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = 0.05
"""Share of the mutants that may survive."""
ANY_RING = ("-m", "not study and not slow and not slurm and not gpu")
"""Arguments of pytest for tests that a mutant names: they may be of the second ring."""
SECONDS = 900
"""Limit of one call of pytest."""


def copy_of_repository(folder):
    """Copy the repository's files into a folder beside which the real text is."""
    shared = folder.parent / "shared"
    if not shared.exists() and (ROOT.parent / "shared").is_dir():
        shared.symlink_to(ROOT.parent / "shared")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def broken(mutant, text):
    """Return a file's text with the mutant's edit."""
    if text.count(mutant["old"]) != 1:
        sys.exit(f"{mutant['file']} has {text.count(mutant['old'])} times, not once: {mutant['old']!r}")
    return text.replace(mutant["old"], mutant["new"])


def failing(folder, *arguments):
    """Return the first test that fails in a copy, or None if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        process = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "a test that does not end"
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", process.stdout, re.MULTILINE)
    if process.returncode in (1, 2) and named:
        return named[1]
    if process.returncode:
        sys.exit(f"pytest {' '.join(arguments)} ended with {process.returncode}:\n{process.stdout[-2000:]}")
    return None


def noticed(mutant):
    """Return the test that notices a mutant, or None."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "repository"
        folder.mkdir()
        copy_of_repository(folder)
        path = folder / mutant["file"]
        path.write_text(broken(mutant, path.read_text(encoding="utf-8")), encoding="utf-8")
        return failing(folder, *ANY_RING, *mutant["by"].split()) or failing(folder)


def main():
    """Print who notices each mutant, and return whether too many survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=sorted((ROOT / "tests" / "mutants").glob("*.yaml")))
    parser.add_argument("--only", default="", help="regular expression for descriptions")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    found = [mutant for file in arguments.files for mutant in yaml.safe_load(file.read_text(encoding="utf-8"))]
    mutants = [mutant for mutant in found if re.search(arguments.only, mutant["is"])]
    for mutant in mutants:
        broken(mutant, (ROOT / mutant["file"]).read_text(encoding="utf-8"))
    named = sorted({word for mutant in mutants for word in mutant["by"].split() if "/" in word})  # without `-k`
    if test := failing(ROOT, *ANY_RING, *named):
        sys.exit(f"Without any mutant {test} fails.")
    survivors = 0
    with ThreadPoolExecutor(arguments.jobs) as threads:
        for mutant, test in zip(mutants, threads.map(noticed, mutants), strict=True):
            survivors += test is None
            print(f"{'SURVIVES' if test is None else 'noticed '} {mutant['is']} ({test or mutant['file']})", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants were noticed")
    return int(survivors > ALLOWED * len(mutants))


if __name__ == "__main__":
    sys.exit(main())
