"""Arguments of a program, and its end as the log shows it."""

import os
import subprocess
import sys
from argparse import ArgumentTypeError

import pytest

from lib.core import program

PROGRAM = """
import sys, time
from lib.core import program

def main(argv=None):
    held = bytearray(200 * 2**20)
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    return int(sys.argv[1])

sys.exit(program.run(main))
"""


def test_argument_that_is_no_number_or_no_file_is_refused(tmp_path):
    for argument in ("0", "-1", "1.5", ""):
        with pytest.raises(ArgumentTypeError):
            program.positive(argument)
    assert program.positive("12") == 12
    with pytest.raises(ArgumentTypeError):
        program.file_to_write(str(tmp_path))
    assert program.file_to_write(str(tmp_path / "new.csv")) == str(tmp_path / "new.csv")


def run(folder, status):
    """Run a program that burns 0.3 s of CPU time and holds 200 MiB; return its log."""
    file, log = folder / "burn.py", folder / "log"
    file.write_text(PROGRAM)
    with log.open("w") as stream:
        done = subprocess.run([sys.executable, file, str(status)], stderr=stream, timeout=60)
    assert done.returncode == status
    return log.read_text()


def test_log_ends_with_the_usage_of_its_program(tmp_path):
    line = run(tmp_path, 0).splitlines()[-1]
    before, _, usage = line.partition("burn.py finished in ")
    assert before
    seconds, cpu, memory = (float(word) for word in usage.split() if word.replace(".", "").isdigit())
    assert 0.3 <= cpu <= seconds + 5
    assert memory >= 200
    assert "finished" not in run(tmp_path, 3)


@pytest.mark.extended
def test_program_with_triton_ends_in_silence(tmp_path):
    """Objects that garbage collection does not see at exit would be reported as leaked."""
    pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
    file = tmp_path / "import.py"
    file.write_text(
        "import sys, triton\nfrom lib.core import program\nsys.exit(program.run(lambda _: print('done'), []))\n"
    )
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_program_whose_output_nobody_reads_ends_in_silence(tmp_path):
    file = tmp_path / "say.py"
    file.write_text(
        "import sys\nfrom lib.core import program\nsys.exit(program.run(lambda _: print('-' * 10**6), []))\n"
    )
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, file], stdout=write, stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
