"""A real Slurm on one machine: a controller and two nodes on loopback, each with two GPUs that are names only."""

import contextlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
SYSTEM = Path("/etc/slurm")
"""Where Slurm's programs look, whatever the environment: inside a job they are told nothing else."""
NODES = ("n1", "n2")
NAME = "gridtests"

SLURM_CONF = """\
ClusterName={name}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=26817
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MinJobAge=3600
SchedulerParameters=bf_interval=2,sched_interval=5,batch_sched_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName=n[1-2] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[26821-26822] CPUs=8 RealMemory=64000 Gres=gpu:2
PartitionName=main Nodes=n[1-2] MaxTime=1-00:00:00
"""
GRES_CONF = """\
AutoDetect=off
NodeName=n[1-2] Name=gpu File=/dev/null
NodeName=n[1-2] Name=gpu File=/dev/zero
"""


def missing():
    """Return why no Slurm can be started here; None if one can."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"without {', '.join(absent)}: apt-get install slurmctld slurmd slurm-client munge"
    if os.geteuid() != 0:
        return f"writes to {SYSTEM}, which takes root"
    if (SYSTEM / "slurm.conf").exists():
        return f"{SYSTEM / 'slurm.conf'}: there is a Slurm already"
    return None


class Cluster:
    """A running Slurm.

    Args:
        folder: empty folder of its own.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self):
        """Start everything and wait until both nodes take jobs."""
        for name in ("state", *NODES):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        for name, text in (("slurm.conf", SLURM_CONF), ("gres.conf", GRES_CONF)):
            (self.folder / name).write_text(text.format(folder=self.folder, name=NAME))
            (SYSTEM / name).symlink_to(self.folder / name)
        files = [f"--{what}-file={self.folder}/munge.{what}" for what in ("key", "log", "pid", "seed")]
        self._start("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *files)
        self.wait("munged", (self.folder / "munge.socket").exists)
        self._start("slurmctld", "-D")
        for node in NODES:
            self.start_node(node)
        self.wait("both nodes idle", lambda: self.states() == ["idle", "idle"])

    def stop(self):
        """End every process that was started here, and remove the links."""
        try:
            self.kill()
            for daemon in self.daemons.values():
                daemon.kill()
                daemon.wait()
        finally:
            for name in ("slurm.conf", "gres.conf"):
                (SYSTEM / name).unlink(missing_ok=True)

    def start_node(self, node):
        """Start the daemon of a node."""
        self._start(node, "-D", "-N", node, program="slurmd")

    def lose_node(self, node):
        """Kill the daemon of a node. What runs there goes on, and Slurm holds the node for dead after a while."""
        self.daemons[node].kill()
        self.daemons[node].wait()

    def _start(self, name, *arguments, program=None):
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen([program or name, *arguments], stdout=out, stderr=out)

    def states(self):
        """Return the state of each node."""
        found = subprocess.run(["sinfo", "-hN", "-o", "%T"], capture_output=True, text=True)
        return found.stdout.split()

    def ask(self, *command):
        """Return what a command of Slurm's says."""
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def jobs(self):
        """Return all jobs so far, each as its fields, the first one first."""
        lines = self.ask("scontrol", "show", "job", "--oneliner").splitlines()
        return [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in lines if line.startswith("JobId=")]

    def processes(self, *arguments, job=None):
        """Return the processes of a job, or of all, whose command line holds all `arguments`."""
        wanted = {"SLURM_CLUSTER_NAME": NAME} | ({"SLURM_JOB_ID": job} if job else {})
        found = []
        for process in psutil.process_iter(["cmdline"]):
            with contextlib.suppress(psutil.Error):  # it has ended meanwhile
                if wanted.items() <= process.environ().items() and set(arguments) <= set(process.info["cmdline"] or []):
                    found.append(process)
        return found

    def kill(self, job=None):
        """Kill the processes of a job, or of all."""
        for process in self.processes(job=job):
            with contextlib.suppress(psutil.Error):
                process.kill()

    def wait(self, what, condition, seconds=300):
        """Wait until `condition` holds, and return what it returned."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := condition():
                return value
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s: {what}\n{self.ask('scontrol', 'show', 'job', '--oneliner')}")
