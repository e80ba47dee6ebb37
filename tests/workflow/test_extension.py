"""An extension outside of the repository runs to its table; an edit of it makes its own runs stale and no others."""

import pandas as pd
from small_extension import MECHANISM, small_extension, study_of


def test_an_extension_runs_to_its_table_and_its_edits_make_only_its_runs_stale(copy_of_repository, tmp_path):
    folder = tmp_path / "house_of_a_user"
    project = copy_of_repository("extension")
    name = project.configure(study_of(small_extension(folder)))
    project.snakemake("--cores", 2, "--configfile", name)
    table = pd.read_csv(project.results / "tables" / "counted.csv")
    assert table.to_dict("list") == {"model": ["sdpa", "gentle"], "runs": [1, 1]}
    assert not project.stale(name)
    path = folder / MECHANISM
    path.write_text(path.read_text().replace("+ 1", "+ 2"))
    planned = project.snakemake("-n", "-p", "--configfile", name).stdout
    assert project.jobs_of(planned)["train"] == 1
    assert "judge/gentle/" in planned
    path.write_text(path.read_text().replace("+ 2", "+ 1") + "# nothing\n")
    assert not project.stale(name)
