"""The workflow on a real Slurm of two nodes, through the profile that users have, and through what happens in a week."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cluster import Cluster, missing

from lib.core.record import read_record

pytestmark = pytest.mark.slurm

BIN = Path(sys.executable).parent
THREADS = 2
STUDY = "config.test.yaml"
MADE_UP = ("lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128", "favor-m64", "favor-m128", "favor-m256", "favor-m512")
SEEDS = [1, 2, 3, 4, 5, 6]
"""Of the fine-tunings: one that nothing happens to, four that run at once, and one by itself."""
CUT = {
    "extends": "config/demo.yaml",
    "experiment": {
        "seeds": [1],
        "mechanisms": dict.fromkeys(MADE_UP),
        "backbones": {
            "encoder": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        },
        "corpora": {
            "wikipedia": {
                "generated": {"documents": 300},
                "short": {"articles": 80, "max_tokens": 32},
                "long": {"articles": 20, "max_tokens": 64},
                "held_out": {"articles": 10, "max_tokens": 64},
            },
        },
        "datasets": {
            "imdb": {"generated": {"documents": 400}, "max_tokens": 48},
            "hyperpartisan": None,
            "arxiv": None,
        },
        "stages": {
            "pretrain": {"recipe": {"epochs": 1}},
            "tapt": {"data": {"imdb": {"recipe": {"epochs": 1}}}},
            "finetune": {"seeds": SEEDS, "data": {"imdb": {"recipe": {"epochs": 4}}}},
        },
    },
    # A checkpoint at every step.
    "execution": {
        "training": {"checkpoint_minutes": 1e-6},
        "job": {"gpu": 1, "cpus_per_task": THREADS, "mem_mb": 1500},
    },
}
RUNS = "results/demo/runs/finetune/sdpa/imdb"
HELD_AT = 5
"""A training is stopped when it has written that many checkpoints, or a few more."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A running Slurm."""
    if reason := missing():
        pytest.skip(reason)
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class User:
    """Somebody who has set partition and account, and nothing else: no environment is activated.

    Args:
        project: a copy of the repository.
        cluster: where its jobs go.
    """

    def __init__(self, project, cluster):
        self.project = project
        self.cluster = cluster
        self.folder = project.folder
        # No PYTHONPATH, and no `python` but the system's.
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(project.folder), "LANG": "C.UTF-8"}
        profile = self.folder / "slurm/config.yaml"
        text = profile.read_text()
        text, settings = re.subn(r"# (slurm_partition: |slurm_account: ).*", r"\1main", text)
        assert settings == 2
        profile.write_text(text)

    def start(self, *arguments, configfile=STUDY):
        """Start snakemake on the cluster, with targets or options, and return its process."""
        command = [BIN / "snakemake", *arguments, "--profile", "slurm", "--configfile", configfile]
        with (self.folder / "terminal.txt").open("ab") as terminal:
            return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=terminal, stderr=terminal)

    def finish(self, process):
        """Wait for the end of a started snakemake, which has to be a good one."""
        try:
            status = process.wait(timeout=240)
        finally:
            process.kill()
        assert status == 0, (self.folder / "terminal.txt").read_text()[-5000:] + self.project.logs()

    def run(self, *arguments, **options):
        """Run snakemake on the cluster to its good end."""
        self.finish(self.start(*arguments, **options))

    def training(self, seed):
        """Return the process that makes a fine-tuning, the newest if there are some; None without any."""
        found = self.cluster.processes("scripts/train.py", f"{RUNS}/seed-{seed}")
        return max(found, key=lambda process: process.create_time(), default=None)

    def checkpoints(self, seed):
        """Return the steps of the checkpoints that a fine-tuning has written."""
        folders = (self.folder / "results/demo/work").glob(f"finetune-*-seed-{seed}-*/**/checkpoint-*")
        return {int(path.name.removeprefix("checkpoint-")) for path in folders}

    def hold(self, *seeds):
        """Stop fine-tunings when they have come to `HELD_AT`, and return their processes by seed."""
        held = {}

        def all_held():
            for seed in set(seeds) - set(held):
                process = self.training(seed)
                if process and max(self.checkpoints(seed), default=0) >= HELD_AT:
                    process.suspend()
                    held[seed] = process
            return len(held) == len(seeds)

        self.cluster.wait(f"{seeds} at step {HELD_AT}", all_held)
        return held

    def jobs(self, seed):
        """Return the Slurm jobs of a fine-tuning, the first one first."""
        return [job for job in self.cluster.jobs() if job["Comment"].endswith(f"_finetune_sdpa_imdb_{seed}")]

    def attempts(self, seed):
        """Return what each attempt of a fine-tuning has logged."""
        log = (self.folder / f"results/demo/logs/finetune/sdpa/imdb/seed-{seed}.log").read_text()
        return re.split(r"^.*train\.py starts on ", log, flags=re.MULTILINE)[1:]

    def assert_as_undisturbed(self, seed):
        """Compare a fine-tuning with the same one, trained from its own configuration without any interruption."""
        run, again = self.folder / RUNS / f"seed-{seed}", self.folder / f"again/seed-{seed}"
        command = [sys.executable, "scripts/train.py", "--config", run / "config.yaml", "--out", again]
        environment = self.project.environment | {"OMP_NUM_THREADS": str(THREADS)}
        subprocess.run(command, cwd=self.folder, env=environment, check=True, capture_output=True)
        for name in ("model/model.safetensors", "predictions.parquet"):
            assert (run / name).read_bytes() == (again / name).read_bytes(), name
        record, expected = read_record(run), read_record(again)
        assert (record.steps, record.metrics) == (expected.steps, expected.metrics)


