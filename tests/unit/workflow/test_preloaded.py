"""Programs that share a started process behave as in one of their own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lib.core.extensions import VARIABLE
from lib.workflow.preloaded import SOCKET, THREADS

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import atexit, os, sys, threading, time
from pathlib import Path
from lib.core import program
from lib.core.errors import ProjectError

def main(argv=None):
    import heavy
    match sys.argv[1:]:
        case ["tell"]:
            print(heavy.IMPORTED_BY, os.getpid(), os.getcwd(), os.environ["WORD"], sys.stdin.read(), sep="|")
            print("to the error stream", file=sys.stderr)
        case ["extend"]:
            print(*heavy.REGISTERED)
        case ["exit", status]:
            sys.exit(int(status))
        case ["linger"]:
            atexit.register(print, "last", end="")
            threading.Thread(target=lambda: (time.sleep(0.2), print("later", end=" "))).start()
            print("first", end=" ")
        case ["say"]:
            sys.exit("no such thing")
        case ["fail"]:
            raise RuntimeError("a bug")
        case ["refuse"]:
            raise ProjectError("mend this")
        case ["die"]:
            os.kill(os.getpid(), 9)
        case ["wait", file]:
            try:
                Path(file).write_text(str(os.getpid()))
                time.sleep(60)
            finally:
                Path(file + ".tidied").touch()

if __name__ == "__main__":
    sys.exit(program.run(main))
"""
HEAVY = """
import os
from lib.core.extensions import ON_USE
IMPORTED_BY, REGISTERED = os.getpid(), []
ON_USE.append(lambda: REGISTERED.append("again"))
"""
STARTER = """
import os, sys
from lib.workflow import preloaded
call = preloaded.start(["heavy"])
if call is not None:
    call.run()
print(os.environ[preloaded.SOCKET], flush=True)
sys.stdin.read()
"""


