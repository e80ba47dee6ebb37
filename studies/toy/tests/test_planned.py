"""What Snakemake plans for the study, without running it."""

import pytest

pytestmark = pytest.mark.extended


@pytest.mark.parametrize(
    ("study", "trained", "evaluated"),
    [
        ("toy", 12 * 3 * 3 + 2 * 3, 0),  # models, stages, seeds; the published setting
        ("demo_toy", 4 * 3 + 2 + 4 * 3 + 3 + 1 + 2, 4),
    ],
)
def test_toy_studies_planned(project, study, trained, evaluated):
    jobs = project.jobs_of(project.snakemake("-n", "-p", "--configfile", f"studies/toy/{study}.yaml").stdout)
    assert (jobs["train"], jobs.get("evaluate", 0)) == (trained, evaluated)
