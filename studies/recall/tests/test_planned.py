"""What Snakemake plans for the study, without running it."""

import pytest

pytestmark = pytest.mark.extended


@pytest.mark.parametrize(
    ("study", "trained", "evaluated"),
    [
        ("recall_small", 12 * 3 * 3, 0),  # models, learning rates, seeds
        ("demo_recall", 8 * 2, 0),
    ],
)
def test_studies_of_recall_planned(project, study, trained, evaluated):
    jobs = project.jobs_of(project.snakemake("-n", "-p", "--configfile", f"studies/recall/{study}.yaml").stdout)
    assert (jobs["train"], jobs.get("evaluate", 0)) == (trained, evaluated)
