"""What Snakemake plans for the study, without running it."""

import pytest


@pytest.mark.extended
def test_plan_of_the_small_study(project):
    project.touch("wikipedia/en-sample.parquet", "arxiv/archives11.parquet")
    project.touch("imdb/train.parquet", "imdb/test.parquet")
    jobs = project.jobs_of(
        project.snakemake("-n", "-p", "--configfile", "studies/conversion/conversion_small.yaml").stdout
    )
    seeds, transfers, finetuned = 3, 5 + 2, 11  # transfers of attention, then of states
    papers = 4 + 2 + 2  # rows, transfers at 512 tokens, at 2,048
    assert jobs["train"] == seeds * (transfers + finetuned) + papers
    assert jobs["evaluate"] == seeds * (3 + 1) + 1  # with and without the linear branch; baselines
    assert jobs["download_model"] == 1
