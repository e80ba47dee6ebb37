"""What Snakemake plans, without running it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lib.core.extensions import ROOT

GRID = ROOT / "config/config.yaml"


def test_the_full_grid(project):
    jobs = project.jobs_of(project.snakemake("-n", "-p", "--profile", "slurm", "results/tables/f1.csv").stdout)
    assert (jobs["train"], jobs["evaluate"]) == (9 + 27 + 27, 3)
    assert (jobs["filter_corpus"], jobs["download_hub"], jobs["download_url"]) == (41, 49, 4)
    assert (jobs["tokenize_corpus"], jobs["tokenize_dataset"], jobs["download_vocabulary"]) == (1, 3, 1)


def test_a_plan_has_two_short_lines_per_job_with_the_resources_of_runs(project):
    target = "results/runs/pretrain/sdpa/wikipedia/seed-420/run.json"
    plan = project.snakemake("-n", "--profile", "slurm", target).stdout
    number = int(re.search(r"^total +(\d+)", plan, re.MULTILINE)[1])
    assert len(plan.splitlines()) < 2 * number + 60  # the counts at the beginning and at the end
    assert max(len(line) for line in plan.splitlines() if "Job " in line) < 120
    assert re.search(r"pretrain/sdpa/wikipedia, seed 420 \(\d+ min, 32000 MB, 1 GPUs\)\n", plan)


def test_a_part_of_the_grid(project):
    """It has the paths of the whole, and all that it starts from."""
    part = "only={models: [lsh-h2-c64], stages: [finetune], datasets: [imdb]}"
    plan = project.snakemake("-n", "-p", "--configfile", "config/config.yaml", "--config", part).stdout
    made = set(re.findall(r"results/runs/(\S+)/run\.json", plan))
    assert made == {
        f"{run}/seed-420"
        for run in ("pretrain/lsh-h2-c64/wikipedia", "tapt/lsh-h2-c64/imdb", "finetune/lsh-h2-c64/imdb")
    }
    assert "results/tables/f1.csv" not in plan


@pytest.mark.parametrize(
    ("option", "word", "problem"),
    [
        ("--configfile", "results/demo/tables/f1.csv", "not there. Expected a configuration file"),
        ("--configfile", "all", "not there. Expected a configuration file"),
        ("--configfiles", "workflow/Snakefile", "not a configuration. Expected a YAML or JSON file"),
        ("--config", "results/demo/tables/f1.csv", "not a setting. Expected key=value"),
    ],
)
def test_a_target_that_an_option_takes_is_refused_with_the_right_order(project, option, word, problem):
    first = {"--config": "execution={}"}.get(option, "config/demo.yaml")
    done = project.snakemake("-n", option, first, word, check=False)
    message = f"{option} {word}: {problem}. If it is a target, put it first: snakemake {word} {option} ..."
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == message
    assert "Traceback" not in done.stdout


def test_planning_does_not_import_torch(project):
    program = (
        "import sys\nfrom snakemake.cli import main\n"
        "try:\n    main(['results/tables/f1.csv', '-n', '--quiet', 'all'])\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "assert 'lib.workflow.planning.plan' in sys.modules\n"
        "assert not {'torch', 'transformers', 'datasets'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=project.folder, env=project.environment, check=True)


MECHANISMS = ("sdpa", "lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128", "favor-m64", "favor-m128", "favor-m256")
MECHANISMS += ("favor-m512",)


def one_model(model, **experiment):
    """Return a study of the grid's TF-IDF and one model of its own, with one table."""
    models = dict.fromkeys(MECHANISMS) | {"mine": {"backbone": "encoder"} | model}
    report = yaml.safe_load(GRID.read_text(encoding="utf-8"))["report"]
    unused = {section: dict.fromkeys(set(report[section]) - {"f1"}) for section in ("tables", "figures", "analyses")}
    experiment = {"models": models, **experiment}
    return {
        "extends": "config/config.yaml",
        "experiment": experiment,
        "report": unused | {"reference": "mine", "opens_with": None},
    }


