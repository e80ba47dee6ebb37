"""What Snakemake plans, asked in this process: jobs, their commands, resources and captions."""

import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from snakemake.exceptions import WorkflowError

from lib.core.errors import ProjectError
from lib.core.extensions import ROOT

GRID = "config/config.yaml"
F1 = "results/tables/f1.csv"


@pytest.fixture(scope="module")
def grid(project):
    """The jobs of the full grid: rules, messages, commands, and resources of the first and the second attempt."""
    with project.planned(GRID, targets=[F1]) as workflow:
        found = []
        for job in workflow.dag.needrun_jobs():
            first = (job.rule.name, job.message, job.shellcmd, dict(job.resources))
            job.attempt = 2
            found.append((*first, dict(job.resources)))
        return found


def test_jobs_of_full_grid(project, grid):
    jobs = Counter(rule for rule, *_ in grid)
    programs = Counter(re.search(r"scripts/(\w+)\.py", command)[1] for rule, _, command, *_ in grid if rule == "run")
    assert programs == {"train": 9 + 27 + 27, "evaluate": 3}
    assert (jobs["filter_corpus"], jobs["download_hub"], jobs["download_url"]) == (41, 49, 4)
    assert (jobs["tokenize_corpus"], jobs["tokenize_dataset"], jobs["download_vocabulary"]) == (1, 3, 1)


def test_interpreter_of_all_programs(grid):
    """That of Snakemake, whichever `python` comes first in the user's PATH."""
    started = re.compile(r"exec (\S+) -P -m lib.workflow.start (?:--code \S+ )?(\S+) \S+\.py")
    found = [match.groups() for _, _, command, *_ in grid if (match := started.match(command or ""))]
    assert len(found) > 60
    assert set(found) == {(sys.executable, sys.executable)}


def test_resources_raised_by_retry(grid):
    runs = {message.partition(" (")[0]: (message, *asked) for rule, message, _, *asked in grid if rule == "run"}
    assert re.search(r"\(\d+ min, 32000 MB, 1 GPUs\)$", runs["pretrain/sdpa/wikipedia, seed 420"][0])
    for name, (_, first, second) in runs.items():
        assert second["runtime"] == 2 * first["runtime"], name
        assert second["cpus_per_task"] == first["cpus_per_task"]
        if "tfidf" not in name:  # whose memory follows from texts that are not there yet
            assert second["mem_mb"] == 2 * first["mem_mb"] == 2 * 32_000, name


def test_part_of_grid(project):
    """It has the paths of the whole, and all that it starts from."""
    only = {"models": ["lsh-h2-c64"], "stages": ["finetune"], "datasets": ["imdb"]}
    with project.planned(project.configure({"extends": GRID, "only": only})) as workflow:
        files = [str(file) for job in workflow.dag.needrun_jobs() for file in job.output]
    runs = {name[1] for file in files if (name := re.search(r"results/runs/(\S+)/run\.json", file))}
    places = ("pretrain/lsh-h2-c64/wikipedia", "tapt/lsh-h2-c64/imdb", "finetune/lsh-h2-c64/imdb")
    assert runs == {f"{place}/seed-420" for place in places}
    assert F1 not in files


MECHANISMS = [f"lsh-h{hashes}-c{size}" for hashes in (2, 4) for size in (64, 128)]
MECHANISMS += ["sdpa", *(f"favor-m{features}" for features in (64, 128, 256, 512))]
COMMIT = "86b5e0934494bd15c9632b12f734a8a67f723594"
PUBLISHED = {"repository": "owner/name", "revision": COMMIT}
LARGER = "other/runs/pretrain/favor-m256/wikipedia/seed-420/model"
SDPA = {"backbone": "encoder", "mechanism": "sdpa"}
SWAP = {"mechanism": "sdpa", "changes": {"tapt": {"mechanism": "favor-m128"}}}
OWN = {"source": "trained", "corpus": "imdb", "vocab_size": 8000}
# A model of its own beside the grid's TF-IDF, what else the study says, and numbers of jobs.
MODELS = {
    "adapted from another mechanism's pretraining": (
        SWAP, {"seeds": [1, 2], "models": {"sdpa": SDPA}}, {"train": 2 * (1 + 2 * 3 + 2 * 3)},
    ),
    "from the run of another study": (
        {"mechanism": "favor-m256", "skip": ["pretrain"], "start": {"folder": LARGER}},
        {},
        {"train": 3 + 3, "filter_corpus": 0},
    ),
    "from a hub": (
        {"mechanism": "sdpa", "skip": ["pretrain"], "start": PUBLISHED, "tokenizer": "own"},
        {"tokenizers": {"own": {"algorithm": "published", "source": "hub"} | PUBLISHED}},
        {"train": 3 + 3, "download_model": 1, "download_tokenizer": 1},
    ),
    "with a tokeniser of its own": (
        {"mechanism": "sdpa", "tokenizer": "own"},
        {"tokenizers": {"own": OWN}, "models": {"sdpa": SDPA | {"tokenizer": "wordpiece"}}},
        {"train_tokenizer": 2, "tokenize_corpus": 2, "tokenize_dataset": 6},
    ),
}  # fmt: skip