@pytest.fixture(scope="module")
def user(cluster, copy_of_repository):
    """Somebody with a copy of the repository whose code says so."""
    project = copy_of_repository("cluster")
    program = project.folder / "lib/core/program.py"
    text = program.read_text()
    assert text.count(" starts on ") == 1
    program.write_text(text.replace("%s starts on %s", "with this very copy\\n%s starts on %s"))
    project.configure(CUT, STUDY)
    return User(project, cluster)


@pytest.fixture(scope="module")
def finished(user):
    """One fine-tuning and the baseline, made on the cluster on top of what has been prepared without it."""
    splits = [f"results/demo/data/imdb/prepared/{split}.parquet" for split in ("train", "validation", "test")]
    user.project.snakemake("results/demo/tokenizers/wordpiece", *splits, "--cores", 1, "--configfile", STUDY)
    user.run(f"{RUNS}/seed-1/run.json", "results/demo/tables/parameters.csv", f"{RUNS.replace('sdpa', 'tfidf')}/seed-1/run.json")
    return user


def asked(job):
    """Return what a job asked for."""
    return {
        "cpus": int(job["NumCPUs"]),
        "memory": job["MinMemoryNode"],
        "time": job["TimeLimit"],
        "gpus": job.get("TresPerJob", job.get("TresPerNode")),
    }


def rule(job):
    """Return the rule that a job runs."""
    return re.sub(r"^rule_(.*?)(_wildcards_.*)?$", r"\1", job["Comment"])


def test_jobs_ask_for_what_the_configuration_says(finished):
    """Trainings for a GPU, and others for none; account and partition are those of the profile; no job is requeued."""
    training = {"cpus": THREADS, "memory": "1500M", "time": "00:15:00", "gpus": "gres:gpu:1"}
    data = {"cpus": 1, "memory": "4000M", "time": "04:00:00", "gpus": None}
    assert {rule(job): asked(job) for job in finished.cluster.jobs()} == {
        "train": training,
        "train_and_predict": training,
        "tokenize_corpus": data,
        "tokenize_dataset": data,
        "evaluate": data | {"memory": "2000M", "time": "01:00:00"},
    }
    for job in finished.cluster.jobs():
        assert (job["Partition"], job["Account"], job["Requeue"]) == ("main", "main", "0")


def test_tables_stay_on_the_login_node(finished):
    assert (finished.folder / "results/demo/tables/parameters.csv").exists()
    assert not [job for job in finished.cluster.jobs() if rule(job).startswith("table")]