def planned(project, values, target="results/tables/f1.csv"):
    return project.snakemake("-n", "-p", "--configfile", project.configure(values), "--", target).stdout


def test_a_swap_is_adapted_from_the_other_mechanisms_pretraining(project):
    swap = {"mechanism": "sdpa", "changes": {"tapt": {"mechanism": "favor-m128"}}}
    values = one_model(swap, seeds=[1, 2])
    values["experiment"]["models"] |= {"sdpa": {"backbone": "encoder", "mechanism": "sdpa"}}
    output = planned(project, values)
    assert "results/runs/pretrain/sdpa/wikipedia/seed-1/run.json" in output
    assert "results/runs/finetune/mine/arxiv/seed-2/run.json" in output
    assert "pretrain/mine" not in output
    assert project.jobs_of(output)["train"] == 2 * (1 + 2 * 3 + 2 * 3)


def test_a_model_from_another_studys_run_needs_no_pretraining(project):
    folder = project.folder / "results/runs/pretrain/favor-m256/wikipedia/seed-420/model"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").touch()
    start = {"folder": str(folder.relative_to(project.folder))}
    values = one_model({"mechanism": "favor-m256", "skip": ["pretrain"], "start": start})
    output = planned(project, values | {"execution": {"results": "results/mine"}}, "results/mine/tables/f1.csv")
    assert str(start["folder"]) in output
    assert project.jobs_of(output)["train"] == 3 + 3
    assert "filter_corpus" not in output


def test_a_model_of_the_hub_is_downloaded_once(project):
    revision = "86b5e0934494bd15c9632b12f734a8a67f723594"
    start = {"repository": "owner/name", "revision": revision}
    own = {"algorithm": "published", "source": "hub"} | start
    model = {"mechanism": "sdpa", "skip": ["pretrain"], "start": start, "tokenizer": "own"}
    output = planned(project, one_model(model, tokenizers={"own": own}))
    assert project.jobs_of(output)["download_model"] == 1
    assert project.jobs_of(output)["download_tokenizer"] == 1
    assert f"resources/models/owner/name/{revision}" in output


def test_every_tokeniser_makes_its_own_tokens(project):
    own = {"source": "trained", "corpus": "imdb", "vocab_size": 8000}
    values = one_model({"mechanism": "sdpa", "tokenizer": "own"}, tokenizers={"own": own})
    values["experiment"]["models"] |= {"sdpa": {"backbone": "encoder", "mechanism": "sdpa", "tokenizer": "wordpiece"}}
    output = planned(project, values)
    jobs = project.jobs_of(output)
    assert (jobs["train_tokenizer"], jobs["tokenize_corpus"], jobs["tokenize_dataset"]) == (2, 2, 6)
    assert "results/data/arxiv/tokens/own/token_lengths.json" in output


def test_a_training_on_several_gpus_is_one_job(project):
    values = one_model({"mechanism": "sdpa"}) | {"execution": {"gpus_per_run": 2}}
    target = "results/runs/pretrain/mine/wikipedia/seed-420/run.json"
    output = project.snakemake("-n", "-p", "--configfile", project.configure(values), "--", target).stdout
    assert project.jobs_of(output)["train"] == 1
    job = output[output.rindex("pretrain/mine/wikipedia, seed 420") :]
    assert re.search(
        r"python -P -m torch.distributed.run --standalone .*--nproc-per-node 2 -- \S+/scripts/train.py --config", job
    )


def test_a_study_of_its_own_inherits_nothing(project, alone):
    output = project.snakemake("-n", "-p", "--configfile", project.configure(alone, "alone.yaml")).stdout
    jobs = project.jobs_of(output)
    jobs.pop("total")
    assert jobs == {
        "generate_imdb": 1,
        "prepare_dataset": 1,
        "evaluate": 2,
        "table_scores": 1,
        "table_classes_imdb": 1,
        "all": 1,
    }


