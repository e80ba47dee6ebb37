"""An extension outside of the repository runs to its table; an edit of it makes its own runs stale and no others."""

import pandas as pd
import pytest
from small_extension import MECHANISM, small_extension, study_of


@pytest.mark.extended
def test_extension_runs_and_stale_after_its_edits(copy_of_repository):
    project = copy_of_repository("extension")
    folder = project.folder / "house_of_a_user"
    name = project.configure(study_of(small_extension(folder)))
    project.snakemake("--cores", 2, "--configfile", name)
    table = pd.read_csv(project.results / "tables" / "counted.csv")
    assert table.to_dict("list") == {"model": ["sdpa", "gentle"], "runs": [1, 1]}
    assert not project.stale(name)
    path = folder / MECHANISM
    path.write_text(path.read_text().replace("+ 1", "+ 2"))
    with project.planned(name) as workflow:
        stale = [job.wildcards.place for job in workflow.dag.needrun_jobs() if job.rule.name == "run"]
    assert stale == ["judge/gentle/imdb"]
    path.write_text(path.read_text().replace("+ 2", "+ 1") + "# nothing\n")
    assert not project.stale(name)
