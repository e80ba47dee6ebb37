"""The end of a program."""

import os
import subprocess
import sys


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
