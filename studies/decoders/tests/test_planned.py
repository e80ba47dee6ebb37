"""What Snakemake plans for the study, without running it."""

import pytest

pytestmark = pytest.mark.extended


def test_plan_of_the_study_on_a_cluster(project):
    project.touch("unlp2025/train.parquet", "unlp2025/cv_split.csv", "mdeberta-tokenizer/tokenizer.json")
    output = project.snakemake(
        "-n", "-p", "--profile", "slurm", "--configfile", "studies/decoders/decoders.yaml"
    ).stdout
    jobs = project.jobs_of(output)
    assert jobs["train"] == 8 + 12 + 1  # adapted; decoders; mDeBERTa
    assert (jobs["evaluate"], jobs["download_model"], jobs["download_tokenizer"]) == (2, 3, 2)


def test_plan_of_the_small_study(project):
    project.touch("wikipedia/en-sample.parquet", "unlp2025/train.parquet", "unlp2025/cv_split.csv")
    jobs = project.jobs_of(project.snakemake("-n", "-p", "--configfile", "studies/decoders/decoders_small.yaml").stdout)
    seeds, arms = 3, 9 + 9 + 1  # English, posts, and an encoder that has read nothing
    first = 2 + 2 + 2 * 5  # two decoders and their controls; what trains on
    assert (jobs["train"], jobs["evaluate"]) == (first + seeds * arms, 2 * seeds)
