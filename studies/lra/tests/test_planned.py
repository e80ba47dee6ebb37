import pytest

pytestmark = pytest.mark.extended
"""What Snakemake plans for the study, without running it."""


def test_long_range_arena_planned(project):
    """At its published sizes, in miniature, and without the files that a user has to bring."""
    rows, tasks = 1 + 8, 5  # the state-space encoder and eight mechanisms
    jobs = project.jobs_of(
        project.snakemake("-n", "-p", "--profile", "slurm", "--configfile", "studies/lra/lra.yaml").stdout
    )
    assert (jobs["train"], jobs["evaluate"]) == (rows * 3 * 3, 3 * 3)  # TF-IDF is fitted, not trained
    parts = ("train", "validation", "test")
    for files in (
        [f"aan/new_aan_pairs.{part}.tsv" for part in ("train", "eval", "test")],
        [f"cifar10/{part}.txt" for part in parts],
        [f"cifar10/{part}_labels.txt" for part in parts],
    ):
        missing = project.snakemake("-n", "--configfile", "studies/lra/lra_files.yaml", check=False)
        assert missing.returncode
        assert f"data/{files[0]}" in missing.stdout
        project.touch(*files)
    output = project.snakemake("-n", "-p", "--profile", "slurm", "--configfile", "studies/lra/lra_files.yaml").stdout
    jobs = project.jobs_of(output)
    assert (jobs["train"], jobs["evaluate"]) == (rows * tasks * 3, tasks * 3)
    jobs = project.jobs_of(project.snakemake("-n", "-p", "--configfile", "studies/lra/demo_lra.yaml").stdout)
    assert (jobs["train"], jobs["evaluate"]) == (5 * 2 + 1, 2)  # one row on pathfinder