def one_model(model, **experiment):
    """Return a study of the grid's TF-IDF and a model of its own, with one table."""
    report = yaml.safe_load((ROOT / GRID).read_text(encoding="utf-8"))["report"]
    unused = {section: dict.fromkeys(set(report[section]) - {"f1"}) for section in ("tables", "figures", "analyses")}
    models = dict.fromkeys(MECHANISMS) | {"mine": {"backbone": "encoder"} | model} | experiment.pop("models", {})
    return {
        "extends": GRID,
        "experiment": {"models": models, **experiment},
        "report": unused | {"reference": "mine", "opens_with": None},
    }


@pytest.mark.extended
def test_jobs_of_models(project):
    (project.folder / LARGER).mkdir(parents=True, exist_ok=True)
    (project.folder / LARGER / "model.safetensors").touch()
    for name, (model, experiment, jobs) in MODELS.items():
        found = project.stale(project.configure(one_model(model, **experiment)), target=F1)
        assert {rule: found.get(rule, 0) for rule in jobs} == jobs, name


def test_training_on_several_gpus_is_one_job(project):
    values = one_model({"mechanism": "sdpa"}) | {"execution": {"gpus_per_run": 2}}
    target = "results/runs/pretrain/mine/wikipedia/seed-420/run.json"
    with project.planned(project.configure(values), targets=[target]) as workflow:
        (command,) = [job.shellcmd for job in workflow.dag.needrun_jobs() if job.rule.name == "run"]
    assert re.search(r" -m torch.distributed.run --standalone .*--nproc-per-node 2 -- \S+/scripts/train.py ", command)


def test_study_of_its_own_inherits_nothing(project, alone):
    jobs = {"generate_imdb": 1, "prepare_dataset": 1, "evaluate": 2, "table_scores": 1, "table_classes_imdb": 1}
    assert project.stale(project.configure(alone, "alone.yaml")) == jobs | {"all": 1, "total": 7}


@pytest.mark.extended
def test_jobs_of_shipped_studies(project):
    project.touch(
        "wikipedia/en-sample.parquet",
        "imdb/train.parquet",
        "imdb/test.parquet",
        "hyperpartisan/articles-training-byarticle-20181122.xml.gz",
        "hyperpartisan/ground-truth-training-byarticle-20181122.xml.gz",
        "arxiv/archives11.parquet",
    )
    # Runs of the last stage, by dataset.
    for study, models, tuned in (("demo", 9, 3), ("demo_recurrent", 9 + 3, 3), ("small", 9, 3 * 2)):
        jobs = project.stale(f"config/{study}.yaml")
        assert (jobs["train"], jobs["evaluate"]) == (models + models * 3 + models * tuned, tuned), study
    jobs = project.stale("config/full.yaml", target="results/tables/search.csv")
    assert (jobs["train"], "best" in jobs) == (1 + 3 + 12 * (3 + 1 + 1), False)
    jobs = project.stale("config/demo_full.yaml", target="results/demo/tables/search.csv")
    assert jobs["train"] == 1 * 2 + 3 + 12 * (2 + 1)


BENCHES = {
    "bench": {"attention_cost", "training_cost", "encoder_cost", "favor_error", "lsh_recall", "measure_summary",
              "figure_attention_time", "figure_attention_memory", "figure_favor_error", "figure_lsh_recall"},
    "bench_adaptation": {"adaptation_cost", "measure_summary"},
    "bench_length": {"sequence_cost", "memory_cost", "measure_summary", "figure_sequence_time",
                     "figure_memory_length"},
}  # fmt: skip


def test_jobs_of_benches(project):
    for target, rules in BENCHES.items():
        found = set(project.stale(GRID, target=target)) - {target, "total"}
        assert found >= rules
        assert not found & (set().union(*BENCHES.values()) - rules)


STRANGE = 'it\'s my "$(touch code_ran)" `touch code_ran`; touch code_ran'


