"""A job whose program could say nothing names its reason on the terminal and, if possible, in its log."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from ready import SNAKEMAKE, ready

from lib.workflow.failures import failure

ROOT = Path(__file__).resolve().parents[3]
SNAKEFILE = """
from lib.workflow.failures import explain_failures
explain_failures()
rule all:
    input: "killed", "silent", "speaking", "shared"
rule killed:
    output: "killed"
    log: "killed.log"
    resources: mem_mb=77
    shell: "exec sh -c 'kill -KILL $$' > {log} 2>&1"
rule silent:
    output: "silent"
    log: "silent.log"
    params: program="import logging; logging.basicConfig(); logging.error('unheard'); raise SystemExit(1)"
    shell: "ulimit -f 0; exec python3 -c {params.program:q} > {log} 2>&1"
rule speaking:
    output: "speaking"
    log: "speaking.log"
    shell: "exec sh -c 'echo no such column; exit 1' > {log} 2>&1"
rule shared:
    output: "shared"
    log: "shared.log"
    shell: "exec sh -c 'exit 137' > {log} 2>&1"
"""
INFO = "2026-11-25 13:00:00,123 INFO lib.reading.readers: 12 documents\n"
TORCHRUN = """Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
[1]:
  exitcode  : {other} (pid: 12)
  traceback : Signal 15 (SIGTERM) received by PID 12
Root Cause (first observed failure):
[0]:
  exitcode  : {first} (pid: 11)
  error_file: <N/A>
============================================================
"""


@pytest.mark.parametrize(
    ("status", "log", "reason"),
    [
        (-9, "", "killed by signal 9 .*memory .* 4000 MB.*--cores"),
        (137, INFO, "killed by signal 9 .*memory"),
        (-11, INFO, "killed by signal 11 "),
        (-7, INFO, r"killed by signal 7 .*/dev/shm"),
        (142, "ERROR model: not opened after 300 s, the limit for files of this size. Name another model.", None),
        (255, "", "status 255, and its log does not say why"),
        (255, "FATAL: could not open image grid.sif: no such file", None),
        (1, "", "status 1, and its log does not say why.*MiB of free space"),
        (1, INFO, "status 1, and its log does not say why"),
        (1, None, "status 1, and its log does not say why"),
        (1, INFO + INFO.replace("INFO", "ERROR"), None),
        (126, "bash: line 1: /usr/bin/python: Argument list too long", None),
        (1, TORCHRUN.format(other="-15", first="-9"), "a process of the training was killed by signal 9 "),
        (1, TORCHRUN.format(other="-9", first="1"), "a process of the training was killed by signal 9 "),
        (1, TORCHRUN.format(other="-15", first="1"), None),
    ],
)
def test_a_failure_is_explained_unless_its_log_does(tmp_path, status, log, reason):
    path = tmp_path / "job.log"
    if log is not None:
        path.write_text(log)
    found = failure(status, [str(path)], 4000)
    if reason is None:
        assert (found, path.read_text()) == (None, log)
    else:
        (line,) = re.findall(f"ERROR .*{reason}.*\n", path.read_text())
        assert line == f"ERROR {found}\n"


def test_a_log_that_cannot_be_written_is_named():
    assert "/dev/full: cannot be written (No space left on device)" in failure(1, ["/dev/full"], None)
    assert failure(-9, [], None).startswith("the program was killed by signal 9 (Killed)")


def test_snakemake_shows_the_reason_on_the_terminal(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    command = [*SNAKEMAKE, "--cores", "1", "--keep-going", "--quiet", "reason"]
    command, environment = ready(command, os.environ | {"PYTHONPATH": str(ROOT)})
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "\nkilled: the program was killed by signal 9 (Killed). The memory probably ran out" in done.stderr
    assert "asked for 77 MB" in (tmp_path / "killed.log").read_text()
    assert "\nshared: the program was killed by signal 9" in done.stderr
    assert "\nsilent: the program ended with status 1, and its log does not say why" in done.stderr
    assert "\nspeaking: " not in done.stderr
    assert (tmp_path / "speaking.log").read_text() == "no such column\n"
