"""What Snakemake plans for the study, without running it."""

import pytest

pytestmark = pytest.mark.extended


def test_study_of_evidence_planned(project):
    project.touch("wikipedia/en-sample.parquet", "imdb/train.parquet", "imdb/test.parquet")
    output = project.snakemake("-n", "-p", "--configfile", "studies/evidence/evidence_small.yaml").stdout
    jobs = project.jobs_of(output)
    places, seeds, rows, published = 4, 5, 5, 3
    assert (jobs["filter_corpus"], jobs["prepare_dataset"], jobs["place_dataset"]) == (1, places + 1, places)
    # Rows with the same attention and tokeniser share what they learn first: three of five, and two of three published
    # ones, which have two places and four seeds.
    assert jobs["train"] == seeds * (3 + places * rows) + 4 * (2 + 2 * published)
    assert jobs["evaluate"] == seeds * places * 2
    assert "--used 1" in output