class Programs:
    """Where programs run, and how."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.launcher = None
        (folder / "temporary").mkdir()
        (folder / "heavy.py").write_text(HEAVY)
        (folder / "program.py").write_text(PROGRAM)
        self.environment = os.environ | dict.fromkeys(THREADS, "1") | {"WORD": "grün", "TMPDIR": f"{folder}/temporary"}
        self.environment["PYTHONPATH"] = f"{folder}{os.pathsep}{ROOT}"

    def start_server(self):
        """Start a server, and let every program use it."""
        command = [sys.executable, "-P", "-c", STARTER]
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        server = subprocess.Popen(command, **streams, text=True, env=self.environment)
        self.environment[SOCKET] = server.stdout.readline().strip()
        return server

    def start(self, *arguments, **options):
        """Start the program."""
        command = [sys.executable, self.folder / "program.py", *map(str, arguments)]
        if SOCKET in self.environment:
            command = [*(self.launcher or (sys.executable, "-P", "-m", "lib.workflow.start")), *command]
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command, **streams, text=True, **{"env": self.environment, **options})

    def run(self, *arguments, **options):
        """Run the program; return its status and what it wrote to its two streams."""
        process = self.start(*arguments, **options)
        output, errors = process.communicate("from outside", timeout=60)
        return process.returncode, output, errors


@pytest.fixture
def alone(tmp_path):
    """Programs that nobody serves."""
    return Programs(tmp_path)


@pytest.fixture
def programs(alone):
    """Programs that a server runs."""
    server = alone.start_server()
    yield alone
    server.communicate()


def eventually(condition):
    """Wait until `condition()` is true."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_alive(pid):
    """Whether a process runs; one that has ended but that nobody has waited for does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def test_streams_folder_and_environment(programs, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    tellings = []
    for word in ("grün", "blau"):
        status, output, errors = programs.run("tell", cwd=here, env=programs.environment | {"WORD": word})
        imported_by, pid, folder, *words = output.strip().split("|")
        assert (status, folder, words, errors) == (0, str(here), [word, "from outside"], "to the error stream\n")
        assert imported_by != pid
        tellings.append((imported_by, pid))
    assert tellings[0][0] == tellings[1][0], "both programs share one import"
    assert tellings[0][1] != tellings[1][1]


def test_imported_modules_learn_of_extensions(programs):
    assert programs.run("extend")[:2] == (0, "\n")
    assert programs.run("extend", env=programs.environment | {VARIABLE: "studies/toy"})[:2] == (0, "again\n")


def test_ends_as_by_itself(alone):
    calls = [["exit", 0], ["exit", 7], ["linger"], ["say"], ["fail"], ["refuse"], ["die"]]
    found = [alone.run(*arguments) for arguments in calls]
    server = alone.start_server()
    for arguments, (status, output, errors) in zip(calls, found, strict=True):
        served_status, served_output, served_errors = alone.run(*arguments)
        assert served_output == output == ("first later last" if arguments == ["linger"] else "")
        assert served_status == (status if status >= 0 else 128 - status)
        if arguments == ["die"]:  # its own process could not say so
            assert "the program was killed by signal 9" in served_errors
        else:
            assert errors.splitlines()[-1:] == served_errors.splitlines()[-1:] or "mend this" in served_errors
        if arguments == ["fail"]:
            assert 'raise RuntimeError("a bug")' in served_errors
    server.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_signal_ends_the_program(programs, tmp_path, number):
    process = programs.start("wait", tmp_path / "pid")
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    assert pid != process.pid
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    eventually(lambda: not is_alive(pid))
    # As by itself: an interrupt lets the program tidy up, the others do not.
    assert (tmp_path / "pid.tidied").exists() == (number == signal.SIGINT)


def test_program_ends_with_its_keeper(programs, tmp_path):
    process = programs.start("wait", tmp_path / "pid")
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    keeper = int(subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True).stdout)
    assert keeper not in (os.getpid(), process.pid), "the program runs in its own process"
    os.kill(keeper, signal.SIGKILL)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "was killed, and so was the program. Run it again" in errors
    eventually(lambda: not is_alive(pid))


def test_server_ends_with_its_starter(alone):
    server = alone.start_server()
    (folder,) = (alone.folder / "temporary").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert Path(alone.environment[SOCKET]).parent == folder
    server.kill()
    server.communicate()
    eventually(lambda: not folder.exists())


def test_own_process_without_fitting_server(alone):
    alone.environment[SOCKET] = str(alone.folder / "stale")
    status, output, errors = alone.run("tell")
    imported_by, pid, *_ = output.split("|")
    assert (status, imported_by) == (0, pid)
    assert errors.count("runs in its own process") == 1
    server = alone.start_server()
    _, output, errors = alone.run("tell", env=alone.environment | {"OMP_NUM_THREADS": "2"})
    server.communicate()
    imported_by, pid, *_ = output.split("|")
    assert imported_by == pid
    assert "OMP_NUM_THREADS is 2 here, 1 there" in errors


EDITING = """
import os, sys
from pathlib import Path
from lib.core import program

FILE = program.ROOT / "lib" / "core" / "vocabulary.py"
TEXT = FILE.read_text()

def edit():
    FILE.write_text(TEXT + "EDITED = True\\n")

def main(argv=None):
    if "edit" in sys.argv:
        edit()
    from lib.core import vocabulary
    print(hasattr(vocabulary, "EDITED"))

if __name__ == "__main__":
    sys.exit(program.run(main))
"""
KEEPING = """
from lib.workflow.staleness.digests import code_digest
from lib.workflow.staleness.kept_code import keep_code
keep_code("code", [code_digest("studies/hate_speech/scripts/describe_dataset.py")])
"""


@pytest.fixture
def planned(alone, copy_of_repository):
    """Programs with the code of a copy, which was planned."""
    copy = copy_of_repository("edited").folder
    alone.environment |= {"PYTHONPATH": f"{alone.folder}{os.pathsep}{copy}", SOCKET: f"{alone.folder}/stale"}
    (alone.folder / "program.py").write_text(EDITING)
    subprocess.run([sys.executable, "-c", KEEPING], cwd=alone.folder, env=alone.environment, check=True)
    (code,) = (alone.folder / "code").iterdir()
    alone.launcher = (sys.executable, "-P", "-m", "lib.workflow.start", "--code", code)
    return alone


def test_code_edited_between_check_and_import(planned):
    status, output, errors = planned.run("as it is")
    assert (status, output) == (0, "False\n"), errors
    status, output, errors = planned.run("edit")
    assert (status, output) == (1, "")
    assert "lib/core/vocabulary.py: edited while this program started" in errors
