"""Programs that share a started process: a server imports the heavy modules once and forks a process per program.

`start` forks the server and names its socket in the environment. There, `hand_over` hands a program to it: arguments,
working folder, environment and standard streams. The server forks a keeper, and the keeper the process that runs the
program. The keeper kills that process when the one that handed it over is no more, and sends back the exit status;
signals go to the process itself. A command that the server cannot run is left to the caller.

Without it the demo takes about 2.3 times the CPU time, since most of a small job is the import of its libraries.
"""

import atexit
import contextlib
import gc
import importlib
import json
import logging
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import BinaryIO, NoReturn

from lib.core.errors import ProjectError
from lib.core.extensions import ON_USE, in_use
from lib.core.program import edited

logger = logging.getLogger(__name__)

PREFIX, NAME = "preloaded-", "socket"
"""Begin of the name of a server's folder, and the name of its socket in there."""

SOCKET = "ATTENTION_GRID_PRELOADED"
"""Environment variable: path of the server's socket."""

STARTED = "started"
"""First word of the first reply to a program that will be run, before its process; any other reply says why not."""

LIBRARIES = ("GOTO", "MKL", "NUMEXPR", "OMP", "OPENBLAS")
THREADS = ("VECLIB_MAXIMUM_THREADS", *(f"{library}_NUM_THREADS" for library in LIBRARIES))
"""Variables that Snakemake sets for a job, and that libraries read when they are imported: the server's values must
be those of every program that it runs."""


@dataclass(frozen=True)
class Call:
    """A program to run: what its process has of its own."""

    python: str
    """Folder of the interpreter and its packages."""
    code: str
    """Path of this file: another checkout is other code."""
    arguments: list[str]
    """The program's path, and its arguments."""
    folder: str
    """Working folder."""
    environment: dict[str, str]

    def refusal(self) -> str | None:
        """Return why this process cannot run the program as a process of its own would; None if it can."""
        if (self.python, self.code) != (sys.prefix, os.path.abspath(__file__)):
            return f"it serves {__file__} under {sys.prefix}, not {self.code} under {self.python}"
        for name in THREADS:
            if self.environment.get(name) != os.environ.get(name):
                return f"{name} is {self.environment.get(name)} here, {os.environ.get(name)} there"
        if files := edited(self.environment):
            return f"{files[0]} was edited while or after it was imported there"
        return None

    def run(self) -> NoReturn:
        """Run the program in this process, as its only one, and end it.

        The interpreter does not take apart what the server imported: it would first copy all of that, which takes a
        quarter to half a second of CPU time. A program that fails, or whose streams are closed, ends as usual.
        """
        os.chdir(self.folder)
        before = in_use()
        os.environ.clear()
        os.environ.update(self.environment)
        del os.environ[SOCKET]
        if in_use() != before:  # what the server has imported knows none of the others
            for call in ON_USE:
                call()
        sys.argv[:] = self.arguments
        if not sys.flags.safe_path:
            sys.path[0] = os.path.dirname(os.path.abspath(self.arguments[0]))
        status = None
        try:
            runpy.run_path(self.arguments[0], run_name="__main__")
        except SystemExit as end:
            status = end.code
        if isinstance(status, int | None):
            threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as `multiprocessing` does
            atexit._run_exitfuncs()
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status or 0)
        sys.exit(status)


def hand_over(command: Sequence[str]) -> int | None:
    """Let the server named in the environment run a command.

    Returns:
        The exit status; None if the command has yet to be run, because there is no server, that one cannot run it, or
        it is no program of this interpreter.
    """
    address = os.environ.get(SOCKET)
    if address is None or command[0] != sys.executable or not command[1:2] or not command[1].endswith(".py"):
        return None
    call = Call(sys.prefix, os.path.abspath(__file__), list(command[1:]), os.getcwd(), dict(os.environ))
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb", buffering=0) as replies:
        try:
            with contextlib.chdir(os.path.dirname(address)):  # the name of a socket has about 100 bytes at most
                connection.connect(os.path.basename(address))
            socket.send_fds(connection, [b"\0"], [0, 1, 2])
            connection.sendall(json.dumps(asdict(call)).encode() + b"\n")
            reply = replies.readline().decode().strip() or "the server has ended"
        except OSError as error:
            reply = str(error.strerror)
        started, _, process = reply.partition(" ")
        if started != STARTED:
            logger.warning("%s: not used, this program runs in its own process (%s)", address, reply)
            return None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda number, _: _signal_group(int(process), number))
        # A signal that comes just before a wait does not end it; its handler runs after the wait.
        while not select.select([connection], [], [], 1.0)[0]:
            pass
        status = b""
        with contextlib.suppress(ConnectionResetError):
            status = replies.readline()
    if not status:
        _signal_group(int(process), signal.SIGKILL)
        logger.error("%s: the keeper of this program was killed, and so was the program. Run it again.", address)
        return 1
    return int(status)