def test_paths_stay_words_of_commands(project):
    """Those of a user may hold what means something to a shell."""
    folder = project.folder / STRANGE
    (folder / "weights").mkdir(parents=True)
    (folder / "weights/model.safetensors").touch()
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "word"]))
    (folder / "train's.csv").write_text("text,label\n" + "".join(f"a text of {n},{n % 2}\n" for n in range(40)))
    mine = SDPA | {"start": {"folder": f"{STRANGE}/weights"}, "skip": ["pretrain"]}
    local = {"source": "local", "local": {"files": {"train": [f"{STRANGE}/train's.csv"]}}}
    values = {
        "extends": "config/demo.yaml",
        "experiment": {
            "models": {"mine": mine},
            "tokenizers": {"wordpiece": {"source": "local", "path": f"{STRANGE}/vocab.txt"}},
            "datasets": {"imdb": local | {"generated": None}},
        },
    }
    target = "results/demo/runs/tapt/mine/imdb/seed-420/run.json"
    with project.planned(project.configure(values), targets=[target]) as workflow:
        commands = {job.rule.name: shlex.split(job.shellcmd) for job in workflow.dag.needrun_jobs()}
        listed = "\n".join(str(each) for job in workflow.dag.needrun_jobs() for each in job.params).splitlines()
    assert f"{STRANGE}/weights" in commands["run"]
    assert f"{STRANGE}/vocab.txt" in [*commands["train_tokenizer"], *listed]
    assert f"{STRANGE}/train's.csv" in [*commands["prepare_dataset"], *listed]


def test_bad_configuration_stops_plan(project):
    files = {"train": ["no/such.csv"]}
    for values, message in (
        ({"experiment": {"backbones": {"encoder": {"hiden_size": 1}}}}, "experiment.backbones.encoder.hiden_size"),
        ({"experiment": {"datasets": {"imdb": {"source": "local", "local": {"files": files}}}}}, "no/such.csv"),
        ({"extends": "bad.yaml"}, "bad.yaml: extends itself"),
    ):
        config = project.configure({"extends": GRID} | values, "bad.yaml")
        with pytest.raises(ProjectError) as error, project.planned(config):
            pass
        assert message in str(error.value)


def test_captions_are_of_kinds(project):
    """Whatever a result is called: even as a first page, a benchmark or another kind."""
    of_loss = {"kind": "loss", "stage": "finetune"}
    tables = {name: {"stage": "finetune", "columns": ["f1"]} for name in ("study", "toy", "search", "mine")}
    report = {"tables": tables, "figures": {"grid": of_loss, "texts": of_loss}}
    with project.planned(project.configure({"extends": "config/demo.yaml", "report": report})) as workflow:
        outputs = [file for rule in workflow.rules for file in rule.output if "report" in file.flags]
        captions = {Path(file).stem: file.flags["report"].caption for file in outputs}
        found = {name: Path(caption.get_path_or_uri(secret_free=True)) for name, caption in captions.items()}
    expected = dict.fromkeys(tables, "stage") | {"grid": "loss", "texts": "loss", "attention_patterns": "heads"}
    assert {name: found[name].stem for name in expected} == expected
    assert all((project.folder / caption).exists() for caption in found.values())


def test_results_locked_for_other_calls(project, alone):
    """Snakemake's own lock is of the folder that it is started in."""
    config = project.configure(alone, "locked.yaml")
    with project.planned(config) as workflow:
        workflow.globals["lock_results"]()
        held = workflow.globals["LOCK"]
        with pytest.raises(WorkflowError, match=f"snakemake in {project.folder} "):
            workflow.globals["lock_results"]()
        held.close()
        workflow.globals["lock_results"]()


# What takes a process


@pytest.mark.extended
def test_plan_has_two_short_lines_per_job(project):
    plan = project.snakemake("-n", "--profile", "slurm", "--configfile", GRID, "--", F1).stdout
    number = int(re.search(r"^total +(\d+)", plan, re.MULTILINE)[1])
    assert len(plan.splitlines()) < 2 * number + 60  # the counts at the beginning and at the end
    assert max(len(line) for line in plan.splitlines() if "Job " in line) < 120


@pytest.mark.extended
def test_command_line_is_checked(project):
    """Targets that an option takes are refused with the right order; settings lie over those of the files."""
    for option, first, word, problem in (
        ("--configfile", "config/demo.yaml", "all", "not there. Expected a configuration file"),
        ("--config", "execution={}", "results/demo/tables/f1.csv", "not a setting. Expected key=value"),
    ):
        done = project.snakemake("-n", option, first, word, check=False)
        message = f"{option} {word}: {problem}. If it is a target, put it first: snakemake {word} {option} ..."
        assert (done.returncode, done.stdout.splitlines()[-1]) == (1, message)
    done = project.snakemake("-n", "--config", "experiment={seeds: [many]}", check=False)
    assert "--config: experiment.seeds.0: " in done.stdout


@pytest.mark.extended
def test_planning_imports_no_torch(project):
    program = (
        "import sys\nfrom snakemake.cli import main\n"
        "try:\n    main(['results/tables/f1.csv', '-n', '--quiet', 'all'])\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "assert 'lib.workflow.planning.plan' in sys.modules\n"
        "assert not {'torch', 'transformers', 'datasets'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=project.folder, env=project.environment, check=True)
