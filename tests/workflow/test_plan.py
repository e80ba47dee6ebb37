"""What Snakemake plans, without running it."""

import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def project(copy_of_repository):
    return copy_of_repository("planned")


def test_the_full_grid(project):
    output = project.snakemake("-n", "--profile", "slurm", "results/tables/f1.csv").stdout
    jobs = dict(line.split() for line in output.splitlines() if len(line.split()) == 2)
    assert (jobs["pretrain"], jobs["tapt"], jobs["finetune"]) == ("9", "27", "27")
    assert (jobs["filter_wikipedia"], jobs["download_hub"], jobs["download_url"]) == ("41", "49", "4")


def test_planning_does_not_import_torch(project):
    program = (
        "import sys\nfrom snakemake.cli import main\n"
        "try:\n    main(['results/tables/f1.csv', '-n', '--quiet', 'all'])\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "assert 'lib.workflow.plan' in sys.modules\n"
        "assert not {'torch', 'transformers', 'datasets'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=project.folder, env=project.environment, check=True)


def test_a_swap_is_adapted_from_the_other_mechanisms_pretraining(project):
    config = project.configure({"experiment": {"models": ["sdpa-to-favor-m128"], "seeds": [1, 2]}})
    output = project.snakemake("-n", "--configfile", config, "--", "results/tables/f1.csv").stdout
    assert "results/runs/pretrain/sdpa/wikipedia/seed-1/model" in output
    assert "results/runs/finetune/sdpa-to-favor-m128/arxiv/seed-2/run.json" in output
    assert "pretrain/favor" not in output


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"experiment": {"encoder": {"hiden_size": 1}}, "execution": {"gpu": 1}}, "hiden_size: unknown key"),
        (
            {"experiment": {"datasets": {"imdb": {"source": "local", "local": {"files": {"train": ["no/such.csv"]}}}}}},
            "no/such.csv: no such file",
        ),
        ({"experiment": {"datasets": {"imdb": {"source": "generated"}}}}, "there is no section 'generated'"),
    ],
)
def test_a_bad_configuration_stops_before_the_first_rule(project, values, message):
    config = project.configure(values, "bad.yaml")
    process = project.snakemake("-n", "--configfile", config, check=False)
    assert process.returncode
    assert message in process.stdout
    assert "Traceback" not in process.stdout
