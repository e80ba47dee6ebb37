"""What Snakemake plans for the study, without running it."""

import pytest

pytestmark = pytest.mark.extended


def test_plan_without_a_network(project):
    jobs = project.jobs_of(
        project.snakemake("-n", "-p", "--profile", "slurm", "--configfile", "studies/glue/glue.yaml").stdout
    )
    pretrained, others, tasks, seeds = 3, 3, 9, 3
    assert jobs["train"] == pretrained + (pretrained + others) * tasks * seeds
    # Of the mismatched genres all, and TF-IDF, which learns no numbers, on the other tasks.
    assert jobs["evaluate"] == (1 + pretrained + others) * seeds + (tasks - 1) * seeds