@pytest.mark.parametrize(
    ("study", "models", "tuned"),
    [("demo", 9, 3), ("demo_recurrent", 9 + 3, 3), ("small", 9, 3 * 2)],  # runs of the last stage, by dataset
)
def test_the_shipped_studies_can_be_planned(project, study, models, tuned):
    project.touch(
        "wikipedia/en-sample.parquet",
        "imdb/train.parquet",
        "imdb/test.parquet",
        "hyperpartisan/articles-training-byarticle-20181122.xml.gz",
        "hyperpartisan/ground-truth-training-byarticle-20181122.xml.gz",
        "arxiv/archives11.parquet",
    )
    jobs = project.jobs_of(project.snakemake("-n", "-p", "--configfile", f"config/{study}.yaml").stdout)
    assert (jobs["train"], jobs["evaluate"]) == (models + models * 3 + models * tuned, tuned)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"experiment": {"backbones": {"encoder": {"hiden_size": 1}}}, "execution": {"gpu": 1}},
            "bad.yaml: experiment.backbones.encoder.hiden_size: unknown key",
        ),
        (
            {"experiment": {"datasets": {"imdb": {"source": "local", "local": {"files": {"train": ["no/such.csv"]}}}}}},
            "no/such.csv: no such file",
        ),
        ({"experiment": {"datasets": {"imdb": {"source": "generated"}}}}, "there is no section 'generated'"),
        ({"extends": "config/none.yaml"}, "config/none.yaml: cannot be read"),
        ({"extends": "bad.yaml"}, "bad.yaml: extends itself"),
    ],
)
def test_a_bad_configuration_stops_before_the_first_rule(project, values, message):
    config = project.configure({"extends": "config/config.yaml"} | values, "bad.yaml")
    process = project.snakemake("-n", "-p", "--configfile", config, check=False)
    assert process.returncode
    assert message in process.stdout
    assert "Traceback" not in process.stdout


def test_a_setting_of_the_command_line_lies_over_the_files(project):
    process = project.snakemake("-n", "-p", "--config", "experiment={seeds: [many]}", check=False)
    assert "--config: experiment.seeds.0: " in process.stdout


def test_programs_run_under_the_interpreter_of_snakemake(project):
    """Whichever `python` comes first in the user's PATH."""
    output = project.snakemake(
        "-n", "-p", "--configfile", "config/demo.yaml", "--", "results/demo/tables/f1.csv"
    ).stdout
    programs = re.findall(
        r"^Shell command: exec (\S+) -P -m lib.workflow.start --code \S+ (\S+) \S+/scripts/\w+\.py",
        output,
        re.MULTILINE,
    )
    assert len(programs) > 60
    assert set(programs) == {(sys.executable, sys.executable)}


CAPTIONS_OF = """
import json, sys
from lib.workflow.planning.steps import workflow_with_plan
with workflow_with_plan(sys.argv[1:], []) as workflow:
    outputs = [file for rule in workflow.rules for file in rule.output]
    reported = {str(file): file.flags["report"].caption for file in outputs if "report" in file.flags}
    print(json.dumps({file: caption.get_path_or_uri(secret_free=True) for file, caption in reported.items()}))
"""


def test_captions_are_those_of_the_kind_whatever_a_result_is_called(project):
    """Even as a first page, a benchmark or another kind."""
    of_loss = {"kind": "loss", "stage": "finetune"}
    tables = {name: {"stage": "finetune", "columns": ["f1"]} for name in ("study", "toy", "search", "mine")}
    report = {"tables": tables, "figures": {"grid": of_loss, "texts": of_loss}}
    (project.folder / "own.yaml").write_text(yaml.safe_dump({"report": report}))
    command = [sys.executable, "-c", CAPTIONS_OF, "config/demo.yaml", "own.yaml"]
    done = subprocess.run(command, cwd=project.folder, env=project.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {Path(file).stem: Path(caption) for file, caption in json.loads(done.stdout).items()}
    expected = dict.fromkeys(tables, "stage") | {"grid": "loss", "texts": "loss", "attention_patterns": "heads"}
    assert {name: found[name].stem for name in expected} == expected
    assert all((project.folder / caption).exists() for caption in found.values())
