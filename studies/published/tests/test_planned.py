"""What Snakemake plans for the study, without running it."""

import pytest

pytestmark = pytest.mark.extended


def test_plan_of_the_small_study(project):
    articles = [f"hyperpartisan/{kind}-training-byarticle-20181122.xml.gz" for kind in ("articles", "ground-truth")]
    project.touch("wikipedia/en-sample.parquet", "arxiv/archives11.parquet", *articles)
    project.touch("imdb/train.parquet", "imdb/test.parquet")
    jobs = project.jobs_of(
        project.snakemake("-n", "-p", "--configfile", "studies/published/published_small.yaml").stdout
    )
    rows = {"imdb": 6, "hyperpartisan": 8, "arxiv": 7}
    assert jobs["train"] == 2 + sum(rows.values())
    assert jobs["evaluate"] == len(rows)  # baselines
    assert jobs["download_model"] == 1


def test_plan_beside_the_grid(project):
    output = project.snakemake(
        "-n", "-p", "--profile", "slurm", "--configfile", "studies/published/published.yaml"
    ).stdout
    assert project.jobs_of(output)["train"] == 9 + 27 + 27 + 7 * 3
