"""Working folders of runs are removed when Snakemake's own notes say that the results are accepted."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from snakemake.persistence.db import DbPersistence
from snakemake.persistence.file import FilePersistence

from lib.core.attempts import Heartbeat
from lib.core.record import RunId
from lib.workflow.planning.paths import Paths
from lib.workflow.working_folders import remove_accepted

PATHS = Paths(results="results/study", resources="resources")


@pytest.fixture(params=[FilePersistence, DbPersistence])
def persistence(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return request.param(path=tmp_path / ".snakemake")


def ended(seed):
    """Return the record of a run that has ended, and its working folder."""
    run = RunId(stage="finetune", model="sdpa", dataset="imdb", seed=seed)
    record, work = Path(PATHS.record(run)), Path(PATHS.work, f"seed-{seed}")
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    attempt = work / "0001-node-1"
    attempt.mkdir(parents=True)
    now = datetime.now(UTC)
    names = {"stage": "finetune", "model": "sdpa", "dataset": "imdb", "seed": seed, "host": "node", "process": 1}
    out = str(record.parent.absolute())
    Heartbeat(**names, out=out, started=now, updated=now, state="finished").write(attempt)
    return record, work


def test_checkpoints_of_rejected_results_stay(persistence):
    """A call was killed, and its runs ended by themselves."""
    (accepted, gone), (incomplete, kept), (rejected, also_kept) = map(ended, (1, 2, 3))
    for record in (accepted, incomplete, rejected):
        persistence._mark_incomplete(str(record), None)
    persistence._unmark_incomplete(str(accepted))
    rejected.unlink()
    persistence._unmark_incomplete(str(rejected))
    remove_accepted(PATHS, persistence)
    assert (gone.exists(), kept.exists(), also_kept.exists()) == (False, True, True)
    persistence._unmark_incomplete(str(incomplete))
    remove_accepted(PATHS, persistence)
    assert not kept.exists()


def test_folders_of_moved_results_stay(persistence):
    _, work = ended(1)
    Path("results/study").rename("results/other")
    remove_accepted(Paths(results="results/other", resources="resources"), persistence)
    assert Path("results/other/work", work.name).exists()
