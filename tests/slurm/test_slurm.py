"""The workflow on a real Slurm of two nodes, through the profile that users have and through what happens in a week."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml
from cluster import Cluster, missing
from small_studies import DELETE, MINIATURE, changed

from lib.core.record import read_record

pytestmark = pytest.mark.slurm

BIN = Path(sys.executable).parent
THREADS = 2
STUDY = "config.test.yaml"
SEEDS = [1, 2, 3, 4, 5, 6]
"""Of the fine-tunings: four at once, which is what the cluster has GPUs for, and the others one by one."""
CUT = changed(
    MINIATURE,
    *((f"experiment/mechanisms/{name}", None) for name in ("lsh-h2-c64", "favor-m64")),
    ("experiment/models/sdpa/skip", ["tapt"]),
    ("experiment/seeds", [1]),
    ("experiment/stages/finetune/seeds", SEEDS),
    ("experiment/stages/tapt", DELETE),
    ("experiment/stages/finetune/data/imdb/recipe/epochs", 4),
    ("experiment/datasets/imdb/generated/documents", 400),
    (
        "report/tables",
        dict.fromkeys(("tapt", "memory_delta", "time_delta"))
        | {name: {"time": ["finetune"]} for name in ("pareto", "requirements")},
    ),
    ("report/figures", dict.fromkeys(("loss_tapt", "cost_tapt")) | {"f1_time": {"time": ["finetune"]}}),
    ("execution/training/checkpoint_minutes", 1e-6),  # a checkpoint at every step
    ("execution/job", {"gpu": 1, "cpus_per_task": THREADS, "mem_mb": 1500}),
)
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
        profile = self.folder / "slurm/profile.yaml"
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
            status = process.wait(timeout=600)
        finally:
            process.kill()
        assert status == 0, self.terminal()[-5000:] + self.project.logs()

    def run(self, *arguments, **options):
        """Run snakemake on the cluster to its good end."""
        self.finish(self.start(*arguments, **options))

    def training(self, seed):
        """Return the process that makes a fine-tuning, the newest if there are some; None without any."""
        found = self.cluster.processes(str(self.folder / "scripts/train.py"), f"{RUNS}/seed-{seed}")
        return max(found, key=lambda process: process.create_time(), default=None)

    def checkpoints(self, seed):
        """Return the steps of the checkpoints that a fine-tuning has written."""
        work = os.walk(self.folder / "results/demo/work")  # which passes over what is removed meanwhile
        names = [name for folder, names, _ in work if f"finetune-sdpa-imdb-seed-{seed}-" in folder for name in names]
        return {int(found[1]) for name in names if (found := re.fullmatch(r"checkpoint-(\d+)", name))}

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

    def wait_for_successor(self, seed, process):
        """Wait until another process has taken a fine-tuning over from a stopped one."""
        before = self.checkpoints(seed)
        self.cluster.wait("a second attempt", lambda: self.training(seed) not in (process, None))
        self.cluster.wait("its first step", lambda: max(self.checkpoints(seed), default=0) > max(before))

    def jobs(self, seed):
        """Return the Slurm jobs of a fine-tuning, the first one first."""
        return [job for job in self.cluster.jobs() if job["Comment"].endswith(f"_finetune_sdpa_imdb_{seed}")]

    def log(self, seed):
        """Return what the latest attempt of a fine-tuning has logged."""
        return (self.folder / f"results/demo/logs/finetune/sdpa/imdb/seed-{seed}.log").read_text()

    def terminal(self):
        """Return what snakemake has said."""
        return (self.folder / "terminal.txt").read_text()

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
    """Four fine-tunings, two on each node, to each of which something happens when it is at step `HELD_AT`.

    The events by name, with the seeds: on one node `cancelled`, and `warned` that its time is over; the other node is
    lost, one process with it (`lost`), while the other (`lives_on`) goes on as soon as its successor has begun. Their
    configuration is edited before the later attempts begin.
    """
    cluster = user.cluster
    prepared = [f"results/demo/data/imdb/prepared/{split}.parquet" for split in ("train", "validation", "test")]
    tokens = "results/demo/data/wikipedia/tokens/wordpiece/train"
    user.project.snakemake(tokens, *prepared, "--cores", 1, "--configfile", STUDY)
    baseline = f"{RUNS.replace('sdpa', 'tfidf')}/seed-1/run.json"
    snakemake = user.start("results/demo/tables/parameters.csv", baseline, *map(target, SEEDS[:4]))
    try:
        held = user.hold(*SEEDS[:4])
        user.project.configure(changed(CUT, ("experiment/stages/finetune/data/imdb/recipe/learning_rate", 0.5)), STUDY)
        seeds = {node: [seed for seed in held if user.jobs(seed)[0]["NodeList"] == node] for node in ("n1", "n2")}
        (cancelled, warned), (lost, lives_on) = seeds["n1"], seeds["n2"]
        cluster.ask("scontrol", "update", f"JobId={user.jobs(warned)[0]['JobId']}", "TimeLimit=2")
        cluster.ask("scancel", user.jobs(cancelled)[0]["JobId"])
        cluster.kill(user.jobs(lost)[0]["JobId"])
        cluster.lose_node("n2")
        cluster.wait("the warning", lambda: is_told_to_end(held[warned]))
        with contextlib.suppress(psutil.NoSuchProcess):
            held[warned].resume()
        user.wait_for_successor(lives_on, held[lives_on])
        held[lives_on].resume()
        user.finish(snakemake)
    finally:
        snakemake.kill()
        cluster.start_node("n2")
        user.project.configure(CUT, STUDY)
    user.events = {"cancelled": cancelled, "warned": warned, "lost": lost, "lives_on": lives_on}
    return user


def target(seed):
    """Return what to make for a fine-tuning."""
    return f"{RUNS}/seed-{seed}/run.json"


def is_told_to_end(process):
    """Whether SIGTERM waits for a stopped process, or has ended it."""
    try:
        mask = re.search(r"ShdPnd:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text())[1]
    except OSError:
        return True
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)


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
    assert asked(finished.jobs(finished.events["cancelled"])[0]) == training
    jobs = finished.cluster.jobs()
    baselines = [asked(job) for job in jobs if "tfidf" in job["Comment"]]
    assert baselines
    for baseline in baselines:
        assert 2_000 < int(baseline.pop("memory").removesuffix("M")) < 2_500  # by the size of the texts
        assert baseline == {"cpus": 1, "time": "01:00:00", "gpus": None}
    pretraining = [asked(job) for job in jobs if "pretrain" in job["Comment"]]
    assert pretraining
    assert all(found == training for found in pretraining)
    assert all(asked(job) == data for job in jobs if rule(job) == "tokenize_dataset")
    assert {rule(job) for job in jobs} == {"run", "tokenize_dataset"}
    for job in finished.cluster.jobs():
        assert (job["Partition"], job["Account"], job["Requeue"]) == ("main", "main", "0")


def test_tables_stay_on_the_login_node(finished):
    assert (finished.folder / "results/demo/tables/parameters.csv").exists()
    assert not [job for job in finished.cluster.jobs() if rule(job).startswith("table")]


def test_jobs_find_the_code_of_their_own_checkout(finished):
    """Whatever is installed, and whichever `python` comes first."""
    assert "with this very copy" in finished.log(SEEDS[0])


def test_later_attempts_do_what_was_planned(finished):
    """Whatever has become of the configuration since then."""
    for seed in SEEDS[:4]:
        settings = yaml.safe_load((finished.folder / RUNS / f"seed-{seed}" / "config.yaml").read_text())
        assert settings["recipe"]["learning_rate"] == 3e-3


@pytest.mark.parametrize("event", ["cancelled", "warned", "lost", "lives_on"])
def test_job_after_a_disturbance(finished, event):
    """It ends with the same weights, predictions and scores as an undisturbed one."""
    seed = finished.events[event]
    first, *others = finished.jobs(seed)
    assert others, "there was no second attempt"
    # The one at `HELD_AT` may have been half-written.
    assert int(re.search(r"checkpoint-(\d+)", finished.log(seed))[1]) >= HELD_AT - 1
    assert f"Slurm job {others[-1]['JobId']}\n" in finished.log(seed)
    assert f"Slurm job {first['JobId']}\n" in finished.terminal()
    finished.assert_as_undisturbed(seed)


def test_resources_of_a_second_attempt(finished):
    first, second, *_ = map(asked, finished.jobs(finished.events["cancelled"]))
    assert second == first | {"memory": "3000M", "time": "00:30:00"}


def test_job_that_outlives_snakemake(finished):
    """`kill -9` of snakemake, `--unlock` and a restart, while the first job still runs."""
    seed = SEEDS[4]
    snakemake = finished.start(target(seed))
    held = finished.hold(seed)
    snakemake.kill()
    finished.run(target(seed), "--unlock")
    snakemake = finished.start(target(seed))
    finished.wait_for_successor(seed, held[seed])
    held[seed].resume()
    finished.finish(snakemake)
    finished.assert_as_undisturbed(seed)


def test_job_that_ends_without_snakemake(finished):
    seed = SEEDS[5]
    snakemake = finished.start(target(seed))
    held = finished.hold(seed)
    snakemake.kill()
    held[seed].resume()
    finished.cluster.wait("the end of the job", lambda: finished.jobs(seed)[0]["JobState"] == "COMPLETED")
    finished.run(target(seed), "--unlock")
    finished.run(target(seed))
    assert len(finished.jobs(seed)) == 1
    finished.assert_as_undisturbed(seed)


def test_two_processes_train_in_one_job(finished):
    """As many GPUs, CPUs and as much memory for each; one job, one start, and the losses of one process."""
    folder = finished.folder / "two"
    settings = f"execution={{results: {folder.name}, gpus_per_run: 2}}"
    prepared = [f"{folder.name}/data/imdb/tokens/wordpiece/{split}" for split in ("train", "validation", "test")]
    wikipedia = [f"{folder.name}/data/wikipedia/tokens/wordpiece/{split}" for split in ("train", "validation")]
    finished.project.snakemake(*prepared, *wikipedia, "--cores", 1, "--configfile", STUDY, "--config", settings)
    run = "runs/finetune/sdpa/imdb/seed-1"
    before = len(finished.cluster.jobs())
    finished.run(f"{folder.name}/{run}/run.json", "--config", settings)
    jobs = finished.cluster.jobs()[before:]
    assert sorted(job["Comment"] for job in jobs) == [
        "rule_run_wildcards_finetune_sdpa_imdb_1",
        "rule_run_wildcards_pretrain_sdpa_wikipedia_1",
    ]
    one = {"cpus": THREADS, "memory": "1500M", "time": "00:15:00", "gpus": "gres:gpu:1"}
    assert all(asked(job) == one | {"cpus": 2 * THREADS, "memory": "3000M", "gpus": "gres:gpu:2"} for job in jobs)
    log = (folder / "logs/finetune/sdpa/imdb/seed-1.log").read_text()
    assert (log.count(" starts on "), log.count("epoch 1,")) == (2, 1)
    assert read_record(folder / run).processes == 2
    alone, together = (pd.read_csv(place / run / "history.csv") for place in (finished.folder / "results/demo", folder))
    assert together.train_loss.tolist() == pytest.approx(alone.train_loss.tolist(), abs=1e-4)


def test_small_runs_share_a_job(user):
    """Of another study, on a cluster that counts GPUs as generic resources."""
    study = {
        "extends": "studies/toy/toy.yaml",
        "experiment": {
            "seeds": [1, 2, 3],
            "datasets": {"reverse": {"generated": {"documents": 600, "options": {"validation": 50, "test": 50}}}},
        },
        "execution": {"job": {"gpu": 1}},
    }
    name = user.project.configure(study, "toy.test.yaml")
    profile = user.folder / "slurm/profile.yaml"
    profile.write_text(profile.read_text() + "config:\n  execution: {job: {gres: gpu}}\n")
    tokens = [f"results/toy/data/reverse/tokens/symbols/{split}" for split in ("train", "validation", "test")]
    user.project.snakemake(*tokens, "--cores", 1, "--configfile", name)
    runs = [f"results/toy/runs/reverse/lstm/reverse/seed-{seed}" for seed in (1, 2, 3)]
    groups = ("--groups", "run=small", "--group-components", "small=2")
    user.run(*(f"{run}/run.json" for run in runs), *groups, configfile=name)
    assert [read_record(user.folder / run).model for run in runs] == ["lstm"] * 3
    jobs = [asked(job) for job in user.cluster.jobs() if "small" in job["Comment"]]
    assert sorted(job["cpus"] for job in jobs) == [1, 2]
    assert {job["gpus"] for job in jobs} == {"gres:gpu:1"}