def _signal_group(process: int, number: int) -> None:
    """Send a signal to a process and its children, if they are still there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, number)


def start(modules: Sequence[str], threads: int = 1) -> Call | None:
    """Fork a server of programs, which ends when this process does, and name it in this process's environment.

    The socket is in a private folder among the temporary files, which the server removes at its end. Programs that come
    before the modules are imported wait.

    Args:
        modules: what the server imports before it forks.
        threads: threads of the libraries; a program that is told another number runs in its own process.

    Returns:
        None in this process. The processes forked for the programs return from here as well, each with its call,
        and have to run it and to end.

    Raises:
        ProjectError: there can be no socket among the temporary files.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        folder = tempfile.mkdtemp(prefix=PREFIX)
        with contextlib.chdir(folder):
            listener.bind(NAME)
    except OSError as error:
        folder = tempfile.tempdir or "TMPDIR"
        raise ProjectError(f"{folder}: cannot hold a socket ({error}). Set TMPDIR to a local folder.") from error
    listener.listen(128)
    starter = os.getpid()
    # A signal that comes before the server has its handler waits for it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    if os.fork():
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        listener.close()
        os.environ[SOCKET] = os.path.join(folder, NAME)
        return None

    os.setsid()  # Ctrl-C in the terminal is for the programs, which pass it on
    server = os.getpid()

    def tidy() -> None:
        if os.getpid() == server:
            shutil.rmtree(folder, ignore_errors=True)

    def end(*_: object) -> NoReturn:
        """End here: an exception is lost if the signal comes while an object is destroyed."""
        tidy()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.environ.update(dict.fromkeys(THREADS, str(threads)))
        for module in modules:
            if os.getppid() == starter:
                importlib.import_module(module)
        gc.freeze()  # collections in the programs leave alone, and so unshared, what is there already
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while os.getppid() == starter:
            if select.select([listener], [], [], 1.0)[0]:
                connection, _ = listener.accept()
                if os.fork() == 0:
                    listener.close()
                    return _keep(connection)
                connection.close()
    finally:
        tidy()
    os._exit(0)


def _keep(connection: socket.socket) -> Call:
    """Fork the process of a program and watch it until it ends. Only the forked process returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _, descriptors, *_ = socket.recv_fds(connection, 1, 3)
    requests = connection.makefile("rb")
    line = requests.readline()
    if not line.endswith(b"\n"):  # the program was killed meanwhile
        os._exit(0)
    call = Call(**json.loads(line))
    if reason := call.refusal():
        connection.sendall(f"{reason}\n".encode())
        os._exit(0)

    process = os.fork()
    if process == 0:
        os.setpgid(0, 0)
        requests.close()
        connection.close()
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
            os.close(descriptor)
        return call

    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpgid(process, process)  # here and there, since either may be first to need it
    with contextlib.suppress(OSError):  # without a reader, the thread kills the process
        connection.sendall(f"{STARTED} {process}\n".encode())
    threading.Thread(target=_kill_at_end, args=(requests, process), daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(f"{status if status >= 0 else 128 - status}\n".encode())
    os._exit(0)


def _kill_at_end(requests: BinaryIO, process: int) -> None:
    """Kill `process` and its children when the program that handed them over is no more."""
    with contextlib.suppress(ConnectionResetError):  # it was killed before it read the status
        requests.read()
    _signal_group(process, signal.SIGKILL)
