"""What Snakemake plans for the study, without running it."""

import pytest

pytestmark = pytest.mark.extended


def test_long_range_arena_planned(project):
    """At its published sizes, in miniature, and without the files that a user has to bring."""
    rows = 1 + 8  # the state-space encoder and eight mechanisms
    jobs = project.jobs_of(
        project.snakemake("-n", "-p", "--profile", "slurm", "--configfile", "studies/lra/lra.yaml").stdout
    )
    assert (jobs["train"], jobs["evaluate"]) == (rows * 3 * 3, 3 * 3)  # TF-IDF is fitted, not trained
    missing = project.snakemake("-n", "--configfile", "studies/lra/lra_files.yaml", check=False)
    assert missing.returncode
    assert "data/aan/new_aan_pairs.train.tsv" in missing.stdout
    jobs = project.jobs_of(project.snakemake("-n", "-p", "--configfile", "studies/lra/demo_lra.yaml").stdout)
    assert (jobs["train"], jobs["evaluate"]) == (5 * 2 + 1, 2)  # one row on pathfinder
