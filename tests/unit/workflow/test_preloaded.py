"""Programs that share a started process behave as in one of their own."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lib.core.extensions import VARIABLE
from lib.workflow.preloaded import SOCKET, THREADS, _kill_at_end

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


def test_a_program_has_its_streams_folder_and_environment(programs, tmp_path):
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


def test_what_was_imported_before_an_extension_came_into_use_learns_of_it(programs):
    assert programs.run("extend")[:2] == (0, "\n")
    assert programs.run("extend", env=programs.environment | {VARIABLE: "studies/toy"})[:2] == (0, "again\n")


@pytest.mark.parametrize("arguments", [["exit", 0], ["exit", 7], ["linger"], ["say"], ["fail"], ["refuse"], ["die"]])
def test_a_program_ends_as_it_would_by_itself(alone, arguments):
    status, output, errors = alone.run(*arguments)
    server = alone.start_server()
    served_status, served_output, served_errors = alone.run(*arguments)
    server.communicate()
    assert served_output == output == ("first later last" if arguments == ["linger"] else "")
    assert served_status == (status if status >= 0 else 128 - status)
    if arguments == ["die"]:  # its own process could not say so
        assert "the program was killed by signal 9" in served_errors
    else:
        assert errors.splitlines()[-1:] == served_errors.splitlines()[-1:] or "mend this" in served_errors
    if arguments == ["fail"]:
        assert 'raise RuntimeError("a bug")' in served_errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_program(programs, tmp_path, number):
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


def test_a_signal_that_interrupts_nothing_is_passed_on_all_the_same(programs, tmp_path):
    """As one that comes just before the reply is awaited: here, another thread gets it."""
    deaf = """
import runpy, signal, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
runpy.run_module("lib.workflow.start", run_name="__main__", alter_sys=True)
"""
    programs.launcher = (sys.executable, "-c", deaf)
    process = programs.start("wait", tmp_path / "pid")
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_ends_with_its_keeper(programs, tmp_path, number):
    process = programs.start("wait", tmp_path / "pid")
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    keeper = int(subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True).stdout)
    assert keeper not in (os.getpid(), process.pid), "the program runs in its own process"
    os.kill(keeper, number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "was killed, and so was the program. Run it again" in errors
    eventually(lambda: not is_alive(pid))


def test_a_program_killed_before_it_read_anything_takes_its_process_along():
    """Then the system says "connection reset", not "end of file"."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rb") as requests:
        ours.sendall(b"unread")
        theirs.close()
        _kill_at_end(requests, process.pid)
    assert process.wait(timeout=30) == -signal.SIGKILL


def test_many_programs_at_once(programs):
    processes = [programs.start("exit", number) for number in range(12)]
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == list(range(12))


@pytest.mark.parametrize("signal_to_starter", [None, signal.SIGKILL])
def test_the_server_ends_with_its_starter_and_leaves_nothing(alone, signal_to_starter):
    server = alone.start_server()
    (folder,) = (alone.folder / "temporary").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert Path(alone.environment[SOCKET]).parent == folder
    if signal_to_starter:
        server.send_signal(signal_to_starter)
    server.communicate()
    eventually(lambda: not folder.exists())


def test_the_folder_of_a_server_that_is_ended_goes_and_no_other(alone):
    temporary = alone.folder / "temporary"
    other = alone.start_server()
    (living,) = temporary.iterdir()
    starter = alone.start_server()
    (folder,) = set(temporary.iterdir()) - {living}
    psutil.Process(starter.pid).children()[0].terminate()
    eventually(lambda: not folder.exists())
    assert living.exists()
    for each in (starter, other):
        each.communicate()


def test_a_server_ends_although_the_signal_comes_while_an_object_is_destroyed(alone):
    """As one that comes while modules are imported: Python ignores an exception that is raised there."""
    ending = """
import os, signal
class Ending:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
Ending()
"""
    (alone.folder / "heavy.py").write_text(ending)
    starter = alone.start_server()
    eventually(lambda: not list((alone.folder / "temporary").iterdir()))
    starter.communicate()


def test_a_long_name_of_the_temporary_folder_does_not_matter(alone):
    long = alone.folder / ("temporary-" + "x" * 200)
    long.mkdir()
    alone.environment["TMPDIR"] = str(long)
    server = alone.start_server()
    status, output, errors = alone.run("tell")
    server.communicate()
    imported_by, pid, *_ = output.split("|")
    assert (status, errors) == (0, "to the error stream\n")
    assert imported_by != pid, "the program shares the server's import"


def test_where_nobody_serves_a_program_runs_in_its_own_process(alone):
    alone.environment[SOCKET] = str(alone.folder / "stale")
    status, output, errors = alone.run("tell")
    imported_by, pid, *_ = output.split("|")
    assert (status, imported_by) == (0, pid)
    assert errors.count("runs in its own process") == 1


def test_a_program_with_other_threads_runs_in_its_own_process(programs):
    _, output, errors = programs.run("tell", env=programs.environment | {"OMP_NUM_THREADS": "2"})
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


def test_code_that_is_edited_between_its_check_and_its_import_does_not_run(planned):
    status, output, errors = planned.run("as it is")
    assert (status, output) == (0, "False\n"), errors
    status, output, errors = planned.run("edit")
    assert (status, output) == (1, "")
    assert "lib/core/vocabulary.py: edited while this program started" in errors


def test_code_that_was_edited_and_undone_while_the_server_imported_it_does_not_run(planned):
    undone = planned.folder / "undone"
    (planned.folder / "heavy.py").write_text(
        f"import program\nprogram.edit()\nfrom lib.core import vocabulary\n"
        f"program.FILE.write_text(program.TEXT)\nopen({str(undone)!r}, 'w')\n"
    )
    server = planned.start_server()
    eventually(undone.exists)
    status, output, errors = planned.run("as it is")
    server.communicate()
    assert (status, output) == (0, "False\n")
    assert "runs in its own process (lib/core/vocabulary.py was edited" in errors


def test_the_command_runs_beside_the_server_and_gives_the_status(alone):
    script = [sys.executable, ROOT / "scripts" / "preloaded.py"]
    done = subprocess.run([*script, "bash", "-c", f'test -S "${SOCKET}" && exit 3'], env=alone.environment, timeout=60)
    assert done.returncode == 3
    done = subprocess.run([*script, "no-such-program"], env=alone.environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no-such-program: cannot be run" in done.stderr
    eventually(lambda: not list((alone.folder / "temporary").glob("preloaded-*")))