def test_jobs_find_the_code_of_their_own_checkout(finished):
    """Whatever is installed, and whichever `python` comes first."""
    (attempt,) = finished.attempts(1)
    log = (finished.folder / "results/demo/logs/finetune/sdpa/imdb/seed-1.log").read_text()
    assert "with this very copy" in log
    assert re.match(r".*, Slurm job \d+$", attempt, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def disturbed(finished):
    """Four fine-tunings at once, two on each node, to each of which something else happens, at step `HELD_AT`.

    Names of the events with their seeds. On one node: `cancelled`, and `warned` that its time is over. The other one is
    lost, one process with it (`lost`) while the other (`lives_on`) goes on as soon as its successor has begun.
    """
    user, cluster = finished, finished.cluster
    snakemake = user.start(*(f"{RUNS}/seed-{seed}/run.json" for seed in SEEDS[1:5]))
    try:
        held = user.hold(*SEEDS[1:5])
        seeds = {node: [seed for seed in held if user.jobs(seed)[0]["NodeList"] == node] for node in ("n1", "n2")}
        (cancelled, warned), (lost, lives_on) = seeds["n1"], seeds["n2"]
        cluster.ask("scontrol", "update", f"JobId={user.jobs(warned)[0]['JobId']}", "TimeLimit=2")
        cluster.ask("scancel", user.jobs(cancelled)[0]["JobId"])
        cluster.wait("the warning", lambda: signal.SIGTERM in pending(held[warned]))
        held[warned].resume()
        for process in cluster.processes():
            if process.environ()["SLURM_JOB_ID"] == user.jobs(lost)[0]["JobId"]:
                process.kill()
        cluster.lose_node("n2")
        cluster.wait("a second attempt", lambda: user.training(lives_on) != held[lives_on], 120)
        successor = user.training(lives_on)
        cluster.wait("its first step", lambda: len(user.checkpoints(lives_on)) > HELD_AT + 1)
        held[lives_on].resume()
        user.finish(snakemake)
    finally:
        snakemake.kill()
        cluster.start_node("n2")
    return SimpleNamespace(user=user, cancelled=cancelled, warned=warned, lost=lost, lives_on=lives_on)


def pending(process):
    """Return the signals that wait for a stopped process."""
    mask = int(re.search(r"ShdPnd:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text())[1], 16)
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


@pytest.mark.parametrize("event", ["cancelled", "warned", "lost", "lives_on"])
def test_a_disturbed_job_goes_on_from_its_last_checkpoint(disturbed, event):
    """It ends with the same weights, predictions and scores as an undisturbed one."""
    seed = getattr(disturbed, event)
    first, *others = disturbed.user.attempts(seed)
    assert others, "there was no second attempt"
    assert int(re.search(r"checkpoint-(\d+)", others[-1])[1]) >= HELD_AT
    disturbed.user.assert_as_undisturbed(seed)


def test_a_second_attempt_asks_for_more(disturbed):
    first, second, *_ = map(asked, disturbed.user.jobs(disturbed.cancelled))
    assert second == first | {"memory": "3000M", "time": "00:30:00"}


def test_a_job_outlives_snakemake_and_the_next_one_makes_it_too(finished):
    """`kill -9` of snakemake, `--unlock` and a restart, while the first job still runs."""
    seed = SEEDS[5]
    target = f"{RUNS}/seed-{seed}/run.json"
    snakemake = finished.start(target)
    first = finished.hold(seed)[seed]
    snakemake.kill()
    finished.run("--unlock")
    snakemake = finished.start(target)
    finished.cluster.wait("a second attempt", lambda: finished.training(seed) != first)
    finished.cluster.wait("its first step", lambda: len(finished.checkpoints(seed)) > HELD_AT + 1)
    first.resume()
    finished.finish(snakemake)
    finished.assert_as_undisturbed(seed)


def test_another_study_on_a_cluster_that_counts_gpus_as_generic_resources(user):
    """The toy study, its profile with `gres`, several small runs in one job."""
