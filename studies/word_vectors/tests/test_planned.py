"""What Snakemake plans for the study, without running it."""

import pytest

pytestmark = pytest.mark.extended


def test_study_of_word_vectors_planned(project):
    project.touch("wikipedia/en-sample.parquet", "imdb/train.parquet", "imdb/test.parquet")
    project.touch("vocab/bert-base-uncased/vocab.txt")
    jobs = project.jobs_of(
        project.snakemake("-n", "-p", "--configfile", "studies/word_vectors/word_vectors_small.yaml").stdout
    )
    assert jobs["train_word_vectors"] == 2
    assert (jobs["evaluate"], jobs["train"]) == (4, 2)
